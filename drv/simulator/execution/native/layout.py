"""Where native code finds the values of a kernel's registers.

Registers that live from one piece to another have a *row*: a value for each lane of the batch. Those that all threads of a
launch share (:mod:`~drv.simulator.execution.translation.invariants`), and addresses of module variables, are *shared values*
of 8 bytes. What a thread is (``%tid.x``) comes from rows of constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.simulator.execution.translation.plan import FunctionPlan


@dataclass(slots=True)
class Layout:
    """Rows and shared values of one kernel.

    Attributes
    ----------
    rows
        Bytes per lane before the row of each register; times the batch's capacity, where its row begins.
    row_bytes
        Bytes of all rows per lane, and so many more of rows that a piece uses for itself (``scratch_bytes``).
    shared
        Number of each register's shared value.
    symbols
        Number of each module variable's address among the shared values.
    constants
        Constants of threads that are used, as :meth:`.lanes.Lanes.constant` names them.
    """

    rows: dict[str, int]
    row_bytes: int
    shared: dict[str, int]
    symbols: dict[str, int] = field(default_factory=dict)
    constants: dict[tuple[str, int | None], int] = field(default_factory=dict)
    scratch_bytes: int = 0

    @classmethod
    def of(cls, plan: FunctionPlan, crossing: Iterable[str]) -> Layout:
        """Rows for the registers ``crossing`` from one piece to another."""
        assert plan.invariants is not None
        shared = {name: index for index, name in enumerate(plan.invariants.names)}
        rows = {}
        at = 0
        # The largest first, so that all are aligned.
        for name in sorted(set(crossing) - set(shared), key=lambda name: (-plan.dtypes[name].itemsize, name)):
            rows[name] = at
            at += plan.dtypes[name].itemsize
        return cls(rows, -(-at // 16) * 16, shared)

    def shared_values(self) -> int:
        """How many there are."""
        return len(self.shared) + len(self.symbols)

    def symbol(self, name: str) -> int:
        """Number of the shared value that holds a module variable's address."""
        return self.symbols.setdefault(name, self.shared_values())

    def constants_in_order(self) -> list[tuple[str, int | None]]:
        """The constants of threads by their numbers."""
        return list(self.constants)

    def constant(self, name: str, axis: int | None) -> int:
        """Number of a constant of threads."""
        return self.constants.setdefault((name, axis), len(self.constants))
