"""``einsum``: sums of products as Einstein wrote them, worked out once for an equation and layouts.

Operands are arranged as batches of matrices, two at a time, with views where the strides allow.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels import layouts
from tensor.core.base import TensorBase, view_of
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import planned
from tensor.operations.autocast import LOWER, Autocast, lowered
from tensor.operations.definition import operation
from tensor.operations.shapes import slices, views

from .matrix_products import BMM, bmm, check_layouts, check_operands

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: The subscript of each number that a list has for one.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@operation(method=False, autocast=Autocast(cuda=LOWER))
def einsum(equation: Any = None, *operands: Any) -> Tensor:
    """Sums of products of elements, as Einstein wrote them: ``einsum("bij,bjk->bik", a, b)``.

    Parameters
    ----------
    equation
        A letter for each dimension of each operand. Without ``->`` the result has the letters that appear
        once, in alphabetical order; ``...`` stands for dimensions that broadcast.
    operands
        Tensors, one by one or as a sequence. Without a text as equation each tensor is followed by a list of
        numbers below 52 that stand for letters, and the result's list may come last.

    Raises
    ------
    ValueError
        If the equation or the operands are missing.
    RuntimeError
        If the equation cannot be parsed, does not name each dimension of the operands, or gives one letter two sizes;
        or if dtypes or devices differ.

    Examples
    --------
    >>> x = tensor.tensor([[1, 2], [3, 4]])
    >>> tensor.einsum("ij->ji", x)
    tensor([[1, 3],
            [2, 4]])
    >>> tensor.einsum("ij,j->i", x, tensor.tensor([1, 10]))
    tensor([21, 43])
    """
    if equation is None or not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(equation, TensorBase):
        equation, operands = _equation_of([equation, *operands])
    tensors = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    )
    if not tensors:
        raise RuntimeError("einsum(): must provide at least one operand")
    if len(tensors) > 1:
        # Products of matrices, whatever the equation says.
        tensors = list(lowered(*tensors))
    try:
        argument = [x._layout for x in tensors]
    except AttributeError:
        check_operands("einsum", *tensors)
        raise
    result: Tensor = argument[0].device_state.plans[_EINSUM, equation, *argument](*tensors)
    return result


Labels = list[str]


def _einsum_plan(equation: str, *argument: Layout) -> Callable[..., Tensor]:
    """How to add up products of tensors of given layouts, as an equation says; raises if they do not fit.

    ``device_state.plans[operation, equation, *layouts]``: ``run(*tensors)``.
    """
    check_layouts("einsum", *argument)
    names, result = _parse(equation, [x.shape for x in argument])

    def run(*tensors: Tensor) -> Tensor:
        arranged = [_arranged(x, labels) for x, labels in zip(tensors, names, strict=True)]
        value, labels = arranged[0]
        if len(arranged) == 1:
            value, labels = _summed(value, labels, set(result))
        for position, (x, other) in enumerate(arranged[1:], 1):
            later = set(result).union(*(set(ls) for _, ls in arranged[position + 1 :]))
            value, labels = _contract(value, labels, x, other, later)
        if not result:
            return value.reshape(())
        return views.permute(value, [labels.index(label) for label in result])

    direct = _direct(argument, names, result) if len(argument) == 2 else None
    if direct is None:
        return run
    multiply = direct

    def run_directly(a: Tensor, b: Tensor) -> Tensor:
        if modes.recording and (a._autograd is not None or b._autograd is not None):
            return run(a, b)
        return multiply(a, b)

    return run_directly


_EINSUM = planned(_einsum_plan)


def _direct(argument: Sequence[Layout], names: list[Labels], result: Labels) -> Callable[..., Tensor] | None:
    """One batch of products of matrices, which the operands are as they lie, not recorded; ``None`` if they are not."""
    a, b = argument
    la, lb = names
    every = set(result)
    if (
        len(set(la)) < len(la)
        or len(set(lb)) < len(lb)
        or set(la) - set(lb) - every
        or set(lb) - set(la) - every
    ):
        return None
    groups, sizes = _groups(la, a.shape, lb, b.shape, every)
    left = _as_matrices(a, la, groups.batch, groups.rows, groups.inner, sizes)
    right = _as_matrices(b, lb, groups.batch, groups.inner, groups.columns, sizes)
    if left is None or right is None or 0 in sizes.values():
        return None
    labels = [*groups.batch, *groups.rows, *groups.columns]
    flat = contiguous[tuple(sizes[label] for label in labels), a.dtype, a.device_state]
    order = [labels.index(label) for label in result]
    output = flat.with_strides(
        tuple(flat.shape[axis] for axis in order), tuple(flat.strides[axis] for axis in order)
    )
    multiply = a.device_state.plans[BMM, left, right]

    def run(a: Tensor, b: Tensor) -> Tensor:
        result = multiply(view_of(a._storage, left, a._offset), view_of(b._storage, right, b._offset))
        return view_of(result._storage, output, 0)

    return run


def _as_matrices(
    x: Layout, labels: Labels, batch: Labels, first: Labels, second: Labels, sizes: dict[str, int]
) -> Layout | None:
    """A view of elements whose dimensions have ``labels`` as ``(batch, first, second)``, or ``None``."""
    order = [labels.index(label) for label in (*batch, *first, *second)]
    sizes_in_order = tuple(sizes[labels[axis]] for axis in order)
    strides = layouts.broadcast_strides(
        tuple(x.shape[axis] for axis in order), tuple(x.strides[axis] for axis in order), sizes_in_order
    )
    shape = tuple(prod(sizes[label] for label in group) for group in (batch, first, second))
    result = layouts.view_strides(sizes_in_order, strides, shape)
    return None if result is None else x.with_strides(shape, tuple(result))


class _Groups(NamedTuple):
    """Labels of a product's dimensions by what becomes of them."""

    batch: Labels
    inner: Labels
    rows: Labels
    columns: Labels


