"""Products of matrices added to something: ``beta * input + alpha * a @ b``, in one pass of cuBLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import views
from .base import empty
from .complex_numbers import conjugate as conjugated
from .copy_plans import check_no_overlap, copied
from .layout import contiguous
from .operations.pointwise import IN_PLACE
from .products import PRODUCT, _delivered, bmm, check_operands, mm
from .recording.inplace import attach_in_place, check_in_place
from .recording.modes import modes
from .recording.node import Node, attach
from .recording.saved import freed, restore, save

if TYPE_CHECKING:
    from .tensors import Tensor


class AddProductNode(Node):
    """A recorded ``beta * input + alpha * A @ B``."""

    __slots__ = ("alpha", "beta", "title")

    title: str
    alpha: Any
    beta: Any

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.title

    def backward(self, *grads: Any) -> Any:
        """``beta * grad``, ``alpha * grad @ B^H`` and ``alpha * A^H @ grad``."""
        if self.saved is None:
            raise freed(self)
        a, b = (None if entry is None else restore(entry, self) for entry in self.saved)
        multiply = mm if self.title == "AddmmBackward0" else bmm
        grad = grads[0]
        scaled = grad if self.alpha == 1 else grad * _conjugate(self.alpha)
        return (
            None if self.next[0] is None else grad if self.beta == 1 else grad * _conjugate(self.beta),
            None if b is None else multiply(scaled, views.transpose(conjugated(b), -2, -1)),
            None if a is None else multiply(views.transpose(conjugated(a), -2, -1), scaled),
        )


def _conjugate(number: Any) -> Any:
    return number.conjugate() if isinstance(number, complex) else number


def _add_product(
    input: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any, out: Tensor | None, name: str
) -> Tensor:
    """``beta * input + alpha * a @ b`` for checked ``a`` and ``b``, matrices or batches of them.

    With ``out=IN_PLACE`` it is written to ``input``.
    """
    check_operands(name, input, a, b)
    shape = (*a._layout.shape[:-1], b._layout.shape[-1])
    in_place = out is IN_PLACE
    if in_place:
        _check_target(name, input, shape)
        # What is read must not change while it is written.
        a, b = (x.clone() if x._storage is input._storage else x for x in (a, b))
    layout = contiguous[shape, a._layout.dtype, a._layout.place]
    before, modes.recording = modes.recording, False
    try:
        stretched = views.expand(input, shape)
        # What beta = 0 leaves out may be infinite.
        result = input if in_place else copied(stretched, layout) if beta != 0 else empty(layout)
        three = [x if len(shape) == 3 else views.unsqueeze(x, 0) for x in (result, a, b)]
        layouts = [x._layout for x in three]
        layout.place.plans[PRODUCT, *layouts](*three, alpha, beta)
        if in_place:
            input._storage.version += 1
    finally:
        modes.recording = before
    tensors = (input, a, b)
    if modes.recording and any(x.requires_grad for x in tensors):
        node = AddProductNode.__new__(AddProductNode)
        node.title = f"{name.capitalize()}Backward0"
        node.alpha, node.beta = alpha, beta
        node.saved = (save(a) if b.requires_grad else None, save(b) if a.requires_grad else None)
        if in_place:
            attach_in_place(node, tensors, result)
        else:
            attach(node, tensors, (result,))
    return result if in_place else _delivered(result, out)


def _check_target(name: str, input: Tensor, shape: tuple[int, ...]) -> None:
    check_in_place(input)
    check_no_overlap(input._layout)
    if tuple(input._layout.shape) != shape:
        raise RuntimeError(
            f"{name}_(): the result has shape {list(shape)}, which does not fit the tensor to be written, of shape "
            f"{list(input._layout.shape)}"
        )


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2``; ``input`` broadcasts to the product's shape.

    Raises
    ------
    RuntimeError
        If the shapes, dtypes or devices do not fit.
    """
    check_operands("addmm", mat1, mat2)
    left, right = mat1._layout.shape, mat2._layout.shape
    if len(left) != 2 or len(right) != 2:
        raise RuntimeError(f"addmm(): mat1 and mat2 must be matrices, got {len(left)}D and {len(right)}D")
    if left[1] != right[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({left[0]}x{left[1]} and {right[0]}x{right[1]})"
        )
    return _add_product(input, mat1, mat2, beta, alpha, out, "addmm")


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * batch1 @ batch2`` for batches of matrices.

    Raises
    ------
    RuntimeError
        If the shapes, dtypes or devices do not fit.
    """
    check_operands("baddbmm", batch1, batch2)
    _check_batches("baddbmm", batch1, batch2)
    return _add_product(input, batch1, batch2, beta, alpha, out, "baddbmm")


def _check_batches(name: str, batch1: Tensor, batch2: Tensor) -> None:
    left, right = batch1._layout.shape, batch2._layout.shape
    if len(left) != 3 or len(right) != 3:
        raise RuntimeError(
            f"{name}(): batch1 and batch2 must be 3D tensors, got {len(left)}D and {len(right)}D"
        )
    if left[0] != right[0] or left[2] != right[1]:
        raise RuntimeError(
            f"{name}(): expected size for first two dimensions of batch2 tensor to be: [{left[0]}, {left[2]}] but "
            f"got: [{right[0]}, {right[1]}]."
        )


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (sum of batch1[i] @ batch2[i])``.

    The sum over the batch is one product of wider matrices.
    """
    check_operands("addbmm", batch1, batch2)
    _check_batches("addbmm", batch1, batch2)
    count, rows, inner = batch1._layout.shape
    columns = batch2._layout.shape[2]
    wide = views.transpose(batch1, 0, 1).reshape(rows, count * inner)
    tall = batch2.reshape(count * inner, columns)
    return addmm(input, wide, tall, beta=beta, alpha=alpha, out=out)


