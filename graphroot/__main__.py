"""``python -m graphroot``: as the command ``graphroot``."""

import sys

from graphroot.command import main

if __name__ == "__main__":
    sys.exit(main())
