"""Where results differ from PyTorch's on purpose, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """Differences of some operations that have one reason.

    ``difference`` is a regular expression that the difference matches. Some sample of each operation has to deviate, so
    that no row outlives its reason, except where it ``is_by_chance``.
    """

    operations: tuple[str, ...]
    difference: str
    reason: str
    dtypes: tuple[str, ...] = ()
    is_by_chance: bool = False

    def allows(self, difference: str, dtype: str) -> bool:
        """Whether the row is about this difference of one of its operations."""
        return (not self.dtypes or dtype in self.dtypes) and bool(re.search(self.difference, difference))


DEVIATIONS: tuple[Deviation, ...] = ()
