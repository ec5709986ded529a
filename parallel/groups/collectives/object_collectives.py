"""Collectives on Python objects, which travel as pickles.

Reading a pickle can run any code its sender chose: use them among ranks that trust each other, as the ranks of
one job do. Objects that hold CUDA tensors travel by way of host memory.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

import tensor as tensors
from tensor import Tensor

from .arguments import group_rank, member_of
from .point_to_point import recv, send
from .tensor_collectives import all_gather_into_tensor, broadcast, gather, scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parallel.groups.process_groups import Group, ProcessGroup

    Device = tensors.device | str | int | None


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Fill ``object_list`` on every rank with the objects of all ranks.

    Objects travel as pickles, and reading a pickle can run any code that its sender chose: use this and the other
    object collectives only among ranks that trust each other. The objects that come back are copies.

    >>> results = [None] * parallel.get_world_size()
    >>> parallel.all_gather_object(results, {"rank": parallel.get_rank()})
    >>> results[0]
    {'rank': 0}

    Parameters
    ----------
    object_list : list
        The output, as long as the group has ranks; it is overwritten.
    obj
        This rank's object, which can be pickled.
    group : ProcessGroup, optional
        All ranks by default. On a rank that is not in it, nothing is done but to warn.

    Raises
    ------
    ValueError
        If the list has another length, and before :func:`parallel.init_process_group`.
    DistBackendError
        If a rank died or did not come within the group's timeout.
    """
    process_group = member_of("all_gather_object", group)
    if process_group is None:
        return
    size = process_group.size()
    _check_length("all_gather_object", "object_list", object_list, size)
    device = _device(process_group, None)
    data = _pickled(obj)
    lengths = _all_lengths(len(data), process_group, device)
    longest = max(lengths)
    flat = tensors.empty((size, longest), dtype=tensors.uint8, device=device)
    all_gather_into_tensor(flat, _padded(data, longest, device), group=group)
    object_list[:] = _objects(flat, lengths)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Fill ``object_gather_list`` on rank ``dst`` with the objects of all ranks.

    Parameters
    ----------
    obj
        This rank's object, which can be pickled.
    object_gather_list : list, optional
        The output, on rank ``dst`` alone: as long as the group has ranks; it is overwritten.
    dst, group_dst : int, optional
        The rank that gets the objects, by its number in the job, or in the group; the group's first by default.
    group
        See :func:`parallel.all_gather_object`.

    Raises
    ------
    ValueError, DistBackendError
        See :func:`parallel.all_gather_object`. ValueError also if the list is missing on ``dst`` or passed elsewhere.
    """
    process_group = member_of("gather_object", group)
    if process_group is None:
        return
    to = group_rank("gather_object", process_group, "dst", dst, group_dst, default=0)
    receives = process_group.rank() == to
    if receives and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if not receives and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    size = process_group.size()
    if object_gather_list:
        _check_length("gather_object", "object_gather_list", object_gather_list, size)
    device = _device(process_group, None)
    data = _pickled(obj)
    lengths = _all_lengths(len(data), process_group, device)
    longest = max(lengths)
    flat = tensors.empty((size, longest), dtype=tensors.uint8, device=device) if receives else None
    chunks = None if flat is None else list(flat.unbind(0))
    gather(_padded(data, longest, device), chunks, group_dst=to, group=group)
    if flat is not None and object_gather_list is not None:
        object_gather_list[:] = _objects(flat, lengths)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Device = None,
    group_src: int | None = None,
) -> None:
    """Replace the objects of ``object_list`` on every rank by those of rank ``src``.

    >>> config = [{"depth": 12}] if parallel.get_rank() == 0 else [None]
    >>> parallel.broadcast_object_list(config, src=0)
    >>> config  # on every rank
    [{'depth': 12}]

    Parameters
    ----------
    object_list : list
        Input on rank ``src`` and output on the others, of one length on all ranks.
    src, group_src : int, optional
        The rank whose objects are sent, by its number in the job, or in the group; the group's first by default.
    device : device, optional
        Device of the buffers that are sent; the CPU by default, for NCCL the current GPU.
    group
        See :func:`parallel.all_gather_object`.

    Raises
    ------
    ValueError, DistBackendError
        See :func:`parallel.all_gather_object`.
    """
    process_group = member_of("broadcast_object_list", group)
    if process_group is None:
        return
    source = group_rank("broadcast_object_list", process_group, "src", src, group_src, default=0)
    where = _device(process_group, device)
    sends = process_group.rank() == source
    data = [_pickled(each) for each in object_list] if sends else []
    lengths = tensors.empty(len(object_list), dtype=tensors.int64, device=where)
    if sends:
        lengths.copy_(tensors.tensor([len(each) for each in data], dtype=tensors.int64))
    broadcast(lengths, group_src=source, group=group)
    sizes = lengths.tolist()
    flat = tensors.empty(sum(sizes), dtype=tensors.uint8, device=where)
    if sends:
        flat.copy_(_bytes(b"".join(data)))
    broadcast(flat, group_src=source, group=group)
    if not sends:
        object_list[:] = _split(flat, sizes)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Send each rank one of the objects that rank ``src`` has.

    >>> output = [None]  # doctest: +SKIP
    >>> parallel.scatter_object_list(output, ["a", "b"] if parallel.get_rank() == 0 else None)  # doctest: +SKIP

    Parameters
    ----------
    scatter_object_output_list : list
        Not empty; this rank's object becomes its first element.
    scatter_object_input_list : list, optional
        The input, on rank ``src`` alone: one object for each rank of the group.
    src, group_src : int, optional
        The rank that sends, by its number in the job, or in the group; the group's first by default.
    group
        See :func:`parallel.all_gather_object`.

    Raises
    ------
    ValueError, DistBackendError
        See :func:`parallel.all_gather_object`. ValueError also if the output is not a list with an element,
        or the input is missing on ``src``.
    """
    process_group = member_of("scatter_object_list", group)
    if process_group is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    source = group_rank("scatter_object_list", process_group, "src", src, group_src, default=0)
    sends = process_group.rank() == source
    size = process_group.size()
    data: list[bytes] = []
    if sends:
        if scatter_object_input_list is None:
            raise ValueError("Argument ``scatter_object_input_list`` must be specified on source rank.")
        _check_length("scatter_object_list", "scatter_object_input_list", scatter_object_input_list, size)
        data = [_pickled(each) for each in scatter_object_input_list]
    device = _device(process_group, None)
    lengths = tensors.empty(size, dtype=tensors.int64, device=device)
    if sends:
        lengths.copy_(tensors.tensor([len(each) for each in data], dtype=tensors.int64))
    broadcast(lengths, group_src=source, group=group)
    sizes = lengths.tolist()
    longest = max(sizes)
    output = tensors.empty(longest, dtype=tensors.uint8, device=device)
    chunks = [_padded(each, longest, device) for each in data] if sends else None
    scatter(output, chunks, group_src=source, group=group)
    length = sizes[process_group.rank()]
    scatter_object_output_list[0] = _split(output[:length], [length])[0]


