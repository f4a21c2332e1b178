"""The command `kernelbook`, also as `python -m kernelbook`.

Importing this module imports next to nothing: Ctrl-C is caught from its first line on.
"""

import gc
import sys

STOPPED = "kernelbook: stopped before the end; the same command starts again"
INTERRUPTED = 130
#: Objects between two searches for cycles: nearly all objects of a command live until it ends.
_GC_THRESHOLD = 200_000


def entry() -> int:
    """Run the command and return its exit status; after Ctrl-C a line on stderr, and 130."""
    try:
        gc.set_threshold(_GC_THRESHOLD)
        from kernelbook import cli, command

        status = command.run(cli.main)
    except KeyboardInterrupt:
        status = INTERRUPTED
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if status == INTERRUPTED:
        print(STOPPED, file=sys.stderr)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on it ends the process at once, without a traceback
    return status


if __name__ == "__main__":
    sys.argv[0] = "kernelbook"  # what its messages begin with
    sys.exit(entry())
