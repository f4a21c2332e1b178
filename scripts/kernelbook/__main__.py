"""`python -m kernelbook` is the command `kernelbook`."""

import sys

from kernelbook.cli import entry

if __name__ == "__main__":
    sys.argv[0] = "kernelbook"  # what its messages begin with
    sys.exit(entry())
