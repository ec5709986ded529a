"""Fourier transforms: the extension ``fft``, with the operations of :mod:`tensor.fft`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_ops: Any = SimpleNamespace(**published("fft"))

fftfreq, rfftfreq = _ops.fftfreq, _ops.rfftfreq


def _of_one(name: str) -> Any:
    function = getattr(_ops, name)

    def transform(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return function(x, n, axis, norm)  # type: ignore[no-any-return]

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"See :func:`tensor.fft.{name}`, along ``axis``."
    return transform


def _of_several(name: str) -> Any:
    function = getattr(_ops, name)

    def transform(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        return function(x, s, axes, norm)  # type: ignore[no-any-return]

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"See :func:`tensor.fft.{name}`, along ``axes``."
    return transform


fft, ifft, rfft, irfft, hfft, ihfft = map(_of_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_of_several, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """See :func:`tensor.fft.fftshift`, along ``axes``."""
    return _ops.fftshift(x, axes)  # type: ignore[no-any-return]


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """See :func:`tensor.fft.ifftshift`, along ``axes``."""
    return _ops.ifftshift(x, axes)  # type: ignore[no-any-return]