def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * mat @ vec``; ``input`` broadcasts to the product's shape."""
    check_operands("addmv", mat, vec)
    left, right = mat._layout.shape, vec._layout.shape
    if len(left) != 2 or len(right) != 1 or left[1] != right[0]:
        raise RuntimeError(f"addmv(): size mismatch, mat {list(left)}, vec {list(right)}")
    if out is IN_PLACE:
        _check_target("addmv", input, (left[0],))
        addmm(views.unsqueeze(input, 1), mat, views.unsqueeze(vec, 1), beta=beta, alpha=alpha, out=out)
        return input
    column = views.unsqueeze(views.expand(input, (left[0],)), 1)
    found = addmm(column, mat, views.unsqueeze(vec, 1), beta=beta, alpha=alpha)
    return _delivered(views.squeeze(found, 1), out)


def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (vec1 as a column) @ (vec2 as a row)``; ``input`` broadcasts to the product's shape."""
    check_operands("addr", vec1, vec2)
    left, right = vec1._layout.shape, vec2._layout.shape
    if len(left) != 1 or len(right) != 1:
        raise RuntimeError(
            f"addr: Expected 1-D argument vec1 and vec2, but got {len(left)}-D and {len(right)}-D"
        )
    column, row = views.unsqueeze(vec1, 1), views.unsqueeze(vec2, 0)
    return _add_product(input, column, row, beta, alpha, out, "addmm")


class AddedProductMethods:
    """The in-place forms, as methods."""

    __slots__ = ()

    def addmm_(self: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """:meth:`addmm` in place."""
        return addmm(self, mat1, mat2, beta=beta, alpha=alpha, out=IN_PLACE)

    def addmv_(self: Any, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """:meth:`addmv` in place."""
        return addmv(self, mat, vec, beta=beta, alpha=alpha, out=IN_PLACE)

    def addr_(self: Any, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """:meth:`addr` in place."""
        return addr(self, vec1, vec2, beta=beta, alpha=alpha, out=IN_PLACE)

    def addbmm_(self: Any, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """:meth:`addbmm` in place."""
        return addbmm(self, batch1, batch2, beta=beta, alpha=alpha, out=IN_PLACE)

    def baddbmm_(self: Any, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """:meth:`baddbmm` in place."""
        return baddbmm(self, batch1, batch2, beta=beta, alpha=alpha, out=IN_PLACE)
