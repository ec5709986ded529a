"""Signals, images and volumes at other sizes: see ``cuda/interpolation.cuh``."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from .convolution import THREADS, grid_of
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from drv import Device

    from .dtypes import dtype

#: Rows with at most so many weights are held in registers.
_FEW = 4
#: Neighbouring elements that a thread computes, by preference.
_NEIGHBOURS = (4, 2)
#: Planes that a thread goes over with the weights that it has read, where there are planes enough.
_PLANES = 128
#: Threads of a multiprocessor that keep the memory busy.
_BUSY = 2048
#: So many elements and more are numbered with 64 bits.
_MANY = 1 << 31


class Axis(NamedTuple):
    """How one dimension changes.

    Attributes
    ----------
    input_size, output_size : int
        Sizes before and after.
    support : int
        Most elements that one of the result depends on; 0 where the dimension stays as it is.
    spans : mapping of int to int
        By numbers of neighbouring rows, into which all rows can be divided, how many columns these have weights in at most.
    """

    input_size: int
    output_size: int
    support: int
    spans: Mapping[int, int]

    def window(self, neighbours: int) -> int:
        """Columns that so many neighbouring elements depend on; 0 where these are too many, or more than there are."""
        size = self.spans.get(neighbours, _FEW + neighbours)
        most = max(self.support, 1) + neighbours // 2
        return size if self.support <= _FEW and size <= min(most, self.input_size) else 0

    @property
    def row(self) -> str:
        """Type of a row of the matrix in CUDA C++."""
        if not self.support:
            return "Same"
        return f"Few<{self.support}, Sum>" if self.support <= _FEW else "Many<Sum>"


def weight_type(dtype: dtype) -> str:
    """Type in CUDA C++ of weights for elements of type ``dtype``."""
    return "double" if dtype.name == "float64" else "float"


def plan(device: Device, axes: Sequence[Axis], planes: int, dtype: dtype) -> Callable[..., None]:
    """What multiplies each of three dimensions with a band matrix.

    Parameters
    ----------
    planes
        Images that lie one after the other.

    Returns
    -------
    callable
        ``run(stream_handle, out_address, in_address, rows_address, weights_address)``. For each dimension that
        changes, ``rows`` (int32) has where each row of its matrix begins: first the column of its first weight, then,
        for one row more, the position of that weight among the weights of all dimensions.
    """
    starts, at = [], 0
    for axis in axes:
        starts.append(at if axis.support else -1)
        at += 2 * axis.output_size + 1 if axis.support else 0
    positions, area = prod(axis.output_size for axis in axes), prod(axis.input_size for axis in axes)
    # Positions of the result that a thread has, and the windows of input for them, if rows are short.
    neighbours = next((each for each in _NEIGHBOURS if axes[-1].window(each)), 1)
    windows = [axis.window(1) for axis in axes[:-1]] + [axes[-1].window(neighbours)]
    accumulate_type = max(planes * positions, planes * area) >= _MANY
    index, total = ("long long", "q") if accumulate_type else ("int", "i")
    each = max(
        1, min(_PLANES, planes * positions // (neighbours * _BUSY * device.attribute("MULTIPROCESSOR_COUNT")))
    )
    groups = -(-planes // each)
    packed = struct.pack("=9i", *(n for pair in zip(axes, starts, strict=True) for n in _numbers(*pair)))

    name = "_".join(
        ["interpolate", dtype.name, *("same" if not a.support else f"{min(a.support, 5)}" for a in axes)]
    )
    name += (
        ("_windows" if all(windows) else "") + f"_{neighbours}" * (neighbours > 1) + "_wide" * accumulate_type
    )
    if all(windows):
        types = (
            f"Window<{size}, Sum>" if axis.support else f"SameWindow<{size}, Sum>"
            for axis, size in zip(axes, windows, strict=True)
        )
        function = f"interpolate_windows<{neighbours}, {', '.join(types)}>"
    else:
        function = f"interpolate<{', '.join(axis.row for axis in axes)}>"
    source = (
        f"{includes('interpolation.cuh')}typedef {weight_type(dtype)} Sum;\n\n"
        f'extern "C" __global__ void {name}(Axes axes, {index} planes, {index} groups, const int* rows, '
        f"const Sum* weights, const {dtype.cuda}* in, {dtype.cuda}* out) {{\n"
        f"    {function}(axes, planes, groups, rows, weights, in, out);\n}}\n"
    )
    launch = launcher(device, "interpolation.cu", source, name, (len(packed), total, total, *"PPPP"))
    grid = grid_of(groups * positions // neighbours)

    def run(stream: Any, out: int, input_address: int, rows: int, weights: int) -> None:
        launch(
            grid, 1, 1, THREADS, 1, 1, 0, stream, packed, planes, groups, rows, weights, input_address, out
        )

    return run


def _numbers(axis: Axis, start: int) -> tuple[int, int, int]:
    return axis.input_size, axis.output_size, start
