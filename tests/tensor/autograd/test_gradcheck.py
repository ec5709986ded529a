"""``gradcheck`` accepts right derivatives, and finds each kind of wrong one."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.autograd import Function, gradcheck, gradgradcheck
from tensor.autograd.gradcheck import GradcheckError


def real(*shape: int, device: str = "cpu", dtype: Any = tensor.float64) -> Any:
    values = np.random.default_rng(1).standard_normal(shape)
    return tensor.from_numpy(values).to(device=device, dtype=dtype).requires_grad_()


def complex_(*shape: int, device: str = "cpu") -> Any:
    random = np.random.default_rng(2)
    values = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return tensor.tensor(values, device=device).requires_grad_()


def square(derivative: Any) -> Any:
    """``x * x`` with a derivative that is computed from the gradient and ``x``."""

    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return derivative(g, *ctx.saved_tensors)

    return Square.apply


def right(g: Any, x: Any) -> Any:
    return 2 * g * x.conj()


both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


# Right derivatives


@both_modes
def test_right_derivatives_pass(device_name: str, fast: bool) -> None:
    x = real(2, 3, device=device_name)
    assert gradcheck(square(right), x, fast_mode=fast)
    assert gradgradcheck(square(right), x, fast_mode=fast)
    assert gradcheck(lambda x: (x.exp(), x.sum(0)), [x], fast_mode=fast)


@both_modes
def test_complex_numbers(device_name: str, fast: bool) -> None:
    z, x = complex_(3, device=device_name), real(3, device=device_name)
    assert gradcheck(square(right), z, fast_mode=fast)
    assert gradgradcheck(square(right), z, fast_mode=fast)
    # From complex to real numbers, and from real to complex ones.
    assert gradcheck(lambda z: (z.abs(), z.real * z.imag), z, fast_mode=fast)
    assert gradcheck(lambda x: tensor.polar(x, x * x), x, fast_mode=fast)
    assert gradcheck(lambda z, x: z.conj() * x, (z, x), fast_mode=fast)


def test_several_inputs_and_other_arguments() -> None:
    x, y = real(2), real(2, 1)
    assert gradcheck(lambda x, n, y, plain: (x * n).exp() * y + plain, (x, 3, y, tensor.ones(2)))
    assert gradgradcheck(lambda x, n, y: (x * n).exp() * y, (x, 3, y))


def test_one_tensor_as_two_inputs() -> None:
    x = real(3)
    assert gradcheck(lambda x: x * x, x)


def test_outputs_without_derivative_are_left_out() -> None:
    x = real(4)
    assert gradcheck(lambda x: x.max(0), x)
    assert gradcheck(lambda x: (x * 2, x.detach()), x)


def test_a_constant_has_no_derivative_to_be_wrong() -> None:
    assert gradcheck(lambda x: x > 0, real(3))
    assert gradcheck(lambda x: tensor.ones(2, dtype=tensor.float64), real(3))


def test_views_gaps_and_shapes_without_elements() -> None:
    x = real(4, 6).detach()[::2, 1::2].requires_grad_()
    before = x.tolist()
    assert gradcheck(lambda x: x.t() * 2, x)
    assert gradcheck(lambda x: x[0] * x[1], x)
    assert x.tolist() == before
    assert gradcheck(lambda x: x * 2, real(0, 3))
    assert gradcheck(lambda x: x * 2, real())


def test_inputs_are_restored_with_their_version() -> None:
    x = real(3)
    y = x * x
    before, version = x.tolist(), x._version
    assert gradcheck(lambda x: x * y.detach(), x)
    assert gradcheck(lambda x: x * y.detach(), x, fast_mode=True)
    assert (x.tolist(), x._version) == (before, version)
    assert x.grad is None
    y.sum().backward()
    assert x.grad.tolist() == [2 * each for each in before]


def test_an_error_restores_them_too() -> None:
    x = real(3)
    before, calls = x.tolist(), itertools.count()

    def fails(x: Any) -> Any:
        if next(calls) == 3:
            raise KeyError("3")
        return x * 2

    with pytest.raises(KeyError):
        gradcheck(fails, x)
    assert x.tolist() == before


def test_inputs_that_are_no_leaves() -> None:
    x = real(3) * 2
    assert gradcheck(lambda x: x * x, x)


def test_float32_with_tolerances_of_its_own() -> None:
    x = real(3, dtype=tensor.float32)
    with pytest.warns(UserWarning, match=r"Input #0 requires gradient and is not a double precision"):
        assert gradcheck(lambda x: x * x, x, eps=1e-2, atol=1e-2, rtol=1e-2)


def test_bfloat16() -> None:
    x = tensor.tensor([1.0, 2.0], dtype=tensor.bfloat16, requires_grad=True)
    with pytest.warns(UserWarning, match="bfloat16"):
        assert gradcheck(lambda x: x * 2, x, eps=0.5, atol=1e-2, rtol=1e-2)


@pytest.mark.filterwarnings("ignore:Input #0")
def test_an_eps_that_is_lost() -> None:
    x = tensor.tensor([1000.0], dtype=tensor.float32, requires_grad=True)
    with pytest.raises(GradcheckError, match=r"eps=1e-06 is lost .* pass a larger eps"):
        gradcheck(lambda x: x * 2, x)


# Wrong ones


@both_modes
def test_wrong_value(device_name: str, fast: bool) -> None:
    x = real(3, device=device_name)
    wrong = square(lambda g, x: 3 * g * x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch") as caught:
        gradcheck(wrong, x, fast_mode=fast)
    said = str(caught.value)
    assert "for output 0 with respect to input 0,\nnumerical:tensor([[" in said
    assert "\nanalytical:tensor([[" in said
    assert "3 of 9 elements are off" in said
    assert gradcheck(wrong, x, raise_exception=False, fast_mode=fast) is False


@both_modes
def test_one_wrong_element_of_one_of_several(fast: bool) -> None:
    def derivative(g: Any, x: Any) -> Any:
        result = 2 * g * x
        result[1] *= 2
        return result

    with pytest.raises(GradcheckError, match=r"output 1 with respect to input 1[\s\S]*worst is \[1, 1\]"):
        gradcheck(
            lambda x, y: (x * y, square(derivative)(y)),
            (real(3), real(3).detach().requires_grad_()),
            fast_mode=fast,
        )


@both_modes
def test_wrong_conjugate(device_name: str, fast: bool) -> None:
    z = complex_(2, device=device_name)
    with pytest.raises(GradcheckError, match=r"real part of complex outputs[\s\S]*is the conjugate of"):
        gradcheck(square(lambda g, z: 2 * g * z), z, fast_mode=fast)


def test_wrong_part_of_complex_outputs() -> None:
    # The derivative by the imaginary part of the output is lost.
    with pytest.raises(GradcheckError, match=r"imaginary part of complex outputs"):
        gradcheck(square(lambda g, x: 2 * (g.real + 0j) * x.conj()), complex_(2))


@both_modes
def test_missing_gradient(fast: bool) -> None:
    with pytest.raises(GradcheckError, match=r"analytical Jacobian is zero"):
        gradcheck(square(lambda g, x: None), real(2), fast_mode=fast)
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch for output 0 with respect to input 1"):
        gradcheck(lambda x, y: x * y.detach(), (real(2), real(2)), fast_mode=fast)
    with pytest.raises(
        GradcheckError, match=r"Numerical gradient for function expected to be zero: output 0"
    ):
        gradcheck(lambda x: x.detach() * 2, real(2), fast_mode=fast)


def test_wrong_nan() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(square(lambda g, x: g * float("nan")), real(2))


def test_wrong_dtype() -> None:
    wrong = square(lambda g, x: (2 * g * x).to(tensor.float32))
    x = real(2)
    assert gradcheck(wrong, x)
    with pytest.raises(
        GradcheckError,
        match=r"dtype mismatch: SquareBackward returned a gradient of tensor.float32 at position 1",
    ):
        gradcheck(wrong, x, check_grad_dtypes=True)
    assert gradcheck(square(right), x, check_grad_dtypes=True)
    # What the engine converts is no mistake.
    assert gradcheck(lambda x: x.float().double() * 1, x, check_grad_dtypes=True, eps=1e-3)


@both_modes
def test_nondeterminism(fast: bool) -> None:
    numbers = itertools.count()

    def derivative(g: Any, x: Any) -> Any:
        return 2 * g * x + 1e-8 * next(numbers) * g

    with pytest.raises(GradcheckError, match=r"Backward is not reentrant[\s\S]*nondeterminism was 0.0"):
        gradcheck(square(derivative), real(2), fast_mode=fast)
    assert gradcheck(square(derivative), real(2), nondet_tol=1e-6, fast_mode=fast)


def test_gradient_that_does_not_depend_on_that_of_the_output() -> None:
    with pytest.raises(
        GradcheckError, match="backward not multiplied by grad_output: the gradient of input 0"
    ):
        gradcheck(square(lambda g, x: 2 * x), real())


def two(derivative: Any, materialize: bool = False) -> Any:
    """``x * 2`` and ``x * 3``."""

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> Any:
            return derivative(*gs)

    return Two.apply


def test_undefined_gradients() -> None:
    def careful(g: Any, h: Any) -> Any:
        result = [each * factor for each, factor in ((g, 2), (h, 3)) if each is not None]
        return sum(result[1:], result[0])

    def careless(g: Any, h: Any) -> Any:
        return g * 2 + h * 3

    def confused(g: Any, h: Any) -> Any:
        return h * 3 if g is None else g * 2

    x = real(2)
    assert gradcheck(two(careful), x)
    assert gradcheck(two(careless, materialize=True), x)
    with pytest.raises(TypeError, match="NoneType"):
        gradcheck(two(careless), x)
    # Each output alone has the right derivative.
    assert gradcheck(two(confused), x, check_undefined_grad=False)
    with pytest.raises(GradcheckError, match="those without a grad of output 0 to be as those with zeros"):
        gradcheck(two(confused), x)


def test_functions_that_raise_without_a_gradient() -> None:
    passes = itertools.count()

    def derivative(g: Any, h: Any) -> Any:
        if g is None and next(passes) >= 4:
            raise KeyError("g")
        return (0 if g is None else g * 2) + (0 if h is None else h * 3)

    with pytest.raises(
        GradcheckError, match="undefined output grads: without that of output 0 it raised KeyError"
    ):
        gradcheck(two(derivative), real(2))


def test_outputs_of_varying_shape() -> None:
    sizes = itertools.count(1)
    with pytest.raises(GradcheckError, match="outputs of the same shapes and dtypes in every call"):
        gradcheck(lambda x: x.expand(next(sizes), 2), real(2))


def test_second_derivatives() -> None:
    # The first derivative is right, the second is not: its graph was cut.
    def derivative(g: Any, x: Any) -> Any:
        return 2 * g * x.detach()

    x = real(3)
    assert gradcheck(square(derivative), x)
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch for output 0 with respect to input 0"):
        gradgradcheck(square(derivative), x)
    assert gradgradcheck(square(derivative), x, raise_exception=False) is False


def test_given_gradients_and_gaps() -> None:
    x, argument = real(3), real(3)
    assert gradgradcheck(lambda x: x.exp(), x, argument)
    assert gradgradcheck(lambda x: (x.exp(), x * x), (x,), [argument, real(3)])
    seen: list[Any] = []

    def strides(g: Any, x: Any) -> Any:
        seen.append(g.stride())
        return right(g, x)

    assert gradgradcheck(square(strides), x, gen_non_contig_grad_outputs=True)
    assert (2,) in seen


# What cannot be checked


def test_errors_about_the_inputs() -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, tensor.ones(2))
    stretched = tensor.ones(1, dtype=tensor.float64).expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"The 0th input has a dimension with stride 0.*\.contiguous"):
        gradcheck(lambda x: x, stretched)
    with pytest.raises(ValueError, match="check_forward_ad=True is not supported"):
        gradcheck(lambda x: x, real(2), check_forward_ad=True)
    with pytest.raises(ValueError, match="nothing to check"):
        gradcheck(lambda x: x, real(2), check_backward_ad=False)
    with pytest.raises(ValueError, match="check_fwd_over_rev=True is not supported"):
        gradgradcheck(lambda x: x, real(2), check_fwd_over_rev=True)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck"])
def test_arguments_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = inspect.signature(getattr(tensor.autograd, name)).parameters.values()
    theirs = inspect.signature(getattr(torch.autograd, name)).parameters.values()
    assert [(x.name, x.default, x.kind) for x in ours] == [(x.name, x.default, x.kind) for x in theirs]


DERIVATIVES = {
    "right": right,
    "no conjugate": lambda g, x: 2 * g * x,
    "conjugate of all": lambda g, x: (2 * g * x.conj()).conj(),
    "factor": lambda g, x: g * x.conj(),
    "constant": lambda g, x: 2 * x.conj() + 0 * g,
    "none": lambda g, x: None,
    "nearly right": lambda g, x: 2 * g * x.conj() * 1.0001,
    "not nearly": lambda g, x: 2 * g * x.conj() * 1.01,
}


@pytest.mark.parity
@both_modes
@pytest.mark.parametrize("kind", [real, complex_], ids=["real", "complex"])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_verdicts_are_pytorchs(name: str, kind: Any, fast: bool) -> None:
    torch = pytest.importorskip("torch")
    derivative = DERIVATIVES[name]

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return derivative(g, *ctx.saved_tensors)

    x = kind(2)
    theirs = torch.tensor(x.detach().numpy(), requires_grad=True)
    expected = torch.autograd.gradcheck(Square.apply, theirs, raise_exception=False, fast_mode=fast)
    assert gradcheck(square(derivative), x, raise_exception=False, fast_mode=fast) is expected
