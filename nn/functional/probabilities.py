"""The softmax family, normalization of vectors, and shuffles of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from tensor import log_softmax as _log_softmax
from tensor import softmax as _softmax
from tensor.core.memory_format import suggested
from tensor.core.warning import warn_caller
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from tensor import Tensor, dtype


def _dimension(name: str, dim: int | None, rank: int) -> int:
    if dim is not None:
        return dim
    warn_caller(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
    )
    return 0 if rank in (0, 1, 3) else 1


@operation(namespace="nn.functional", method=False)
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """Softmax along ``dim``: ``exp(x) / sum(exp(x))``, computed without overflow.

    Parameters
    ----------
    input : Tensor
        Floating point tensor.
    dim : int
        Dimension whose elements sum to 1. Leaving it out is deprecated: it warns, and 0 or 1 is chosen by the rank.
    dtype : dtype, optional
        The input is converted to it first.

    Returns
    -------
    Tensor
        Of the input's shape.
    """
    return _softmax(input, _dimension("softmax", dim, input.dim()), dtype)


@operation(namespace="nn.functional", method=False)
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """Logarithm of the softmax along ``dim``: ``x - log(sum(exp(x)))``, computed without overflow or cancellation.

    Parameters
    ----------
    input : Tensor
        Floating point tensor.
    dim : int
        Dimension whose exponentials sum to 1. Leaving it out is deprecated: it warns, and 0 or 1 is chosen by the
        rank.
    dtype : dtype, optional
        The input is converted to it first.

    Returns
    -------
    Tensor
        Of the input's shape.
    """
    return _log_softmax(input, _dimension("log_softmax", dim, input.dim()), dtype)


@operation(namespace="nn.functional", method=False)
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """Softmax of ``-input`` along ``dim``: ``exp(-input) / exp(-input).sum(dim, keepdim=True)``.

    The parameters, the result's dtype and the errors are those of :func:`softmax`.

    Examples
    --------
    >>> nn.functional.softmin(tensor.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(-input, _dimension("softmin", dim, input.dim()), dtype)


@operation(namespace="nn.functional", method=False)
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples of the Gumbel-softmax distribution, differentiable with respect to the logits.

    Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2016.

    Parameters
    ----------
    logits : Tensor
        Unnormalized log-probabilities.
    tau : float
        Temperature, greater than 0: the lower, the closer to one-hot vectors.
    hard : bool
        Whether samples are one-hot, with the gradient of the soft samples (straight-through estimator).
    eps : float
        Accepted for compatibility.
    dim : int
        Dimension of the categories.

    Returns
    -------
    Tensor
        Of the shape of ``logits``, with elements that sum to 1 along ``dim``.
    """
    noise = -tensor.empty_like(logits).exponential_().log()
    soft = _softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = tensor.zeros_like(logits).scatter_(dim, index, 1.0)
    result: Tensor = one_hot - soft.detach() + soft
    return result


@operation(namespace="nn.functional", method=False)
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide ``input`` by its p-norm along ``dim``, or by ``eps`` where that is greater.

    Parameters
    ----------
    input : Tensor
        Floating point or complex tensor.
    p : float
        Of the norm.
    dim : int or tuple of int
        Dimensions of the vectors.
    eps : float
        Lower bound of the norms.
    out : Tensor, optional
        Tensor for the result.

    Returns
    -------
    Tensor
        Of the input's shape.

    Examples
    --------
    >>> nn.functional.normalize(tensor.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    size = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return tensor.div(input, size, out=out)


@operation(namespace="nn.functional", method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange channels into pixels: (..., C r², H, W) becomes (..., C, H r, W r).

    Parameters
    ----------
    input : Tensor
        Tensor with at least 3 dimensions.
    upscale_factor : int
        The factor r.

    Raises
    ------
    RuntimeError
        If there are fewer than 3 dimensions, ``upscale_factor`` is not positive, or the channels are not divisible by
        r².
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
    result = parts.permute(order).reshape(*lead, channels // (r * r), height * r, width * r)
    return _in_format_of(input, result)


@operation(namespace="nn.functional", method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Inverse of :func:`pixel_shuffle`: (..., C, H r, W r) becomes (..., C r², H, W).

    Parameters
    ----------
    input : Tensor
        Tensor with at least 3 dimensions.
    downscale_factor : int
        The factor r.

    Raises
    ------
    RuntimeError
        If there are fewer than 3 dimensions, ``downscale_factor`` is not positive, or height or width is not
        divisible by r.
    """
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
    result = parts.permute(order).reshape(*lead, channels * r * r, height // r, width // r)
    return _in_format_of(input, result)


@operation(namespace="nn.functional", method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave the channels of groups: channels [0, 1, 2, 3] in 2 groups become [0, 2, 1, 3].

    Parameters
    ----------
    input : Tensor
        Shape (N, C, ...).
    groups : int
        Number of groups, which divides C.

    Raises
    ------
    RuntimeError
        If there are fewer than 3 dimensions, or C is not divisible by ``groups``.
    """
    if input.dim() < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    items, channels, *spatial = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    parts = input.reshape(items, groups, channels // groups, *spatial).transpose(1, 2)
    return _in_format_of(input, parts.reshape(input.shape))


def _in_format_of(input: Tensor, result: Tensor) -> Tensor:
    """The row-major ``result``, or a copy in the memory format of ``input``."""
    form = suggested(input._layout)
    return result if form is tensor.contiguous_format else result.clone(memory_format=form)


def _check_images(name: str, input: Tensor) -> None:
    if input.dim() < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got {input.dim()} dimension(s)"
        )
