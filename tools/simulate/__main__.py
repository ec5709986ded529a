"""``python -m tools.simulate``: as ``graphroot simulate``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.simulate.command_line")
    sys.exit(tool.main())
