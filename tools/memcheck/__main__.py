"""``python -m tools.memcheck``: as ``graphroot memcheck``."""

import sys
from typing import Any

from graphroot.coexistence import own

if __name__ == "__main__":
    tool: Any = own("tools.memcheck.checking")
    sys.exit(tool.main())
