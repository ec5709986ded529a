"""Fusion of batch normalization into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from nn.parameter import Parameter
from tensor import ones_like, zeros_like

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _scales(bn_rv: Any, bn_eps: float, bn_w: Any) -> Any:
    scales = (bn_rv + bn_eps).rsqrt()
    return scales if bn_w is None else bn_w * scales


def _fused(
    weight: Any, bias: Any, shape: list[int], mean: Any, scales: Any, shift: Any
) -> tuple[Parameter, Parameter]:
    old_bias = zeros_like(mean) if bias is None else bias
    new_bias = (old_bias - mean) * scales
    if shift is not None:
        new_bias = new_bias + shift
    dtype = weight.dtype if bias is None else bias.dtype
    new_weight = (weight * scales.reshape(shape)).to(weight.dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.to(dtype).detach(), old_bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a batch normalization folded in.

    Parameters
    ----------
    conv_w, conv_b : Tensor
        Weight and, optionally, bias of the convolution.
    bn_rm, bn_rv : Tensor
        Running mean and variance.
    bn_eps : float
        Added to the variance.
    bn_w, bn_b : Tensor, optional
        Weight and bias of the normalization.
    transpose : bool
        Whether the convolution is transposed, with the output channels as second dimension of its weight.

    Returns
    -------
    (Parameter, Parameter)
        Weight and bias.
    """
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, shape, bn_rm, _scales(bn_rv, bn_eps, bn_w), bn_b)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with a batch normalization folded in.

    Parameters
    ----------
    linear_w, linear_b : Tensor
        Weight (out_features, in_features) and bias (out_features,) of the layer; the bias may be ``None``.
    bn_rm, bn_rv : Tensor
        Running mean and variance, (out_features,).
    bn_eps : float
        What is added to the variance.
    bn_w, bn_b : Tensor
        Weight and bias of the normalization, (out_features,).

    Returns
    -------
    tuple of Parameter
        The new weight and bias.
    """
    return _fused(linear_w, linear_b, [-1, 1], bn_rm, _scales(bn_rv, bn_eps, bn_w), bn_b)


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval! Call eval() on both modules first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that computes ``bn(conv(x))``, in evaluation mode.

    Parameters
    ----------
    conv, bn : Module
        Convolution and batch normalization, which stay as they are.
    transpose : bool
        Whether ``conv`` is transposed.

    Raises
    ------
    AssertionError
        If one of them is in training mode, or there are no running statistics.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    >>> fused = nn.utils.fuse_conv_bn_eval(model[0], model[1])
    >>> x = tensor.randn(1, 3, 8, 8)
    >>> tensor.allclose(fused(x), model(x), atol=1e-5)
    True
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that computes ``bn(linear(x))``, in evaluation mode.

    Raises
    ------
    AssertionError
        If one of them is in training mode, there are no running statistics, or the numbers of features differ.
    """
    _check(linear, bn)
    # Normalisation of a single feature broadcasts, which no linear layer does.
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
            f"{linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    weight = ones_like(bn.running_mean) if bn.weight is None else bn.weight
    bias = zeros_like(bn.running_mean) if bn.bias is None else bn.bias
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, weight, bias
    )
    return fused
