"""Sums of products over chosen dimensions: ``matmul``, ``einsum``, ``tensordot`` and their like.

All of them arrange their operands as batches of matrices, with views where the strides allow, and multiply
those; see :mod:`tensor.products`.
"""

from __future__ import annotations

from math import prod
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts

from . import parts, views
from .arguments import dimension, dimensions
from .autocasting import autocasted, bare, lowered
from .base import TensorBase
from .diagonals import diagonal_scatter
from .operations.reduction import record
from .products import _delivered, bmm, check_layouts, check_operands, dot, layouts_of, mm, mv
from .recording.modes import modes
from .recording.node import Node, attach
from .recording.saved import freed, restore, save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tensors import Tensor


#: For ``matmul``, which has cast its operands.
_MM = bare(mm)


@autocasted
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions; dimensions before them broadcast.

    A vector counts as a row on the left and as a column on the right, and its dimension goes.

    Raises
    ------
    RuntimeError
        For 0-dim tensors, and where shapes, dtypes or devices do not fit.
    """
    left, right = layouts_of("matmul", input, other)
    if len(left.shape) == 2 == len(right.shape):
        return _MM(input, other, out=out)
    check_layouts("matmul", left, right)
    return _delivered(_matmul(input, other), out)


def _matmul(input: Tensor, other: Tensor) -> Tensor:
    left, right = input._layout.shape, other._layout.shape
    if not left or not right:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(left)}D and {len(right)}D"
        )
    if len(right) == 1:
        if len(left) == 1:
            return dot(input, other)
        if len(left) == 2:
            return mv(input, other)
    if len(left) == 2 and len(right) == 2:
        return mm(input, other)
    if len(left) == 1:
        return views.squeeze(_matmul(views.unsqueeze(input, 0), other), -2)
    if len(right) == 1:
        return views.squeeze(_matmul(input, views.unsqueeze(other, 1)), -1)
    rows, inner, columns = left[-2], left[-1], right[-1]
    if inner != right[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({prod(left[:-1])}x{inner} and {right[-2]}x{columns}) "
            f"(matmul of {list(left)} and {list(right)})"
        )
    if len(right) == 2:
        # One product of a tall matrix instead of a batch of small ones.
        return mm(input.reshape(-1, inner), other).reshape(*left[:-1], columns)
    batch = layouts.broadcast_shapes(left[:-2], right[:-2])
    count = prod(batch)
    a = views.expand(input, (*batch, rows, inner)).reshape(count, rows, inner)
    b = views.expand(other, (*batch, inner, columns)).reshape(count, inner, columns)
    return bmm(a, b).reshape(*batch, rows, columns)


def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimensions of both; a plain product where one is 0-dim."""
    left, right = input._layout.shape, other._layout.shape
    if not left or not right:
        return _delivered(input * other, out)
    if left[-1] != right[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(left)} and {list(right)}"
        )
    found = dot(input, other) if len(left) == len(right) == 1 else tensordot(input, other, ([-1], [-1]))
    return _delivered(found, out)


