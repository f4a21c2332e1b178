"""`python -m kernelbook` is the command `kernelbook`."""

import sys

from kernelbook.cli import entry

if __name__ == "__main__":
    sys.exit(entry())
