"""What each element of a resized dimension is made of: band matrices, and products with them on the host."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Larger matrices are not written out to multiply with them on the host.
_LARGEST_MATRIX = 1 << 24
#: Columns for each weight of a row up to which they are.
_DENSE = 32


class Band:
    """A matrix of ``output_size`` rows and ``input_size`` columns with neighbouring weights in each row.

    Row ``i`` has ``weights[begin[i]:begin[i + 1]]``, from column ``first[i]`` on.
    """

    def __init__(
        self, argument: int, first: NDArray[Any], counts: NDArray[Any], weights: NDArray[Any]
    ) -> None:
        self.input_size = argument
        self.output_size = len(first)
        self.first = first.astype(np.int32)
        self.begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.weights = weights

    @property
    def counts(self) -> NDArray[Any]:
        """How many weights rows have."""
        return np.diff(self.begin)

    @cached_property
    def neighbours(self) -> int:
        """Most weights of a row; 0 for the identity."""
        if (
            self.selects
            and self.input_size == self.output_size
            and np.array_equal(self.first, np.arange(self.output_size))
        ):
            return 0
        return max(int(self.counts.max()), 1)

    @cached_property
    def spans(self) -> dict[int, int]:
        """For 1, 2 and 4 neighbouring rows how many columns they have weights in at most.

        Numbers that do not divide the rows, or by which a row begins before the first of its neighbours, are left out.
        """
        result = {}
        for rows in (1, 2, 4):
            if self.output_size % rows == 0:
                first, counts = (each.reshape(-1, rows) for each in (self.first, self.counts))
                if (first >= first[:, :1]).all():
                    result[rows] = max(int((first + counts - first[:, :1]).max()), 1)
        return result

    def _entries(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Row and column of each weight."""
        rows = np.repeat(np.arange(self.output_size), self.counts)
        return rows, np.arange(len(rows)) - self.begin[rows] + self.first[rows]

    @cached_property
    def selects(self) -> bool:
        """Whether every element of a product is one of what is multiplied."""
        return bool((self.counts == 1).all() and (self.weights == 1).all())

    @cached_property
    def transposed(self) -> Band:
        """With rows and columns swapped. First and last columns do not decrease from row to row, so it is a band too."""
        rows, columns = self._entries()
        order = np.argsort(columns, kind="stable")
        counts = np.bincount(columns, minlength=self.input_size)
        begin = np.cumsum(counts) - counts
        rows = np.append(rows[order], 0)
        return Band(self.output_size, np.where(counts > 0, rows[begin], 0), counts, self.weights[order])

    def times(self, x: NDArray[Any], axis: int) -> NDArray[Any]:
        """Product with every line of ``x`` along ``axis``."""
        if not self.neighbours:
            return x
        if self.selects:
            return x.take(self.first, axis)
        if self._dense_is_faster and np.isfinite(x).all():
            lines = x.reshape(*x.shape[: axis % x.ndim], self.input_size, -1)
            matrix = self.matrix
            result: NDArray[Any] = lines[..., 0] @ matrix.T if lines.shape[-1] == 1 else matrix @ lines
            return result.reshape(*x.shape[: axis % x.ndim], self.output_size, *x.shape[axis % x.ndim + 1 :])
        return self._weight_by_weight(x, axis)

    @property
    def _dense_is_faster(self) -> bool:
        """Whether a product with the zeros too takes less time on the host; infinities must not meet them."""
        return (
            self.input_size <= _DENSE * self.neighbours
            and self.input_size * self.output_size <= _LARGEST_MATRIX
        )

    @cached_property
    def matrix(self) -> NDArray[Any]:
        """Written out with its zeros."""
        result = np.zeros((self.output_size, self.input_size), self.weights.dtype)
        result[self._entries()] = self.weights
        return result

    def _weight_by_weight(self, x: NDArray[Any], axis: int) -> NDArray[Any]:
        shape = [1] * x.ndim
        shape[axis] = self.output_size
        result: Any = 0
        for neighbour in range(self.neighbours):
            inside = neighbour < self.counts
            at = np.where(inside, self.first + neighbour, 0)
            weights = np.append(self.weights, 0)[np.where(inside, self.begin[:-1] + neighbour, -1)]
            term = x.take(at, axis)
            # What no weight belongs to counts as 0, whatever it is.
            term *= weights.reshape(shape)
            if not inside.all():
                np.copyto(term, 0, where=~inside.reshape(shape))
            result = term if neighbour == 0 else np.add(result, term, out=result)
        return result  # type: ignore[no-any-return]


def _merged(argument: int, columns: NDArray[Any], weights: NDArray[Any]) -> Band:
    """Band of the weights ``(rows, neighbours)`` at columns that do not decrease along rows."""
    first, counts = columns[:, 0], columns[:, -1] - columns[:, 0] + 1
    begin = np.cumsum(counts) - counts
    merged = np.zeros(int(counts.sum()), weights.dtype)
    np.add.at(merged, begin[:, None] + columns - first[:, None], weights)
    return Band(argument, first, counts, merged)


def _scale(argument: int, result: int, align_corners: bool, factor: float | None, real: Any) -> Any:
    """Step in the input from one element of the result to the next, rounded as PyTorch rounds it."""
    if align_corners:
        return real(argument - 1) / real(result - 1) if result > 1 else real(0)
    return real(1 / factor) if factor is not None and factor > 0 else real(argument) / real(result)


