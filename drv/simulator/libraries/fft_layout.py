"""Shapes and layouts of cuFFT's transforms, and the transforms themselves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.bindings.cufft import CUFFT_FORWARD, cufftResult, cufftType

from .library_call import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DOUBLE = (cufftType.CUFFT_Z2Z, cufftType.CUFFT_D2Z, cufftType.CUFFT_Z2D)
_FROM_REAL = (cufftType.CUFFT_R2C, cufftType.CUFFT_D2Z)
_TO_REAL = (cufftType.CUFFT_C2R, cufftType.CUFFT_Z2D)
#: Transforms of a length with a larger prime factor than this go through a convolution of more than twice the length.
LARGEST_FACTOR = 127

#: ``embed``, ``stride`` and ``dist`` of one side, as cuFFT's functions take them.
AdvancedLayout = tuple["Sequence[int] | None", int, int]


class Layout(NamedTuple):
    """Shape ``(batch, ...)`` of one side of a transform, and its strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transform:
    """``batch`` transforms of shape ``n``. ``input`` and ``output`` are ``None`` for packed data."""

    fft_type: cufftType
    n: tuple[int, ...]
    batch: int
    input: Layout | None
    output: Layout | None

    @classmethod
    def checked(
        cls,
        fft_type: int,
        rank: int,
        n: Sequence[int] | None,
        input_layout: AdvancedLayout,
        output_layout: AdvancedLayout,
        batch: int,
    ) -> Transform:
        """The transform that these arguments mean. Raises :class:`Refusal`, in the order in which cuFFT checks."""
        if rank not in (1, 2, 3) or n is None or len(n) < rank:
            raise Refusal(
                cufftResult.CUFFT_INVALID_VALUE, f"rank {rank} with sizes {n}: expected 1 to 3 sizes"
            )
        try:
            known = cufftType(fft_type)
        except ValueError:
            raise Refusal(cufftResult.CUFFT_INVALID_TYPE, f"{fft_type} is no cufftType") from None
        sizes = tuple(map(int, n[:rank]))
        if min(sizes) < 1 or batch < 1:
            raise Refusal(cufftResult.CUFFT_INVALID_SIZE, f"sizes {sizes} and batch {batch} must be positive")
        # Either one of the two missing makes both sides packed.
        if input_layout[0] is None or output_layout[0] is None:
            return cls(known, sizes, int(batch), None, None)
        half = (*sizes[:-1], sizes[-1] // 2 + 1)
        return cls(
            known,
            sizes,
            int(batch),
            _advanced(half if known in _TO_REAL else sizes, batch, input_layout),
            _advanced(half if known in _FROM_REAL else sizes, batch, output_layout),
        )

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.n))
        return f"{self.fft_type.name} {sizes} batch={self.batch}"

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Type of the input's elements."""
        if self.fft_type in _FROM_REAL:
            return np.dtype(np.float64 if self.fft_type in _DOUBLE else np.float32)
        return np.dtype(np.complex128 if self.fft_type in _DOUBLE else np.complex64)

    @property
    def work_bytes(self) -> int:
        """Size of the work area: one complex array of the transform's size, more for lengths with large prime factors."""
        item = 16 if self.fft_type in _DOUBLE else 8
        sizes = list(self.n)
        if self.fft_type in _FROM_REAL or self.fft_type in _TO_REAL:
            sizes[-1] = sizes[-1] // 2 + 1
        longest = max(_convolution_length(length) / length for length in self.n)
        return -(-int(prod(sizes) * self.batch * item * longest) // 256) * 256

    def layouts(self, *, in_place: bool) -> tuple[Layout, Layout]:
        """Layouts of input and output. Packed real rows are padded to the complex ones when the transform is in place."""
        if self.input is not None and self.output is not None:
            return self.input, self.output
        half = (*self.n[:-1], self.n[-1] // 2 + 1)
        padded = (*self.n[:-1], 2 * half[-1]) if in_place else self.n
        real = _packed(self.n, self.batch, padded)
        if self.fft_type in _FROM_REAL:
            return real, _packed(half, self.batch, half)
        if self.fft_type in _TO_REAL:
            return _packed(half, self.batch, half), real
        return _packed(self.n, self.batch, self.n), _packed(self.n, self.batch, self.n)


def _packed(shape: tuple[int, ...], batch: int, stored: tuple[int, ...]) -> Layout:
    return _layout(shape, batch, stored, 1, prod(stored))


def _advanced(shape: tuple[int, ...], batch: int, advanced: AdvancedLayout) -> Layout:
    embed, stride, dist = advanced
    if embed is None or len(embed) < len(shape) or min(embed[: len(shape)]) < 1 or stride < 1 or dist < 0:
        raise Refusal(
            cufftResult.CUFFT_INVALID_VALUE,
            f"embed {embed}, stride {stride}, dist {dist}: expected {len(shape)} positive sizes, a positive "
            "stride and a dist that is not negative",
        )
    return _layout(shape, int(batch), tuple(map(int, embed[: len(shape)])), int(stride), int(dist))


def _layout(shape: tuple[int, ...], batch: int, stored: tuple[int, ...], stride: int, dist: int) -> Layout:
    strides = [stride]
    for size in reversed(stored[1:]):
        strides.insert(0, strides[0] * size)
    return Layout((batch, *shape), (dist, *strides))


def transform(
    values: NDArray[Any], fft: Transform, direction: int
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The transforms of ``values`` ``(batch, ...)``, not normalised, in the precision of ``values``.

    Second, what a multi-dimensional transform to real leaves in its input, or ``None``. The imaginary parts of what
    must be real in Hermitian data are ignored.
    """
    axes = tuple(range(1, values.ndim))
    if fft.fft_type in _FROM_REAL:
        return np.fft.rfftn(values, axes=axes), None
    if fft.fft_type in _TO_REAL:
        consumed = np.fft.ifftn(values, axes=axes[:-1], norm="forward") if len(axes) > 1 else None
        rows = values if consumed is None else consumed
        return np.fft.irfft(rows, n=fft.n[-1], axis=-1, norm="forward"), consumed
    if direction == CUFFT_FORWARD:
        return np.fft.fftn(values, axes=axes), None
    return np.fft.ifftn(values, axes=axes, norm="forward"), None


def _convolution_length(length: int) -> int:
    """Length of the transform that a transform of ``length`` becomes."""
    rest, factor = length, 2
    while factor * factor <= rest:
        if rest % factor:
            factor += 1
        else:
            rest //= factor
    return length if rest <= LARGEST_FACTOR else 1 << (2 * length - 1).bit_length()