def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of elements of two vectors: ``(n,)`` and ``(m,)`` give ``(n, m)``.

    Raises
    ------
    RuntimeError
        If they are no vectors.
    """
    for position, x in enumerate((input, vec2)):
        if len(x._layout.shape) != 1:
            raise RuntimeError(
                f"outer: Expected 1-D argument {('self', 'vec2')[position]}, but got {len(x._layout.shape)}-D"
            )
    return _delivered(views.unsqueeze(input, 1) * vec2, out)


@autocasted
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over pairs of dimensions.

    Parameters
    ----------
    dims
        A number: so many last dimensions of ``a`` with as many first ones of ``b``. Or two lists of
        dimensions that belong together.

    Raises
    ------
    RuntimeError
        If sizes of a pair differ, or the lists do.
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(len(a._layout.shape), len(b._layout.shape)):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}, tensors with shapes "
                f"{list(a._layout.shape)} and {list(b._layout.shape)}"
            )
        pairs: tuple[Sequence[int], Sequence[int]] = (range(-dims, 0), range(dims))
    else:
        first, second = dims
        pairs = ([first], [second]) if isinstance(first, int) else (first, second)
    left, right = a._layout.shape, b._layout.shape
    if len(pairs[0]) != len(pairs[1]):
        raise RuntimeError(
            f"both dimension lists should have same length, got {list(pairs[0])} and {list(pairs[1])}"
        )
    over_a, over_b = (
        dimensions(pairs[0], len(left), "tensordot"),
        dimensions(pairs[1], len(right), "tensordot"),
    )
    for i, j in zip(over_a, over_b, strict=True):
        if left[i] != right[j] and 1 not in (left[i], right[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {left[i]} in dim {i} and second has size "
                f"{right[j]} in dim {j}"
            )
    # A size of 1 is stretched: the other tensor's dimension is summed.
    alone_a = [i for i, j in zip(over_a, over_b, strict=True) if right[j] == 1 != left[i]]
    alone_b = [j for i, j in zip(over_a, over_b, strict=True) if left[i] == 1 != right[j]]
    a = a.sum(alone_a, keepdim=True) if alone_a else a
    b = b.sum(alone_b, keepdim=True) if alone_b else b
    left, right = a._layout.shape, b._layout.shape
    kept_a = [i for i in range(len(left)) if i not in over_a]
    kept_b = [j for j in range(len(right)) if j not in over_b]
    inner = prod(left[i] for i in over_a)
    rows = prod(left[i] for i in kept_a)
    columns = prod(right[j] for j in kept_b)
    found = mm(
        views.permute(a, (*kept_a, *over_a)).reshape(rows, inner),
        views.permute(b, (*over_b, *kept_b)).reshape(inner, columns),
    )
    shape = (*(left[i] for i in kept_a), *(right[j] for j in kept_b))
    return _delivered(found.reshape(shape), out)


def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: each element of ``input`` times all of ``other``, in its place."""
    rank = max(len(input._layout.shape), len(other._layout.shape))
    left = (1,) * (rank - len(input._layout.shape)) + tuple(input._layout.shape)
    right = (1,) * (rank - len(other._layout.shape)) + tuple(other._layout.shape)
    a = input.reshape([size for pair in left for size in (pair, 1)])
    b = other.reshape([size for pair in right for size in (1, pair)])
    shape = [x * y for x, y in zip(left, right, strict=True)]
    return _delivered((a * b).reshape(shape), out)


@autocasted
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
        If they do not fit.
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
    check_operands("einsum", *tensors)
    names, result = _parse(equation, tensors)
    arranged = [_arranged(x, labels) for x, labels in zip(tensors, names, strict=True)]
    found, labels = arranged[0]
    if len(arranged) == 1:
        found, labels = _summed(found, labels, set(result))
    for position, (x, other) in enumerate(arranged[1:], 1):
        later = set(result).union(*(set(ls) for _, ls in arranged[position + 1 :]))
        found, labels = _contract(found, labels, x, other, later)
    return views.permute(found, [labels.index(label) for label in result]) if result else found.reshape(())


Labels = list[str]


def _equation_of(given: list[Any]) -> tuple[str, tuple[Any, ...]]:
    """Equation and operands of a call ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, with numbers for letters."""

    def letters(numbers: Sequence[Any]) -> str:
        found = ""
        for number in numbers:
            if number is Ellipsis:
                found += "..."
            elif isinstance(number, int) and 0 <= number < 2 * len(ascii_lowercase):
                found += (ascii_uppercase + ascii_lowercase)[number]
            else:
                raise ValueError(
                    f"einsum(): subscripts in a list must be Ellipsis or in the range [0, 52), got {number!r}"
                )
        return found

    *pairs, tail = given if len(given) % 2 else [*given, None]
    operands, lists = pairs[::2], pairs[1::2]
    equation = ",".join(letters(each) for each in lists)
    return equation if tail is None else f"{equation}->{letters(tail)}", tuple(operands)


