"""The simulated cuDNN: the functions of :class:`drv.bindings.cudnn.Cudnn`, computed with NumPy on simulated memory.

Calls check their arguments and queue their work on the handle's stream, as NVIDIA's do. The part of a workspace that an algorithm needs
is written to, so that the race finder sees one that two streams share. Only elements that descriptors name are read
and written; what is added to is read only if ``beta`` is not 0.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.driver import CUresult

from drv.bindings.cudnn import (
    AlgorithmPerformance,
    cudnnDataType_t,
    cudnnDeterminism_t,
    cudnnMathType_t,
    cudnnStatus_t,
)
from drv.host.blas import single_threaded
from drv.simulator.memory.address_space import DEVICE_BASE
from drv.simulator.unexecuted import remember

from .cudnn_algorithms import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Direction
from .cudnn_convolutions import Problem, Summation
from .cudnn_descriptors import Convolution, DescriptorCalls, Filters, Handle, Tensor, call, refuse
from .library_call import Refusal, answer_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.driver import SimulatedDriver
    from drv.simulator.memory.library_memory import LibraryMemory

# ruff: noqa: N815 - the names are C's

_SUCCESS, _NOT_SUPPORTED = cudnnStatus_t.CUDNN_STATUS_SUCCESS, cudnnStatus_t.CUDNN_STATUS_NOT_SUPPORTED
_SIZE_INSUFFICIENT = cudnnStatus_t.CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT
_EXECUTION_FAILED = cudnnStatus_t.CUDNN_STATUS_EXECUTION_FAILED
_ANY_ORDER, _DETERMINISTIC = (
    cudnnDeterminism_t.CUDNN_NON_DETERMINISTIC,
    cudnnDeterminism_t.CUDNN_DETERMINISTIC,
)
#: Partial sums of algorithms that add them up in any order; of two the order does not matter.
_PARTIAL_SUMS = 4
#: Convolutions whose descriptors were checked, to remember.
_LIMIT = 4096


def _algorithms(name: str, direction: Direction) -> Callable[..., int]:
    def algorithms(
        self: SimulatedCudnn,
        handle: int,
        firstDesc: int,
        secondDesc: int,
        convDesc: int,
        outDesc: int,
        requestedAlgoCount: int,
        perfResults: int,
        /,
    ) -> int:
        self._handle(handle)
        if requestedAlgoCount < 1:
            raise refuse(f"requestedAlgoCount is {requestedAlgoCount}: at least 1 is needed")
        if not perfResults:
            raise refuse("perfResults is null")
        problem = self._problem(direction, firstDesc, secondDesc, convDesc, outDesc)
        return _write_algorithms(direction, problem, requestedAlgoCount, perfResults)

    algorithms.__name__ = name
    return call(algorithms)


def _workspace_size(name: str, direction: Direction) -> Callable[..., int]:
    def workspace_size(
        self: SimulatedCudnn,
        handle: int,
        firstDesc: int,
        secondDesc: int,
        convDesc: int,
        outDesc: int,
        algo: int,
        /,
    ) -> int:
        self._handle(handle)
        problem = self._problem(direction, firstDesc, secondDesc, convDesc, outDesc)
        return direction.algorithm(algo, problem).workspace(problem)

    workspace_size.__name__ = name
    return call(workspace_size)


def _convolve(direction: Direction) -> Callable[..., None]:
    def convolve(
        self: SimulatedCudnn,
        handle: int,
        alpha: int,
        firstDesc: int,
        first: int,
        secondDesc: int,
        second: int,
        convDesc: int,
        algo: int,
        workSpace: int,
        workSpaceSizeInBytes: int,
        beta: int,
        outDesc: int,
        out: int,
        /,
    ) -> None:
        state = self._handle(handle)
        problem = self._problem(direction, firstDesc, secondDesc, convDesc, outDesc)
        algorithm = direction.algorithm(algo, problem)
        addresses = first, second, out
        if not all(addresses):
            raise refuse(
                f"the operands are at {', '.join(f'{each:#x}' for each in addresses)}: one of them is null"
            )
        scalars = _scalar(problem, alpha, "alpha"), _scalar(problem, beta, "beta")
        needed = algorithm.workspace(problem)
        if needed and not workSpace:
            raise refuse(f"workSpace is null, and {algorithm.number.name} needs {needed} bytes")
        if needed > workSpaceSizeInBytes:
            raise Refusal(
                _SIZE_INSUFFICIENT,
                f"workSpaceSizeInBytes is {workSpaceSizeInBytes}, and {algorithm.number.name} needs {needed}",
            )
        summation = Summation() if algorithm.deterministic else Summation(_PARTIAL_SUMS, self._any_order)

        def run(memory: LibraryMemory) -> None:
            if needed:
                memory.write(workSpace, needed)[...] = 0xFF
            with np.errstate(all="ignore"):
                direction.run(problem, memory, scalars, addresses, summation)

        self._queue(state, f"{direction.function} {problem.text()}", run, direction.cost(problem))

    convolve.__name__ = direction.function
    return call(convolve)


class SimulatedCudnn(DescriptorCalls):
    """cuDNN on a simulated driver."""

    def __init__(self, driver: SimulatedDriver) -> None:
        super().__init__(driver)
        single_threaded()
        self._problems: dict[Any, Problem] = {}
        if not driver.execute:
            names = [direction.function for direction in (FORWARD, BACKWARD_DATA, BACKWARD_FILTER)]
            self.__dict__.update({name: self._unexecuted(driver, name) for name in names})

    cudnnGetConvolutionForwardAlgorithm_v7 = _algorithms("cudnnGetConvolutionForwardAlgorithm_v7", FORWARD)
    cudnnGetConvolutionBackwardDataAlgorithm_v7 = _algorithms(
        "cudnnGetConvolutionBackwardDataAlgorithm_v7", BACKWARD_DATA
    )
    cudnnGetConvolutionBackwardFilterAlgorithm_v7 = _algorithms(
        "cudnnGetConvolutionBackwardFilterAlgorithm_v7", BACKWARD_FILTER
    )
    cudnnGetConvolutionForwardWorkspaceSize = _workspace_size(
        "cudnnGetConvolutionForwardWorkspaceSize", FORWARD
    )
    cudnnGetConvolutionBackwardDataWorkspaceSize = _workspace_size(
        "cudnnGetConvolutionBackwardDataWorkspaceSize", BACKWARD_DATA
    )
    cudnnGetConvolutionBackwardFilterWorkspaceSize = _workspace_size(
        "cudnnGetConvolutionBackwardFilterWorkspaceSize", BACKWARD_FILTER
    )
    cudnnConvolutionForward = _convolve(FORWARD)
    cudnnConvolutionBackwardData = _convolve(BACKWARD_DATA)
    cudnnConvolutionBackwardFilter = _convolve(BACKWARD_FILTER)

    def _unexecuted(self, driver: SimulatedDriver, name: str) -> Callable[..., None]:
        """A convolution that is accepted again without another look: see :mod:`drv.simulator.unexecuted`."""
        checked, handles, described = getattr(self, name), self._handles, self._objects.get
        accepted, thread, faults = driver.accepted.of(name), driver.thread, driver.inject.asked

        def call(
            handle: int,
            alpha: int,
            first_desc: int,
            first: int,
            second_desc: int,
            second: int,
            convolution: int,
            *more: int,
        ) -> None:
            arguments = handle, alpha, first_desc, first, second_desc, second, convolution, *more
            state = handles.get(handle)
            # Descriptors as they are now: set once more, they describe something else.
            operands = (
                described(first_desc),
                described(second_desc),
                described(convolution),
                described(more[-2]),
            )
            key = state and state.stream, operands, arguments
            context = accepted.get(key)
            if context is None or not thread.contexts or thread.contexts[-1] is not context or faults:
                checked(*arguments)
                remember(driver, accepted, key)

        return call

    def _problem(self, direction: Direction, first: int, second: int, convolution: int, out: int) -> Problem:
        """What descriptors describe, in the order of ``direction``'s function."""
        described = self._object(convolution, Convolution, "convDesc")
        if direction is FORWARD:
            image, weights, result = (first, "xDesc"), (second, "wDesc"), (out, "yDesc")
        elif direction is BACKWARD_DATA:
            image, weights, result = (out, "dxDesc"), (first, "wDesc"), (second, "dyDesc")
        else:
            image, weights, result = (first, "xDesc"), (out, "dwDesc"), (second, "dyDesc")
        key = (
            self._object(image[0], Tensor, image[1]),
            self._object(weights[0], Filters, weights[1]),
            self._object(result[0], Tensor, result[1]),
            described,
        )
        problem = self._problems.get(key)
        if problem is None:
            problem = Problem.checked(*key)
            if len(self._problems) >= _LIMIT:
                self._problems.clear()
            self._problems[key] = problem
        return problem

    def _any_order(self, count: int) -> list[int]:
        """An order for ``count`` partial sums, as the schedule has it."""
        remaining = list(range(count))
        return [remaining.pop(self._driver.scheduler.choose(len(remaining))) for _ in range(count)]

    def _queue(self, state: Handle, label: str, run: Callable[[LibraryMemory], None], cost: Any) -> None:
        answer = self._driver.library_call(state.stream, label, run, state.device, cost)
        if answer[0]:
            detail = answer_text(self._driver, answer[0])
            if answer[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT:
                detail += (
                    f"; the handle was made on device {state.device}, and the stream is another device's"
                )
            raise Refusal(_EXECUTION_FAILED, detail)


def _write_algorithms(direction: Direction, problem: Problem, requested: int, address: int) -> int:
    """Write up to ``requested`` algorithms, those that are not supported last; how many there are."""
    supported = [each for each in direction.algorithms if each.supports(problem)]
    numbers = [each.number for each in supported]
    numbers += [number for number in direction.numbers if number not in numbers]
    count = min(requested, len(numbers))
    results = (AlgorithmPerformance * count).from_address(address)
    for index, result in enumerate(results):
        result.algo, result.time = numbers[index], -1.0
        result.mathType, result.reserved[:] = _math_type(problem), [0, 0, 0]
        if index < len(supported):
            algorithm = supported[index]
            result.status, result.memory = _SUCCESS, algorithm.workspace(problem)
            result.determinism = _DETERMINISTIC if algorithm.deterministic else _ANY_ORDER
        else:
            result.status, result.memory, result.determinism = _NOT_SUPPORTED, 0, _ANY_ORDER
    return count


def _math_type(problem: Problem) -> int:
    """What tensor cores compute of it: float16 and bfloat16 unless the math type forbids it, float32 as that says."""
    math_type = problem.convolution.math_type
    if problem.dtype.itemsize == 2 and math_type == cudnnMathType_t.CUDNN_DEFAULT_MATH:
        return cudnnMathType_t.CUDNN_TENSOR_OP_MATH
    return math_type


def _scalar(problem: Problem, address: int, name: str) -> float:
    """``alpha`` or ``beta``, which are read on the host during the call."""
    if not address:
        raise refuse(f"{name} is null")
    if address >= DEVICE_BASE:
        raise refuse(f"{name} {address:#x} is a device address: it is read on the host")
    double = problem.convolution.compute_type == cudnnDataType_t.CUDNN_DATA_DOUBLE
    scalar: Any = ctypes.c_double if double else ctypes.c_float
    value: float = scalar.from_address(address).value
    return value
