"""Tensors exchanged between the devices of one process.

All functions are differentiable: the derivative of :func:`broadcast` is :func:`reduce_add`, that of :func:`scatter` is
:func:`gather`, and the reverse. Work is queued on the current streams of the devices, which are ordered by events: what
the functions return may be used on them at once, and what they were given may be written.

Devices are given as :class:`tensor.device`, as text or as index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor
from tensor.core.arguments import dimension
from tensor.operations.shapes.slices import step_through

from .broadcasting import broadcasted, reduced
from .chunks import gathered, scattered
from .coalescing import BUFFER_SIZE
from .device_arguments import destination_named, place_named, places_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor.cuda import Stream

    Devices = Iterable[Any]

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def broadcast(
    tensor: Tensor, devices: Devices | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copy a tensor to several devices.

    Parameters
    ----------
    tensor
        On any device.
    devices
        CUDA devices. On the tensor's own one the result is the tensor itself.
    out
        Instead of ``devices``: CUDA tensors of the same shape to write to.

    Returns
    -------
    tuple of Tensor
        One for each device.

    Raises
    ------
    RuntimeError
        If not exactly one of ``devices`` and ``out`` is given, or ``out`` does not fit.
    """
    _check_tensor(tensor, "broadcast")
    if (devices is None) is (out is None):
        raise RuntimeError(
            f"broadcast() expects exactly one of 'devices' and 'out', but got devices={devices} and out={out}"
        )
    if devices is not None:
        places = places_named(devices, "broadcast")
        if not tensor.is_cuda:
            return tuple([tensor.to(place.device, non_blocking=True) for place in places])
        return tuple([column[0] for column in broadcasted([tensor], places, BUFFER_SIZE)])
    assert out is not None
    for number, each in enumerate(out):
        _check_cuda(each, "broadcast", f"out[{number}]")
        if each.shape != tensor.shape:
            raise RuntimeError(
                f"broadcast() expects out tensors of the source's shape {list(tensor.shape)}, but out[{number}] has shape "
                f"{list(each.shape)}"
            )
    for each in out:
        each.copy_(tensor, non_blocking=True)
    return tuple(out)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Devices, buffer_size: int = BUFFER_SIZE
) -> tuple[tuple[Tensor, ...], ...]:
    """Copy several tensors to several devices. Small ones travel together.

    Parameters
    ----------
    tensors
        All on the first of ``devices``.
    devices
        CUDA devices.
    buffer_size
        Bytes that are copied at a time at most, unless one tensor has more.

    Returns
    -------
    tuple of tuple of Tensor
        For each device its copies. Those on the first one are the tensors themselves.

    Raises
    ------
    RuntimeError
        If a tensor is not on the first device.
    """
    places = places_named(devices, "broadcast_coalesced")
    tensors = list(tensors)
    for number, each in enumerate(tensors):
        _check_cuda(each, "broadcast_coalesced", f"tensors[{number}]")
        if each._layout.place is not places[0]:
            raise RuntimeError(
                f"broadcast_coalesced() expects all tensors on devices[0], {places[0].device}, but tensors[{number}] is on "
                f"{each.device}"
            )
    _check_size(buffer_size, "broadcast_coalesced")
    return tuple([tuple(column) for column in broadcasted(tensors, places, buffer_size)])


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Sum of tensors of one shape from several devices.

    Parameters
    ----------
    inputs
        CUDA tensors; one of them on the destination.
    destination
        The sum's device, by default the current one.

    Returns
    -------
    Tensor
        The sum. Half precision is added in single precision and rounded once. The only one of ``inputs``
        is the result itself.

    Raises
    ------
    RuntimeError, ValueError
        If inputs are not on CUDA devices, none is on the destination, or shapes differ.
    """
    given = _summands(inputs, "reduce_add")
    place = place_named(destination)
    if not any(x._layout.place is place for x in given):
        raise RuntimeError(
            f"reduce_add() expects one of the inputs on the destination {place.device}, but they are on "
            f"{', '.join(str(x.device) for x in given)}"
        )
    return reduced([[x] for x in given], place, None, BUFFER_SIZE)[0]


def reduce_add_coalesced(
    inputs: Iterable[Iterable[Tensor]], destination: Any = None, buffer_size: int = BUFFER_SIZE
) -> tuple[Tensor, ...]:
    """Sums of several tensors over several devices. Small ones travel together.

    Parameters
    ----------
    inputs
        For each device its tensors; those in the same place of each are summed.
    destination
        The sums' device, by default the current one.
    buffer_size
        Bytes that are copied at a time at most, unless one tensor has more.

    Returns
    -------
    tuple of Tensor
        The sums; see :func:`reduce_add`.

    Raises
    ------
    RuntimeError, ValueError
        If inputs are not on CUDA devices, those of a device are not all there, or numbers or shapes differ.
    """
    columns = [list(each) for each in inputs]
    place = place_named(destination)
    _check_size(buffer_size, "reduce_add_coalesced")
    if len({len(column) for column in columns}) > 1:
        raise ValueError(
            "reduce_add_coalesced() expects as many tensors from every device, but got "
            f"{', '.join(str(len(column)) for column in columns)}"
        )
    if not columns or not columns[0]:
        return ()
    for row in zip(*columns, strict=True):
        _summands(row, "reduce_add_coalesced")
    for number, column in enumerate(columns):
        for x in column:
            if x._layout.place is not column[0]._layout.place:
                raise RuntimeError(
                    f"reduce_add_coalesced() expects the tensors of inputs[{number}] on one device, but they are on "
                    f"{column[0].device} and {x.device}"
                )
    return tuple(reduced(columns, place, None, buffer_size))


def scatter(
    tensor: Tensor,
    devices: Devices | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Stream | None] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Send chunks of a tensor to several devices.

    Parameters
    ----------
    tensor
        On any device. Pinned memory must not be written before the copies are done.
    devices
        CUDA devices. On the tensor's own one a chunk is a view.
    chunk_sizes
        Size of each device's chunk along ``dim``. By default all but the last have one size, and where there is too
        little for all devices, the last ones get none.
    dim
        Dimension that is divided.
    streams
        Streams to copy on, for each chunk, ``None`` for the current one; the caller then waits for them. By default
        copies run beside the devices' other work, and the current streams wait for them.
    out
        Instead of ``devices``: CUDA tensors to write to, whose sizes along ``dim`` sum to the tensor's.

    Returns
    -------
    tuple of Tensor
        The chunks.

    Raises
    ------
    RuntimeError
        If not exactly one of ``devices`` and ``out`` is given, or sizes do not fit.
    """
    _check_tensor(tensor, "scatter")
    if (devices is None) is (out is None):
        raise RuntimeError(
            f"scatter() expects exactly one of 'devices' and 'out', but got devices={devices} and out={out}"
        )
    if not tensor.dim():
        raise RuntimeError("scatter() expects a tensor with at least one dimension, got one without")
    at = dimension(dim, tensor.dim())
    if out is not None:
        if chunk_sizes is not None:
            raise RuntimeError(
                f"scatter() takes the sizes of chunks from 'out': 'chunk_sizes' must not be given, but got {chunk_sizes}"
            )
        return _scatter_out(tensor, out, at, streams)
    assert devices is not None
    places = places_named(devices, "scatter")
    size = tensor.size(at)
    if chunk_sizes is None:
        sizes = even_sizes(size, len(places))
        places = places[: len(sizes)]
    else:
        sizes = [int(each) for each in chunk_sizes]
        if len(sizes) != len(places) or sum(sizes) != size or min(sizes) < 0:
            raise RuntimeError(
                f"scatter() expects {len(places)} chunk_sizes, one for each device, that sum to {size}, the size of "
                f"dimension {at}, but got {sizes}"
            )
    if streams is not None and len(streams) < len(places):
        raise RuntimeError(
            f"scatter() expects a stream or None for each of {len(places)} chunks, got {len(streams)}"
        )
    return tuple(scattered(tensor, places, sizes, at, streams))


