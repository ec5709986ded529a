"""``python -m parallel.launch``: as ``graphroot launch``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    launcher: Any = own("parallel.launch.command_line")
    sys.exit(launcher.main())
