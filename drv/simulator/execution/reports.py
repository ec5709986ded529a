"""Texts that explain why a kernel was stopped."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any

from cuda.bindings.driver import CUresult

from drv.kernel_names import readable
from drv.simulator.checks.observation import Access
from drv.simulator.faults import BadAccess, DeviceFault, FaultKind

from .translation.code import Site

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.python_stack import Frame
    from drv.simulator.checks.observation import Lanes
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.memory.textures import Image

    from .launch_state import LaunchState
#: Source lines of threads that a report on a kernel which hangs names.
_SHOWN = 8
_VERBS = {Access.READ: "read", Access.WRITE: "wrote", Access.ATOMIC: "did an atomic operation on"}


def position(linear: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    """``(x, y, z)`` of a linear index."""
    x, y, _ = size
    return linear % x, linear // x % y, linear // (x * y)


def source_line(site: Site) -> str:
    """The CUDA source line and the PTX instruction."""
    text = f"PTX line {site.ptx_line}: {site.text}"
    if site.source is None:
        return text
    file, line = site.source
    # The compiler puts the working directory before the name of a source that is no file.
    if not os.path.exists(file):  # noqa: PTH110
        file = os.path.basename(file)  # noqa: PTH119
    return f"{file}:{line} ({text})"


def python_line(stack: Iterable[Frame]) -> str:
    """The innermost recorded Python line of a stack."""
    for file, line, function in stack:
        return f'File "{file}", line {line}, in {function}'
    return "an unknown place"


class Reports:
    """Makes the faults of one launch."""

    def __init__(self, launch: LaunchState) -> None:
        self.launch = launch

    @property
    def _kernel(self) -> str:
        return f"kernel '{readable(self.launch.plan.entry.name)}'"

    def thread(self, lanes: Lanes, lane: int) -> str:
        """Block and thread of a lane."""
        block = position(int(lanes.block[lane]), self.launch.grid)
        thread = position(int(lanes.thread[lane]), self.launch.block)
        return f"block {block}, thread {thread}"

    def _fault(
        self, status: CUresult, what: str, site: Site, *lines: str, access: BadAccess | None = None
    ) -> DeviceFault:
        entry = self.launch.plan.entry.name
        inside = "" if site.function == entry else f" in function {readable(site.function)}"
        return DeviceFault(
            status,
            "\n  ".join([f"{self._kernel} {what}", f"at {source_line(site)}{inside}", *lines]),
            access=access,
            site=site,
        )

    def access(
        self, lanes: Lanes, site: Site, lane: int, address: int, width: int, kind: Access, wrong: str
    ) -> DeviceFault:
        """A lane touched global memory that it may not."""
        memory = self.launch.memory
        status = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
        thread = self.thread(lanes, lane)
        lines = [f"by {thread}, address {address:#x}"]
        allocation = memory.find(address)
        reason, about = FaultKind.OUT_OF_BOUNDS, allocation
        if wrong == "misaligned":
            status = CUresult.CUDA_ERROR_MISALIGNED_ADDRESS
            reason = FaultKind.MISALIGNED
            what = f"{_VERBS[kind]} {width} bytes at an address that is no multiple of {width}"
            if allocation is not None:
                lines.append(self._inside(allocation, address))
        elif wrong == "peer":
            assert allocation is not None
            reason = FaultKind.FORBIDDEN
            what = (
                f"on device {self.launch.device} {_VERBS[kind]} {width} bytes of device {allocation.device}"
            )
            lines += [self._inside(allocation, address), "peer access between the two devices is not enabled"]
        elif wrong == "read-only":
            assert allocation is not None
            reason = FaultKind.FORBIDDEN
            what = f"{_VERBS[kind]} {width} bytes of constant memory, which kernels may only read"
            lines.append(self._inside(allocation, address))
        elif allocation is not None:
            what = f"{_VERBS[kind]} {width} bytes across the end of an allocation"
            lines.append(self._inside(allocation, address))
        else:
            freed = memory.find_freed(address)
            if freed is not None:
                reason, about = FaultKind.FREED, freed
                what = f"{_VERBS[kind]} {width} bytes of memory that was freed"
                lines += [
                    self._inside(freed, address),
                    f"which was freed at {python_line(freed.freed or ())}",
                ]
            elif address < 1 << 16:
                what = f"{_VERBS[kind]} {width} bytes through a null pointer"
            else:
                what = f"{_VERBS[kind]} {width} bytes outside any allocation"
                about = memory.nearest(address)
                lines += self._near(address)
        access = BadAccess(reason, kind, width, address, about, thread=thread)
        return self._fault(status, what, site, *lines, access=access)

    @staticmethod
    def _inside(allocation: Allocation, address: int) -> str:
        return f"byte {address - allocation.base} of {allocation.describe()}, allocated at {python_line(allocation.stack)}"

    def _near(self, address: int) -> list[str]:
        near = self.launch.memory.nearest(address)
        if near is None:
            return ["nothing is allocated"]
        distance = (
            f"{near.base - address} bytes before"
            if address < near.base
            else f"{address - near.end} bytes past the end of"
        )
        return [f"{distance} {near.describe()}, allocated at {python_line(near.stack)}"]

    def window(
        self, lanes: Lanes, site: Site, lane: int, at: int, width: int, kind: Access, size: int, space: str
    ) -> DeviceFault:
        """A lane left shared or local memory."""
        names = {
            "shared": "the block's shared memory",
            "distributed": "the shared memory of a block of the cluster",
            "local": "the thread's local memory",
            "param": "the kernel's parameters",
        }
        thread = self.thread(lanes, lane)
        lines = [f"by {thread}, byte {at} of {names[space]}, which has {size} bytes"]
        inside = 0 <= at <= size - width
        reason = FaultKind.MISALIGNED if inside else FaultKind.OUT_OF_BOUNDS
        access = BadAccess(reason, kind, width, at, space=space, thread=thread)
        if inside:
            what = (
                f"{_VERBS[kind]} {width} bytes of {space} memory at an address that is no multiple of {width}"
            )
            return self._fault(CUresult.CUDA_ERROR_MISALIGNED_ADDRESS, what, site, *lines, access=access)
        what = f"{_VERBS[kind]} {width} bytes outside {names[space]}"
        return self._fault(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, what, site, *lines, access=access)

    def surface(
        self,
        lanes: Any,
        site: Site,
        lane: int,
        at: tuple[int, ...],
        width: int,
        kind: Access,
        image: Image,
        *,
        outside: bool,
    ) -> DeviceFault:
        """A lane is ``outside`` a surface, or not aligned in it; ``at`` are byte, row, slice and layer."""
        thread = self.thread(lanes, lane)
        extents = [f"{image.width * image.format.nbytes} bytes a row"]
        extents += [f"{image.height} rows"] * (image.height > 0) + [f"{image.depth} slices"] * (
            image.depth > 0
        )
        extents += [f"{image.layers} layers"] * (image.layers > 0)
        allocation = self.launch.memory.find(image.address)
        names = ["byte", "row", "slice"][: image.rank] + (["layer"] if image.layers else [])
        where = ", ".join(
            f"{name} {number}" for name, number in zip(names, (*at[: image.rank], at[-1]), strict=False)
        )
        lines = [f"by {thread}, at {where} of a surface with {', '.join(extents)}"]
        if allocation is not None:
            lines.append(f"of {allocation.describe()}, allocated at {python_line(allocation.stack)}")
        reason = FaultKind.OUT_OF_BOUNDS if outside else FaultKind.MISALIGNED
        access = BadAccess(reason, kind, width, at[0], allocation, thread=thread)
        if not outside:
            what = f"{_VERBS[kind]} {width} bytes of a surface at a byte that is no multiple of {width}"
            return self._fault(CUresult.CUDA_ERROR_MISALIGNED_ADDRESS, what, site, *lines, access=access)
        what = f"{_VERBS[kind]} {width} bytes outside a surface"
        return self._fault(CUresult.CUDA_ERROR_LAUNCH_FAILED, what, site, *lines, access=access)

    def no_image(self, lanes: Any, site: Site, what: str, gone: tuple[Frame, ...] | None) -> DeviceFault:
        """A lane uses a texture or a surface that is none, or was destroyed at ``gone``."""
        lines = [f"by {self.thread(lanes, 0)}"]
        if gone is not None:
            lines.append(f"which was destroyed at {python_line(gone)}")
        return self._fault(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, what, site, *lines)

    def trap(self, lanes: Lanes, site: Site) -> DeviceFault:
        """``trap``."""
        return self._fault(
            CUresult.CUDA_ERROR_LAUNCH_FAILED,
            "stopped itself with a trap",
            site,
            f"by {self.thread(lanes, 0)}",
        )

    def unknown(self, lanes: Lanes, site: Site, known: str = "") -> DeviceFault:
        """An instruction that the simulator does not know; ``known`` are those like it that it does."""
        lines = [f"by {self.thread(lanes, 0)}", *([known] if known else [])]
        return self._fault(
            CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
            "reached an instruction that the simulated driver does not know",
            site,
            *lines,
        )

    def part_of_warp(self, lanes: Lanes, site: Site, lane: int, present: int) -> DeviceFault:
        """An instruction of whole warps that only some lanes of a warp run."""
        return self._fault(
            CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
            f"ran an instruction of whole warps with {present} of the 32 threads of a warp",
            site,
            f"by the warp of {self.thread(lanes, lane)}",
        )

    def bad_operand(self, lanes: Any, site: Site, lane: int, what: str) -> DeviceFault:
        """An instruction has operands that it cannot have."""
        return self._fault(
            CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION, what, site, f"by {self.thread(lanes, lane)}"
        )

    def part_of_warpgroup(self, lanes: Any, site: Site, lane: int) -> DeviceFault:
        """An instruction of whole warpgroups that only some of their warps run."""
        return self._fault(
            CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
            "ran an instruction of whole warpgroups (four warps, the first a multiple of four) with fewer",
            site,
            f"by the warpgroup of {self.thread(lanes, lane)}",
        )

    def not_understood(self, error: Exception) -> DeviceFault:
        """Translated code failed: an instruction whose operands cannot be what they are."""
        what = "reached an instruction that the simulated driver cannot run"
        instruction = self.launch.plan.failed_instruction(error)
        *_, raised = traceback.extract_tb(error.__traceback__)
        reason = f"{type(error).__name__}: {error} ({os.path.basename(raised.filename)}:{raised.lineno})"  # noqa: PTH119
        if instruction is None:
            lines = [f"{self._kernel} {what}", reason, *traceback.format_tb(error.__traceback__)]
            return DeviceFault(CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION, "\n  ".join(lines))
        site = Site(*instruction)
        return self._fault(CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION, what, site, reason)

    def bad_call(self, lanes: Lanes, site: Site, lane: int, address: int) -> DeviceFault:
        """A call through a pointer that is no function."""
        return self._fault(
            CUresult.CUDA_ERROR_INVALID_PC,
            f"called address {address:#x}, where no function is",
            site,
            f"by {self.thread(lanes, lane)}",
        )

    def no_function(self, lanes: Lanes, site: Site, name: str) -> DeviceFault:
        """A call of a function that nothing defines."""
        return self._fault(
            CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
            f"called {readable(name)}, which the module does not define and the simulated driver does not provide",
            site,
            f"by {self.thread(lanes, 0)}",
        )

    def bad_free(self, lanes: Lanes, site: Site, lane: int, address: int) -> DeviceFault:
        """``free`` of what ``malloc`` in a kernel did not give."""
        return self._fault(
            CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,
            f"freed address {address:#x}, which is no live allocation of the device's heap",
            site,
            f"by {self.thread(lanes, lane)}",
        )

    def no_condition(self, lanes: Lanes, site: Site, lane: int, handle: int) -> DeviceFault:
        """``cudaGraphSetConditional`` for what no graph asks."""
        return self._fault(
            CUresult.CUDA_ERROR_LAUNCH_FAILED,
            f"set the condition {handle:#x}, which is no conditional handle of a graph in this context",
            site,
            f"by {self.thread(lanes, lane)}",
        )

    def stack_overflow(self, lanes: Lanes, site: Site, limit: int) -> DeviceFault:
        """Calls nested too deeply."""
        return self._fault(
            CUresult.CUDA_ERROR_LAUNCH_FAILED,
            f"overflowed the stack: more than {limit} bytes of local memory per thread, or calls too deep",
            site,
            f"by {self.thread(lanes, 0)}",
        )

    def assertion(self, text: str) -> DeviceFault:
        """A failed ``assert``; ``text`` is CUDA's own message."""
        return DeviceFault(CUresult.CUDA_ERROR_ASSERT, f"{self._kernel}: an assertion failed\n  {text}")

    def deadlock(self, waiting: list[tuple[Any, Site, str]]) -> DeviceFault:
        """Threads wait for each other and none can go on. ``waiting``: lanes, instruction, what they do there."""
        return self._stuck("hangs: threads wait and none can go on", waiting)

    def timeout(self, waiting: list[tuple[Any, Site, str]]) -> DeviceFault:
        """The kernel does not end."""
        return self._stuck("does not end, as far as the simulator can tell", waiting)

    def _stuck(self, what: str, waiting: list[tuple[Any, Site, str]]) -> DeviceFault:
        lines = [f"{self._kernel} {what}"]
        for lanes, site, doing in waiting[:_SHOWN]:
            lines.append(
                f"{lanes.n} threads, the first {self.thread(lanes, 0)}, {doing} at {source_line(site)}"
            )
        if len(waiting) > _SHOWN:
            lines.append(f"and others at {len(waiting) - _SHOWN} more places")
        return DeviceFault(CUresult.CUDA_ERROR_LAUNCH_TIMEOUT, "\n  ".join(lines))
