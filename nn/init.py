"""Initialization of parameters. All functions fill a tensor in place without recording, and return it.

``fan_in`` is the number of inputs of a unit and ``fan_out`` the number of units that an input feeds, for weights of
shape ``(outputs, inputs, *kernel)``: ``fan_in = inputs * prod(kernel)`` and ``fan_out = outputs * prod(kernel)``.
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tensor import Tensor, float64, from_numpy, no_grad, randperm
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Generator

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_F = TypeVar("_F", bound="Callable[..., Tensor]")
_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_MODES = ("fan_in", "fan_out")
_EMPTY = "Initializing zero-element tensors is a no-op"


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Recommended gain of the standard deviation for a nonlinearity.

    Parameters
    ----------
    nonlinearity : str
        ``"linear"``, ``"conv1d"`` and the like and ``"sigmoid"``: 1; ``"tanh"``: 5 / 3; ``"relu"``: sqrt(2);
        ``"leaky_relu"``: sqrt(2 / (1 + slope ** 2)); ``"selu"``: 3 / 4.
    param : float, optional
        Negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises
    ------
    ValueError
        If the nonlinearity is unknown, or the slope is not a number.

    Examples
    --------
    >>> nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity in _LINEAR or nonlinearity == "sigmoid":
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity == "selu":
        # Found by experiment (https://github.com/pytorch/pytorch/pull/50664).
        return 3.0 / 4
    raise ValueError(
        f"Unsupported nonlinearity {nonlinearity}: expected one of {', '.join(_LINEAR)}, sigmoid, tanh, relu, "
        "leaky_relu, selu"
    )


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, this one has shape "
            f"{list(tensor.shape)}"
        )
    outputs, inputs, *kernel = tensor.shape
    size = math.prod(kernel)
    return inputs * size, outputs * size


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    if mode.lower() not in _MODES:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {list(_MODES)}")
    return _calculate_fan_in_and_fan_out(tensor)[_MODES.index(mode.lower())]


class _Skipping(threading.local):
    """Whether initialization is skipped in this thread; :func:`nn.utils.skip_init` sets it."""

    active = False


skipping = _Skipping()


def _fills(function: _F) -> _F:
    """``function``, which does nothing while its thread skips initialization."""

    @functools.wraps(function)
    def called(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if skipping.active else function(tensor, *args, **kwargs)

    return cast("_F", called)


@_fills
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with samples of the uniform distribution over [a, b).

    Parameters
    ----------
    tensor : Tensor
        Floating point tensor of any shape.
    a, b : float
        Bounds.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@_fills
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with samples of the normal distribution.

    Parameters
    ----------
    tensor : Tensor
        Floating point tensor of any shape.
    mean, std : float
        Mean and standard deviation.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


@_fills
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with samples of the normal distribution truncated to [a, b], by inversion of the distribution function.

    Parameters
    ----------
    tensor : Tensor
        Floating point tensor of any shape.
    mean, std : float
        Mean and standard deviation of the distribution before truncation.
    a, b : float
        Bounds. A mean more than 2 standard deviations outside of them warns, as inversion is inexact in the tails.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=3,
        )

    def cdf(x: float) -> float:
        """Part of the distribution below ``x``."""
        return (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0

    with no_grad():
        tensor.uniform_(2 * cdf(a) - 1, 2 * cdf(b) - 1, generator=generator)
        return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)


@_fills
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill ``tensor`` with the number ``val``, in place and unrecorded. Returns the tensor.

    >>> nn.init.constant_(tensor.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill ``tensor`` with 1, in place and unrecorded. Returns the tensor.

    It may have any shape and dtype, require a gradient, and be on any device.
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill ``tensor`` with 0, in place and unrecorded. Returns the tensor.

    It may have any shape and dtype, require a gradient, and be on any device.
    """
    return constant_(tensor, 0.0)


@_fills
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity: ones on the diagonal, zeros elsewhere.

    Raises
    ------
    ValueError
        If the tensor does not have 2 dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    with no_grad():
        tensor.zero_().diagonal().fill_(1)
    return tensor


