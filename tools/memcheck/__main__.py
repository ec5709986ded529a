"""Command line of memcheck."""

import sys

from .checking import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
