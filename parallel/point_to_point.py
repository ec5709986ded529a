"""``send``, ``recv`` and their asynchronous and batched forms."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .exchanged import Exchange, check_tensor, read
from .group_arguments import backend_for, group_rank, member_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor import Tensor

    from .process_groups import Group, ProcessGroup
    from .works import Work


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send ``tensor`` to a rank, and return a work; the tensor must not be changed before that is done.

    Parameters
    ----------
    tensor : Tensor
        What to send; strided in any way.
    dst, group_dst : int
        The receiver's number in the job, or in the group.
    group : ProcessGroup, optional
        All ranks by default. On a rank that is not in it, nothing is done and None is returned.
    tag : int
        The receiver gives the same one, which is not negative. NCCL has none: messages of two ranks come in order.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not fit; nothing was sent then.
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
    """Receive ``tensor`` from a rank, and return a work, whose ``source_rank()`` says which of the group it was.

    Parameters
    ----------
    tensor : Tensor
        What to fill, of as many elements as are sent.
    src, group_src : int, optional
        The sender's number in the job, or in the group; any rank by default, except with NCCL.
    group, tag
        See :func:`isend`, also for errors.
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
    """Send ``tensor`` to a rank, and return when it may be changed. See :func:`isend`.

    Raises
    ------
    DistBackendError
        If the receiver died or did not come in time.
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
    """Receive ``tensor`` from a rank, by default from any. See :func:`irecv`.

    Returns
    -------
    int
        The sender's number in the job; -1 on ranks that are not in the group.

    Raises
    ------
    DistBackendError
        If the sender died, did not come in time, or sent something else.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    process_group = member_of("recv", group)
    assert process_group is not None
    return process_group.global_rank(work.source_rank())


class P2POp:
    """One operation of :func:`batch_isend_irecv`.

    Parameters
    ----------
    op : function
        :func:`isend` or :func:`irecv`.
    tensor : Tensor
        What is sent or received.
    peer, group_peer : int
        The other rank's number in the job, or in the group.
    group, tag
        See :func:`isend`.

    Raises
    ------
    ValueError
        If ``op`` is another function.
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
    """Queue several sends and receives so that none waits for another.

    Parameters
    ----------
    p2p_op_list : list of P2POp
        Of one group.

    Returns
    -------
    list of Work
        One for each operation, or with NCCL for each peer; wait for all.

    Raises
    ------
    TypeError, ValueError
        If an operation does not fit; nothing was sent then.
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
    kind = first.tensor.device.type
    for each in p2p_op_list:
        _checked_tag(each.tag)
        if each.tensor.device.type != kind:
            raise ValueError(
                f"batch_isend_irecv(): tensors are on {first.tensor.device} and {each.tensor.device}"
            )
    peers = [
        _peer("batch_isend_irecv", process_group, "peer", each.peer, each.group_peer) for each in p2p_op_list
    ]
    # NCCL's calls run on streams, where a send before a receive would wait for the other rank's receive.
    together: Any = getattr(process_group.backend_of(kind), "send_recv", None)
    if together is None:
        works = [
            each.op(each.tensor, group=first.group, tag=each.tag, **_named(each, peer))
            for each, peer in zip(p2p_op_list, peers, strict=True)
        ]
        return [each for each in works if each is not None]
    exchange = Exchange()
    given = [
        ("send", read(each.tensor), peer)
        if each.op is isend
        else ("recv", exchange.filled(each.tensor), peer)
        for each, peer in zip(p2p_op_list, peers, strict=True)
    ]
    made: list[Work] = together(given)
    exchange.add_copies_to(made)
    return made


def _named(operation: P2POp, peer: int) -> dict[str, int]:
    return {"group_dst" if operation.op is isend else "group_src": peer}


def _peer(function: str, group: ProcessGroup, name: str, rank: int | None, in_group: int | None) -> int:
    found = group_rank(function, group, name, rank, in_group)
    if found == group.rank():
        raise ValueError(
            f"{function}(): Invalid {name}: rank {group.global_rank(found)} is this process itself, which keeps its "
            "tensors without sending them"
        )
    return found


def _checked_tag(tag: int) -> int:
    found = operator.index(tag)
    if found < 0:
        raise ValueError(f"a tag is not negative, got {found}")
    return found
