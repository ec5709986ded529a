"""One row for each public pointwise operation: what it computes, on which numbers, and how exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special

import tensor
from tensor import special
from tensor.operations.pointwise import activations

if TYPE_CHECKING:
    from collections.abc import Callable

ALL, REAL, NUMERIC, FLOATING, INTEGER = "bifc", "bif", "ifc", "f", "i"


@dataclass(frozen=True)
class Sample:
    """A pointwise function.

    Attributes
    ----------
    name : str
        Of the function in ``tensor``, or in one of its modules.
    reference : callable
        The same on NumPy arrays of double precision, or of integers and bools.
    operands : int
        Tensors that it takes.
    kinds : str
        Kinds of elements that make sense: bool, integer, floating point, complex.
    low, high : float
        Numbers that operands lie between; ``apart`` is a distance that they keep from the points ``kinks``,
        where the derivative jumps.
    arguments : dict
        Further arguments, of which the reference knows.
    ulps : float
        Units in the last place that a result may be off, of the larger part for complex numbers.
    half_ulps : float
        The same for half precision, which is computed in single precision and rounded once.
    least : float
        Size below which a result is as exact as one of this size: it is a difference of larger ones.
    differentiable : bool
        Whether there is a derivative.
    twin : str
        Name in ``torch``; ``""`` where there is none.
    out, in_place : bool
        Whether results can be written to a given tensor, and to the first operand.
    condition : bool
        Whether a bool tensor comes before the operands.
    label : str
        What tells samples of one function apart.
    """

    name: str
    reference: Callable[..., Any]
    operands: int = 1
    kinds: str = REAL
    low: float = -3.0
    high: float = 3.0
    kinks: tuple[float, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)
    ulps: float = 4.0
    half_ulps: float = 1.0
    least: float = 0.0
    differentiable: bool = True
    twin: str | None = None
    out: bool = True
    in_place: bool = True
    condition: bool = False
    label: str = ""

    def __str__(self) -> str:
        return self.label or self.name

    @property
    def function(self) -> Callable[..., Any]:
        """The function of this project."""
        for device in (tensor, activations, special):
            result = getattr(device, self.name, None)
            if result is not None:
                return result
        raise AttributeError(self.name)


def _rounded(mode: str) -> Callable[..., Any]:
    def divide(a: Any, b: Any) -> Any:
        if a.dtype.kind in "iu":
            quotient = np.floor_divide(a, b)
            return quotient + ((mode == "trunc") & (np.fmod(a, b) != 0) & ((a < 0) != (b < 0)))
        return np.floor(a / b) if mode == "floor" else np.trunc(a / b)

    return divide


def _elu(alpha: float, scale: float, inner: float) -> Callable[[Any], Any]:
    return lambda a: np.where(a > 0, scale * a, alpha * np.expm1(np.minimum(a, 0) * inner))


def _sgn(a: Any) -> Any:
    return np.sign(a) if a.dtype.kind != "c" else np.where(a == 0, 0, a / np.where(a == 0, 1, np.abs(a)))


def _int_power(a: Any, b: Any) -> Any:
    return np.power(a, np.abs(b)) if a.dtype.kind in "iu" else np.power(a, b)


def _logaddexp(a: Any, b: Any) -> Any:
    return np.logaddexp(a, b) if a.dtype.kind == "f" else np.log(np.exp(a) + np.exp(b))


def _sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


_S = Sample
_COMPARISONS = [
    _S(name, function, 2, kinds, differentiable=False)
    for name, function, kinds in (
        ("eq", np.equal, ALL),
        ("ne", np.not_equal, ALL),
        ("lt", np.less, REAL),
        ("le", np.less_equal, REAL),
        ("gt", np.greater, REAL),
        ("ge", np.greater_equal, REAL),
    )
]
SAMPLES: list[Sample] = [
    # Arithmetic
    _S("add", np.add, 2, ALL),
    _S("add", lambda a, b: a + 2 * b, 2, NUMERIC, arguments={"alpha": 2}, label="add-alpha"),
    _S("sub", np.subtract, 2, NUMERIC),
    _S("sub", lambda a, b: a - 2 * b, 2, NUMERIC, arguments={"alpha": 2}, label="sub-alpha"),
    _S("rsub", lambda a, b: b - a, 2, NUMERIC, out=False, in_place=False),
    _S("mul", np.multiply, 2, ALL),
    _S("div", np.true_divide, 2, ALL, low=0.5),
    _S("div", _rounded("floor"), 2, "if", low=1, arguments={"rounding_mode": "floor"}, label="div-floor"),
    _S("div", _rounded("trunc"), 2, "if", low=1, arguments={"rounding_mode": "trunc"}, label="div-trunc"),
    _S("true_divide", np.true_divide, 2, ALL, low=0.5),
    _S("floor_divide", np.floor_divide, 2, "if", low=1, differentiable=False),
    _S("remainder", np.remainder, 2, "if", low=1, ulps=16),
    _S("fmod", np.fmod, 2, "if", low=1, ulps=16),
    _S("reciprocal", lambda a: 1 / a, kinds=ALL, low=0.5),
    _S("neg", np.negative, kinds=NUMERIC),
    _S("positive", np.positive, kinds=NUMERIC, out=False, in_place=False),
    _S("abs", np.abs, kinds=NUMERIC, kinks=(0,)),
    _S("sign", np.sign, kinds="if", kinks=(0,)),
    _S("sgn", _sgn, kinds=NUMERIC, kinks=(0,)),
    _S("gcd", np.gcd, 2, INTEGER, differentiable=False),
    _S("lcm", np.lcm, 2, INTEGER, differentiable=False),
    # Comparisons
    *_COMPARISONS,
    _S("isnan", np.isnan, kinds=ALL, differentiable=False, out=False, in_place=False),
    _S("isinf", np.isinf, kinds=ALL, differentiable=False, out=False, in_place=False),
    _S("isfinite", np.isfinite, kinds=ALL, differentiable=False, out=False, in_place=False),
    _S("isreal", np.isreal, kinds=ALL, differentiable=False, out=False, in_place=False),
    _S("isposinf", np.isposinf, kinds=REAL, differentiable=False, in_place=False),
    _S("isneginf", np.isneginf, kinds=REAL, differentiable=False, in_place=False),
    _S("signbit", lambda a: a < 0, kinds=REAL, differentiable=False, in_place=False),
    _S(
        "isclose",
        lambda a, b: np.isclose(a, b, rtol=0.3),
        2,
        "ifc",
        arguments={"rtol": 0.3},
        differentiable=False,
        out=False,
        in_place=False,
    ),
    # Bits and logic
    _S("bitwise_and", np.bitwise_and, 2, "bi", differentiable=False),
    _S("bitwise_or", np.bitwise_or, 2, "bi", differentiable=False),
    _S("bitwise_xor", np.bitwise_xor, 2, "bi", differentiable=False),
    _S("bitwise_not", np.bitwise_not, 1, "bi", differentiable=False),
    _S("bitwise_left_shift", np.left_shift, 2, "i", low=0, differentiable=False),
    _S("bitwise_right_shift", np.right_shift, 2, "i", low=0, differentiable=False),
    _S("logical_and", np.logical_and, 2, ALL, differentiable=False),
    _S("logical_or", np.logical_or, 2, ALL, differentiable=False),
    _S("logical_xor", np.logical_xor, 2, ALL, differentiable=False),
    _S("logical_not", np.logical_not, 1, ALL, differentiable=False),
    # Powers
    _S("exp", np.exp, kinds=ALL),
    _S("exp2", np.exp2, kinds=ALL),
    _S("expm1", np.expm1, kinds=ALL, ulps=8),
    _S("log", np.log, kinds=ALL, low=0.1, high=5, ulps=8),
    _S("log2", np.log2, kinds=ALL, low=0.1, high=5, ulps=8),
    _S("log10", np.log10, kinds=ALL, low=0.1, high=5, ulps=8),
    _S("log1p", np.log1p, kinds=ALL, low=-0.9, high=5, ulps=8),
    _S("sqrt", np.sqrt, kinds=ALL, low=0.1),
    _S("rsqrt", lambda a: 1 / np.sqrt(a), kinds=ALL, low=0.1),
    _S("square", np.square, kinds=NUMERIC),
    _S("pow", _int_power, 2, NUMERIC, low=0.5, ulps=32),
    _S("pow", lambda a: a**3, 1, NUMERIC, arguments={"exponent": 3}, label="pow-cube", ulps=8),
    _S("pow", lambda a: a**0.5, 1, "fc", low=0.1, arguments={"exponent": 0.5}, label="pow-root"),
    _S("pow", lambda a: a**-2.0, 1, "fc", low=0.5, arguments={"exponent": -2}, label="pow-inverse", ulps=8),
    _S("pow", lambda a: a**1.7, 1, "fc", low=0.5, arguments={"exponent": 1.7}, label="pow-number", ulps=32),
    _S("float_power", np.float_power, 2, NUMERIC, low=0.5, ulps=32, out=False, in_place=False),
    _S("ldexp", lambda a, b: a * np.exp2(b), 2, ALL),
    # Angles and hyperbolas
    _S("sin", np.sin, kinds=ALL),
    _S("cos", np.cos, kinds=ALL),
    _S("tan", np.tan, kinds=ALL, low=-1.4, high=1.4),
    _S("asin", np.arcsin, kinds=ALL, low=-0.9, high=0.9, ulps=8),
    _S("acos", np.arccos, kinds=ALL, low=-0.9, high=0.9, ulps=8),
    _S("atan", np.arctan, kinds=ALL, ulps=8),
    _S("atan2", np.arctan2, 2, REAL, low=0.2),
    _S("hypot", np.hypot, 2, REAL, low=0.2),
    _S("sinh", np.sinh, kinds=ALL),
    _S("cosh", np.cosh, kinds=ALL),
    _S("tanh", np.tanh, kinds=ALL, ulps=8),
    _S("asinh", np.arcsinh, kinds=ALL, ulps=8),
    _S("acosh", np.arccosh, kinds=ALL, low=1.1, high=4, ulps=8),
    _S("atanh", np.arctanh, kinds=ALL, low=-0.9, high=0.9, ulps=8),
    _S("deg2rad", np.deg2rad, kinds=REAL),
    _S("rad2deg", np.rad2deg, kinds=REAL),
    # Rounding
    _S("ceil", np.ceil, kinds="if", kinks=(-2, -1, 0, 1, 2)),
    _S("floor", np.floor, kinds="if", kinks=(-2, -1, 0, 1, 2)),
    _S("round", np.round, kinds="if", kinks=(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)),
    _S(
        "round",
        lambda a: np.round(a, 1),
        kinds="f",
        arguments={"decimals": 1},
        label="round-decimals",
        differentiable=False,
    ),
    _S(
        "round",
        lambda a: np.round(a, -1),
        kinds="f",
        high=40,
        arguments={"decimals": -1},
        label="round-tens",
        differentiable=False,
    ),
    _S("trunc", np.trunc, kinds="if", kinks=(-2, -1, 0, 1, 2)),
    _S("frac", lambda a: a - np.trunc(a), kinds="f", kinks=(-2, -1, 0, 1, 2), ulps=16),
    # Special functions
    _S("erf", scipy.special.erf),
    _S("erfc", scipy.special.erfc, ulps=16),
    _S("erfinv", scipy.special.erfinv, low=-0.95, high=0.95, ulps=16),
    _S("lgamma", scipy.special.gammaln, low=0.2, high=12, least=0.5),
    _S("digamma", scipy.special.digamma, low=0.2, high=12, least=1.0, ulps=8),
    _S("sigmoid", _sigmoid, kinds=ALL),
    _S("logit", scipy.special.logit, low=0.1, high=0.9, ulps=16),
    _S(
        "logit",
        lambda a: scipy.special.logit(np.clip(a, 0.25, 0.75)),
        low=0.0,
        high=1.0,
        kinks=(0.25, 0.75),
        arguments={"eps": 0.25},
        label="logit-eps",
        ulps=16,
    ),
    _S("logaddexp", _logaddexp, 2, "fc", least=1.0, in_place=False),
    _S("logaddexp2", np.logaddexp2, 2, "f", least=1.0, in_place=False),
    _S("xlogy", scipy.special.xlogy, 2, REAL, low=0.2),
    _S("sinc", np.sinc, kinds=ALL, low=0.3, high=2.6, least=1.0),
    _S("igamma", scipy.special.gammainc, 2, "f", low=0.2, ulps=24, differentiable=False),
    _S("igammac", scipy.special.gammaincc, 2, "f", low=0.2, ulps=48, differentiable=False),
    _S(
        "mvlgamma",
        lambda a: scipy.special.multigammaln(a, 2),
        kinds="if",
        low=1.2,
        high=6,
        arguments={"p": 2},
        least=1.0,
    ),
    _S("zeta", scipy.special.zeta, 2, REAL, low=1.2, high=5, ulps=16, differentiable=False, in_place=False),
    *[
        _S(name, function, low=low, high=high, ulps=ulps, least=least, in_place=False)
        for name, function, low, high, ulps, least in (
            ("erfcx", scipy.special.erfcx, -2.0, 5.0, 8, 0.0),
            ("ndtr", scipy.special.ndtr, -4.0, 3.0, 16, 0.0),
            ("log_ndtr", scipy.special.log_ndtr, -5.0, 3.0, 16, 0.0),
            ("ndtri", scipy.special.ndtri, 0.05, 0.95, 16, 1.0),
            ("entr", scipy.special.entr, 0.2, 3.0, 4, 1.0),
            ("i0e", scipy.special.i0e, 0.2, 12.0, 8, 0.0),
            ("i1", scipy.special.i1, -4.0, 4.0, 8, 0.0),
            ("i1e", scipy.special.i1e, 0.2, 12.0, 8, 0.0),
        )
    ],
    _S("i0", scipy.special.i0, low=-4, high=4, ulps=8),
    _S("xlog1py", scipy.special.xlog1py, 2, REAL, low=0.2, in_place=False),
    *[
        _S(name, function, low=0.2, high=12, ulps=8, least=1.0, differentiable=False, in_place=False)
        for name, function in (
            ("bessel_j0", scipy.special.j0),
            ("bessel_j1", scipy.special.j1),
            ("bessel_y0", scipy.special.y0),
            ("bessel_y1", scipy.special.y1),
            ("modified_bessel_k0", scipy.special.k0),
            ("modified_bessel_k1", scipy.special.k1),
            ("scaled_modified_bessel_k0", scipy.special.k0e),
            ("scaled_modified_bessel_k1", scipy.special.k1e),
            ("spherical_bessel_j0", lambda a: scipy.special.spherical_jn(0, a)),
        )
    ],
    *[
        _S(name, function, arguments={"n": 4}, least=1e-2, ulps=64, differentiable=False, in_place=False)
        for name, function in (
            ("chebyshev_polynomial_t", lambda a: scipy.special.eval_chebyt(4, a)),
            ("chebyshev_polynomial_u", lambda a: scipy.special.eval_chebyu(4, a)),
            ("hermite_polynomial_h", lambda a: scipy.special.eval_hermite(4, a)),
            ("hermite_polynomial_he", lambda a: scipy.special.eval_hermitenorm(4, a)),
            ("laguerre_polynomial_l", lambda a: scipy.special.eval_laguerre(4, a)),
            ("legendre_polynomial_p", lambda a: scipy.special.eval_legendre(4, a)),
            ("shifted_chebyshev_polynomial_t", lambda a: scipy.special.eval_sh_chebyt(4, a)),
            ("shifted_chebyshev_polynomial_u", lambda a: scipy.special.eval_sh_chebyu(4, a)),
        )
    ],
    # Complex numbers
    _S("conj", np.conj, kinds=NUMERIC, out=False, in_place=False),
    _S("conj_physical", np.conj, kinds="c"),
    _S("conj_physical", np.conj, kinds="if", label="conj_physical-real", in_place=False),
    _S("angle", np.angle, kinds=NUMERIC, kinks=(0,), in_place=False),
    # Selection
    _S("where", np.where, 2, ALL, condition=True, in_place=False),
    _S("maximum", np.maximum, 2, REAL, in_place=False),
    _S("minimum", np.minimum, 2, REAL, in_place=False),
    _S("fmax", np.fmax, 2, REAL, in_place=False),
    _S("fmin", np.fmin, 2, REAL, in_place=False),
    _S("clamp", lambda a: np.clip(a, 0, 2), 1, "if", arguments={"min": 0, "max": 2}, kinks=(0, 2)),
    _S("clamp", np.clip, 3, "if", label="clamp-tensors"),
    _S("clamp", lambda a: np.maximum(a, 0), 1, "if", arguments={"min": 0}, kinks=(0,), label="clamp-lower"),
    _S("clamp", lambda a: np.minimum(a, 2), 1, "if", arguments={"max": 2}, kinks=(2,), label="clamp-upper"),
    _S("clamp_min", lambda a: np.maximum(a, 1), 1, "if", arguments={"min": 1}, kinks=(1,)),
    _S("clamp_max", lambda a: np.minimum(a, 1), 1, "if", arguments={"max": 1}, kinks=(1,)),
    _S("nan_to_num", np.nan_to_num, 1, ALL),
    _S(
        "heaviside",
        lambda a, b: np.where(a == 0, b, (a > 0).astype(a.dtype)),
        2,
        REAL,
        differentiable=False,
    ),
    _S("copysign", np.copysign, 2, REAL, low=0.2),
    _S("nextafter", np.nextafter, 2, "f", differentiable=False, ulps=1.01),
    _S("lerp", lambda a, b, c: a + c * (b - a), 3, "fc", ulps=32, label="lerp-tensors"),
    _S("lerp", lambda a, b: a + 0.3 * (b - a), 2, "fc", arguments={"weight": 0.3}, ulps=32),
    _S("addcmul", lambda a, b, c: a + 2 * b * c, 3, NUMERIC, arguments={"value": 2}, ulps=64),
    _S("addcdiv", lambda a, b, c: a + 2 * b / c, 3, "fc", low=0.5, arguments={"value": 2}, ulps=32),
    # Activation functions
    _S("relu", lambda a: np.maximum(a, 0), 1, "if", kinks=(0,), out=False),
    _S("relu6", lambda a: np.clip(a, 0, 6), 1, "f", low=-3, high=9, kinks=(0, 6), twin="nn.functional.relu6"),
    _S("leaky_relu", lambda a: np.where(a > 0, a, 0.01 * a), 1, "f", kinks=(0,)),
    _S(
        "threshold",
        lambda a: np.where(a > 0.5, a, 2),
        1,
        "if",
        kinks=(0.5,),
        arguments={"threshold": 0.5, "value": 2},
    ),
    _S("elu", _elu(1.5, 1, 1), 1, "f", arguments={"alpha": 1.5}, kinks=(0,)),
    _S("selu", _elu(1.7580993408473766, 1.0507009873554805, 1), 1, "f", kinks=(0,)),
    _S("celu", _elu(1.5, 1, 1 / 1.5), 1, "f", arguments={"alpha": 1.5}, kinks=(0,)),
    _S("softplus", lambda a: np.logaddexp(a, 0), 1, "f", in_place=False),
    _S("logsigmoid", lambda a: -np.logaddexp(-a, 0), 1, "f", in_place=False),
    _S("silu", lambda a: a * _sigmoid(a), 1, "f"),
    _S("mish", lambda a: a * np.tanh(np.logaddexp(a, 0)), 1, "f", ulps=16),
    _S("gelu", lambda a: a * scipy.special.ndtr(a), 1, "f", ulps=16, in_place=False),
    _S(
        "gelu",
        lambda a: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))),
        1,
        "f",
        low=-1.5,
        arguments={"approximate": "tanh"},
        in_place=False,
        label="gelu-tanh",
        ulps=16,
    ),
    _S("softsign", lambda a: a / (1 + np.abs(a)), 1, "f", kinks=(0,), in_place=False),
    _S("hardtanh", lambda a: np.clip(a, -1, 1), 1, "f", kinks=(-1, 1)),
    _S(
        "hardtanh",
        lambda a: np.clip(a, 0, 2),
        1,
        "if",
        kinks=(0, 2),
        arguments={"min_val": 0, "max_val": 2},
        label="hardtanh-limits",
    ),
    _S("hardsigmoid", lambda a: np.clip(a + 3, 0, 6) / 6, 1, "f", low=-5, high=5, kinks=(-3, 3)),
    _S("hardswish", lambda a: a * np.clip(a + 3, 0, 6) / 6, 1, "f", low=-5, high=5, kinks=(-3, 3)),
    _S("hardshrink", lambda a: np.where(np.abs(a) <= 0.5, 0, a), 1, "f", kinks=(-0.5, 0.5), in_place=False),
    _S(
        "softshrink",
        lambda a: np.sign(a) * np.maximum(np.abs(a) - 0.5, 0),
        1,
        "f",
        kinks=(-0.5, 0.5),
        in_place=False,
    ),
    _S("tanhshrink", lambda a: a - np.tanh(a), 1, "f", low=0.5, least=1.0, half_ulps=4, in_place=False),
]
#: Functions with arguments of their own kind, tested apart.
APART = {"frexp", "polar", "polygamma", "prelu", "resolve_conj", "resolve_neg"}
