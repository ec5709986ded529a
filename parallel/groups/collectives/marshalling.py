"""Tensors marshalled for backends: contiguous, flat, and of dtypes that reduce; results copied back to the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensor as tensors
from parallel.groups.reduce_op import ReduceOp
from tensor import Tensor
from tensor.core.plans import not_implemented

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.groups.works import Work

#: What the values of bools, as bytes of 0 and 1, are combined with.
_OF_BOOLS = {
    ReduceOp.SUM: ReduceOp.MAX,
    ReduceOp.MAX: ReduceOp.MAX,
    ReduceOp.BOR: ReduceOp.MAX,
    ReduceOp.PRODUCT: ReduceOp.MIN,
    ReduceOp.MIN: ReduceOp.MIN,
    ReduceOp.BAND: ReduceOp.MIN,
    ReduceOp.BXOR: ReduceOp.BXOR,
}


def reducible(tensor: Tensor, op: ReduceOp) -> tuple[Tensor, ReduceOp]:
    """A contiguous tensor as backends reduce it: complex numbers as pairs, bools as bytes.

    Raises
    ------
    NotImplementedError
        For a dtype whose elements are only stored: nobody adds them up.
    """
    if tensor.dtype.is_storage_only:
        raise not_implemented(f"ReduceOp.{op.name}", tensor.dtype)
    if tensor.dtype.is_complex:
        return tensors.view_as_real(tensor), op
    if tensor.dtype is tensors.bool:
        return tensor.view(dtype=tensors.uint8), _OF_BOOLS[op]
    return tensor, op


def read(tensor: Tensor) -> Tensor:
    """A tensor's elements contiguously: its own memory, or a copy."""
    with tensors.no_grad():
        return tensor.detach().contiguous()


class Exchange:
    """The tensors of one operation, and what is left to do with them once it is done."""

    def __init__(self) -> None:
        self._written: list[Tensor] = []
        self._copies: list[tuple[Tensor, Tensor]] = []

    def filled(self, output: Tensor) -> Tensor:
        """A contiguous tensor for the result, copied to ``output`` at the end; or ``output`` itself."""
        self._written.append(output)
        if output.is_contiguous():
            return output.detach()
        contiguous = tensors.empty(output.shape, dtype=output.dtype, device=output.device)
        self._copies.append((output, contiguous))
        return contiguous

    def updated(self, output: Tensor) -> Tensor:
        """As :meth:`filled`, with ``output``'s elements in it."""
        contiguous = self.filled(output)
        if contiguous._storage is not output._storage:
            with tensors.no_grad():
                contiguous.copy_(output)
        return contiguous

    def filled_list(self, outputs: Sequence[Tensor]) -> Tensor:
        """A flat tensor whose chunks become the tensors of a list: their own memory, where it is contiguous."""
        self._written += outputs
        joined = _joined(outputs)
        if joined is not None:
            return joined
        first = outputs[0]
        flat = tensors.empty(sum(each.numel() for each in outputs), dtype=first.dtype, device=first.device)
        start = 0
        for each in outputs:
            chunk = flat[start : start + each.numel()].view(each.shape)
            self._copies.append((each, chunk))
            start += each.numel()
        return flat

    def finish(self, work: Work, async_op: bool) -> Work | None:
        """What the operation's function returns: its work, or None once it is done."""
        work.outputs = self._written
        if self._copies:
            work.add_step(_copying(self._copies))
        if async_op:
            return work
        work.wait()
        return None

    def add_copies_to(self, works: Sequence[Work]) -> None:
        """As :meth:`finish`, for an operation with several works: each copies the outputs that it filled."""
        targets = {id(contiguous): (output, contiguous) for output, contiguous in self._copies}
        for work in works:
            copies = [targets[id(each)] for each in work.outputs if id(each) in targets]
            work.outputs = [targets[id(each)][0] if id(each) in targets else each for each in work.outputs]
            if copies:
                work.add_step(_copying(copies))


def read_list(inputs: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors one after another: their own memory, where it is contiguous, or a copy."""
    joined = _joined(inputs)
    if joined is not None:
        return joined
    with tensors.no_grad():
        return tensors.cat([each.detach().reshape(-1) for each in inputs])


def _copying(copies: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    def copy() -> None:
        with tensors.no_grad():
            for target, source in copies:
                target.detach().copy_(source)
                if target.is_cuda:
                    # The stream is the group's, for which the memory was not allocated.
                    target.record_stream(tensors.cuda.current_stream(target.device))

    return copy


def _joined(pieces: Sequence[Tensor]) -> Tensor | None:
    """One flat tensor over the memory of contiguous tensors that follow each other in it; None if they do not."""
    first = pieces[0]
    end = first._offset
    for each in pieces:
        if each._storage is not first._storage or each._offset != end or not each.is_contiguous():
            return None
        end += each.numel() * each.element_size()
    total = sum(each.numel() for each in pieces)
    return first.detach().as_strided((total,), (1,), first.storage_offset())
