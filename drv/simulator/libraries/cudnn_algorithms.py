"""Algorithms of the simulated cuDNN's convolutions: which there are, for what, and how much workspace each needs.

All of them compute the same products. What tells them apart is what a program has to take care of: workspace, what is not supported, and
algorithms that add up partial sums in any order. The order of these is the schedule's: under ``schedule=random`` it is another each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from drv.bindings.cudnn import cudnnConvolutionBwdDataAlgo_t as DataAlgorithm
from drv.bindings.cudnn import cudnnConvolutionBwdFilterAlgo_t as FilterAlgorithm
from drv.bindings.cudnn import cudnnConvolutionFwdAlgo_t as ForwardAlgorithm

from .cudnn_convolutions import Problem
from .cudnn_descriptors import NOT_SUPPORTED, refuse
from .library_call import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum

    from drv.simulator.work.simulated_library import ProductCost

#: Bytes to whose multiples workspaces are rounded.
_ROUNDING = 256
#: Bytes of an offset into an image, and of a partial sum.
_INDEX = _SUM = 4


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm that is simulated.

    ``workspace`` is what it needs, in bytes. A ``plain`` one is for images of two dimensions, packed filters ``(K, C, R, S)``
    and no dilation alone.
    """

    number: IntEnum
    workspace: Callable[[Problem], int]
    deterministic: bool = True
    plain: bool = False

    def supports(self, problem: Problem) -> bool:
        """Whether it computes ``problem``."""
        general = len(problem.kernel) > 2 or problem.weights.channels_last
        return not self.plain or not (general or set(problem.convolution.dilation) != {1})


@dataclass(frozen=True, slots=True)
class Direction:
    """A convolution or one of its gradients: the function that computes it, and its algorithms, the quickest first."""

    function: str
    numbers: type[IntEnum]
    algorithms: tuple[Algorithm, ...]
    run: Callable[..., None]
    cost: Callable[[Problem], ProductCost]

    def algorithm(self, number: int, problem: Problem) -> Algorithm:
        """The algorithm ``number``; refused where it cannot compute ``problem``."""
        if number not in tuple(self.numbers):
            raise refuse(f"{number} is no algorithm of {self.function}")
        for algorithm in self.algorithms:
            if algorithm.number == number and algorithm.supports(problem):
                return algorithm
        raise Refusal(NOT_SUPPORTED, f"{self.numbers(number).name} for {problem.text()}")


def _none(problem: Problem) -> int:
    return 0


def _offsets(problem: Problem) -> int:
    """An offset into the image for each element of a window."""
    return _rounded(problem.window_size * _INDEX)


def _columns(problem: Problem) -> int:
    return _rounded(problem.column_bytes)


def _partial_sums(problem: Problem) -> int:
    return _rounded(prod(problem.weights.shape) * _SUM)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ROUNDING) * _ROUNDING


FORWARD = Direction(
    "cudnnConvolutionForward",
    ForwardAlgorithm,
    (
        Algorithm(ForwardAlgorithm.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, _offsets),
        Algorithm(ForwardAlgorithm.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, _none),
        Algorithm(ForwardAlgorithm.CUDNN_CONVOLUTION_FWD_ALGO_GEMM, _columns, plain=True),
    ),
    Problem.forward,
    lambda problem: problem.cost(problem.filters, problem.items * problem.window_count, problem.window_size),
)
BACKWARD_DATA = Direction(
    "cudnnConvolutionBackwardData",
    DataAlgorithm,
    (
        Algorithm(DataAlgorithm.CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, _offsets),
        Algorithm(DataAlgorithm.CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, _none, deterministic=False),
    ),
    Problem.backward_data,
    lambda problem: problem.cost(
        problem.channels, problem.items * problem.window_count, problem.filters * prod(problem.kernel)
    ),
)
BACKWARD_FILTER = Direction(
    "cudnnConvolutionBackwardFilter",
    FilterAlgorithm,
    (
        Algorithm(FilterAlgorithm.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, _offsets),
        Algorithm(FilterAlgorithm.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, _none, deterministic=False),
        Algorithm(
            FilterAlgorithm.CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3,
            _partial_sums,
            deterministic=False,
            plain=True,
        ),
    ),
    Problem.backward_filter,
    lambda problem: problem.cost(problem.filters, problem.window_size, problem.items * problem.window_count),
)
