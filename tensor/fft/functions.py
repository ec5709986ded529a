"""The functions of :mod:`tensor.fft`: sizes, dimensions and norms as users give them."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import float32, float64
from tensor.core.base import TensorBase
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.dtypes.default import get_default_dtype
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.factories import delivered
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.resampling.padding import constant_pad
from tensor.operations.shapes import slices

from .transforms import COMPLEX, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

_NORMS = ("backward", "ortho", "forward")


def _norm(name: str, norm: str | None) -> str:
    result = "backward" if norm is None else norm
    if result not in _NORMS:
        raise RuntimeError(
            f'{name}(): Invalid normalization mode: "{norm}": expected one of {", ".join(_NORMS)}'
        )
    return result


def _scale(norm: str, count: int, *, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / sqrt(count)
    return 1 / count if (norm == "backward") == inverse else 1.0


def single_or_double(name: str, input: Any, *, complex: bool | None) -> Tensor:
    """``input`` as single or double precision: complex, real, or (``None``) either."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    dtype = input._layout.dtype
    expected = _precision(name, dtype, complex)
    x: Any = input
    return x if expected is dtype else x.to(expected)  # type: ignore[no-any-return]


def _precision(name: str, dtype: dtype, complex: bool | None) -> dtype:
    """The type in which elements of a type are transformed."""
    if not dtype.is_floating_point and not dtype.is_complex:
        dtype = get_default_dtype()
    if dtype.is_complex:
        if complex is False:
            raise RuntimeError(f"{name} expects a real input tensor, but got {dtype!r}")
        return dtype
    if dtype not in (float32, float64):
        raise RuntimeError(
            f"{name}(): Unsupported dtype {dtype!r}: transforms are computed in single or double precision, convert with "
            ".to(tensor.float32)"
        )
    return COMPLEX[dtype] if complex else dtype


def _dimension(name: str, shape: Sequence[int], dim: int) -> int:
    rank = len(shape)
    if not rank:
        raise IndexError(f"{name}(): Dimension specified as {dim} but tensor has no dimensions")
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim % rank


def _shape(
    name: str, shape: Sequence[int], s: Any, dim: Any, *, last_half: bool = False
) -> tuple[list[int], list[int]]:
    """Dimensions to transform, and their sizes; ``last_half`` says that the last one is half a spectrum."""
    rank = len(shape)
    if isinstance(s, int):
        s = (s,)
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None:
        dims = [_dimension(name, shape, each) for each in dim]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(dims):
            raise RuntimeError(
                f"{name}(): When given, dim and shape arguments must have the same length, got {len(dims)} and {len(s)}"
            )
    elif s is not None:
        if len(s) > rank:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
        dims = list(range(rank - len(s), rank))
    else:
        dims = list(range(rank))
    if not dims and last_half:
        raise RuntimeError(f"{name} must transform at least one axis")
    sizes = [shape[each] for each in dims]
    if last_half and dims:
        sizes[-1] = 2 * (sizes[-1] - 1)
    if s is not None:
        sizes = [before if argument == -1 else argument for argument, before in zip(s, sizes, strict=True)]
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return dims, sizes


def _resized(x: Tensor, dims: Sequence[int], sizes: list[int]) -> Tensor:
    """``x`` cut off, or with zeros added, at the ends of ``dims``."""
    if [x._layout.shape[dim] for dim in dims] == sizes:
        return x
    for dim, size in zip(dims, sizes, strict=True):
        if x._layout.shape[dim] > size:
            x = slices.narrow(x, dim, 0, size)
    missing = [0] * len(x._layout.shape)
    for dim, size in zip(dims, sizes, strict=True):
        missing[dim] = size - x._layout.shape[dim]
    return constant_pad(x, tuple((0, n) for n in missing), 0) if any(missing) else x


