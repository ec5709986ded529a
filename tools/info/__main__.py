"""``python -m tools.info``: as ``graphroot info``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.info.command_line")
    sys.exit(tool.main())
