"""``python -m tools.scale``: as ``graphroot scale``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.scale.command_line")
    sys.exit(tool.main())
