"""Batch normalisation of a trained model, put into the layer before it."""

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
    given = zeros_like(mean) if bias is None else bias
    moved = (given - mean) * scales
    if shift is not None:
        moved = moved + shift
    kind = weight.dtype if bias is None else bias.dtype
    scaled = (weight * scales.reshape(shape)).to(weight.dtype)
    return (
        Parameter(scaled.detach(), weight.requires_grad),
        Parameter(moved.to(kind).detach(), given.requires_grad),
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
    """Weight and bias of a convolution that normalises too.

    Parameters
    ----------
    conv_w, conv_b
        Of the convolution.
    bn_rm, bn_rv, bn_eps, bn_w, bn_b
        Running mean and variance of the normalisation, what is added to the variance, weight and bias.
    transpose
        Whether the convolution is a transposed one, whose weight has the outputs second.
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
    """Weight and bias of a linear layer that normalises too; see :func:`fuse_conv_bn_weights`."""
    return _fused(linear_w, linear_b, [-1, 1], bn_rm, _scales(bn_rv, bn_eps, bn_w), bn_b)


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval! Call eval() on both modules first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what ``bn`` does after ``conv``.

    Parameters
    ----------
    conv, bn
        A convolution and a batch normalisation, both in eval mode; they stay as they are.
    transpose
        Whether ``conv`` is a transposed convolution.

    Raises
    ------
    AssertionError
        In training mode, or without running statistics.
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what ``bn`` does after ``linear``.

    Raises
    ------
    AssertionError
        In training mode, without running statistics, or if the numbers of features differ.
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
