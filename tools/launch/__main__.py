"""``python -m tools.launch``: as ``graphroot launch``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.launch.command_line")
    sys.exit(tool.main())