def even_sizes(size: int, count: int) -> list[int]:
    """Sizes of at most ``count`` chunks, all of one size but the last."""
    each = -(-size // count)
    return [min(each, size - start) for start in range(0, size, each)] if size else [0] * count


def _scatter_out(
    tensor: Tensor, out: Sequence[Tensor], dim: int, streams: Sequence[Stream | None] | None
) -> tuple[Tensor, ...]:
    shape = list(tensor.shape)
    for number, each in enumerate(out):
        _check_cuda(each, "scatter", f"out[{number}]")
        expected = [*shape[:dim], each.size(dim) if each.dim() == len(shape) else -1, *shape[dim + 1 :]]
        if list(each.shape) != expected:
            raise RuntimeError(
                f"scatter() expects out[{number}] with the shape of the input {shape} but for dimension {dim}, got "
                f"{list(each.shape)}"
            )
    total = sum(each.size(dim) for each in out)
    if total != shape[dim]:
        raise RuntimeError(
            f"scatter() expects out tensors whose sizes in dimension {dim} sum to {shape[dim]}, but they sum to {total}"
        )
    start = 0
    for number, each in enumerate(out):
        part = step_through(tensor, dim, start, each.size(dim), 1)
        start += each.size(dim)
        stream = None if streams is None else streams[number]
        if stream is None:
            each.copy_(part, non_blocking=True)
        else:
            with stream:
                each.copy_(part, non_blocking=True)
    return tuple(out)


def gather(
    tensors: Iterable[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """Join tensors from several devices on one.

    Parameters
    ----------
    tensors
        CUDA tensors of one shape but for ``dim``.
    dim
        Dimension along which they are joined.
    destination
        The result's device, by default the current one. ``"cpu"`` or -1 is the host.
    out
        Instead of ``destination``: a CUDA tensor to write to.

    Returns
    -------
    Tensor
        Of the first tensor's type.

    Raises
    ------
    RuntimeError
        If both ``destination`` and ``out`` are given, or shapes or devices do not fit.
    """
    given = list(tensors)
    if not given:
        raise RuntimeError("gather() expects at least one tensor, got an empty list")
    for number, x in enumerate(given):
        _check_cuda(x, "gather", f"tensors[{number}]")
        if not x.dim():
            raise RuntimeError(
                f"gather() expects tensors with at least one dimension, but tensors[{number}] has none: unsqueeze it"
            )
    shape = list(given[0].shape)
    at = dimension(dim, len(shape))
    for number, x in enumerate(given):
        if x.dim() != len(shape) or [*x.shape[:at], *x.shape[at + 1 :]] != [*shape[:at], *shape[at + 1 :]]:
            raise RuntimeError(
                f"gather() expects tensors of one shape but for dimension {at}, but tensors[0] has shape {shape} and "
                f"tensors[{number}] {list(x.shape)}"
            )
    if out is None:
        return gathered(given, at, destination_named(destination))
    if destination is not None:
        raise RuntimeError(
            f"gather() expects one of 'destination' and 'out', but got destination={destination} beside out"
        )
    _check_cuda(out, "gather", "out")
    expected = [*shape[:at], sum(x.size(at) for x in given), *shape[at + 1 :]]
    if list(out.shape) != expected:
        raise RuntimeError(f"gather() expects out of shape {expected}, got {list(out.shape)}")
    return out.copy_(gathered(given, at, out._layout.place))


def _check_tensor(x: Any, function: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}() expects a Tensor, got {type(x).__name__}")


def _check_cuda(x: Any, function: str, name: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}() expects {name} to be a Tensor, got {type(x).__name__}")
    if not x.is_cuda:
        raise RuntimeError(f"{function}() expects tensors on CUDA devices, but {name} is on {x.device}")


def _check_size(buffer_size: int, function: str) -> None:
    if buffer_size <= 0:
        raise RuntimeError(f"{function}() expects a positive buffer_size in bytes, got {buffer_size}")


def _summands(inputs: Sequence[Tensor], function: str) -> list[Tensor]:
    given = list(inputs)
    if not given:
        raise RuntimeError(f"{function}() expects at least one tensor, got an empty list")
    for number, x in enumerate(given):
        _check_cuda(x, function, f"input {number}")
        if x.shape != given[0].shape:
            raise ValueError(
                f"{function}(): input {number} has invalid size: got {list(x.shape)}, but expected {list(given[0].shape)}"
            )
        if x.dtype is not given[0].dtype:
            raise ValueError(
                f"{function}(): input {number} has another type: got {x.dtype}, but expected {given[0].dtype}"
            )
    return given
