"""``send``, ``recv`` and their asynchronous and batched forms."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .arguments import backend_for, check_tensor, group_rank, member_of
from .marshalling import Exchange, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.groups.process_groups import Group, ProcessGroup
    from parallel.groups.works import Work
    from tensor import Tensor


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send ``tensor`` to a rank without waiting; the tensor must not be changed before the work is done.

    >>> work = parallel.isend(x, dst=1)  # doctest: +SKIP
    >>> work.wait()  # doctest: +SKIP
    True

    Parameters
    ----------
    tensor : Tensor
        The tensor to send, of any shape, dtype and strides.
    dst, group_dst : int
        The receiver, by its number in the job, or in the group; exactly one is passed.
    group : ProcessGroup, optional
        All ranks by default.
    tag : int
        Matches a message with the receive of the same tag; not negative. NCCL ignores it: messages between two ranks
        arrive in the order in which they are sent.

    Returns
    -------
    Work or None
        The operation under way; None, with a warning, on a rank that is not in the group.

    Raises
    ------
    TypeError
        If ``tensor`` is not a Tensor.
    ValueError
        Before :func:`parallel.init_process_group`, if the receiver is missing, named twice, not in the group or this
        rank itself, and if ``tag`` is negative.
    RuntimeError
        If the group has no backend for the tensor's device.
    """
    check_tensor("isend", "tensor", tensor)
    process_group = member_of("isend", group)
    if process_group is None:
        return None
    to = _peer("isend", process_group, "dst", dst, group_dst)
    work = backend_for(process_group, tensor).send(read(tensor), to, _checked_tag(tag))
    work.outputs = [tensor]
    return work


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive ``tensor`` from a rank without waiting; the tensor must not be used before the work is done.

    >>> work = parallel.irecv(x)  # from any rank  # doctest: +SKIP
    >>> work.wait()  # doctest: +SKIP
    True
    >>> work.source_rank()  # in the group  # doctest: +SKIP
    1

    Parameters
    ----------
    tensor : Tensor
        The output, with as many elements of as many bytes as are sent.
    src, group_src : int, optional
        The sender, by its number in the job, or in the group; any rank by default, except with NCCL.
    group, tag
        See :func:`parallel.isend`.

    Returns
    -------
    Work or None
        See :func:`parallel.isend`; its ``source_rank()`` is the sender's rank in the group.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        See :func:`parallel.isend`. RuntimeError also if elements of ``tensor`` share memory, ValueError also if NCCL
        should receive from any rank.
    """
    check_tensor("irecv", "tensor", tensor, written=True)
    process_group = member_of("irecv", group)
    if process_group is None:
        return None
    source = None
    if src is not None or group_src is not None:
        source = _peer("irecv", process_group, "src", src, group_src)
    backend = backend_for(process_group, tensor)
    exchange = Exchange()
    work = backend.recv(exchange.filled(tensor), source, _checked_tag(tag))
    return exchange.finish(work, True)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send ``tensor`` to a rank, and return when it may be changed.

    >>> if parallel.get_rank() == 0:  # doctest: +SKIP
    ...     parallel.send(x, dst=1)
    ... else:
    ...     parallel.recv(x, src=0)

    Parameters
    ----------
    tensor, dst, group, tag, group_dst
        See :func:`parallel.isend`.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        See :func:`parallel.isend`.
    DistBackendError
        If the receiver died or did not come within the group's timeout.
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive ``tensor`` from a rank, by default from any, and return when it is there.

    Parameters
    ----------
    tensor, src, group, tag, group_src
        See :func:`parallel.irecv`.

    Returns
    -------
    int
        The sender's number in the job; -1 on ranks that are not in the group.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        See :func:`parallel.irecv`.
    DistBackendError
        If the sender died, did not send within the group's timeout, or sent another number of elements.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    process_group = member_of("recv", group)
    assert process_group is not None
    return process_group.global_rank(work.source_rank())


class P2POp:
    """One operation of :func:`parallel.batch_isend_irecv`.

    Parameters
    ----------
    op : function
        :func:`parallel.isend` or :func:`parallel.irecv`.
    tensor : Tensor
        The tensor to send, or the output.
    peer, group_peer : int
        The other rank, by its number in the job, or in the group; exactly one is passed.
    group, tag
        See :func:`parallel.isend`.

    Raises
    ------
    ValueError
        If ``op`` is another function.
    TypeError
        If ``tensor`` is not a Tensor.
    RuntimeError
        If ``op`` is ``irecv`` and elements of ``tensor`` share memory.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                f"Invalid ``op``. Expected ``op`` to be parallel.isend or parallel.irecv, got {op!r}"
            )
        check_tensor("P2POp", "tensor", tensor, written=op is irecv)
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer

    def __repr__(self) -> str:
        peer = f"peer={self.peer}" if self.group_peer is None else f"group_peer={self.group_peer}"
        return f"P2POp({self.op.__name__}, {list(self.tensor.shape)} {self.tensor.dtype}, {peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Queue several sends and receives so that none waits for another, as for a ring.

    >>> rank, size = parallel.get_rank(), parallel.get_world_size()  # doctest: +SKIP
    >>> works = parallel.batch_isend_irecv([  # doctest: +SKIP
    ...     parallel.P2POp(parallel.isend, x, (rank + 1) % size),
    ...     parallel.P2POp(parallel.irecv, y, (rank - 1) % size),
    ... ])
    >>> for work in works:  # doctest: +SKIP
    ...     work.wait()

    Parameters
    ----------
    p2p_op_list : list of P2POp
        Of one group, with tensors on one type of device.

    Returns
    -------
    list of Work
        One for each operation, or with NCCL for each peer; wait for all. Empty on a rank that is not in the group.

    Raises
    ------
    TypeError, ValueError
        If the list is empty, has something else in it, mixes groups or types of devices, or an operation's peer or
        tag is none; nothing was sent then.
    """
    for each in p2p_op_list:
        if not isinstance(each, P2POp):
            raise TypeError(f"batch_isend_irecv() takes a list of P2POp, not of {type(each).__name__}")
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv(): the list of operations is empty")
    first = p2p_op_list[0]
    if any(each.group is not first.group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    process_group = member_of("batch_isend_irecv", first.group)
    if process_group is None:
        return []
    device_type = first.tensor.device.type
    for each in p2p_op_list:
        _checked_tag(each.tag)
        if each.tensor.device.type != device_type:
            raise ValueError(
                f"batch_isend_irecv(): tensors are on {first.tensor.device} and {each.tensor.device}"
            )
    peers = [
        _peer("batch_isend_irecv", process_group, "peer", each.peer, each.group_peer) for each in p2p_op_list
    ]
    # NCCL's calls run on streams, where a send before a receive would wait for the other rank's receive.
    send_recv: Any = getattr(process_group.backend_of(device_type), "send_recv", None)
    if send_recv is None:
        separate = [
            each.op(each.tensor, group=first.group, tag=each.tag, **_named(each, peer))
            for each, peer in zip(p2p_op_list, peers, strict=True)
        ]
        return [each for each in separate if each is not None]
    exchange = Exchange()
    calls = [
        ("send", read(each.tensor), peer)
        if each.op is isend
        else ("recv", exchange.filled(each.tensor), peer)
        for each, peer in zip(p2p_op_list, peers, strict=True)
    ]
    works: list[Work] = send_recv(calls)
    exchange.add_copies_to(works)
    return works


def _named(operation: P2POp, peer: int) -> dict[str, int]:
    return {"group_dst" if operation.op is isend else "group_src": peer}


def _peer(function: str, group: ProcessGroup, name: str, rank: int | None, in_group: int | None) -> int:
    peer = group_rank(function, group, name, rank, in_group)
    if peer == group.rank():
        raise ValueError(
            f"{function}(): Invalid {name}: rank {group.global_rank(peer)} is this process itself, which keeps its "
            "tensors without sending them"
        )
    return peer


def _checked_tag(tag: int) -> int:
    checked = operator.index(tag)
    if checked < 0:
        raise ValueError(f"a tag is not negative, got {checked}")
    return checked