def _nearest(argument: int, result: int, factor: float | None, offset: float, real: Any) -> Band:
    at = (np.arange(result).astype(real) + real(offset)) * _scale(argument, result, False, factor, real)
    # As PyTorch does whatever the elements are.
    at = np.floor(at.astype(np.float32))
    columns = np.minimum(at.astype(np.int64), argument - 1)
    return Band(argument, columns, np.ones(result, np.int64), np.ones(result, real))


def _places(argument: int, result: int, align_corners: bool, factor: float | None, real: Any) -> NDArray[Any]:
    """Where in the input the elements of the result lie."""
    scale = _scale(argument, result, align_corners, factor, real)
    i = np.arange(result).astype(real)
    positions: NDArray[Any] = scale * i if align_corners else scale * (i + real(0.5)) - real(0.5)
    return positions


def _same(size: int, real: Any) -> Band:
    return Band(size, np.arange(size), np.ones(size, np.int64), np.ones(size, real))


def _linear(argument: int, result: int, align_corners: bool, factor: float | None, real: Any) -> Band:
    if argument == result:
        return _same(argument, real)
    at = np.maximum(_places(argument, result, align_corners, factor, real), real(0))
    first = np.minimum(np.floor(at).astype(np.int64), argument - 1)
    fraction = np.clip(at - first.astype(real), real(0), real(1))
    columns = np.stack([first, np.minimum(first + 1, argument - 1)], 1)
    return _merged(argument, columns, np.stack([1 - fraction, fraction], 1))


def _near(x: Any, a: float) -> Any:
    """Cubic kernel (R. Keys, 1981) at distances up to 1, with the slope ``a`` at 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: Any, a: float) -> Any:
    """Cubic kernel at distances from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic_weights(fraction: Any, a: float = -0.75) -> list[Any]:
    """Weights of the four neighbours of a point that lies ``fraction`` behind the second."""
    return [_far(fraction + 1, a), _near(fraction, a), _near(1 - fraction, a), _far(2 - fraction, a)]


def _cubic(argument: int, result: int, align_corners: bool, factor: float | None, real: Any) -> Band:
    at = _places(argument, result, align_corners, factor, real)
    first = np.minimum(np.floor(at).astype(np.int64), argument - 1)
    fraction = np.clip(at - first.astype(real), real(0), real(1))
    columns = (first[:, None] + np.arange(-1, 3)).clip(0, argument - 1)
    return _merged(argument, columns, np.stack(cubic_weights(fraction), 1).astype(real))


def _triangle(x: NDArray[Any]) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def _keys(x: NDArray[Any]) -> Any:
    """Cubic kernel with the slope that image libraries use."""
    x = np.abs(x)
    return np.where(x < 1, _near(x, -0.5), np.where(x < 2, _far(x, -0.5), 0))


def _smoothed(
    shape: Callable[[Any], Any], reach: float, argument: int, result: int, align_corners: bool,
    factor: float | None, real: Any,
) -> Band:  # fmt: skip
    """Weights by distance, where a smaller result averages over all that it stands for."""
    if argument == result:
        return _same(argument, real)
    scale = _scale(argument, result, align_corners, factor, real)
    widening = max(scale, real(1))
    support = real(reach) * widening
    centers = scale * (np.arange(result).astype(real) + real(0.5))
    first = np.maximum((centers - support + real(0.5)).astype(np.int64), 0)
    end = np.minimum((centers + support + real(0.5)).astype(np.int64), argument)
    # Rounding must leave something.
    first = np.minimum(first, argument - 1)
    counts = np.maximum(end - first, 1)
    rows = np.repeat(np.arange(result), counts)
    begin = np.cumsum(counts) - counts
    columns = np.arange(len(rows)) - begin[rows] + first[rows]
    weights = shape((columns.astype(real) - centers[rows] + real(0.5)) / widening)
    totals = np.add.reduceat(weights, begin)
    return Band(argument, first, counts, (weights / np.where(totals == 0, 1, totals)[rows]).astype(real))


@lru_cache(maxsize=512)
def band(
    mode: str, argument: int, result: int, align_corners: bool, factor: float | None, double: bool
) -> Band:
    """Weights of a dimension.

    Parameters
    ----------
    mode : {"nearest", "nearest-exact", "linear", "cubic", "smooth linear", "smooth cubic"}
        The last two average where the result is smaller.
    given, made
        Sizes before and after.
    factor
        How much larger the result is meant to be, which rounding to ``output_size`` may hide; ``None`` for the ratio of sizes.
    double
        Whether weights are float64.
    """
    real: Any = np.float64 if double else np.float32
    if mode.startswith("nearest"):
        return _nearest(argument, result, factor, 0.5 if mode == "nearest-exact" else 0.0, real)
    if mode == "linear":
        return _linear(argument, result, align_corners, factor, real)
    if mode == "cubic":
        return _cubic(argument, result, align_corners, factor, real)
    shape, reach = (_triangle, 1.0) if mode == "smooth linear" else (_keys, 2.0)
    return _smoothed(shape, reach, argument, result, align_corners, factor, real)
