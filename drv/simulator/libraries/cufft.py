"""The simulated cuFFT: the functions of :class:`drv.bindings.cufft.Cufft`, computed with NumPy on simulated memory.

NumPy computes undivided transforms of single precision in double precision, and rounds after each dimension. An
execution is queued on the plan's stream; it reads the elements of the input layout, overwrites its work area, and
writes those of the output layout. As NVIDIA's, a multi-dimensional transform from complex to real overwrites its
input too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from cuda.bindings.driver import CUresult

from drv.bindings.cufft import CUFFT_FORWARD, CUFFT_INVERSE, CUFFT_PLAN_NULL, cufftResult, cufftType, failure
from drv.bindings.library_types import cudaDataType
from drv.simulator.unexecuted import remember
from drv.simulator.work.simulated_library import TransformCost

from .fft_layout import Transform, transform
from .library_call import Refusal, answer_text, refusing
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv.simulator.driver import SimulatedDriver
    from drv.simulator.memory.library_memory import LibraryMemory

# ruff: noqa: N815, A002 - the names are C's

VERSION = 12500

call = refusing(failure, cufftResult.CUFFT_INTERNAL_ERROR)

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


def _execute(name: str, fft_type: cufftType) -> Callable[..., None]:
    if fft_type in (cufftType.CUFFT_C2C, cufftType.CUFFT_Z2Z):

        def execute(self: SimulatedCufft, plan: int, idata: int, odata: int, direction: int, /) -> None:
            self._execute(name, plan, idata, odata, direction, fft_type)

        execute.__name__ = name
        return call(execute)

    def execute_real(self: SimulatedCufft, plan: int, idata: int, odata: int, /) -> None:
        self._execute(name, plan, idata, odata, CUFFT_FORWARD, fft_type)

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
        accepted, thread, faults = driver.accepted.of(name), driver.thread, driver.inject.asked

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
        fft = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        plan = self._create()
        try:
            self._make(plan, fft)
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
        fft = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        return self._make(plan, fft)

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
        fft_type = _XT_TYPES.get((inputtype, outputtype, executiontype))
        if fft_type is None:
            raise Refusal(cufftResult.CUFFT_NOT_SUPPORTED, "these types are not simulated")
        fft = Transform.checked(
            fft_type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch
        )
        return self._make(plan, fft)

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
        fft = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        return fft.work_bytes

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
        fft = Transform.checked(type, rank, n, (inembed, istride, idist), (onembed, ostride, odist), batch)
        self._plan(plan)
        return fft.work_bytes

    cufftGetSizeMany64 = cufftGetSizeMany

    @call
    def cufftGetSize(self, plan: int, /) -> int:
        return self._plan(plan).work_bytes

    @call
    def cufftSetAutoAllocation(self, plan: int, autoAllocate: int, /) -> None:
        entry = self._plan(plan)
        if entry.transform is not None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, "the plan is made already")
        entry.auto_allocation = bool(autoAllocate)

    @call
    def cufftSetWorkArea(self, plan: int, workArea: int, /) -> None:
        entry = self._plan(plan)
        self._release(entry)
        entry.work_area = workArea

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
        entry = self._plans.get(plan)
        if entry is None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, f"there is no plan {plan}, or it was destroyed")
        return entry

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

    def _make(self, plan: int, fft: Transform) -> int:
        entry = self._plan(plan)
        if entry.transform is not None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, "the plan is made already")
        self._require_device(entry)
        if entry.auto_allocation and not entry.work_area and fft.work_bytes:
            answer = self._driver.cuMemAlloc(fft.work_bytes)
            if answer[0]:
                raise Refusal(
                    cufftResult.CUFFT_ALLOC_FAILED,
                    f"a work area of {fft.work_bytes} bytes could not be allocated ({answer[0].name})",
                )
            entry.work_area = entry.allocated = int(answer[1])
        entry.transform, entry.work_bytes = fft, fft.work_bytes
        return fft.work_bytes

    def _release(self, plan: Plan) -> None:
        if plan.allocated:
            self._driver.cuMemFree(plan.allocated)
            plan.allocated = plan.work_area = 0

    def _execute(
        self, name: str, plan: int, idata: int, odata: int, direction: int, fft_type: cufftType | None
    ) -> None:
        entry = self._plan(plan)
        fft = entry.transform
        if fft is None:
            raise Refusal(cufftResult.CUFFT_INVALID_PLAN, "the plan is not made yet")
        if fft_type is not None and fft_type != fft.fft_type:
            raise Refusal(cufftResult.CUFFT_INVALID_TYPE, f"the plan was made for {fft.fft_type.name}")
        if not idata or not odata:
            raise Refusal(cufftResult.CUFFT_INVALID_VALUE, "idata or odata is null")
        if direction not in (CUFFT_FORWARD, CUFFT_INVERSE):
            raise Refusal(cufftResult.CUFFT_INVALID_VALUE, f"direction {direction}: expected -1 or 1")
        if entry.work_bytes and not entry.work_area:
            raise Refusal(cufftResult.CUFFT_NO_WORKSPACE)
        work_area, work_bytes = entry.work_area, entry.work_bytes
        source, target = fft.layouts(in_place=idata == odata)

        def run(memory: LibraryMemory) -> None:
            values = load(memory, idata, fft.input_dtype, source.shape, source.strides)
            with np.errstate(all="ignore"):
                result, consumed = transform(values, fft, direction)
            if work_bytes:
                memory.write(work_area, work_bytes)[...] = 0xFF
            if consumed is not None and idata != odata:
                store(memory, idata, consumed, source.strides)
            store(memory, odata, result, target.strides)

        size = fft.input_dtype.itemsize
        moved = (prod(source.shape) + prod(target.shape)) * size
        cost = TransformCost(fft.n, fft.batch, size, moved)
        answer = self._driver.library_call(entry.stream, f"{name} {fft}", run, entry.device, cost)
        if answer[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT:
            raise Refusal(
                cufftResult.CUFFT_INVALID_DEVICE,
                f"the plan was made on device {entry.device}, and the stream is another device's",
            )
        if answer[0]:
            raise Refusal(cufftResult.CUFFT_EXEC_FAILED, answer_text(self._driver, answer[0]))
