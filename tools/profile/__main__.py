"""``python -m tools.profile``: as ``graphroot profile``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.profile.command_line")
    sys.exit(tool.main())
