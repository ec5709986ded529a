"""Errors that simulated work ends with, the report that explains them, and the access that was wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuda.bindings.driver import CUresult

    from drv.python_stack import Frame

    from .checks.observation import Access, Site
    from .memory.address_space import Allocation


class FaultKind(StrEnum):
    """What stopped queued work."""

    #: Memory that no allocation holds, or beyond the end of one.
    OUT_OF_BOUNDS = "out of bounds"
    #: Memory that was freed.
    FREED = "use after free"
    #: An address that is no multiple of the access' size.
    MISALIGNED = "misaligned access"
    #: Memory that is there and may not be touched: another device's, or constant.
    FORBIDDEN = "forbidden access"
    #: Anything else: an assertion, a trap, an unknown instruction, a kernel that hangs.
    STOPPED = "stopped"


@dataclass(slots=True, frozen=True)
class BadAccess:
    """The access that an operation was stopped for."""

    kind: FaultKind
    access: Access
    #: Bytes that were to be read or written.
    width: int
    #: Address, or offset within shared and local memory.
    address: int
    #: The allocation that it hit, or else the nearest one; ``None`` for shared and local memory.
    allocation: Allocation | None = None
    #: ``"global"``, ``"shared"``, ``"local"`` or ``"param"``.
    space: str = "global"
    #: ``"block (0, 0, 0), thread (33, 0, 0)"``, where a kernel did it.
    thread: str = ""


class DeviceFault(Exception):  # noqa: N818 - CUDA's word for it
    """A kernel or copy did something that CUDA answers with ``status``.

    ``report`` is the text for people: kernel, CUDA source line, block, thread, access, allocation and
    its Python line; ``access`` holds the same for programs, where it is about an access. A sticky fault
    loses the context, as on a GPU.
    """

    def __init__(
        self,
        status: CUresult,
        report: str,
        *,
        sticky: bool = True,
        access: BadAccess | None = None,
        site: Site | None = None,
    ) -> None:
        super().__init__(report)
        self.status = status
        self.report = report
        self.sticky = sticky
        self.access = access
        #: The instruction, where a kernel was stopped at one.
        self.site = site


@dataclass(slots=True, frozen=True)
class FaultRecord:
    """A fault that has happened."""

    status: CUresult
    #: The whole report, as the error that a program sees has it.
    report: str
    #: What the operation is called (``"kernel 'scale'"``), and the stream it was queued on.
    operation: str
    stream: str
    #: Python stack of the call that queued it, innermost first.
    stack: tuple[Frame, ...]
    access: BadAccess | None
    #: The instruction, where a kernel was stopped at one.
    site: Site | None = None

    @property
    def kind(self) -> FaultKind:
        """What is wrong."""
        return FaultKind.STOPPED if self.access is None else self.access.kind
