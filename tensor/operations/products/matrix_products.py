"""Products of matrices and vectors, and their derivatives.

Everything is built on one primitive: a batch of matrix products, through cuBLAS on CUDA (a kernel for
integers), and NumPy on the CPU. Matrices whose rows or columns are contiguous are read where they are, also
transposed; others are copied first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host import blas as host_blas
from nvrtc_kernels import products as kernels
from nvrtc_kernels.dtypes import Category
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase, empty, maker, view_of
from tensor.core.creation_arguments import shaped
from tensor.core.host.native_loops import address
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.plans import planned
from tensor.core.plans.copies import copied, host_conversion
from tensor.operations.autocast import LOWER, WIDEST, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.complex_numbers import conjugate as conjugated
from tensor.operations.shapes import views

from . import blas
from .on_host import HostProduct

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class _Product:
    """``C = alpha * A @ B + beta * C``; ``device_state.plans[PRODUCT, c, a, b]`` carries it out.

    Of bools, sums are ors and products are ands. All three have three dimensions, ``(batch, rows, columns)``, or all
    have the last two.

    Parameters
    ----------
    tf32
        The setting that says whether float32 is rounded to TF32; ``None``: never.
    """

    def __init__(self, tf32: str | None) -> None:
        self.tf32 = tf32

    def plan(self, c: Layout, a: Layout, b: Layout) -> Callable[..., None]:
        """How to multiply matrices of given layouts: ``run(c, a, b, alpha, beta)``."""
        if not c.numel:
            return lambda *_: None
        if not c.device_state.is_cuda:
            return _on_host(c, a, b)
        if c.dtype.category < Category.FLOATING:
            return _with_kernel(c, a, b)
        return _with_blas(self, c, a, b)


PRODUCT = _Product("matmul_tf32")
#: Products of two vectors, which tensor cores would not make faster.
VECTOR_PRODUCT = _Product(None)


def _sizes(c: Layout, a: Layout) -> tuple[int, int, int, int]:
    count = c.shape[0] if len(c.shape) == 3 else 1
    return count, c.shape[-2], c.shape[-1], a.shape[-1]


def _as_batch(matrices: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides; of a single matrix, those of a batch of one."""
    shape, strides = matrices.shape, matrices.strides
    return (shape, strides) if len(shape) == 3 else ((1, *shape), (matrices.numel, *strides))


def _on_host(c: Layout, a: Layout, b: Layout) -> Callable[..., None]:
    dtype = c.dtype
    batch, rows, columns, depth = _sizes(c, a)
    product = HostProduct(dtype, rows * columns * depth, batch)
    compute_dtype = product.computes_in
    convert = host_conversion(compute_dtype, dtype)
    direct = None
    if len(c.shape) == 2 and compute_dtype is dtype and c.strides[1] == 1 and c.strides[0] >= columns:
        factors = (a.shape, a.strides), (b.shape, b.strides)
        direct = host_blas.plan(dtype.numpy, (rows, depth, columns), *factors, c.strides[0])

    def run(out: Tensor, a: Tensor, b: Tensor, alpha: Any = 1, beta: Any = 0) -> None:
        if direct is not None and a._storage is not out._storage is not b._storage:
            direct(address(a), address(b), address(out, writes=True), float(alpha), float(beta))
            return
        left, right = product.factor(a), product.factor(b)
        into = out._writable
        with np.errstate(all="ignore"):
            if dtype.category is Category.BOOL:
                result = (product.matmul(left.astype(np.uint64), right.astype(np.uint64)) != 0) & bool(alpha)
                into[...] = result | into if beta else result
                return
            if beta == 0 and alpha == 1 and compute_dtype is dtype:
                product.matmul(left, right, out=into)
                return
            result = product.matmul(left, right)
            if alpha != 1:
                result = result * compute_dtype.numpy.type(alpha)
            if beta != 0:
                result = result + into.astype(compute_dtype.numpy) * compute_dtype.numpy.type(beta)
            convert(into, result)

    return run


def _with_kernel(c: Layout, a: Layout, b: Layout) -> Callable[..., None]:
    device_state: Any = c.device_state
    launch = kernels.plan(device_state.native, c.dtype, _sizes(c, a), *(_as_batch(x)[1] for x in (a, b, c)))
    local, logical = device_state.local, c.dtype.category is Category.BOOL

    def run(out: Tensor, a: Tensor, b: Tensor, alpha: Any = 1, beta: Any = 0) -> None:
        if alpha == 1 and beta == 0:
            launch(local.stream.handle, a._address, b._address, out._address)
            return
        result = empty(out._layout)
        launch(local.stream.handle, a._address, b._address, result._address)
        if logical:
            # As numbers, True and -1 times True would cancel each other.
            alpha, beta = bool(alpha), bool(beta)
            out.copy_(result & alpha | out if beta else result & alpha)
        else:
            out.copy_(result * alpha + out * beta if beta else result * alpha)

    return run