class _Function:
    """A function of the module; ``device_state.plans[function, layout, s, dim, norm]`` is it for tensors of a layout.

    Parameters
    ----------
    transform_type : {"c2c", "r2c", "c2r"}
        Half the transform of real data is conjugate for the inverse one; real data come from half a Hermitian spectrum
        by the inverse transform, and by the forward one from the conjugate spectrum.
    single
        Whether it is for one dimension.
    """

    def __init__(self, name: str, transform_type: str, *, inverse: bool, single: bool) -> None:
        self.name = name
        self.transform_type = transform_type
        self.inverse = inverse
        self.single = single

    def __call__(self, input: Tensor, s: Any, dim: Any, norm: str | None, out: Tensor | None) -> Tensor:
        """The function of a tensor, recorded."""
        try:
            layout = input._layout
            run = layout.device_state.plans[self, layout, s, dim, norm]
        except (AttributeError, TypeError):
            if not isinstance(input, TensorBase):
                raise TypeError(
                    f"{self.name}(): argument 'input' must be Tensor, not {type(input).__name__}"
                ) from None
            # Sizes and dimensions may be lists, tensors or anything with numbers.
            s, dim = (tuple(each) if hasattr(each, "__iter__") else each for each in (s, dim))
            run = self.plan(input._layout, s, dim, norm)
        result: Tensor = run(input)
        return result if out is None else delivered(out, result, self.name)

    def plan(self, layout: Layout, s: Any, dim: Any, norm: str | None) -> Callable[[Tensor], Tensor]:
        """How to transform tensors of a layout."""
        name, transform_type, inverse, shape = self.name, self.transform_type, self.inverse, layout.shape
        number = layout.dtype
        if not number.is_floating_point and not number.is_complex:
            # What they are converted to may change.
            return lambda x: self(single_or_double(name, x, complex=None), s, dim, norm, None)
        if self.single:
            _dimension(name, shape, dim)
            if s == -1:
                # Among several sizes it stands for the one that is there.
                raise RuntimeError("Invalid number of data points (-1) specified")
            s, dim = (None if s is None else (s,)), (dim,)
        mode = _norm(name, norm)
        number = _precision(name, number, transform_type != "r2c")
        dims, sizes = _shape(name, shape, s, dim, last_half=transform_type == "c2r")
        if not dims:
            if transform_type == "c2c":
                return lambda x: x.to(number).clone()
            raise RuntimeError(f"{name} must transform at least one axis")
        scale = _scale(mode, prod(sizes), inverse=inverse)
        size, mirrored = None, (transform_type, inverse) in (("r2c", True), ("c2r", False))
        if transform_type == "c2r":
            size = sizes[-1]
            sizes[-1] = size // 2 + 1
        backwards = inverse if transform_type == "c2c" else transform_type == "c2r"
        transform = recorded(transform_type, tuple(dims), size, inverse=backwards, scale=scale)
        if number is layout.dtype and not mirrored and [shape[axis] for axis in dims] == sizes:
            return transform(layout)

        def run(x: Tensor) -> Tensor:
            if number is not layout.dtype:
                x = x.to(number)
            x = _resized(x, dims, sizes)
            if mirrored and transform_type == "c2r":
                x = x.conj()
            result = transform(x._layout)(x)
            return result.conj() if mirrored and transform_type == "r2c" else result

        return run


