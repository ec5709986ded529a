"""``python -m tools.run``: as ``graphroot run``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.run.command_line")
    sys.exit(tool.main())