def send_object_list(
    object_list: Sequence[Any],
    dst: int | None = None,
    group: Group = None,
    device: Device = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a rank, which calls :func:`parallel.recv_object_list` with a list of the same length.

    Parameters
    ----------
    object_list : list
        The objects, which can be pickled.
    dst, group_dst : int
        The receiver, by its number in the job, or in the group; exactly one is passed.
    device
        See :func:`parallel.broadcast_object_list`.
    use_batch : bool
        Accepted for compatibility.
    group
        See :func:`parallel.all_gather_object`.

    Raises
    ------
    ValueError, DistBackendError
        See :func:`parallel.send`.
    """
    process_group = member_of("send_object_list", group)
    if process_group is None:
        return
    to = group_rank("send_object_list", process_group, "dst", dst, group_dst)
    where = _device(process_group, device)
    data = [_pickled(each) for each in object_list]
    lengths = tensors.tensor([len(each) for each in data], dtype=tensors.int64, device=where)
    send(lengths, group_dst=to, group=group)
    send(_bytes(b"".join(data)).to(where), group_dst=to, group=group)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Device = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Fill ``object_list`` with what a rank sends with :func:`parallel.send_object_list`.

    Parameters
    ----------
    object_list : list
        The output, as long as the sender's; it is overwritten.
    src, group_src : int, optional
        The sender, by its number in the job, or in the group; any rank by default, except with NCCL.
    device, use_batch, group
        See :func:`parallel.send_object_list`.

    Returns
    -------
    int
        The sender's number in the job; -1 on ranks that are not in the group.

    Raises
    ------
    ValueError, DistBackendError
        See :func:`parallel.recv`.
    """
    process_group = member_of("recv_object_list", group)
    if process_group is None:
        return -1
    where = _device(process_group, device)
    lengths = tensors.empty(len(object_list), dtype=tensors.int64, device=where)
    sender = recv(lengths, src, group=group, group_src=group_src)
    sizes = lengths.tolist()
    flat = tensors.empty(sum(sizes), dtype=tensors.uint8, device=where)
    recv(flat, sender, group=group)
    object_list[:] = _split(flat, sizes)
    return sender


def _device(group: ProcessGroup, device: Device) -> tensors.device:
    """Device of the buffers that are sent."""
    if device is not None:
        return tensors.device(device)
    if "cpu" in group.backend_names:
        return tensors.device("cpu")
    return group.bound_device_id or tensors.device("cuda", tensors.cuda.current_device())


def _pickled(obj: Any) -> bytes:
    return pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)


def _bytes(data: bytes) -> Tensor:
    return tensors.from_numpy(np.frombuffer(bytearray(data), np.uint8))


def _padded(data: bytes, length: int, device: tensors.device) -> Tensor:
    return _bytes(data.ljust(length, b"\0")).to(device)


def _all_lengths(length: int, group: ProcessGroup, device: tensors.device) -> list[int]:
    gathered = tensors.empty(group.size(), dtype=tensors.int64, device=device)
    all_gather_into_tensor(
        gathered, tensors.tensor([length], dtype=tensors.int64, device=device), group=group
    )
    lengths: list[int] = gathered.tolist()
    return lengths


def _objects(flat: Tensor, lengths: Sequence[int]) -> list[Any]:
    """Objects whose pickles are rows, each as long as ``lengths`` says."""
    rows = flat.cpu().numpy()
    return [pickle.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]


def _split(flat: Tensor, lengths: Sequence[int]) -> list[Any]:
    """Objects whose pickles follow each other in ``flat``."""
    data = memoryview(flat.cpu().numpy().tobytes())
    objects, start = [], 0
    for length in lengths:
        objects.append(pickle.loads(data[start : start + length]))
        start += length
    return objects


def _check_length(function: str, name: str, objects: Sequence[Any], size: int) -> None:
    if len(objects) != size:
        raise ValueError(f"{function}(): {name} has {len(objects)} places, and the group {size} ranks")
