"""The simulated cuFFT: the functions of :class:`drv.bindings.cufft.Cufft`, computed with NumPy on simulated memory.

NumPy computes undivided transforms of single precision in double precision, and rounds after each dimension. An
execution is queued on the plan's stream; it reads the elements of the input layout, overwrites its work area, and
writes those of the output layout. As NVIDIA's, a multi-dimensional transform from complex to real overwrites its
input too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from cuda.bindings.driver import CUresult

from drv.bindings.cufft import CUFFT_FORWARD, CUFFT_INVERSE, CUFFT_PLAN_NULL, cufftResult, cufftType, failure
from drv.bindings.library_types import cudaDataType
from drv.simulator.unexecuted import remember

from .fft_layout import Transform, transform
from .library_call import Refusal, answer_text, refusing
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv.simulator.driver import SimulatedDriver
    from drv.simulator.memory.library_memory import LibraryMemory

# ruff: noqa: N815, A002 - the names are C's

VERSION = 12500

call = refusing(failure)

_XT_TYPES: dict[tuple[int, int, int], cufftType] = {
    (cudaDataType.CUDA_C_32F, cudaDataType.CUDA_C_32F, cudaDataType.CUDA_C_32F): cufftType.CUFFT_C2C,
    (cudaDataType.CUDA_R_32F, cudaDataType.CUDA_C_32F, cudaDataType.CUDA_C_32F): cufftType.CUFFT_R2C,
    (cudaDataType.CUDA_C_32F, cudaDataType.CUDA_R_32F, cudaDataType.CUDA_C_32F): cufftType.CUFFT_C2R,
    (cudaDataType.CUDA_C_64F, cudaDataType.CUDA_C_64F, cudaDataType.CUDA_C_64F): cufftType.CUFFT_Z2Z,
    (cudaDataType.CUDA_R_64F, cudaDataType.CUDA_C_64F, cudaDataType.CUDA_C_64F): cufftType.CUFFT_D2Z,
    (cudaDataType.CUDA_C_64F, cudaDataType.CUDA_R_64F, cudaDataType.CUDA_C_64F): cufftType.CUFFT_Z2D,
}


@dataclass(slots=True)
class Plan:
    """A plan; empty until ``transform`` is set. ``allocated`` is the work area that it allocated itself, or 0."""

    device: int
    stream: int = 0
    auto_allocation: bool = True
    transform: Transform | None = None
    work_bytes: int = 0
    work_area: int = 0
    allocated: int = 0


def _execute(name: str, kind: cufftType) -> Callable[..., None]:
    if kind in (cufftType.CUFFT_C2C, cufftType.CUFFT_Z2Z):

        def execute(self: SimulatedCufft, plan: int, idata: int, odata: int, direction: int, /) -> None:
            self._execute(name, plan, idata, odata, direction, kind)

        execute.__name__ = name
        return call(execute)

    def execute_real(self: SimulatedCufft, plan: int, idata: int, odata: int, /) -> None:
        self._execute(name, plan, idata, odata, CUFFT_FORWARD, kind)

    execute_real.__name__ = name
    return call(execute_real)


_EXECUTIONS = (
    "cufftExecC2C",
    "cufftExecR2C",
    "cufftExecC2R",
    "cufftExecZ2Z",
    "cufftExecD2Z",
    "cufftExecZ2D",
    "cufftXtExec",
)


class SimulatedCufft:
    """cuFFT on a simulated driver."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver
        self._plans: dict[int, Plan] = {}
        self._numbers = count(1)
        if not driver.execute:
            self.__dict__.update({name: self._unexecuted(driver, name) for name in _EXECUTIONS})

    def _unexecuted(self, driver: SimulatedDriver, name: str) -> Callable[..., None]:
        """An execution that is accepted again without another look: see :mod:`drv.simulator.unexecuted`."""
        checked, plans = getattr(self, name), self._plans
        accepted, thread, faults = driver.accepted.of(name), driver.thread, driver.inject.launch_faults

        def call(plan: int, *arguments: int) -> None:
            state = plans.get(plan)
            key = plan, state and state.stream, state and state.work_area, *arguments
            context = accepted.get(key)
            if context is None or not thread.contexts or thread.contexts[-1] is not context or faults:
                checked(plan, *arguments)
                remember(driver, accepted, key)

        return call

    cufftExecC2C = _execute("cufftExecC2C", cufftType.CUFFT_C2C)
    cufftExecR2C = _execute("cufftExecR2C", cufftType.CUFFT_R2C)
    cufftExecC2R = _execute("cufftExecC2R", cufftType.CUFFT_C2R)
    cufftExecZ2Z = _execute("cufftExecZ2Z", cufftType.CUFFT_Z2Z)
    cufftExecD2Z = _execute("cufftExecD2Z", cufftType.CUFFT_D2Z)
    cufftExecZ2D = _execute("cufftExecZ2D", cufftType.CUFFT_Z2D)

    @call
    def cufftXtExec(self, plan: int, idata: int, odata: int, direction: int, /) -> None:
        self._execute("cufftXtExec", plan, idata, odata, direction, None)

    @call
    def cufftCreate(self, /) -> int:
        return self._create()

    @call
    def cufftDestroy(self, plan: int, /) -> None:
        if plan == CUFFT_PLAN_NULL:
            return
        self._release(self._plan(plan))
        del self._plans[plan]

    @call
    def cufftPlanMany(
        self,
        rank: int,
        n: Sequence[int] | None,
        inembed: Sequence[int] | None,
        istride: int,
        idist: int,
        onembed: Sequence[int] | None,
        ostride: int,
        odist: int,
        type: int,
        batch: int,
        /,
    ) -> int:
        made = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        plan = self._create()
        try:
            self._make(plan, made)
        except Refusal:
            del self._plans[plan]
            raise
        return plan

    @call
    def cufftMakePlanMany(
        self,
        plan: int,
        rank: int,
        n: Sequence[int] | None,
        inembed: Sequence[int] | None,
        istride: int,
        idist: int,
        onembed: Sequence[int] | None,
        ostride: int,
        odist: int,
        type: int,
        batch: int,
        /,
    ) -> int:
        made = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        return self._make(plan, made)

    cufftMakePlanMany64 = cufftMakePlanMany

    @call
    def cufftXtMakePlanMany(
        self,
        plan: int,
        rank: int,
        n: Sequence[int] | None,
        inembed: Sequence[int] | None,
        istride: int,
        idist: int,
        inputtype: int,
        onembed: Sequence[int] | None,
        ostride: int,
        odist: int,
        outputtype: int,
        batch: int,
        executiontype: int,
        /,
    ) -> int:
        kind = _XT_TYPES.get((inputtype, outputtype, executiontype))
        if kind is None:
            raise Refusal(cufftResult.CUFFT_NOT_SUPPORTED, "these types are not simulated")
        made = Transform.checked(kind, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        return self._make(plan, made)

    @call
    def cufftEstimateMany(
        self,
        rank: int,
        n: Sequence[int] | None,
        inembed: Sequence[int] | None,
        istride: int,
        idist: int,
        onembed: Sequence[int] | None,
        ostride: int,
        odist: int,
        type: int,
        batch: int,
        /,
    ) -> int:
        made = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        return made.work_bytes

    @call
    def cufftGetSizeMany(
        self,
        plan: int,
        rank: int,
        n: Sequence[int] | None,
        inembed: Sequence[int] | None,
        istride: int,
        idist: int,
        onembed: Sequence[int] | None,
        ostride: int,
        odist: int,
        type: int,
        batch: int,
        /,
    ) -> int:
        made = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        self._plan(plan)
        return made.work_bytes

    cufftGetSizeMany64 = cufftGetSizeMany

    @call
    def cufftGetSize(self, plan: int, /) -> int:
        return self._plan(plan).work_bytes

    @call
    def cufftSetAutoAllocation(self, plan: int, autoAllocate: int, /) -> None:
        found = self._plan(plan)
        if found.transform is not None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, "the plan is made already")
        found.auto_allocation = bool(autoAllocate)

    @call
    def cufftSetWorkArea(self, plan: int, workArea: int, /) -> None:
        found = self._plan(plan)
        self._release(found)
        found.work_area = workArea

    @call
    def cufftSetStream(self, plan: int, stream: int, /) -> None:
        self._plan(plan).stream = int(stream)

    @call
    def cufftGetVersion(self, /) -> int:
        return VERSION

    def _create(self) -> int:
        plan = next(self._numbers)
        self._plans[plan] = Plan(self._current_device())
        return plan

    def _plan(self, plan: int) -> Plan:
        found = self._plans.get(plan)
        if found is None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, f"there is no plan {plan}, or it was destroyed")
        return found

    def _current_device(self) -> int:
        answer = self._driver.cuCtxGetDevice()
        if answer[0]:
            raise Refusal(cufftResult.CUFFT_INTERNAL_ERROR, f"no context is current ({answer[0].name})")
        return int(answer[1])

    def _require_device(self, plan: Plan) -> None:
        current = self._current_device()
        if current != plan.device:
            raise Refusal(
                cufftResult.CUFFT_INVALID_DEVICE,
                f"the plan was made on device {plan.device}, and device {current} is current",
            )

    def _make(self, plan: int, made: Transform) -> int:
        found = self._plan(plan)
        if found.transform is not None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, "the plan is made already")
        self._require_device(found)
        if found.auto_allocation and not found.work_area and made.work_bytes:
            answer = self._driver.cuMemAlloc(made.work_bytes)
            if answer[0]:
                raise Refusal(
                    cufftResult.CUFFT_ALLOC_FAILED,
                    f"a work area of {made.work_bytes} bytes could not be allocated ({answer[0].name})",
                )
            found.work_area = found.allocated = int(answer[1])
        found.transform, found.work_bytes = made, made.work_bytes
        return made.work_bytes

    def _release(self, plan: Plan) -> None:
        if plan.allocated:
            self._driver.cuMemFree(plan.allocated)
            plan.allocated = plan.work_area = 0

    def _execute(
        self, name: str, plan: int, idata: int, odata: int, direction: int, kind: cufftType | None
    ) -> None:
        found = self._plan(plan)
        made = found.transform
        if made is None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, "the plan is not made yet")
        if kind is not None and kind != made.kind:
            raise Refusal(cufftResult.CUFFT_INVALID_TYPE, f"the plan was made for {made.kind.name}")
        if not idata or not odata:
            raise Refusal(cufftResult.CUFFT_INVALID_VALUE, "idata or odata is null")
        if direction not in (CUFFT_FORWARD, CUFFT_INVERSE):
            raise Refusal(cufftResult.CUFFT_INVALID_VALUE, f"direction {direction}: expected -1 or 1")
        if found.work_bytes and not found.work_area:
            raise Refusal(cufftResult.CUFFT_NO_WORKSPACE)
        work_area, work_bytes = found.work_area, found.work_bytes
        source, target = made.layouts(in_place=idata == odata)

        def run(memory: LibraryMemory) -> None:
            values = load(memory, idata, made.input_dtype, source.shape, source.strides)
            with np.errstate(all="ignore"):
                result, consumed = transform(values, made, direction)
            if work_bytes:
                memory.write(work_area, work_bytes)[...] = 0xFF
            if consumed is not None and idata != odata:
                store(memory, idata, consumed, source.strides)
            store(memory, odata, result, target.strides)

        answer = self._driver.library_call(found.stream, f"{name} {made}", run, found.device)
        if answer[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT:
            raise Refusal(
                cufftResult.CUFFT_INVALID_DEVICE,
                f"the plan was made on device {found.device}, and the stream is another device's",
            )
        if answer[0]:
            raise Refusal(cufftResult.CUFFT_EXEC_FAILED, answer_text(self._driver, answer[0]))