def _with_blas(product: _Product, c: Layout, a: Layout, b: Layout) -> Callable[..., None]:
    device_state: Any = c.device_state
    dtype, sizes = c.dtype, _sizes(c, a)
    into = blas.factor(*_as_batch(c))
    if into is None or into.transposed:
        return _into_copy(product, c)
    reads = [blas.factor(*_as_batch(each)) for each in (a, b)]
    if sizes[3] == 0:
        return lambda out, _a, _b, _alpha=1, beta=0: out.zero_() if beta == 0 else out.mul_(beta)
    if reads[0] is not None and reads[1] is not None:
        multiply = blas.product(device_state, dtype, sizes, reads[0], reads[1], into, product.tf32)
        return OnAddresses(multiply)
    packed = [
        each if read is not None else each.as_contiguous() for each, read in zip((a, b), reads, strict=True)
    ]

    def run_packed(out: Tensor, a: Tensor, b: Tensor, alpha: Any = 1, beta: Any = 0) -> None:
        a, b = (
            x if x._layout is layout else copied(x, layout) for x, layout in zip((a, b), packed, strict=True)
        )
        device_state.plans[product, out._layout, a._layout, b._layout](out, a, b, alpha, beta)

    return run_packed


class OnAddresses:
    """``run(c, a, b, alpha, beta)`` for tensors, by ``multiply`` for their addresses."""

    __slots__ = ("multiply",)

    def __init__(self, multiply: Callable[..., None]) -> None:
        self.multiply = multiply

    def __call__(self, out: Tensor, a: Tensor, b: Tensor, alpha: Any = 1, beta: Any = 0) -> None:
        self.multiply(out._address, a._address, b._address, alpha, beta)


def _into_copy(product: _Product, c: Layout) -> Callable[..., None]:
    """For a result that cuBLAS cannot write: through row-major memory."""
    row_major = c.as_contiguous()
    device_state: Any = c.device_state

    def run(out: Tensor, a: Tensor, b: Tensor, alpha: Any = 1, beta: Any = 0) -> None:
        result = copied(out, row_major) if beta else empty(row_major)
        device_state.plans[product, row_major, a._layout, b._layout](result, a, b, alpha, beta)
        with unrecorded():
            out.copy_(result)

    return run


def _pair_plan(name: str, rank: int, a: Layout, b: Layout) -> Callable[[Tensor, Tensor], Tensor]:
    """How to multiply tensors of given layouts; raises if they do not fit.

    ``device_state.plans[operation, a, b]`` multiplies two matrices, or two batches of them: ``run(a, b)``, not
    recorded.
    """
    check_layouts(name, a, b)
    left, right = a.shape, b.shape
    if rank == 2:
        if len(left) != 2 or len(right) != 2:
            which = "self" if len(left) != 2 else "mat2"
            raise RuntimeError(f"mm(): {which} must be a matrix, got {len(left)}D and {len(right)}D")
        if left[1] != right[0]:
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({left[0]}x{left[1]} and {right[0]}x{right[1]})"
            )
    else:
        if len(left) != 3 or len(right) != 3:
            raise RuntimeError(
                f"bmm(): batch1 and batch2 must be 3D tensors, got {len(left)}D and {len(right)}D"
            )
        if left[0] != right[0] or left[2] != right[1]:
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{left[0]}, {left[2]}] but "
                f"got: [{right[0]}, {right[1]}]."
            )
    out = contiguous[(*left[:-1], right[-1]), a.dtype, a.device_state]
    make = maker(out)
    multiply = a.device_state.plans[PRODUCT, out, a, b]
    if isinstance(multiply, OnAddresses):
        return _directly(make, multiply)

    def run(a: Tensor, b: Tensor) -> Tensor:
        result = make()
        multiply(result, a, b)
        return result

    return run


MM = planned(_pair_plan, "mm", 2)
BMM = planned(_pair_plan, "bmm", 3)


def _directly(make: Callable[[], Tensor], multiply: OnAddresses) -> Callable[[Tensor, Tensor], Tensor]:
    """New products of operands that are read where they lie."""
    queue = multiply.multiply

    def run(a: Tensor, b: Tensor) -> Tensor:
        result = make()
        queue(result._storage.address, a._storage.address + a._offset, b._storage.address + b._offset)
        return result

    return run