@_fills
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution with the Dirac delta, so that it preserves as many input channels as possible.

    Parameters
    ----------
    tensor : Tensor
        Weight of shape ``(outputs, inputs, *kernel)``, with 3 to 5 dimensions.
    groups : int
        Groups of the convolution, each of which preserves its first channels.

    Raises
    ------
    ValueError
        If it has another number of dimensions, or the outputs are not divisible by ``groups``.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(
            f"Only tensors with 3, 4, or 5 dimensions are supported, got shape {list(tensor.shape)}"
        )
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups:
        raise ValueError(f"dim 0 must be divisible by groups, got {outputs} and {groups}")
    each = outputs // groups
    passed = min(each, inputs)
    middle = tuple(size // 2 for size in kernel)
    with no_grad():
        tensor.zero_()
        for first in range(0, outputs, each or 1):
            tensor[(slice(first, first + passed), slice(0, passed), *middle)].diagonal().fill_(1)
    return tensor


@_fills
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot initialization: uniform in ``±gain * sqrt(6 / (fan_in + fan_out))``.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    Parameters
    ----------
    tensor : Tensor
        Weight with at least 2 dimensions.
    gain : float
        Factor; see :func:`calculate_gain`.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    """
    bound = math.sqrt(3.0) * _xavier_deviation(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


@_fills
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot initialization: normal with mean 0 and standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Parameters
    ----------
    tensor, gain, generator
        See :func:`xavier_uniform_`.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    """
    return normal_(tensor, 0.0, _xavier_deviation(tensor, gain), generator)


def _xavier_deviation(tensor: Tensor, gain: float) -> float:
    fans = sum(_calculate_fan_in_and_fan_out(tensor))
    return gain * math.sqrt(2.0 / fans) if fans else 0.0


@_fills
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He initialization: uniform in ``±gain * sqrt(3 / fan)``.

    He et al., "Delving Deep into Rectifiers", 2015.

    Parameters
    ----------
    tensor : Tensor
        Weight with at least 2 dimensions.
    a : float
        Negative slope of the rectifier that follows, for ``"leaky_relu"``.
    mode : str
        ``"fan_in"`` preserves the variance of activations in the forward pass, ``"fan_out"`` that of gradients in the
        backward pass.
    nonlinearity : str
        Name for :func:`calculate_gain`.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions, or ``mode`` is unknown.
    """
    if 0 in tensor.shape:
        warnings.warn(_EMPTY, stacklevel=3)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@_fills
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He initialization: normal with mean 0 and standard deviation ``gain / sqrt(fan)``.

    Parameters
    ----------
    tensor, a, mode, nonlinearity, generator
        See :func:`kaiming_uniform_`.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions, or ``mode`` is unknown.
    """
    if 0 in tensor.shape:
        warnings.warn(_EMPTY, stacklevel=3)
        return tensor
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_fills
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a random (semi-)orthogonal matrix times ``gain`` (Saxe, McClelland and Ganguli, 2013).

    Dimensions after the first are flattened; rows, or columns if there are fewer of them, are orthonormal. The matrix
    is uniformly distributed, from a QR factorization on the host.

    Parameters
    ----------
    tensor : Tensor
        Weight with at least 2 dimensions.
    gain : float
        Factor.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError(
            f"Only tensors with 2 or more dimensions are supported, got shape {list(tensor.shape)}"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    with no_grad():
        drawn = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
        has_more_columns = rows < drawn.size(1)
        exact = drawn.dtype is float64
        matrix = drawn.cpu().numpy() if exact else drawn.float().cpu().numpy()
        q, r = np.linalg.qr(matrix.T if has_more_columns else matrix)
        # Signs of the diagonal make the distribution uniform (F. Mezzadri, math-ph/0609050).
        q = q * np.sign(np.diagonal(r))
        orthonormal = np.ascontiguousarray(q.T if has_more_columns else q) * q.dtype.type(gain)
        tensor.copy_(from_numpy(orthonormal.reshape(tensor.shape)))
    return tensor


@_fills
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal samples, and a random part of each column with zeros (Martens, 2010).

    Parameters
    ----------
    tensor : Tensor
        Matrix.
    sparsity : float
        Part of each column that is zero, from 0 to 1.
    std : float
        Standard deviation of the other elements.
    generator : Generator, optional
        Random number generator; the default one of the tensor's device otherwise.

    Raises
    ------
    ValueError
        If the tensor does not have 2 dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    rows, columns = tensor.shape
    count = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows)[:count].to(tensor.device), column] = 0
    return tensor


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` under its old name, without the underscore."""
    new = function.__name__
    old = new.removesuffix("_")

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    called.__name__ = called.__qualname__ = old
    called.__doc__ = f"Deprecated name of :func:`{new}`, with a FutureWarning; the parameters are those of that function, as are the errors."
    return called


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
