"""The functions of :mod:`tensor.fft`: sizes, dimensions and norms as users give them."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import float32, float64

from .. import parts
from ..autocasting import autocasted
from ..base import TensorBase
from ..creation import delivered, get_default_dtype
from ..ranges import arange
from .transforms import COMPLEX, c2c, c2r, r2c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype

    from ..tensors import Tensor

_NORMS = ("backward", "ortho", "forward")


def _norm(name: str, norm: str | None) -> str:
    found = "backward" if norm is None else norm
    if found not in _NORMS:
        raise RuntimeError(
            f'{name}(): Invalid normalization mode: "{norm}": expected one of {", ".join(_NORMS)}'
        )
    return found


def _scale(norm: str, count: int, *, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / sqrt(count)
    return 1 / count if (norm == "backward") == inverse else 1.0


def single_or_double(name: str, input: Any, *, complex: bool | None) -> Tensor:
    """``input`` as single or double precision: complex, real, or (``None``) either."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    kind = input._layout.dtype
    x: Any = input
    if not kind.is_floating_point and not kind.is_complex:
        x = x.to(get_default_dtype())
        kind = x._layout.dtype
    if kind.is_complex:
        if complex is False:
            raise RuntimeError(f"{name} expects a real input tensor, but got {kind!r}")
        return x  # type: ignore[no-any-return]
    if kind not in (float32, float64):
        raise RuntimeError(
            f"{name}(): Unsupported dtype {kind!r}: transforms are computed in single or double precision, convert with "
            ".to(tensor.float32)"
        )
    return x.to(COMPLEX[kind]) if complex else x  # type: ignore[no-any-return]


def _dimension(name: str, x: Tensor, dim: int) -> int:
    rank = len(x._layout.shape)
    if not rank:
        raise RuntimeError(f"{name}(): expected a tensor with at least one dimension")
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim % rank


def _shape(name: str, x: Tensor, s: Any, dim: Any, *, last_half: bool = False) -> tuple[list[int], list[int]]:
    """Dimensions to transform, and their sizes; ``last_half`` says that the last one is half a spectrum."""
    rank = len(x._layout.shape)
    if isinstance(s, int):
        s = (s,)
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None:
        dims = [_dimension(name, x, each) for each in dim]
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
    sizes = [x._layout.shape[each] for each in dims]
    if last_half and dims:
        sizes[-1] = 2 * (sizes[-1] - 1)
    if s is not None:
        sizes = [before if given == -1 else given for given, before in zip(s, sizes, strict=True)]
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return dims, sizes


def _resized(x: Tensor, dims: Sequence[int], sizes: list[int]) -> Tensor:
    """``x`` cut off, or with zeros added, at the ends of ``dims``."""
    if [x._layout.shape[dim] for dim in dims] == sizes:
        return x
    from ..neural.padding import constant_pad

    for dim, size in zip(dims, sizes, strict=True):
        if x._layout.shape[dim] > size:
            x = parts.narrow(x, dim, 0, size)
    missing = [0] * len(x._layout.shape)
    for dim, size in zip(dims, sizes, strict=True):
        missing[dim] = size - x._layout.shape[dim]
    return constant_pad(x, tuple((0, n) for n in missing), 0) if any(missing) else x


def _complex(
    name: str, input: Tensor, s: Any, dim: Any, norm: str | None, out: Tensor | None, *, inverse: bool
) -> Tensor:
    mode = _norm(name, norm)
    x = single_or_double(name, input, complex=True)
    dims, sizes = _shape(name, x, s, dim)
    if not dims:
        return delivered(out, x.clone(), name)
    scale = _scale(mode, prod(sizes), inverse=inverse)
    return delivered(out, c2c(_resized(x, dims, sizes), dims, inverse=inverse, scale=scale), name)