_FFT = _Function("fft", "c2c", inverse=False, single=True)
_IFFT = _Function("ifft", "c2c", inverse=True, single=True)
_RFFT = _Function("rfft", "r2c", inverse=False, single=True)
_IRFFT = _Function("irfft", "c2r", inverse=True, single=True)
_HFFT = _Function("hfft", "c2r", inverse=False, single=True)
_IHFFT = _Function("ihfft", "r2c", inverse=True, single=True)
_FFT2 = _Function("fft2", "c2c", inverse=False, single=False)
_IFFT2 = _Function("ifft2", "c2c", inverse=True, single=False)
_RFFT2 = _Function("rfft2", "r2c", inverse=False, single=False)
_IRFFT2 = _Function("irfft2", "c2r", inverse=True, single=False)
_HFFT2 = _Function("hfft2", "c2r", inverse=False, single=False)
_IHFFT2 = _Function("ihfft2", "r2c", inverse=True, single=False)
_FFTN = _Function("fftn", "c2c", inverse=False, single=False)
_IFFTN = _Function("ifftn", "c2c", inverse=True, single=False)
_RFFTN = _Function("rfftn", "r2c", inverse=False, single=False)
_IRFFTN = _Function("irfftn", "c2r", inverse=True, single=False)
_HFFTN = _Function("hfftn", "c2r", inverse=False, single=False)
_IHFFTN = _Function("ihfftn", "r2c", inverse=True, single=False)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Discrete Fourier transform along ``dim``: ``X[k] = sum(x[j] * exp(-2j * pi * j * k / n) for j in range(n))``.

    The inverse is :func:`ifft`.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension: float32, float64 or complex; integers and bools are converted to the default dtype.
    n : int, optional
        Size along ``dim`` that the input is cut off or padded with zeros to; by default its own.
    norm : {"backward", "ortho", "forward"}, optional
        ``"backward"`` (the default) does not scale, ``"ortho"`` divides by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, of size ``n`` along ``dim``: complex128 for float64 and complex128, else complex64.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, or ``input`` is 0-dim.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.fft(tensor.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _FFT(input, n, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse discrete Fourier transform: ``x[j] = sum(X[k] * exp(2j * pi * j * k / n) for k in range(n)) / n``.

    The inverse of :func:`fft` with the same ``norm``.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension: float32, float64 or complex; integers and bools are converted to the default dtype.
    n : int, optional
        Size along ``dim`` that the input is cut off or padded with zeros to; by default its own.
    norm : {"backward", "ortho", "forward"}, optional
        ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, of size ``n`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, or ``input`` is 0-dim.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.ifft(tensor.tensor([10.0, -2.0, -2.0, -2.0]))
    tensor([1.+0.j, 3.+0.j, 3.+0.j, 3.+0.j])
    """
    return _IFFT(input, n, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Discrete Fourier transform of real data: the first ``n // 2 + 1`` coefficients of :func:`fft`.

    The others are conjugates of these: ``X[n - k] = conj(X[k])``. The inverse is :func:`irfft`.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension: float32 or float64; integers and bools are converted to the default dtype.
    n : int, optional
        Size along ``dim`` that the input is cut off or padded with zeros to; by default its own.
    norm : {"backward", "ortho", "forward"}, optional
        ``"backward"`` (the default) does not scale, ``"ortho"`` divides by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, of size ``n // 2 + 1`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16, bfloat16 or complex, a size is below 1, ``norm`` is another string, or ``input`` is
        0-dim.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.rfft(tensor.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _RFFT(input, n, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfft`: ``n`` real elements from ``n // 2 + 1`` coefficients.

    For odd ``n``, which the number of coefficients does not tell, ``n`` must be given. Imaginary parts of the first
    coefficient, and for even ``n`` of the last, are ignored.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension: float32, float64 or complex; integers and bools are converted to the default dtype.
    n : int, optional
        Size of the result along ``dim``; by default ``2 * (m - 1)`` for ``m`` coefficients.
    norm : {"backward", "ortho", "forward"}, optional
        ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Real, of size ``n`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, or ``input`` is 0-dim.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> x = tensor.tensor([1.0, 2.0, 3.0])
    >>> tensor.fft.irfft(tensor.fft.rfft(x), n=3)
    tensor([1., 2., 3.])
    """
    return _IRFFT(input, n, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Discrete Fourier transform of a Hermitian signal, given by its first half: a real spectrum.

    ``hfft(x, n) == irfft(conj(x), n) * n``. The inverse is :func:`ihfft`.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension: float32, float64 or complex; integers and bools are converted to the default dtype.
    n : int, optional
        Size of the result along ``dim``; by default ``2 * (m - 1)`` for ``m`` coefficients.
    norm : {"backward", "ortho", "forward"}, optional
        ``"backward"`` (the default) does not scale, ``"ortho"`` divides by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Real, of size ``n`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, or ``input`` is 0-dim.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.hfft(tensor.tensor([1.0, 2.0, 3.0]))
    tensor([ 8., -2.,  0., -2.])
    """
    return _HFFT(input, n, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfft`: the first ``n // 2 + 1`` elements of the Hermitian signal with a real spectrum.

    ``ihfft(x) == conj(rfft(x)) / n``.

    Parameters
    ----------
    input : Tensor
        Of at least one dimension: float32 or float64; integers and bools are converted to the default dtype.
    n : int, optional
        Size along ``dim`` that the input is cut off or padded with zeros to; by default its own.
    norm : {"backward", "ortho", "forward"}, optional
        ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, of size ``n // 2 + 1`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16, bfloat16 or complex, a size is below 1, ``norm`` is another string, or ``input`` is
        0-dim.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.ihfft(tensor.tensor([11.0, -3.0, -1.0, -3.0])).real
    tensor([1., 3., 4.])
    """
    return _IHFFT(input, n, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def fft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` over two dimensions.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int
        By default the last two; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) does not scale, ``"ortho"`` divides
        by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, with the sizes ``s`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.fft2(tensor.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return _FFT2(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def ifft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fft2`: :func:`ifft` over two dimensions.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int
        By default the last two; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by
        ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, with the sizes ``s`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.ifft2(tensor.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """
    return _IFFT2(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def rfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft2` of real data: :func:`rfft` over the last of two dimensions, and :func:`fft` over the other.

    Parameters
    ----------
    input : Tensor
        float32 or float64; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the input along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int
        By default the last two; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) does not scale, ``"ortho"`` divides
        by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex; along the last of ``dim``, ``n // 2 + 1`` coefficients for a size of ``n``.

    Raises
    ------
    RuntimeError
        If the input is float16, bfloat16 or complex, a size is below 1, ``norm`` is another string, ``dim`` repeats a
        dimension or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.rfft2(tensor.ones(2, 4))
    tensor([[8.+0.j, 0.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return _RFFT2(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def irfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfft2`: :func:`irfft` over the last of two dimensions, and :func:`ifft` over the other.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int
        By default the last two; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by
        ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Real, with the sizes ``s`` along ``dim``; the last is by default ``2 * (m - 1)`` for ``m`` coefficients.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> x = tensor.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> tensor.fft.irfft2(tensor.fft.rfft2(x), s=x.shape)
    tensor([[1., 2., 3.],
            [4., 5., 6.]])
    """
    return _IRFFT2(input, s, dim, norm, out)


@operation(namespace="fft", method=False)
def hfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Real spectrum of a Hermitian signal: :func:`hfft` over the last dimension, and :func:`fft` over the other.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int
        By default the last two; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) does not scale, ``"ortho"`` divides
        by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Real, with the sizes ``s`` along ``dim``; the last is by default ``2 * (m - 1)`` for ``m`` coefficients.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.hfft2(tensor.ones(2, 3))
    tensor([[8., 0., 0., 0.],
            [0., 0., 0., 0.]])
    """
    return _HFFT2(input, s, dim, norm, out)


@operation(namespace="fft", method=False)
def ihfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfft2`: :func:`ihfft` over the last of two dimensions, and :func:`ifft` over the other.

    Parameters
    ----------
    input : Tensor
        float32 or float64; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the input along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int
        By default the last two; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by
        ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex; along the last of ``dim``, ``n // 2 + 1`` coefficients for a size of ``n``.

    Raises
    ------
    RuntimeError
        If the input is float16, bfloat16 or complex, a size is below 1, ``norm`` is another string, ``dim`` repeats a
        dimension or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.ihfft2(tensor.ones(2, 4)).real
    tensor([[1., 0., 0.],
            [0., 0., 0.]])
    """
    return _IHFFT2(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def fftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` over several dimensions, all of them by default.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int, optional
        By default the last ``len(s)`` dimensions, or all without ``s``; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) does not scale, ``"ortho"`` divides
        by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, with the sizes ``s`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.fftn(tensor.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return _FFTN(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def ifftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fftn`: :func:`ifft` over several dimensions, all of them by default.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int, optional
        By default the last ``len(s)`` dimensions, or all without ``s``; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by
        ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex, with the sizes ``s`` along ``dim``.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.ifftn(tensor.tensor([[10.0, -2.0], [-4.0, 0.0]]))
    tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """
    return _IFFTN(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def rfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fftn` of real data: :func:`rfft` over the last of several dimensions, and :func:`fft` over the others.

    Parameters
    ----------
    input : Tensor
        float32 or float64; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the input along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int, optional
        By default the last ``len(s)`` dimensions, or all without ``s``; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) does not scale, ``"ortho"`` divides
        by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex; along the last of ``dim``, ``n // 2 + 1`` coefficients for a size of ``n``.

    Raises
    ------
    RuntimeError
        If the input is float16, bfloat16 or complex, a size is below 1, ``norm`` is another string, ``dim`` repeats a
        dimension or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.rfftn(tensor.ones(2, 4))
    tensor([[8.+0.j, 0.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return _RFFTN(input, s, dim, norm, out)


@operation(namespace="fft", method=False, autocast=Autocast(cpu=FLOAT32))
def irfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfftn`: :func:`irfft` over the last of several dimensions, and :func:`ifft` over the others.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int, optional
        By default the last ``len(s)`` dimensions, or all without ``s``; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by
        ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Real, with the sizes ``s`` along ``dim``; the last is by default ``2 * (m - 1)`` for ``m`` coefficients.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> x = tensor.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> tensor.fft.irfftn(tensor.fft.rfftn(x), s=x.shape)
    tensor([[1., 2., 3.],
            [4., 5., 6.]])
    """
    return _IRFFTN(input, s, dim, norm, out)


@operation(namespace="fft", method=False)
def hfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Real spectrum of a Hermitian signal: :func:`hfft` over the last dimension, and :func:`fft` over the others.

    Parameters
    ----------
    input : Tensor
        float32, float64 or complex; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the result along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int, optional
        By default the last ``len(s)`` dimensions, or all without ``s``; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) does not scale, ``"ortho"`` divides
        by ``sqrt(n)``, ``"forward"`` by ``n``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Real, with the sizes ``s`` along ``dim``; the last is by default ``2 * (m - 1)`` for ``m`` coefficients.

    Raises
    ------
    RuntimeError
        If the input is float16 or bfloat16, a size is below 1, ``norm`` is another string, ``dim`` repeats a dimension
        or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.hfftn(tensor.ones(2, 3))
    tensor([[8., 0., 0., 0.],
            [0., 0., 0., 0.]])
    """
    return _HFFTN(input, s, dim, norm, out)


@operation(namespace="fft", method=False)
def ihfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfftn`: :func:`ihfft` over the last of several dimensions, and :func:`ifft` over the others.

    Parameters
    ----------
    input : Tensor
        float32 or float64; integers and bools are converted to the default dtype.
    s : sequence of int, optional
        Sizes of the input along each of ``dim``, cut off or padded with zeros at the end; -1 keeps a size.
    dim : sequence of int, optional
        By default the last ``len(s)`` dimensions, or all without ``s``; distinct.
    norm : {"backward", "ortho", "forward"}, optional
        For the product ``n`` of the transformed sizes: ``"backward"`` (the default) divides by ``n``, ``"ortho"`` by
        ``sqrt(n)``, ``"forward"`` does not scale.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Complex; along the last of ``dim``, ``n // 2 + 1`` coefficients for a size of ``n``.

    Raises
    ------
    RuntimeError
        If the input is float16, bfloat16 or complex, a size is below 1, ``norm`` is another string, ``dim`` repeats a
        dimension or has another length than ``s``.
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.fft.ihfftn(tensor.ones(2, 4)).real
    tensor([[1., 0., 0.],
            [0., 0., 0.]])
    """
    return _IHFFTN(input, s, dim, norm, out)


# What belongs to spectra


def _frequencies_in(function: str, dtype: dtype | None) -> dtype:
    return get_default_dtype() if dtype is None else dtype_of_argument(dtype, function)


@operation(namespace="fft", method=False)
def fftfreq(
    n: int, d: float = 1.0, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Frequencies of the coefficients of :func:`fft`: ``[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (n * d)``.

    Parameters
    ----------
    n : int
        Size of the transform.
    d : float
        Spacing of the samples; the frequencies are in cycles per unit of it.
    dtype
        By default the default dtype.

    Examples
    --------
    >>> tensor.fft.fftfreq(5)
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    >>> tensor.fft.fftfreq(4, d=0.5)
    tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """
    positive = arange(n, dtype=_frequencies_in("fftfreq", dtype), device=device)
    result: Any = positive.where(positive < (n + 1) // 2, positive - n) / (n * d)
    return result.requires_grad_(requires_grad)  # type: ignore[no-any-return]


@operation(namespace="fft", method=False)
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Frequencies of the coefficients of :func:`rfft`: ``[0, 1, ..., n // 2] / (n * d)``.

    Parameters
    ----------
    n : int
        Size of the real data.
    d : float
        Spacing of the samples; the frequencies are in cycles per unit of it.
    dtype
        By default the default dtype.

    Examples
    --------
    >>> tensor.fft.rfftfreq(5)
    tensor([0.0000, 0.2000, 0.4000])
    """
    result: Any = arange(n // 2 + 1, dtype=_frequencies_in("rfftfreq", dtype), device=device) / (n * d)
    return result.requires_grad_(requires_grad)  # type: ignore[no-any-return]


def _shifts(input: Tensor, dim: Any, *, back: bool) -> Tensor:
    rank = len(input._layout.shape)
    dims = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    sizes = [input._layout.shape[each] for each in dims]
    if not dims:
        return input.clone()
    return input.roll([(n + 1) // 2 if back else n // 2 for n in sizes], dims)


@operation(namespace="fft", method=False)
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """A spectrum of :func:`fftn` with frequency 0 moved to the middle: rolled by ``n // 2`` along each of ``dim``.

    Parameters
    ----------
    dim : int or sequence of int, optional
        By default all dimensions.

    Raises
    ------
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> tensor.fft.fftshift(tensor.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifts(input, dim, back=False)


@operation(namespace="fft", method=False)
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Inverse of :func:`fftshift`: rolled by ``(n + 1) // 2`` along each of ``dim``, by default all dimensions.

    Raises
    ------
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> tensor.fft.ifftshift(tensor.tensor([-0.5, -0.25, 0.0, 0.25]))
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _shifts(input, dim, back=True)
