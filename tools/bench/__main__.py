"""``python -m tools.bench``: as ``graphroot bench``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.bench.command_line")
    sys.exit(tool.main())
