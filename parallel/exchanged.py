"""Tensors as they are given to collectives, and as backends take them: contiguous, flat, and of types that reduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensor as tensors
from tensor import Tensor
from tensor.core.copy_plans import check_no_overlap

from .reduce_op import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .works import Work

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
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def supports_complex(op: ReduceOp) -> bool:
    """Whether complex tensors can be reduced so: sums and means alone."""
    return op in (ReduceOp.SUM, ReduceOp.AVG)


def check_op(function: str, op: ReduceOp, dtype: tensors.dtype) -> None:
    """Check that elements of ``dtype`` can be combined with ``op``.

    Raises
    ------
    TypeError
        For what is no ReduceOp.
    ValueError
        If they cannot.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{function}(): op is a parallel.ReduceOp, not {op!r}")
    if dtype.is_complex and not supports_complex(op):
        raise ValueError(f"{function} does not support {op} on complex tensors: only SUM and AVG")
    if op in _BITWISE and dtype.is_floating_point:
        raise ValueError(f"{function}: Cannot use {op} with non-integral dtype {dtype}")
    if op is ReduceOp.AVG and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"{function}: {op} is for floating point and complex tensors, not for {dtype}: use SUM and divide"
        )


def check_tensor(function: str, name: str, given: Tensor, *, written: bool = False) -> None:
    """Check that an argument is a tensor, and one that can be ``written``.

    Raises
    ------
    TypeError
        If it is none.
    RuntimeError
        If it is written and its elements share memory.
    """
    if not isinstance(given, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of {function}() of type Tensor but got "
            f"{type(given)} instead."
        )
    if written:
        check_no_overlap(given._layout)


def check_list(
    function: str, name: str, given: Sequence[Tensor], like: Tensor, size: int, *, written: bool = False
) -> None:
    """Check that an argument is a list of one tensor for each of ``size`` ranks, of the kind of ``like``.

    Raises
    ------
    TypeError, ValueError
        If it is not; shapes are not looked at.
    """
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of {function}() of type list[Tensor] but got "
            f"{type(given)} instead."
        )
    for index, each in enumerate(given):
        check_tensor(function, f"{name}[{index}]", each, written=written)
    if len(given) != size:
        raise ValueError(f"{function}(): {name} has {len(given)} tensors, and the group {size} ranks")
    for index, each in enumerate(given):
        check_kind(function, f"{name}[{index}]", each, like)


def check_kind(function: str, name: str, given: Tensor, like: Tensor) -> None:
    """Check that two tensors have one dtype and one device.

    Raises
    ------
    ValueError
        If they have not.
    """
    if given.dtype is not like.dtype:
        raise ValueError(
            f"Invalid usage of tensors with different dtypes: {function}() was given {like.dtype}, and {name} is "
            f"{given.dtype}"
        )
    if given.device != like.device:
        raise ValueError(
            f"{function}(): all tensors are on one device, got {like.device}, and {name} is on {given.device}"
        )


def check_shapes(function: str, name: str, given: Sequence[Tensor], shape: Sequence[int]) -> None:
    """Check that all tensors of a list have one shape.

    Raises
    ------
    ValueError
        If one has not.
    """
    for index, each in enumerate(given):
        if tuple(each.shape) != tuple(shape):
            raise ValueError(
                f"{function}(): invalid tensor size at index {index} of {name} (expected {tuple(shape)}, got "
                f"{tuple(each.shape)})"
            )


def reducible(given: Tensor, op: ReduceOp) -> tuple[Tensor, ReduceOp]:
    """A contiguous tensor as backends reduce it: complex numbers as pairs, bools as bytes."""
    if given.dtype.is_complex:
        return tensors.view_as_real(given), op
    if given.dtype is tensors.bool:
        return given.view(dtype=tensors.uint8), _OF_BOOLS[op]
    return given, op


def read(given: Tensor) -> Tensor:
    """A tensor's elements contiguously: its own memory, or a copy."""
    with tensors.no_grad():
        return given.detach().contiguous()


class Exchange:
    """The tensors of one operation, and what is left to do with them once it is done."""

    def __init__(self) -> None:
        self._written: list[Tensor] = []
        self._copies: list[tuple[Tensor, Tensor]] = []

    def filled(self, given: Tensor) -> Tensor:
        """A contiguous tensor that becomes ``given``'s elements."""
        self._written.append(given)
        if given.is_contiguous():
            return given.detach()
        made = tensors.empty(given.shape, dtype=given.dtype, device=given.device)
        self._copies.append((given, made))
        return made

    def updated(self, given: Tensor) -> Tensor:
        """As :meth:`filled`, with ``given``'s elements in it."""
        made = self.filled(given)
        if made._storage is not given._storage:
            with tensors.no_grad():
                made.copy_(given)
        return made

    def filled_list(self, given: Sequence[Tensor]) -> Tensor:
        """A flat tensor whose chunks become the tensors of a list: theirs, where they lie one after another."""
        self._written += given
        found = _joined(given)
        if found is not None:
            return found
        first = given[0]
        flat = tensors.empty(sum(each.numel() for each in given), dtype=first.dtype, device=first.device)
        start = 0
        for each in given:
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
        """As :meth:`finish`, of an operation with several works: each copies what it filled."""
        targets = {id(made): (given, made) for given, made in self._copies}
        for work in works:
            copies = [targets[id(each)] for each in work.outputs if id(each) in targets]
            work.outputs = [targets[id(each)][0] if id(each) in targets else each for each in work.outputs]
            if copies:
                work.add_step(_copying(copies))


def read_list(given: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors one after another: their own memory, where they lie so, or a copy."""
    found = _joined(given)
    if found is not None:
        return found
    with tensors.no_grad():
        return tensors.cat([each.detach().reshape(-1) for each in given])


def _copying(copies: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    def copy() -> None:
        with tensors.no_grad():
            for target, source in copies:
                target.detach().copy_(source)
                if target.is_cuda:
                    # The stream is the group's, for which the memory was not allocated.
                    target.record_stream(tensors.cuda.current_stream(target.device))

    return copy


def _joined(given: Sequence[Tensor]) -> Tensor | None:
    """One flat tensor over the memory of contiguous tensors that lie one after another."""
    first = given[0]
    end = first._offset
    for each in given:
        if each._storage is not first._storage or each._offset != end or not each.is_contiguous():
            return None
        end += each.numel() * each.element_size()
    total = sum(each.numel() for each in given)
    return first.detach().as_strided((total,), (1,), first.storage_offset())
