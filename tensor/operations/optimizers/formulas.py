"""Steps of optimizers in NumPy, in place: the same formulas as in ``nvrtc_kernels/cuda/optimizer_steps.cuh``.

Each takes the elements of a parameter, its gradient (which stays as it is) and its states, all of one
dimension, and then the same numbers as the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def sgd(p: Array, grad: Array, sign: float, lr: float, weight_decay: float) -> None:
    """Gradient descent."""
    p -= lr * _decayed(sign, weight_decay, 1.0, grad, p)


def momentum_sgd(
    p: Array,
    grad: Array,
    buffer: Array,
    sign: float,
    lr: float,
    weight_decay: float,
    momentum: float,
    share: float,
    nesterov: float,
) -> None:
    """Gradient descent with momentum; ``share`` of the gradient goes into the buffer."""
    g = _decayed(sign, weight_decay, 1.0, grad, p)
    buffer *= momentum
    buffer += share * g
    p -= lr * (g + momentum * buffer if nesterov else buffer)


def adam(
    p: Array,
    grad: Array,
    mean: Array,
    square: Array,
    *rest: Any,
) -> None:
    """Adam; with a further state the greatest average of squares is used, not the present one."""
    *most, sign, decay, keep, rest1, beta2, rest2, step_size, scale, eps = rest
    g = _decayed(sign, decay, keep, grad, p)
    _moments(g, mean, square, rest1, beta2, rest2)
    if most:
        square = np.maximum(most[0], square, out=most[0])
    root = np.sqrt(square)
    root /= scale
    root += eps
    np.divide(mean, root, out=root)
    root *= step_size
    p -= root


def adamax(
    p: Array,
    grad: Array,
    mean: Array,
    norm: Array,
    sign: float,
    weight_decay: float,
    rest1: float,
    beta2: float,
    eps: float,
    step_size: float,
) -> None:
    """Adam by the infinity norm."""
    g = _decayed(sign, weight_decay, 1.0, grad, p)
    mean += rest1 * (g - mean)
    norm *= beta2
    np.maximum(norm, np.abs(g) + eps, out=norm)
    p -= step_size * (mean / norm)


def nadam(
    p: Array,
    grad: Array,
    mean: Array,
    square: Array,
    sign: float,
    decay: float,
    keep: float,
    rest1: float,
    beta2: float,
    rest2: float,
    correction2: float,
    eps: float,
    gradient_step: float,
    moment_step: float,
) -> None:
    """Adam with Nesterov's momentum."""
    g = _decayed(sign, decay, keep, grad, p)
    _moments(g, mean, square, rest1, beta2, rest2)
    root = square / correction2
    np.sqrt(root, out=root)
    root += eps
    p -= gradient_step * (g / root)
    p -= moment_step * (mean / root)


def radam(
    p: Array,
    grad: Array,
    mean: Array,
    square: Array,
    sign: float,
    decay: float,
    keep: float,
    rest1: float,
    beta2: float,
    rest2: float,
    eps: float,
    step_size: float,
    rectified: float,
) -> None:
    """Adam whose learning rate is rectified, once the variance is known well enough."""
    g = _decayed(sign, decay, keep, grad, p)
    _moments(g, mean, square, rest1, beta2, rest2)
    p -= step_size * (mean / (np.sqrt(square) + eps) if rectified else mean)


def rmsprop(p: Array, grad: Array, square: Array, *rest: Any) -> None:
    """RMSprop without further states."""
    _rmsprop(p, grad, square, None, None, *rest)


def centered_rmsprop(p: Array, grad: Array, square: Array, mean: Array, *rest: Any) -> None:
    """RMSprop by the variance."""
    _rmsprop(p, grad, square, mean, None, *rest)


def momentum_rmsprop(p: Array, grad: Array, square: Array, buffer: Array, *rest: Any) -> None:
    """RMSprop with momentum."""
    _rmsprop(p, grad, square, None, buffer, *rest)


def centered_momentum_rmsprop(
    p: Array, grad: Array, square: Array, mean: Array, buffer: Array, *rest: Any
) -> None:
    """RMSprop by the variance, with momentum."""
    _rmsprop(p, grad, square, mean, buffer, *rest)


def _rmsprop(
    p: Array,
    grad: Array,
    square: Array,
    mean: Array | None,
    buffer: Array | None,
    sign: float,
    weight_decay: float,
    alpha: float,
    rest: float,
    eps: float,
    lr: float,
    momentum: float,
) -> None:
    g = _decayed(sign, weight_decay, 1.0, grad, p)
    square *= alpha
    square += rest * g * g
    root = square
    if mean is not None:
        mean += rest * (g - mean)
        root = square - mean * mean
    change = g / (np.sqrt(root) + eps)
    if buffer is not None:
        buffer *= momentum
        buffer += change
        change = buffer
    p -= lr * change


def adagrad(
    p: Array, grad: Array, total: Array, sign: float, weight_decay: float, eps: float, lr: float
) -> None:
    """Gradient descent by the sum of all squares."""
    g = _decayed(sign, weight_decay, 1.0, grad, p)
    total += g * g
    p -= lr * (g / (np.sqrt(total) + eps))


def adadelta(
    p: Array,
    grad: Array,
    square: Array,
    changes: Array,
    sign: float,
    weight_decay: float,
    rho: float,
    rest: float,
    eps: float,
    lr: float,
) -> None:
    """Gradient descent by the averages of squares of gradients and of changes."""
    g = _decayed(sign, weight_decay, 1.0, grad, p)
    square *= rho
    square += rest * g * g
    change = np.sqrt(changes + eps)
    change /= np.sqrt(square + eps)
    change *= g
    changes *= rho
    changes += rest * change * change
    p -= lr * change


def _decayed(sign: float, decay: float, keep: float, grad: Array, p: Array) -> Array:
    """The gradient of what is minimised, with decay as a part of it; other decay is done."""
    g = grad if sign > 0 else -grad
    if decay:
        g = g + decay * p
    if keep != 1:
        p *= keep
    return g


def _moments(g: Array, mean: Array, square: Array, rest1: float, beta2: float, rest2: float) -> None:
    change = g - mean
    change *= rest1
    mean += change
    square *= beta2
    np.multiply(g, g, out=change)
    change *= rest2
    square += change
