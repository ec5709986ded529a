"""Initial values of parameters. All functions fill the tensor they are given and return it; nothing is recorded.

As in PyTorch, ``fan_in`` is the number of inputs that a unit has and ``fan_out`` the number of units that an
input goes to, for weights of shape (outputs, inputs, ...kernel).
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tensor import Tensor, float64, from_numpy, no_grad, randperm

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
    """How much the deviation of values must grow before a nonlinearity that it may remain the same.

    Parameters
    ----------
    nonlinearity
        ``"linear"``, ``"conv2d"`` and their like, ``"sigmoid"``, ``"tanh"``, ``"relu"``, ``"leaky_relu"`` or
        ``"selu"``.
    param
        Of ``"leaky_relu"`` its negative slope (0.01).

    Raises
    ------
    ValueError
        For another name, or a slope that is no number.
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
    """Whether a thread leaves tensors as they are; :func:`nn.utils.skip_init` asks for it."""

    active = False


skipping = _Skipping()


def _fills(function: _F) -> _F:
    """``function``, which fills a tensor unless its thread skips that."""

    @functools.wraps(function)
    def called(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if skipping.active else function(tensor, *args, **kwargs)

    return cast("_F", called)


@_fills
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from ``a`` to ``b``, all equally likely."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@_fills
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers of the normal distribution."""
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
    """Fill with numbers of the normal distribution between ``a`` and ``b``.

    By the inverse of the distribution's function, which is exact for intervals near the mean.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=3,
        )

    def below(x: float) -> float:
        """Part of the distribution below ``x``."""
        return (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0

    with no_grad():
        tensor.uniform_(2 * below(a) - 1, 2 * below(b) - 1, generator=generator)
        return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)


@_fills
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


@_fills
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal, and zeros elsewhere.

    Raises
    ------
    ValueError
        If it has not 2 dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    with no_grad():
        tensor.zero_().diagonal().fill_(1)
    return tensor


@_fills
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes on as many channels as it can.

    Parameters
    ----------
    tensor
        Of shape (outputs, inputs, ...kernel), with 1 to 3 dimensions of the kernel.
    groups
        Of the convolution: each passes on its first channels.

    Raises
    ------
    ValueError
        If it has another number of dimensions, or the outputs cannot be divided by ``groups``.
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
    """Fill with numbers of a uniform distribution with deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    X. Glorot and Y. Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """
    bound = math.sqrt(3.0) * _xavier_deviation(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


@_fills
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the normal distribution with deviation ``gain * sqrt(2 / (fan_in + fan_out))``."""
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
    """Fill with numbers of a uniform distribution with deviation ``gain / sqrt(fan)``.

    K. He et al., Delving deep into rectifiers, 2015.

    Parameters
    ----------
    a
        Slope of the negative part of a leaky ReLU.
    mode
        ``"fan_in"`` to keep the deviation of values going forward, ``"fan_out"`` that of gradients going back.
    nonlinearity
        Name for :func:`calculate_gain`.
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
    """Fill with numbers of the normal distribution with deviation ``gain / sqrt(fan)``.

    The arguments are those of :func:`kaiming_uniform_`.
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
    """Fill with ``gain`` times rows, or columns if they are fewer, that are orthogonal and of length 1.

    Dimensions after the first count as one. The factorization is computed on the host.

    Raises
    ------
    ValueError
        If there are fewer than 2 dimensions.
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
        wide = rows < drawn.size(1)
        exact = drawn.dtype is float64
        matrix = drawn.cpu().numpy() if exact else drawn.float().cpu().numpy()
        q, r = np.linalg.qr(matrix.T if wide else matrix)
        # Signs of the diagonal make the distribution uniform (F. Mezzadri, math-ph/0609050).
        q = q * np.sign(np.diagonal(r))
        found = np.ascontiguousarray(q.T if wide else q) * q.dtype.type(gain)
        tensor.copy_(from_numpy(found.reshape(tensor.shape)))
    return tensor


@_fills
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with numbers of the normal distribution, and in each column the part ``sparsity`` with zeros.

    J. Martens, Deep learning via Hessian-free optimization, 2010.

    Raises
    ------
    ValueError
        If it has not 2 dimensions.
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
    """``function`` by its old name, without the underscore."""
    new = function.__name__
    old = new.removesuffix("_")

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    called.__name__ = called.__qualname__ = old
    called.__doc__ = f"Old name of :func:`{new}`."
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
