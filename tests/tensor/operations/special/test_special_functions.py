"""What the tables of pointwise samples do not say about special functions: special values, derivatives, names."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tensor
from tensor import special
from tensor.autograd import gradcheck, gradgradcheck
from tests.tensor.comparison import array_of

_NAN, _INF = float("nan"), float("inf")


@pytest.mark.parity
def test_names_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    theirs = {
        name for name in dir(torch.special) if callable(getattr(torch.special, name)) and name[0].islower()
    }
    assert theirs - set(special.__all__) == {"airy_ai"}
    assert all(hasattr(torch.special, name) for name in special.__all__)


def test_aliases() -> None:
    x = tensor.tensor([0.25, 0.5])
    assert special.expit(x).equal(tensor.sigmoid(x))
    assert special.psi(x).equal(tensor.digamma(x))
    assert special.gammaln(x).equal(tensor.lgamma(x))
    assert special.gammainc(x, x).equal(tensor.igamma(x, x))
    assert special.multigammaln(x + 2, 2).equal(tensor.mvlgamma(x + 2, 2))


@pytest.mark.parametrize(
    ("name", "points", "expected"),
    [
        ("ndtr", [-_INF, _INF, _NAN, -40], [0, 1, _NAN, 0]),
        ("log_ndtr", [-_INF, _INF, _NAN], [-_INF, 0, _NAN]),
        ("ndtri", [0, 1, -0.1, 1.1, _NAN, 0.5], [-_INF, _INF, _NAN, _NAN, _NAN, 0]),
        ("entr", [0, -1, _INF, -_INF, _NAN], [0, -_INF, -_INF, -_INF, _NAN]),
        ("erfcx", [-_INF, _INF, _NAN, -40, 0], [_INF, 0, _NAN, _INF, 1]),
        ("i0", [-_INF, _INF, _NAN, 0], [_INF, _INF, _NAN, 1]),
        ("i0e", [-_INF, _INF, _NAN, 0], [0, 0, _NAN, 1]),
        ("i1", [-_INF, _INF, _NAN, 0], [-_INF, _INF, _NAN, 0]),
        ("i1e", [-_INF, _INF, _NAN, 0], [0, 0, _NAN, 0]),
        ("bessel_j0", [-_INF, _INF, _NAN, 0], [0, 0, _NAN, 1]),
        ("bessel_y0", [_INF, _NAN, 0, -1], [0, _NAN, -_INF, _NAN]),
        ("bessel_y1", [_INF, _NAN, 0, -1], [0, _NAN, -_INF, _NAN]),
        ("modified_bessel_k0", [_INF, _NAN, 0, -1], [0, _NAN, _INF, _NAN]),
        ("scaled_modified_bessel_k1", [_INF, _NAN, 0, -1], [0, _NAN, _INF, _NAN]),
        ("spherical_bessel_j0", [_INF, -_INF, _NAN, 0], [0, 0, _NAN, 1]),
    ],
)
def test_special_values(name: str, points: list[float], expected: list[float], device_name: str) -> None:
    result = getattr(special, name)(tensor.tensor(points, device=device_name))
    np.testing.assert_array_equal(result.cpu().numpy(), np.array(expected, np.float32))


def test_lgamma_of_hard_numbers_on_the_host() -> None:
    """On both sides of where formulas change, beside poles and zeros, and where numbers are tiny or all whole."""
    rng = np.random.default_rng(0)
    hard = [
        0.5,
        1,
        2,
        4,
        16,
        1e-45,
        1e-38,
        1e-20,
        1e7,
        1e20,
        1e36,
        -0.5,
        -1.5,
        -2.4570248,
        -2.7476828,
        -3.5,
        -15.5,
    ]
    beside = [np.nextafter(np.float32(x), np.float32(to)) for x in hard for to in (-_INF, _INF)]
    points = np.concatenate([hard, beside, rng.uniform(-30, 30, 2000), -(10 ** rng.uniform(-37, 0, 200))])
    points = points.astype(np.float32)
    exact = scipy.special.gammaln(points.astype(np.float64))
    result = tensor.lgamma(tensor.from_numpy(points)).numpy().astype(np.float64)
    finite = np.isfinite(exact)
    assert (np.isfinite(result) == finite).all()
    # Half a unit, but for numbers beside zeros, where what cancels has relative errors of 1e-12.
    allowed = 0.501 * np.spacing(np.abs(exact[finite]).astype(np.float32)) + 1e-11
    assert (np.abs(result[finite] - exact[finite]) <= allowed).all()
    edges = tensor.tensor([0.0, -0.0, -1.0, -3e38, _INF, -_INF, 3e38, _NAN, 1.0, 2.0])
    expected = [_INF] * 7 + [_NAN, 0.0, 0.0]
    np.testing.assert_array_equal(tensor.lgamma(edges).numpy(), expected)
    assert not np.signbit(tensor.lgamma(edges).numpy()).any()


@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_logit_near_its_ends_and_its_zero(kind: str, count: int, device_name: str) -> None:
    """Where odds overflow, and where they are 1; zeros of either sign are the end, and what lies outside has no logit."""
    least = float(np.finfo(kind).smallest_subnormal)
    points = np.array(
        [least, 1e-38, 1e-30, 0.25, 0.5, np.nextafter(0.5, 0, dtype=kind), 0.75, 1 - 2.0**-24], kind
    )
    ends = np.array([0.0, -0.0, 1.0, -least, -1.0, 1.5, np.inf, -np.inf, np.nan], kind)
    array = np.tile(np.concatenate([points, ends]), count)
    result = tensor.logit(tensor.from_numpy(array).to(device_name)).cpu().numpy()[-17:]
    expected = scipy.special.logit(points.astype(np.longdouble)).astype(kind)
    np.testing.assert_allclose(result[:8], expected, 4 * np.finfo(kind).eps, 0)
    np.testing.assert_array_equal(result[8:], [-_INF, -_INF, _INF, *[_NAN] * 6])


def test_incomplete_gamma_of_special_values(device_name: str) -> None:
    a = tensor.tensor([0, -1, 1, 0, 2, _INF, 1, _INF, _NAN, 0], device=device_name)
    x = tensor.tensor([0, 1, -1, 2, 0, 1, _INF, _INF, 1, _INF], device=device_name)
    lower = [_NAN, _NAN, _NAN, 1, 0, 0, 1, _NAN, _NAN, 1]
    np.testing.assert_array_equal(tensor.igamma(a, x).cpu().numpy(), lower)
    np.testing.assert_array_equal(tensor.igammac(a, x).cpu().numpy(), 1 - np.array(lower))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.sampled(4)
def test_incomplete_gamma_in_every_region(kind: str, device_name: str) -> None:
    """Small operands, a tail on both sides, large operands close together."""
    a = np.array([1e-7, 1e-3, 0.3, 0.9, 3, 15, 60, 199, 201, 1e4, 1e6, 500], kind)
    x = np.array([0.5, 1e-3, 1.05, 4, 2.9, 40, 20, 205, 190, 1.01e4, 999000, 900], kind)
    for function, reference in (
        (tensor.igamma, scipy.special.gammainc),
        (tensor.igammac, scipy.special.gammaincc),
    ):
        result = function(tensor.from_numpy(a).to(device_name), tensor.from_numpy(x).to(device_name))
        expected = reference(a.astype(np.float64), x.astype(np.float64))
        limit = 2e-7 if kind == "float32" else 2e-12
        np.testing.assert_allclose(
            result.cpu().numpy(), expected, limit, 1e-30 if kind == "float32" else 1e-300
        )


def test_zeta_of_special_values(device_name: str) -> None:
    s = tensor.tensor([1, 0.5, 2, 2, 2, _NAN, 2, 3, 100], device=device_name)
    x = tensor.tensor([1, 1, 0, -1, -1.5, 1, _NAN, -1.5, 2], device=device_name)
    expected = [_INF, _NAN, _INF, _INF, 9.379246, _NAN, _NAN, 0.11810203, 2.0**-100]
    np.testing.assert_allclose(special.zeta(s, x).cpu().numpy(), expected, 1e-6)


# Derivatives that are there for one operand only


@pytest.mark.parametrize("function", [tensor.igamma, tensor.igammac, special.zeta])
def test_derivatives_of_the_second_operand(function: object) -> None:
    a = tensor.tensor([1.5, 2.5, 4.0], dtype=tensor.float64)
    x = tensor.tensor([0.7, 2.0, 6.0], dtype=tensor.float64, requires_grad=True)
    assert gradcheck(lambda x: function(a, x), [x])  # type: ignore[operator]
    assert gradgradcheck(lambda x: function(a, x), [x])  # type: ignore[operator]
    with pytest.raises(NotImplementedError, match="derivative for"):
        function(a.requires_grad_(), x).sum().backward()  # type: ignore[operator]


def test_mvlgamma_checks_the_dimension() -> None:
    with pytest.raises(RuntimeError, match="greater than or equal to 1"):
        tensor.mvlgamma(tensor.ones(2), 0)
    with pytest.raises(RuntimeError, match="boolean"):
        tensor.mvlgamma(tensor.ones(2, dtype=tensor.bool), 2)


# Fraction and exponent


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_frexp(kind: str, device_name: str) -> None:
    x = tensor.tensor(
        [1, -3, 0, 0.1, 6e-5, _INF, -_INF, _NAN], dtype=getattr(tensor, kind), device=device_name
    )
    mantissa, exponent = tensor.frexp(x)
    assert mantissa.dtype is x.dtype
    assert exponent.dtype is tensor.int32
    numbers = x.cpu().double().numpy()
    expected = np.frexp(numbers)
    np.testing.assert_array_equal(mantissa.cpu().double().numpy(), expected[0])
    np.testing.assert_array_equal(exponent.cpu().numpy(), np.where(np.isfinite(numbers), expected[1], 0))
    assert x[:5].equal(tensor.ldexp(mantissa, exponent)[:5])


def test_frexp_writes_and_differentiates() -> None:
    x = tensor.tensor([0.3, -5.0, 60.0], dtype=tensor.float64, requires_grad=True)
    assert gradcheck(lambda x: tensor.frexp(x).mantissa, [x])
    out = tensor.empty(3, dtype=tensor.float64), tensor.empty(3, dtype=tensor.int32)
    assert tensor.frexp(x.detach(), out=out).mantissa is out[0]
    assert out[1].tolist() == [-1, 3, 6]
    with pytest.raises(RuntimeError, match="floating-point"):
        tensor.frexp(tensor.ones(2, dtype=tensor.int64))


def test_ldexp_does_not_overflow_on_the_way(device_name: str) -> None:
    x = tensor.tensor([1e-30, 1e30, 1.0], device=device_name)
    result = tensor.ldexp(x, tensor.tensor([140, -140, 200], device=device_name)).cpu().numpy()
    np.testing.assert_allclose(result, [1e-30 * 2.0**140, 1e30 * 2.0**-140, np.inf], 1e-6)


def test_divisors_of_the_extremes(device_name: str) -> None:
    a = tensor.tensor([0, -12, 2**62, -7], device=device_name)
    b = tensor.tensor([0, 18, 2**40, 0], device=device_name)
    assert tensor.gcd(a, b).tolist() == [0, 6, 2**40, 7]
    assert tensor.lcm(a, b).tolist() == [0, 36, 2**62, 0]
    with pytest.raises(NotImplementedError, match="gcd"):
        tensor.gcd(a.double(), b.double())
    with pytest.raises(TypeError, match="must be Tensor"):
        tensor.gcd(a, 4)


@pytest.mark.parametrize("shifted", [False, True])
def test_chebyshev_polynomials_of_the_third_and_fourth_kind(shifted: bool, device_name: str) -> None:
    """By their trigonometric form, with ``x = cos(t)``."""
    angle = np.linspace(0.1, 3.0, 7)
    x = tensor.tensor((np.cos(angle) + 1) / 2 if shifted else np.cos(angle), device=device_name)
    prefix = "shifted_" if shifted else ""
    for n in range(5):
        third = getattr(tensor.special, f"{prefix}chebyshev_polynomial_v")(x, n)
        fourth = getattr(tensor.special, f"{prefix}chebyshev_polynomial_w")(x, n)
        np.testing.assert_allclose(
            array_of(third), np.cos((n + 0.5) * angle) / np.cos(angle / 2), rtol=1e-11, atol=1e-13
        )
        np.testing.assert_allclose(
            array_of(fourth), np.sin((n + 0.5) * angle) / np.sin(angle / 2), rtol=1e-11, atol=1e-13
        )
