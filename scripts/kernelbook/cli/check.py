"""Check a configuration or traces before you use them: mistakes, what is odd, and what cannot be known and why.

PATH is a configuration (*.yaml, *.yml), a trace, or a folder of traces. A configuration is checked as the workflow
checks it, without running anything: it lists all mistakes, each with file, fact and remedy, or what would run. A
file without `runs` is checked on top of the config.yaml of the working folder, as with --configfile. Of a trace, "odd"
lists what to know before using its figures, and "not known" what the file cannot tell, the reason, and how to record
a trace that can.

--json prints one object per line for each path; its schema is cli/check.schema.json in the package.

Examples:
  %(prog)s config.yaml
  %(prog)s trace.json.gz
  %(prog)s traces/ --json | jq 'select(.not_known != [])'

Exit status: 0 all were read, and no configuration has a mistake; 1 a configuration has mistakes; 2 a path cannot be
read, or bad arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelbook.text.meaning import plain

if TYPE_CHECKING:
    from kernelbook.cli.json_types import CheckedConfig, CheckedTrace
    from kernelbook.summarize.summary import Summary
    from kernelbook.trace import TraceWarning

SCHEMA: Literal[1] = 1
YAML = (".yaml", ".yml")
_NO_RUNS = (
    "the key 'runs' is missing, and this folder has no config.yaml to which the file could be added: add runs:, or run "
    "the check in the folder of your config.yaml"
)


@dataclass(frozen=True)
class ConfigCheck:
    """The result of checking a configuration.

    mistakes: a line each. plan: what would run, a line each, if there are no mistakes. idle: whether nothing would run,
    because every run is left out on this machine.
    """

    source: str
    mistakes: tuple[str, ...]
    plan: tuple[str, ...]
    idle: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, nargs="+", metavar="PATH", help="configurations, traces, folders of traces")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """Print the result for each path, and return the exit status of the module's text."""
    configurations = [path for path in args.path if path.suffix.lower() in YAML]
    status = 0
    for path in configurations:
        try:
            check = check_config(path)
        except OSError as error:
            print(f"{path}: cannot be read: {error.strerror}", file=sys.stderr)
            status = 2
            continue
        status = max(status, 1 if check.mistakes else 0)
        print(_config_json(check) if args.json else _config_text(check))
    traces = [path for path in args.path if path not in configurations]
    if traces:
        from kernelbook.cli.traces import read_summaries

        summaries, unreadable = read_summaries(traces)
        status = max(status, unreadable)
        for summary in summaries:
            print(_trace_json(summary) if args.json else _trace_text(summary))
    return status


def check_config(path: Path) -> ConfigCheck:
    """Check a configuration as the workflow does. Raises OSError if the file cannot be read."""
    from kernelbook.config.errors import ConfigError
    from kernelbook.config.loading import load_config
    from kernelbook.config.origins import read_sources
    from kernelbook.config.yaml_text import YamlError, read_yaml
    from kernelbook.home import home
    from kernelbook.plan.plan_texts import summary
    from kernelbook.plan.planning import make_plan
    from kernelbook.sources.workload_source import Places

    here = Path.cwd()
    checkout = here if (here / "scripts" / "workloads").is_dir() else home()
    try:
        raw = read_yaml(path.read_text(encoding="utf-8"))
        if not isinstance(raw, dict):
            return ConfigCheck(str(path), (f"{path}: must hold keys and values, beginning with runs:",), ())
        base = Path("config.yaml")
        sources = read_sources(path, (), {})
        if "runs" not in raw and not base.is_file():
            return ConfigCheck(str(path), (f"{path}: {_NO_RUNS}",), ())
        if "runs" not in raw:
            sources = read_sources(base, [path], {})
            raw = merged(read_yaml(base.read_text(encoding="utf-8")), raw)
        config = load_config(raw, home() / "workflow" / "schemas", sources, Places(here, checkout))
        plan = make_plan(config, here, checkout, containers_on=False)
    except YamlError as error:
        return ConfigCheck(str(path), tuple(f"{path}: {problem}" for problem in error.problems), ())
    except UnicodeDecodeError as error:
        return ConfigCheck(str(path), (f"{path}: no YAML: {error}",), ())
    except ConfigError as error:
        return ConfigCheck(str(path), error.problems, ())
    return ConfigCheck(str(path), (), tuple(summary(plan).splitlines()), not plan.runs)


def merged(base: Any, over: Any) -> Any:
    """`over` on top of `base`, key by key, as Snakemake puts a file of --configfile on top of config.yaml."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return base | {key: merged(base.get(key), value) for key, value in over.items()}


def _config_json(check: ConfigCheck) -> str:
    line: CheckedConfig = {
        "schema": SCHEMA,
        "kind": "configuration",
        "source": check.source,
        "mistakes": [*check.mistakes],
        "plan": [*check.plan],
    }
    return json.dumps(line)


def _config_text(check: ConfigCheck) -> str:
    from kernelbook.text.formatting import plural, visible

    count = plural(len(check.mistakes), "mistake") if check.mistakes else "no mistake"
    count += ", but nothing would run: every run is left out" if check.idle else ""
    lines = [f"{check.source}: {count}", *(f"  {line}" for line in (*check.mistakes, *check.plan))]
    return "\n".join(map(visible, lines))


def _trace_json(summary: Summary) -> str:
    from kernelbook.summarize.gaps import gaps

    line: CheckedTrace = {
        "schema": SCHEMA,
        "kind": "trace",
        "source": summary.source,
        "odd": [*_odd(summary)],
        "not_known": [*gaps(summary)],
    }
    return json.dumps(plain(line), allow_nan=False)


def _odd(summary: Summary) -> list[TraceWarning]:
    """The warnings and notes of a trace, without the note that it is of one rank of several."""
    return [each for each in (*summary.warnings, *summary.notes) if each.code != "rank"]


def _trace_text(summary: Summary) -> str:
    from kernelbook.summarize.gaps import gaps
    from kernelbook.text.formatting import visible

    odd = [f"  odd, {each.code}: {each.message}" for each in _odd(summary)]
    unknown = [f"  not known: {gap.missing}: {gap.why}. To have it: {gap.remedy}" for gap in gaps(summary)]
    lines = [summary.source, *odd, *unknown]
    return "\n".join(map(visible, lines if odd or unknown else [f"{summary.source}: nothing odd, nothing missing"]))