def check_operands(name: str, *tensors: Any) -> None:
    """Raise if operands are no tensors of one dtype on one device."""
    check_tensors(name, *tensors)
    check_layouts(name, *(x._layout for x in tensors))


def check_tensors(name: str, *values: Any) -> None:
    """Raise if operands are no tensors."""
    for position, x in enumerate(values):
        if not isinstance(x, TensorBase):
            raise TypeError(f"{name}(): argument {position + 1} must be Tensor, not {type(x).__name__}")


def layouts_of(name: str, a: Tensor, b: Tensor) -> tuple[Layout, Layout]:
    """Layouts of two operands; raises if they are no tensors."""
    try:
        return a._layout, b._layout
    except AttributeError:
        check_tensors(name, a, b)
        raise


def check_layouts(name: str, first: Layout, *others: Layout) -> None:
    """Raise if operands are not of one dtype on one device."""
    for other in others:
        if other.device_state is not first.device_state:
            raise two_devices(name, first.device, other.device)
        if other.dtype is not first.dtype:
            raise RuntimeError(
                f"{name}(): expected all tensors to have the same dtype, but got {first.dtype!r} and {other.dtype!r}"
            )


def _formula(name: str, by_first: Callable[..., Any], by_second: Callable[..., Any]) -> BackwardFormula:
    """Of a product of two operands: each gradient needs the other operand."""
    return BackwardFormula(name, "a b", [Derivative(by_first, needs="b"), Derivative(by_second, needs="a")])


@operation(autocast=Autocast(cuda=LOWER, cpu=LOWER))
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of two batches of matrices: ``(b, n, m)`` and ``(b, m, p)`` give ``(b, n, p)``.

    Raises
    ------
    RuntimeError
        If the inputs are not batches of matrices with the same number of matrices and inner size, or dtypes or
        devices differ.

    Examples
    --------
    >>> tensor.bmm(tensor.ones(5, 2, 3), tensor.ones(5, 3, 4)).shape
    tensor.Size([5, 2, 4])
    """
    left, right = layouts_of("bmm", input, mat2)
    result = left.device_state.plans[BMM, left, right](input, mat2)
    if modes.recording and (input._autograd is not None or mat2._autograd is not None):
        _BMM_BACKWARD.record((result,), (input, mat2))
    return result if out is None else _delivered(result, out)


@operation(autocast=Autocast(cuda=LOWER, cpu=LOWER))
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices: ``(n, m)`` and ``(m, p)`` give ``(n, p)``.

    Raises
    ------
    RuntimeError
        If the inputs are not matrices with the same inner size, or dtypes or devices differ.

    Examples
    --------
    >>> tensor.mm(tensor.tensor([[1, 2], [3, 4]]), tensor.tensor([[0, 1], [1, 0]]))
    tensor([[2, 1],
            [4, 3]])
    """
    try:
        left, right = input._layout, mat2._layout
    except AttributeError:
        check_tensors("mm", input, mat2)
        raise
    result = left.device_state.plans[MM, left, right](input, mat2)
    if modes.recording and (input._autograd is not None or mat2._autograd is not None):
        _MM_BACKWARD.record((result,), (input, mat2))
    return result if out is None else _delivered(result, out)


# grad @ B^H and A^H @ grad.
_MM_BACKWARD = _formula(
    "MmBackward0",
    lambda grad, b: mm(grad, views.transpose(conjugated(b), -2, -1)),
    lambda grad, a: mm(views.transpose(conjugated(a), -2, -1), grad),
)
_BMM_BACKWARD = _formula(
    "BmmBackward0",
    lambda grad, b: bmm(grad, views.transpose(conjugated(b), -2, -1)),
    lambda grad, a: bmm(views.transpose(conjugated(a), -2, -1), grad),
)