def _groups(
    la: Labels, left: Sequence[int], lb: Labels, right: Sequence[int], later: set[str]
) -> tuple[_Groups, dict[str, int]]:
    """Of two operands, with the sizes of all dimensions; ``later`` are the labels that are not summed over."""
    sizes = dict(zip(la, left, strict=True))
    for label, size in zip(lb, right, strict=True):
        if label in sizes and sizes[label] != size and 1 not in (size, sizes[label]):
            raise RuntimeError(
                f"einsum(): operands do not broadcast with remapped shapes: size {sizes[label]} and {size} for {label}"
            )
        sizes[label] = max(sizes.get(label, 1), size) if size and sizes.get(label, 1) else 0
    shared = [label for label in la if label in lb]
    return _Groups(
        [label for label in shared if label in later],
        [label for label in shared if label not in later],
        [label for label in la if label not in shared],
        [label for label in lb if label not in shared],
    ), sizes


def _equation_of(argument: list[Any]) -> tuple[str, tuple[Any, ...]]:
    """Equation and operands of a call ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, with numbers for letters."""

    def letters(numbers: Sequence[Any]) -> str:
        result = ""
        for number in numbers:
            if number is Ellipsis:
                result += "..."
            elif isinstance(number, int) and 0 <= number < len(_LETTERS):
                result += _LETTERS[number]
            else:
                raise ValueError(
                    f"einsum(): subscripts in a list must be Ellipsis or in the range [0, 52), got {number!r}"
                )
        return result

    *pairs, tail = argument if len(argument) % 2 else [*argument, None]
    operands, lists = pairs[::2], pairs[1::2]
    equation = ",".join(letters(each) for each in lists)
    return equation if tail is None else f"{equation}->{letters(tail)}", tuple(operands)


def _parse(equation: str, shapes: Sequence[Sequence[int]]) -> tuple[list[Labels], Labels]:
    """Labels of the dimensions of every operand and of the result; broadcast ones are ``.0``, ``.1``, ..."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise RuntimeError(
            f"einsum(): {'more' if len(shapes) > len(terms) else 'fewer'} operands were provided ({len(shapes)}) "
            f"than specified in the equation ({len(terms)})"
        )
    value, longest = [], 0
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        rank = len(shape)
        before, dots, after = term.partition("...")
        letters = before + after
        if not all(letter.isalpha() and letter.isascii() for letter in letters):
            raise RuntimeError(
                f"einsum(): invalid subscript given in term {term!r}, subscripts must be in [a-zA-Z] or '...'"
            )
        spare = rank - len(letters)
        if spare < 0 or (spare and not dots):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(letters)}) does not match the number of "
                f"dimensions ({rank}) for operand {position}"
            )
        longest = max(longest, spare)
        value.append([*before, *(f".{spare - 1 - i}" for i in range(spare)), *after])
    stretched = [f".{longest - 1 - i}" for i in range(longest)]
    if arrow:
        before, dots, after = right.partition("...")
        result = [*before, *(stretched if dots else []), *after]
        known = {label for labels in value for label in labels}
        for label in [*before, *after]:
            if label not in known:
                raise RuntimeError(
                    f"einsum(): output subscript {label} does not appear in the equation for any input operand"
                )
            if result.count(label) > 1:
                raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
    else:
        flat = [label for labels in value for label in labels if not label.startswith(".")]
        result = [*stretched, *sorted(label for label in set(flat) if flat.count(label) == 1)]
    return value, result


def _arranged(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """Operand whose labels differ: of repeated ones the diagonal is taken."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            shape = x._layout.shape
            if shape[first] != shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for one operand but the sizes don't match, "
                    f"{shape[second]} != {shape[first]}"
                )
            x = slices.diagonal(x, 0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return x, labels


def _summed(x: Tensor, labels: Labels, remaining: set[str]) -> tuple[Tensor, Labels]:
    """``x`` without the dimensions that nothing else needs."""
    over = [dim for dim, label in enumerate(labels) if label not in remaining]
    if not over:
        return x, labels
    return x.sum(over), [label for label in labels if label in remaining]


def _contract(a: Tensor, la: Labels, b: Tensor, lb: Labels, later: set[str]) -> tuple[Tensor, Labels]:
    """Product of two operands, summed over what neither the result nor a later operand has."""
    a, la = _summed(a, la, later | set(lb))
    b, lb = _summed(b, lb, later | set(la))
    groups, sizes = _groups(la, a._layout.shape, lb, b._layout.shape, later)
    batch, inner, rows, columns = groups

    def matrices(x: Tensor, labels: Labels, first: Labels, second: Labels) -> Tensor:
        order = [*batch, *first, *second]
        moved = views.permute(x, [labels.index(label) for label in order])
        expanded = views.expand(moved, [sizes[label] for label in order])
        return expanded.reshape(*(prod(sizes[label] for label in group) for group in (batch, first, second)))

    result = bmm(matrices(a, la, rows, inner), matrices(b, lb, inner, columns))
    labels = [*batch, *rows, *columns]
    return result.reshape([sizes[label] for label in labels]), labels
