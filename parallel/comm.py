"""Transfers of tensors between the devices of one process: broadcast, sum, scatter and gather.

All functions are differentiable: the derivative of :func:`broadcast` is :func:`reduce_add`, that of :func:`scatter` is
:func:`gather`, and the reverse. Work is queued on the current streams of the devices, which are ordered by events: what
the functions return may be used on them at once, and their inputs may be overwritten.

A device is a :class:`tensor.device`, a string such as ``"cuda:1"``, or an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor
from tensor.core.arguments import dimension
from tensor.core.names.absent import hints as _hints
from tensor.operations.shapes.slices import step_through

from .data_parallel.broadcasting import broadcasted, reduced
from .data_parallel.coalescing import BUFFER_SIZE
from .data_parallel.devices import destination_state, device_state, device_states
from .data_parallel.scattering import gathered, scattered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor.cuda import Stream

    Devices = Iterable[Any]

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def broadcast(
    tensor: Tensor, devices: Devices | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copy a tensor to several devices.

    >>> x = tensor.arange(3.0, device="cuda:0")
    >>> x0, x1 = parallel.comm.broadcast(x, ["cuda:0", "cuda:1"])
    >>> x0 is x, x1
    (True, tensor([0., 1., 2.], device='cuda:1'))

    Parameters
    ----------
    tensor : Tensor
        On any device, of any shape and dtype.
    devices : iterable of device, str or int, optional
        CUDA devices. On the tensor's own one the result is the tensor itself.
    out : sequence of Tensor, optional
        Instead of ``devices``: CUDA tensors of the same shape to write to.

    Returns
    -------
    tuple of Tensor
        One for each device.

    Raises
    ------
    TypeError
        If ``tensor`` or one of ``out`` is not a Tensor.
    RuntimeError
        If not exactly one of ``devices`` and ``out`` is passed, or one of ``out`` is not on a CUDA device or has
        another shape.
    ValueError
        If ``devices`` is empty, or has one that is not a CUDA device.
    """
    _check_tensor(tensor, "broadcast")
    if (devices is None) is (out is None):
        raise RuntimeError(
            f"broadcast() expects exactly one of 'devices' and 'out', but got devices={devices} and out={out}"
        )
    if devices is not None:
        states = device_states(devices, "broadcast")
        if not tensor.is_cuda:
            return tuple([tensor.to(state.device, non_blocking=True) for state in states])
        return tuple([column[0] for column in broadcasted([tensor], states, BUFFER_SIZE)])
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
    """Copy several tensors to several devices, small ones packed together.

    >>> parameters = [tensor.ones(2, device="cuda:0"), tensor.zeros(1, device="cuda:0")]
    >>> copies = parallel.comm.broadcast_coalesced(parameters, [0, 1])
    >>> copies[1]  # those on device 1
    (tensor([1., 1.], device='cuda:1'), tensor([0.], device='cuda:1'))

    Parameters
    ----------
    tensors : sequence of Tensor
        All on the first of ``devices``.
    devices : iterable of device, str or int
        CUDA devices.
    buffer_size : int
        Bytes that are copied at a time at most, unless one tensor has more; 10 MiB by default.

    Returns
    -------
    tuple of tuple of Tensor
        For each device its copies. Those on the first one are the tensors themselves.

    Raises
    ------
    TypeError
        If one of ``tensors`` is not a Tensor.
    RuntimeError
        If a tensor is not on the first device, or ``buffer_size`` is not positive.
    ValueError
        If ``devices`` is empty, or has one that is not a CUDA device.
    """
    states = device_states(devices, "broadcast_coalesced")
    tensors = list(tensors)
    for number, each in enumerate(tensors):
        _check_cuda(each, "broadcast_coalesced", f"tensors[{number}]")
        if each._layout.device_state is not states[0]:
            raise RuntimeError(
                f"broadcast_coalesced() expects all tensors on devices[0], {states[0].device}, but tensors[{number}] is on "
                f"{each.device}"
            )
    _check_size(buffer_size, "broadcast_coalesced")
    return tuple([tuple(column) for column in broadcasted(tensors, states, buffer_size)])


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Sum of tensors of one shape from several devices.

    >>> x0, x1 = tensor.ones(2, device="cuda:0"), tensor.ones(2, device="cuda:1")
    >>> parallel.comm.reduce_add([x0, x1], destination=0)
    tensor([2., 2.], device='cuda:0')

    Parameters
    ----------
    inputs : sequence of Tensor
        CUDA tensors of one shape and dtype; one of them on the destination.
    destination : device, str or int, optional
        The sum's device; the current one by default.

    Returns
    -------
    Tensor
        The sum. Half precision accumulates in float32 and is rounded once. A single input is the result itself.

    Raises
    ------
    TypeError
        If an input is not a Tensor.
    RuntimeError
        If there are no inputs, one is not on a CUDA device, or none is on the destination.
    ValueError
        If shapes or dtypes differ.
    """
    summands = _summands(inputs, "reduce_add")
    state = device_state(destination)
    if not any(x._layout.device_state is state for x in summands):
        raise RuntimeError(
            f"reduce_add() expects one of the inputs on the destination {state.device}, but they are on "
            f"{', '.join(str(x.device) for x in summands)}"
        )
    return reduced([[x] for x in summands], state, None, BUFFER_SIZE)[0]


def reduce_add_coalesced(
    inputs: Iterable[Iterable[Tensor]], destination: Any = None, buffer_size: int = BUFFER_SIZE
) -> tuple[Tensor, ...]:
    """Sums of several tensors over several devices, small ones packed together.

    >>> on_0 = [tensor.ones(2, device="cuda:0"), tensor.zeros(1, device="cuda:0")]
    >>> on_1 = [tensor.ones(2, device="cuda:1"), tensor.ones(1, device="cuda:1")]
    >>> parallel.comm.reduce_add_coalesced([on_0, on_1], destination=1)
    (tensor([2., 2.], device='cuda:1'), tensor([1.], device='cuda:1'))

    Parameters
    ----------
    inputs : iterable of iterable of Tensor
        For each device its tensors; those at the same position are summed.
    destination : device, str or int, optional
        The sums' device; the current one by default.
    buffer_size : int
        Bytes that are copied at a time at most, unless one tensor has more; 10 MiB by default.

    Returns
    -------
    tuple of Tensor
        The sums; see :func:`reduce_add`.

    Raises
    ------
    TypeError
        If an input is not a Tensor.
    RuntimeError
        If one is not on a CUDA device, the tensors of one entry are on several devices, or ``buffer_size`` is not
        positive.
    ValueError
        If numbers of tensors, shapes or dtypes differ.
    """
    columns = [list(each) for each in inputs]
    state = device_state(destination)
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
            if x._layout.device_state is not column[0]._layout.device_state:
                raise RuntimeError(
                    f"reduce_add_coalesced() expects the tensors of inputs[{number}] on one device, but they are on "
                    f"{column[0].device} and {x.device}"
                )
    return tuple(reduced(columns, state, None, buffer_size))


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

    >>> first, second = parallel.comm.scatter(tensor.randn(5, 3), [0, 1])
    >>> first.shape, second.shape
    (tensor.Size([3, 3]), tensor.Size([2, 3]))

    Parameters
    ----------
    tensor : Tensor
        On any device, with at least one dimension. Pinned memory must not be written before the copies are done.
    devices : iterable of device, str or int, optional
        CUDA devices. On the tensor's own one a chunk is a view.
    chunk_sizes : sequence of int, optional
        Size of each device's chunk along ``dim``. By default all but the last have one size, and where there is too
        little for all devices, the last ones get none.
    dim : int
        Dimension that is divided.
    streams : sequence of Stream or None, optional
        Streams to copy on, for each chunk, None for the current one; the caller then waits for them. By default copies
        run beside the devices' other work, and the current streams wait for them.
    out : sequence of Tensor, optional
        Instead of ``devices``: CUDA tensors to write to, whose sizes along ``dim`` sum to the tensor's.

    Returns
    -------
    tuple of Tensor
        The chunks.

    Raises
    ------
    TypeError
        If ``tensor`` or one of ``out`` is not a Tensor.
    RuntimeError
        If not exactly one of ``devices`` and ``out`` is passed, ``tensor`` has no dimension, ``chunk_sizes`` are not one
        for each device or do not sum to the size of ``dim``, the shapes of ``out`` differ from the tensor's in another
        dimension, or there is not a stream for each chunk.
    ValueError
        If ``devices`` is empty, or has one that is not a CUDA device.
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
    states = device_states(devices, "scatter")
    size = tensor.size(at)
    if chunk_sizes is None:
        sizes = even_sizes(size, len(states))
        states = states[: len(sizes)]
    else:
        sizes = [int(each) for each in chunk_sizes]
        if len(sizes) != len(states) or sum(sizes) != size or min(sizes) < 0:
            raise RuntimeError(
                f"scatter() expects {len(states)} chunk_sizes, one for each device, that sum to {size}, the size of "
                f"dimension {at}, but got {sizes}"
            )
    if streams is not None and len(streams) < len(states):
        raise RuntimeError(
            f"scatter() expects a stream or None for each of {len(states)} chunks, got {len(streams)}"
        )
    return tuple(scattered(tensor, states, sizes, at, streams))


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
        chunk = step_through(tensor, dim, start, each.size(dim), 1)
        start += each.size(dim)
        stream = None if streams is None else streams[number]
        if stream is None:
            each.copy_(chunk, non_blocking=True)
        else:
            with stream:
                each.copy_(chunk, non_blocking=True)
    return tuple(out)


def gather(
    tensors: Iterable[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """Concatenate tensors from several devices on one.

    >>> y0, y1 = tensor.zeros(2, device="cuda:0"), tensor.ones(1, device="cuda:1")
    >>> parallel.comm.gather([y0, y1], destination="cpu")
    tensor([0., 0., 1.])

    Parameters
    ----------
    tensors : iterable of Tensor
        CUDA tensors, with at least one dimension, of one shape but for ``dim``.
    dim : int
        Dimension along which they are concatenated.
    destination : device, str or int, optional
        The result's device; the current one by default, ``"cpu"`` or -1 for the host.
    out : Tensor, optional
        Instead of ``destination``: a CUDA tensor to write to.

    Returns
    -------
    Tensor
        Of the first tensor's dtype.

    Raises
    ------
    TypeError
        If one of ``tensors``, or ``out``, is not a Tensor.
    RuntimeError
        If ``tensors`` is empty, one is on the CPU, has no dimension or differs from the first in another dimension than
        ``dim``, both ``destination`` and ``out`` are passed, or ``out`` is on the CPU or not of the result's shape.
    IndexError
        If the tensors have no dimension ``dim``.
    """
    sources = list(tensors)
    if not sources:
        raise RuntimeError("gather() expects at least one tensor, got an empty list")
    for number, x in enumerate(sources):
        _check_cuda(x, "gather", f"tensors[{number}]")
        if not x.dim():
            raise RuntimeError(
                f"gather() expects tensors with at least one dimension, but tensors[{number}] has none: unsqueeze it"
            )
    shape = list(sources[0].shape)
    at = dimension(dim, len(shape))
    for number, x in enumerate(sources):
        if x.dim() != len(shape) or [*x.shape[:at], *x.shape[at + 1 :]] != [*shape[:at], *shape[at + 1 :]]:
            raise RuntimeError(
                f"gather() expects tensors of one shape but for dimension {at}, but tensors[0] has shape {shape} and "
                f"tensors[{number}] {list(x.shape)}"
            )
    if out is None:
        return gathered(sources, at, destination_state(destination))
    if destination is not None:
        raise RuntimeError(
            f"gather() expects one of 'destination' and 'out', but got destination={destination} beside out"
        )
    _check_cuda(out, "gather", "out")
    expected = [*shape[:at], sum(x.size(at) for x in sources), *shape[at + 1 :]]
    if list(out.shape) != expected:
        raise RuntimeError(f"gather() expects out of shape {expected}, got {list(out.shape)}")
    return out.copy_(gathered(sources, at, out._layout.device_state))


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
    summands = list(inputs)
    if not summands:
        raise RuntimeError(f"{function}() expects at least one tensor, got an empty list")
    for number, x in enumerate(summands):
        _check_cuda(x, function, f"input {number}")
        if x.shape != summands[0].shape:
            raise ValueError(
                f"{function}(): input {number} has invalid size: got {list(x.shape)}, but expected {list(summands[0].shape)}"
            )
        if x.dtype is not summands[0].dtype:
            raise ValueError(
                f"{function}(): input {number} has another type: got {x.dtype}, but expected {summands[0].dtype}"
            )
    return summands


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
