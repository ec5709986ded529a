"""Functions that write their result to their first argument, as the methods of these names do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.methods.pointwise_methods import PointwiseMethods as _Methods

from . import activation_functions as _activations

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

abs_ = _Methods.abs_
acos_ = _Methods.acos_
acosh_ = _Methods.acosh_
arccos_ = _Methods.arccos_
arccosh_ = _Methods.arccosh_
arcsin_ = _Methods.arcsin_
arcsinh_ = _Methods.arcsinh_
arctan_ = _Methods.arctan_
arctanh_ = _Methods.arctanh_
asin_ = _Methods.asin_
asinh_ = _Methods.asinh_
atan_ = _Methods.atan_
atanh_ = _Methods.atanh_
ceil_ = _Methods.ceil_
clamp_ = _Methods.clamp_
clamp_max_ = _Methods.clamp_max_
clamp_min_ = _Methods.clamp_min_
clip_ = _Methods.clip_
conj_physical_ = _Methods.conj_physical_
cos_ = _Methods.cos_
cosh_ = _Methods.cosh_
deg2rad_ = _Methods.deg2rad_
erf_ = _Methods.erf_
erfc_ = _Methods.erfc_
exp2_ = _Methods.exp2_
exp_ = _Methods.exp_
expm1_ = _Methods.expm1_
fix_ = _Methods.fix_
floor_ = _Methods.floor_
frac_ = _Methods.frac_
gcd_ = _Methods.gcd_
i0_ = _Methods.i0_
lcm_ = _Methods.lcm_
ldexp_ = _Methods.ldexp_
log10_ = _Methods.log10_
log1p_ = _Methods.log1p_
log2_ = _Methods.log2_
log_ = _Methods.log_
logit_ = _Methods.logit_
nan_to_num_ = _Methods.nan_to_num_
neg_ = _Methods.neg_
negative_ = _Methods.negative_
rad2deg_ = _Methods.rad2deg_
reciprocal_ = _Methods.reciprocal_
relu_ = _Methods.relu_
round_ = _Methods.round_
rsqrt_ = _Methods.rsqrt_
sigmoid_ = _Methods.sigmoid_
sin_ = _Methods.sin_
sinc_ = _Methods.sinc_
sinh_ = _Methods.sinh_
sqrt_ = _Methods.sqrt_
square_ = _Methods.square_
tan_ = _Methods.tan_
tanh_ = _Methods.tanh_
trunc_ = _Methods.trunc_
xlogy_ = _Methods.xlogy_


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`~nn.functional.celu` in place."""
    return _activations.celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """:func:`~nn.functional.selu` in place."""
    return _activations.selu(input, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`~nn.functional.threshold` in place."""
    return _activations.threshold(input, threshold, value, inplace=True)
