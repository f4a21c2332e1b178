"""The command `kernelbook`, a module a subcommand.

In: the words of a command line. Out: lines on stdout and an exit status.

A subcommand is a line in `COMMANDS` and a module of its name with `add_arguments(parser)` and `run(arguments) -> int`;
the module's docstring is its help. Only the module of the chosen command is imported; slow imports are inside `run`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

COMMANDS = {
    "summarize": "what ran in traces: totals, ranges, kernels, ops",
    "top": "kernels over all traces of a folder, by name and by family",
    "diff": "differences of two traces, folders, cases, runs or editions",
    "report": "a report of folders of traces: page, Markdown, tables",
    "check": "mistakes of a configuration; what is odd about a trace, and what it cannot tell",
    "name": "what the name of a kernel says",
}
_EXIT_STATUS = (
    "Exit status: 0 done; 1 an error, in one line; 2 bad arguments, or an input that cannot be read; "
    "130 stopped by Ctrl-C."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words and words[0] in COMMANDS:
        return run_command(words[0], words[1:])
    parser = _top_parser()
    if not words:
        parser.print_help(sys.stderr)
        return 2
    if not words[0].startswith("-"):
        from kernelbook.text.suggestions import near_miss

        parser.error(f"no command {words[0]!r}: {near_miss(words[0], COMMANDS)}")
    parser.parse_args(words)
    return 2  # parse_args ends the process with help, version or an error


def run_command(name: str, words: Sequence[str], prog: str | None = None) -> int:
    """Run the subcommand with its arguments. prog: the command's name in its help."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # otherwise importing NumPy starts an unused thread a core
    module = importlib.import_module(f"{__name__}.{name}")
    status: int = module.run(parser_of(module, prog or f"kernelbook {name}").parse_args(words))
    return status


def parser_of(module: ModuleType, prog: str) -> argparse.ArgumentParser:
    """The parser of a subcommand; `%(prog)s` in its docstring stands for `prog`."""
    parser = argparse.ArgumentParser(
        prog=prog, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    return parser


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, about in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="kernelbook",
        usage="kernelbook COMMAND ...",
        description="\n".join(["Read torch.profiler traces: what ran on the GPU, launched by what.", "", *lines]),
        epilog=f"Help of one command: kernelbook COMMAND --help\n\n{_EXIT_STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"kernelbook {version('kernelbook')}"
    except PackageNotFoundError:
        import tomllib

        from kernelbook.home import home

        project = tomllib.loads((home() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return f"kernelbook {project['version']} (from the checkout)"