def _parse(equation: str, tensors: Sequence[Tensor]) -> tuple[list[Labels], Labels]:
    """Labels of the dimensions of every operand and of the result; broadcast ones are ``.0``, ``.1``, ..."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise RuntimeError(
            f"einsum(): {'more' if len(tensors) > len(terms) else 'fewer'} operands were provided ({len(tensors)}) "
            f"than specified in the equation ({len(terms)})"
        )
    found, widest = [], 0
    for position, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        rank = len(x._layout.shape)
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
        widest = max(widest, spare)
        found.append([*before, *(f".{spare - 1 - i}" for i in range(spare)), *after])
    stretched = [f".{widest - 1 - i}" for i in range(widest)]
    if arrow:
        before, dots, after = right.partition("...")
        result = [*before, *(stretched if dots else []), *after]
        known = {label for labels in found for label in labels}
        for label in [*before, *after]:
            if label not in known:
                raise RuntimeError(
                    f"einsum(): output subscript {label} does not appear in the equation for any input operand"
                )
            if result.count(label) > 1:
                raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
    else:
        flat = [label for labels in found for label in labels if not label.startswith(".")]
        result = [*stretched, *sorted(label for label in set(flat) if flat.count(label) == 1)]
    return found, result


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
            x = parts.diagonal(x, 0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return x, labels


def _summed(x: Tensor, labels: Labels, kept: set[str]) -> tuple[Tensor, Labels]:
    """``x`` without the dimensions that nothing else needs."""
    over = [dim for dim, label in enumerate(labels) if label not in kept]
    if not over:
        return x, labels
    return x.sum(over), [label for label in labels if label in kept]


def _contract(a: Tensor, la: Labels, b: Tensor, lb: Labels, later: set[str]) -> tuple[Tensor, Labels]:
    """Product of two operands, summed over what neither the result nor a later operand has."""
    a, la = _summed(a, la, later | set(lb))
    b, lb = _summed(b, lb, later | set(la))
    shared = [label for label in la if label in lb]
    sizes = dict(zip(la, a._layout.shape, strict=True))
    for label, size in zip(lb, b._layout.shape, strict=True):
        if label in sizes and sizes[label] != size and 1 not in (size, sizes[label]):
            raise RuntimeError(
                f"einsum(): operands do not broadcast with remapped shapes: size {sizes[label]} and {size} for {label}"
            )
        sizes[label] = max(sizes.get(label, 1), size) if size and sizes.get(label, 1) else 0
    batch = [label for label in shared if label in later]
    inner = [label for label in shared if label not in later]
    rows = [label for label in la if label not in shared]
    columns = [label for label in lb if label not in shared]

    def matrices(x: Tensor, labels: Labels, first: Labels, second: Labels) -> Tensor:
        order = [*batch, *first, *second]
        moved = views.permute(x, [labels.index(label) for label in order])
        wide = views.expand(moved, [sizes[label] for label in order])
        return wide.reshape(*(prod(sizes[label] for label in group) for group in (batch, first, second)))

    found = bmm(matrices(a, la, rows, inner), matrices(b, lb, inner, columns))
    labels = [*batch, *rows, *columns]
    return found.reshape([sizes[label] for label in labels]), labels


@autocasted
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix.

    Raises
    ------
    RuntimeError
        If it is no matrix.
    """
    if len(input._layout.shape) != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {len(input._layout.shape)}")
    found = parts.diagonal(input.detach()).sum()
    record((found,), input, "TraceBackward0", _trace_gradient, (input._layout.shape,))
    return found


def _trace_gradient(grad: Tensor, shape: Any) -> Tensor:
    return diagonal_scatter(grad.new_zeros(shape), views.expand(grad, (min(shape),)))


@autocasted
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of three elements along a dimension, by default the first of size 3.

    Raises
    ------
    RuntimeError
        If the dimension has another size.
    """
    left, right = input._layout.shape, other._layout.shape
    if len(left) != len(right):
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got {len(left)} and {len(right)}"
        )
    shape = layouts.broadcast_shapes(left, right)
    if dim is None:
        if 3 not in shape:
            raise RuntimeError(f"no dimension of size 3 in input of shape {list(shape)}")
        dim = shape.index(3)
    at = dimension(dim, len(shape))
    if input._layout.shape[dim] != 3 or other._layout.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input._layout.shape[dim]} and "
            f"{other._layout.shape[dim]}"
        )
    found = _crossed(views.expand(input.detach(), shape), views.expand(other.detach(), shape), at)
    kind = found._layout.dtype
    if (
        modes.recording
        and (input.requires_grad or other.requires_grad)
        and (kind.is_floating_point or kind.is_complex)
    ):
        node = CrossNode.__new__(CrossNode)
        node.dim, node.saved = at, (save(input), save(other))
        attach(node, (input, other), (found,))
    return _delivered(found, out)


def _crossed(a: Tensor, b: Tensor, dim: int) -> Tensor:
    from .joining import stack

    a1, a2, a3 = parts.unbind(a, dim)
    b1, b2, b3 = parts.unbind(b, dim)
    return stack((a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1), dim)


class CrossNode(Node):
    """Recorded cross products; both factors are saved."""

    __slots__ = ("dim",)

    dim: int

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "LinalgCrossBackward0"

    def backward(self, *grads: Any) -> Any:
        """Cross products of the gradient with the other factor."""
        if self.saved is None:
            raise freed(self)
        a, b = (restore(entry, self) for entry in self.saved)
        first = second = None
        if self.next[0] is not None:
            first = cross(b.conj(), grads[0], self.dim).sum_to_size(a._layout.shape)
        if self.next[1] is not None:
            second = cross(grads[0], a.conj(), self.dim).sum_to_size(b._layout.shape)
        return first, second
