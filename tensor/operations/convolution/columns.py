"""Windows of images as columns of a matrix, and back: ``unfold``, ``fold``, and what convolutions use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import convolution as kernels
from tensor.core.dtypes import promotion as rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

Windows = kernels.Windows


def unfold_into(columns: Tensor, image: Tensor, windows: Windows, first: int, *, each: bool) -> None:
    """Copy windows of ``image`` to ``columns``.

    Parameters
    ----------
    columns
        Contiguous; ``(items, rows, positions)``, or ``(rows, items, positions)`` unless ``each``.
    image
        ``(items, channels, depth, height, width)``: some neighbouring channels of a contiguous tensor.
    first
        The first position.
    """
    place: Any = image._layout.place
    shape = columns._layout.shape
    items, rows, count = (shape[0], shape[1], shape[2]) if each else (shape[1], shape[0], shape[2])
    if not place.is_cuda:
        _unfold_on_host(columns._writable, image._host, windows, first, each=each)
        return
    item_channels = image._layout.strides[0] // image._layout.strides[1] if items > 1 else 0
    key = ("unfold", windows, item_channels, image._layout.itemsize)
    run = place.plans.get(key)
    if run is None:
        run = place.plans[key] = kernels.plan_unfold(
            place.native, windows, item_channels, image._layout.itemsize
        )
    row_step, item_step = (count, rows * count) if each else (items * count, count)
    channels = rows // windows.taps
    run(
        place.local.stream.handle,
        columns._address,
        image._address,
        channels,
        items,
        first,
        count,
        row_step,
        item_step,
    )


def fold_into(image: Tensor, columns: Tensor, windows: Windows) -> None:
    """Overwrite ``image`` with the sums of what ``columns``, contiguous ``(items, rows, positions)``, hold of it."""
    place: Any = image._layout.place
    if not place.is_cuda:
        _fold_on_host(image, columns, windows)
        return
    items, rows, count = columns._layout.shape
    item_channels = image._layout.strides[0] // image._layout.strides[1] if items > 1 else 0
    key = ("fold", windows, item_channels, image._layout.dtype)
    run = place.plans.get(key)
    if run is None:
        run = place.plans[key] = kernels.plan_fold(place.native, windows, item_channels, image._layout.dtype)
    channels = rows // windows.taps
    run(
        place.local.stream.handle,
        image._address,
        columns._address,
        channels,
        items,
        count,
        rows * count,
    )


def _taps(windows: Windows) -> Any:
    """Each tap of a window: its offsets in the padded image."""
    for index in np.ndindex(*windows.kernel):
        yield index, tuple(k * d for k, d in zip(index, windows.dilation, strict=True))


def _strided(start: tuple[int, ...], windows: Windows) -> tuple[Any, ...]:
    """What the windows see of a padded image with the tap that starts there."""
    return (
        ...,
        *(
            slice(at, at + (n - 1) * step + 1, step)
            for at, n, step in zip(start, windows.out, windows.stride, strict=True)
        ),
    )


def _unfold_on_host(
    columns: NDArray[Any], image: NDArray[Any], windows: Windows, first: int, *, each: bool
) -> None:
    items, channels = image.shape[:2]
    count = columns.shape[-1]
    pads = [(0, 0), (0, 0), *((p, p) for p in windows.padding)]
    padded = np.pad(image, pads) if any(windows.padding) else image
    if each:
        into = columns.reshape(items, channels, *windows.kernel, count)
    else:
        into = np.moveaxis(columns.reshape(channels, *windows.kernel, items, count), -2, 0)
    for index, start in _taps(windows):
        seen = padded[_strided(start, windows)].reshape(items, channels, -1)
        into[(slice(None), slice(None), *index)] = seen[..., first : first + count]


def _fold_on_host(image: Tensor, columns: Tensor, windows: Windows) -> None:
    target = image._writable
    items, channels = target.shape[:2]
    wide = rules.computes_in(image._layout.dtype).numpy
    array = columns._host.reshape(items, channels, *windows.kernel, *windows.out)
    size = [n + 2 * p for n, p in zip(windows.size, windows.padding, strict=True)]
    padded = np.zeros((items, channels, *size), wide)
    for index, start in _taps(windows):
        padded[_strided(start, windows)] += array[(slice(None), slice(None), *index)]
    inner = tuple(slice(p, p + n) for p, n in zip(windows.padding, windows.size, strict=True))
    target[...] = padded[(slice(None), slice(None), *inner)].astype(target.dtype)
