"""Convolutions, pooling, padding and what else goes over signals, images and volumes in windows."""

from __future__ import annotations

from tensor.operations.convolution.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tensor.operations.convolution.unfolding import fold, unfold
from tensor.operations.pooling.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
from tensor.operations.pooling.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from tensor.operations.pooling.power_pooling import lp_pool1d, lp_pool2d, lp_pool3d
from tensor.operations.pooling.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from tensor.operations.resampling.padding import pad

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "pad",
    "unfold",
]