def _from_real(
    name: str, input: Tensor, s: Any, dim: Any, norm: str | None, out: Tensor | None, *, inverse: bool
) -> Tensor:
    """Half the transform of real data, conjugate for the inverse one."""
    mode = _norm(name, norm)
    x = single_or_double(name, input, complex=False)
    dims, sizes = _shape(name, x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    scale = _scale(mode, prod(sizes), inverse=inverse)
    found = r2c(_resized(x, dims, sizes), dims, scale=scale)
    return delivered(out, found.conj() if inverse else found, name)


def _to_real(
    name: str, input: Tensor, s: Any, dim: Any, norm: str | None, out: Tensor | None, *, inverse: bool
) -> Tensor:
    """Real data from half a Hermitian spectrum, by the inverse transform or the forward one."""
    mode = _norm(name, norm)
    x = single_or_double(name, input, complex=True)
    dims, sizes = _shape(name, x, s, dim, last_half=True)
    scale = _scale(mode, prod(sizes), inverse=inverse)
    x = _resized(x, dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    return delivered(out, c2r(x if inverse else x.conj(), dims, sizes[-1], scale=scale), name)


def _one(name: str, input: Any, n: int | None, dim: int) -> tuple[Any, Any]:
    if isinstance(input, TensorBase):
        _dimension(name, input, dim)  # type: ignore[arg-type]
    return (None if n is None else (n,)), (dim,)


@autocasted
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Discrete Fourier transform along a dimension.

    Parameters
    ----------
    input
        Real or complex, in single or double precision; integers are converted.
    n
        Size to cut off or pad with zeros to.
    norm : {"backward", "ortho", "forward"}
        Whether the inverse transform is divided by ``n`` (the default), both by its square root, or this one by ``n``.

    Returns
    -------
    Tensor
        Complex.

    Raises
    ------
    RuntimeError
        For half precision, another norm, or a size below 1.
    IndexError
        If ``dim`` does not exist.
    """
    return _complex("fft", input, *_one("fft", input, n, dim), norm, out, inverse=False)


@autocasted
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fft`."""
    return _complex("ifft", input, *_one("ifft", input, n, dim), norm, out, inverse=True)


@autocasted
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` of real data: the ``n // 2 + 1`` coefficients whose mirror images the others are."""
    return _from_real("rfft", input, *_one("rfft", input, n, dim), norm, out, inverse=False)


@autocasted
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfft`: ``n`` real elements, ``2 * (coefficients - 1)`` by default."""
    return _to_real("irfft", input, *_one("irfft", input, n, dim), norm, out, inverse=True)


@autocasted
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` of Hermitian data, of which ``input`` is one half: the real spectrum."""
    return _to_real("hfft", input, *_one("hfft", input, n, dim), norm, out, inverse=False)


@autocasted
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfft`."""
    return _from_real("ihfft", input, *_one("ihfft", input, n, dim), norm, out, inverse=True)


@autocasted
def fft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` over two dimensions."""
    return _complex("fft2", input, s, dim, norm, out, inverse=False)


@autocasted
def ifft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fft2`."""
    return _complex("ifft2", input, s, dim, norm, out, inverse=True)


@autocasted
def rfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`rfft` over the last of two dimensions, and :func:`fft` over the other."""
    return _from_real("rfft2", input, s, dim, norm, out, inverse=False)


@autocasted
def irfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfft2`."""
    return _to_real("irfft2", input, s, dim, norm, out, inverse=True)


def hfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`hfft` over the last of two dimensions, and :func:`fft` over the other."""
    return _to_real("hfft2", input, s, dim, norm, out, inverse=False)


def ihfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfft2`."""
    return _from_real("ihfft2", input, s, dim, norm, out, inverse=True)


@autocasted
def fftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` over any dimensions, all of them by default."""
    return _complex("fftn", input, s, dim, norm, out, inverse=False)


@autocasted
def ifftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`fftn`."""
    return _complex("ifftn", input, s, dim, norm, out, inverse=True)


@autocasted
def rfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`rfft` over the last of any dimensions, and :func:`fft` over the others."""
    return _from_real("rfftn", input, s, dim, norm, out, inverse=False)


@autocasted
def irfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`rfftn`."""
    return _to_real("irfftn", input, s, dim, norm, out, inverse=True)


def hfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`hfft` over the last of any dimensions, and :func:`fft` over the others."""
    return _to_real("hfftn", input, s, dim, norm, out, inverse=False)


def ihfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Inverse of :func:`hfftn`."""
    return _from_real("ihfftn", input, s, dim, norm, out, inverse=True)


# What belongs to spectra


def fftfreq(
    n: int, d: float = 1.0, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Frequencies of the coefficients of :func:`fft`, in cycles per unit of ``d``, the spacing of samples."""
    positive = arange(n, dtype=dtype or get_default_dtype(), device=device)
    found: Any = positive.where(positive < (n + 1) // 2, positive - n) / (n * d)
    return found.requires_grad_(requires_grad)  # type: ignore[no-any-return]


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Frequencies of the coefficients of :func:`rfft`."""
    found: Any = arange(n // 2 + 1, dtype=dtype or get_default_dtype(), device=device) / (n * d)
    return found.requires_grad_(requires_grad)  # type: ignore[no-any-return]


def _shifts(input: Tensor, dim: Any, *, back: bool) -> Tensor:
    rank = len(input._layout.shape)
    dims = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    sizes = [input._layout.shape[each] for each in dims]
    if not dims:
        return input.clone()
    return input.roll([(n + 1) // 2 if back else n // 2 for n in sizes], dims)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Spectra with frequency 0 in the middle of ``dim``, by default of all dimensions."""
    return _shifts(input, dim, back=False)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Inverse of :func:`fftshift`."""
    return _shifts(input, dim, back=True)