def _delivered(result: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return result
    if not isinstance(out, TensorBase):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if (
        out._layout.dtype is not result._layout.dtype
        or out._layout.device_state is not result._layout.device_state
    ):
        raise RuntimeError(
            f"expected out of {result._layout.dtype!r} on {result._layout.device}, got {out._layout.dtype!r} on "
            f"{out._layout.device}"
        )
    if result.requires_grad or out.requires_grad:
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    return shaped(out, result._layout.shape).copy_(result)


@operation(autocast=Autocast(cuda=LOWER))
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of a matrix ``(n, m)`` and a vector ``(m,)``.

    Raises
    ------
    RuntimeError
        If ``input`` is not a matrix and ``vec`` a vector with as many elements as it has columns, or dtypes or
        devices differ.

    Examples
    --------
    >>> tensor.mv(tensor.tensor([[1, 2], [3, 4]]), tensor.tensor([1, 1]))
    tensor([3, 7])
    """
    a, b = layouts_of("mv", input, vec)
    result = a.device_state.plans[_MV, a, b](input, vec)
    if modes.recording and (input._autograd is not None or vec._autograd is not None):
        _MV_BACKWARD.record((result,), (input, vec))
    return _delivered(result, out)


_MV_BACKWARD = _formula(
    "MvBackward0",
    lambda grad, b: views.unsqueeze(grad, 1) * conjugated(b),
    lambda grad, a: mv(views.transpose(conjugated(a), 0, 1), grad),
)
_DOT_BACKWARD = _formula(
    "DotBackward0", lambda grad, b: grad * conjugated(b), lambda grad, a: grad * conjugated(a)
)
_VDOT_BACKWARD = _formula("VdotBackward0", lambda grad, b: conjugated(grad) * b, lambda grad, a: grad * a)


def _vector_pair_plan(
    name: str, rank: int, product: _Product, a: Layout, b: Layout
) -> Callable[[Tensor, Tensor], Tensor]:
    """How to multiply tensors of given layouts; raises if they do not fit.

    ``device_state.plans[operation, a, b]`` multiplies a matrix, or a vector as a row, and a vector. Not recorded.
    """
    check_layouts(name, a, b)
    if rank == 2:
        _check_matrix(a, b)
    else:
        _check_vectors(a, b)
    rows = a.shape[0] if rank == 2 else 1
    size = b.shape[0]
    step = a.strides[0] if rank == 2 else size
    left = a.with_strides((1, rows, size), (rows * step, step, a.strides[-1]))
    right = b.with_strides((1, size, 1), (size * b.strides[0], b.strides[0], 1))
    out = contiguous[a.shape[:-1], a.dtype, a.device_state]
    into = contiguous[(1, rows, 1), a.dtype, a.device_state]
    make = maker(out)
    multiply = a.device_state.plans[product, into, left, right]
    if isinstance(multiply, OnAddresses):
        return _directly(make, multiply)

    def run(a: Tensor, b: Tensor) -> Tensor:
        result = make()
        multiply(
            view_of(result._storage, into, 0),
            view_of(a._storage, left, a._offset),
            view_of(b._storage, right, b._offset),
        )
        return result

    return run


def _check_matrix(a: Layout, b: Layout) -> None:
    left, right = a.shape, b.shape
    if len(left) != 2 or len(right) != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {len(left)}, {len(right)}")
    if left[1] != right[0]:
        raise RuntimeError(
            f"size mismatch, got input ({left[0]}), mat ({left[0]}x{left[1]}), vec ({right[0]})"
        )


def _check_vectors(a: Layout, b: Layout) -> None:
    left, right = a.shape, b.shape
    if len(left) != 1 or len(right) != 1:
        raise RuntimeError(f"1D tensors expected, but got {len(left)}D and {len(right)}D tensors")
    if left != right:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(left)} and src {list(right)} to have the same number of "
            f"elements, but got {left[0]} and {right[0]} elements respectively"
        )


_MV = planned(_vector_pair_plan, "mv", 2, PRODUCT)
_DOT = planned(_vector_pair_plan, "dot", 1, VECTOR_PRODUCT)
_VDOT = planned(_vector_pair_plan, "vdot", 1, VECTOR_PRODUCT)


@operation(autocast=Autocast(cuda=WIDEST))
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sum of the products of the elements of two vectors.

    Raises
    ------
    RuntimeError
        If they are no vectors of one length, dtype and device.

    Examples
    --------
    >>> tensor.dot(tensor.tensor([1, 2, 3]), tensor.tensor([0, 2, 1]))
    tensor(7)
    """
    a, b = layouts_of("dot", input, tensor)
    result = a.device_state.plans[_DOT, a, b](input, tensor)
    if modes.recording and (input._autograd is not None or tensor._autograd is not None):
        _DOT_BACKWARD.record((result,), (input, tensor))
    return _delivered(result, out)


@operation(autocast=Autocast(cuda=WIDEST))
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sum(conj(input) * other)`` for two vectors: :func:`dot` with the first one conjugated.

    Raises
    ------
    RuntimeError
        If they are not vectors of one length, dtype and device.

    Examples
    --------
    >>> tensor.vdot(tensor.tensor([1j, 2.0]), tensor.tensor([1j, 1j]))
    tensor(1.+2.j)
    """
    a, b = layouts_of("vdot", input, other)
    first = conjugated(input.detach()) if a.dtype.is_complex else input
    result = a.device_state.plans[_VDOT, first._layout, b](first, other)
    if modes.recording and (input._autograd is not None or other._autograd is not None):
        _VDOT_BACKWARD.record((result,), (input, other))
    return _delivered(result, out)
