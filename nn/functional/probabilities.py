"""Softmax and its like."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import tensor
from tensor import log_softmax as _log_softmax
from tensor import softmax as _softmax
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from tensor import Tensor, dtype


def _dimension(name: str, dim: int | None, rank: int) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if rank in (0, 1, 3) else 1


@operation(namespace="nn.functional", method=False)
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """``exp(x)`` divided by its sum along ``dim``; see :func:`tensor.softmax`."""
    return _softmax(input, _dimension("softmax", dim, input.dim()), dtype)


@operation(namespace="nn.functional", method=False)
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """Logarithm of :func:`softmax`, computed without loss of accuracy."""
    return _log_softmax(input, _dimension("log_softmax", dim, input.dim()), dtype)


@operation(namespace="nn.functional", method=False)
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """:func:`softmax` of ``-input``."""
    return _softmax(-input, _dimension("softmin", dim, input.dim()), dtype)


@operation(namespace="nn.functional", method=False)
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples of a distribution over categories that have a derivative by its logits.

    Parameters
    ----------
    logits
        Logarithms of the probabilities, not normalised.
    tau
        Temperature, above 0: the lower, the closer to one category.
    hard
        Whether samples are one category each, with the derivative of the soft ones.
    eps
        Taken for PyTorch's sake.
    """
    noise = -tensor.empty_like(logits).exponential_().log()
    soft = _softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = tensor.zeros_like(logits).scatter_(dim, index, 1.0)
    found: Tensor = one - soft.detach() + soft
    return found


@operation(namespace="nn.functional", method=False)
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its norm along ``dim``, or by ``eps`` where that is larger."""
    size = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return tensor.div(input, size, out=out)


@operation(namespace="nn.functional", method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels moved to pixels: ``(..., c * r * r, h, w)`` becomes ``(..., c, h * r, w * r)``.

    Raises
    ------
    RuntimeError
        If there are fewer than three dimensions, or channels that do not divide.
    """
    r = upscale_factor
    _check_images("pixel_shuffle", input)
    *lead, channels, height, width = input.shape
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    parts = input.reshape(*lead, channels // (r * r), r, r, height, width)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return parts.permute(order).reshape(*lead, channels // (r * r), height * r, width * r)


@operation(namespace="nn.functional", method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Inverse of :func:`pixel_shuffle`."""
    r = downscale_factor
    _check_images("pixel_unshuffle", input)
    *lead, channels, height, width = input.shape
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but {height} x {width} is not "
            f"divisible by {r}"
        )
    n = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return parts.permute(order).reshape(*lead, channels * r * r, height // r, width // r)


@operation(namespace="nn.functional", method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of all groups in turn: ``(n, groups * c, ...)`` as ``(n, c * groups, ...)``."""
    if input.dim() < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    items, channels, *spatial = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    return input.reshape(items, groups, channels // groups, *spatial).transpose(1, 2).reshape(input.shape)


def _check_images(name: str, input: Tensor) -> None:
    if input.dim() < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got {input.dim()} dimension(s)"
        )
