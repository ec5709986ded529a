"""``autograd.forward_ad``: tangents of results, in place and through views, and their own derivatives."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from tensor.autograd import forward_ad
from tensor.func import jvp


def real(values: Any, device: str = "cpu", **options: Any) -> Any:
    return tensor.tensor(values, dtype=tensor.float64, device=device, **options)


def test_a_result_has_the_tangent_of_its_operands(device_name: str) -> None:
    x, y = real([1.0, 2.0], device_name), real([3.0, 4.0], device_name)
    with forward_ad.dual_level():
        a = forward_ad.make_dual(x, real([1.0, 0.5], device_name))
        b = forward_ad.make_dual(y, real([2.0, 0.0], device_name))
        primal, tangent = forward_ad.unpack_dual((a * b).sin())
        assert forward_ad.unpack_dual(x).tangent is None
        assert forward_ad.unpack_dual(a).tangent.tolist() == [1.0, 0.5]
        assert forward_ad.unpack_dual(a.view(2, 1)).tangent.tolist() == [[1.0], [0.5]]
        assert forward_ad.unpack_dual(a.detach()).tangent is None
    assert primal.allclose((x * y).sin())
    assert tangent.allclose(
        (x * y).cos() * (y * real([1.0, 0.5], device_name) + x * real([2.0, 0.0], device_name))
    )
    assert not primal.requires_grad
    assert not tangent.requires_grad


def test_results_written_in_place_have_tangents(device_name: str) -> None:
    x = real([1.0, 2.0], device_name)
    with forward_ad.dual_level():
        a = forward_ad.make_dual(x, real([1.0, 10.0], device_name))
        target = tensor.zeros(2, 2, dtype=tensor.float64, device=device_name)
        target[0].copy_(a * 4)
        assert forward_ad.unpack_dual(target).tangent.tolist() == [[4.0, 40.0], [0.0, 0.0]]
        a.mul_(3)
        assert forward_ad.unpack_dual(a).tangent.tolist() == [3.0, 30.0]
    assert x.tolist() == [3.0, 6.0]


def test_tangents_can_be_differentiated() -> None:
    x, direction = real([1.0, 2.0], requires_grad=True), real([1.0, 10.0], requires_grad=True)
    with forward_ad.dual_level():
        primal, tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, direction) ** 3)
    by_x, by_direction = tensor.autograd.grad(tangent.sum(), (x, direction), retain_graph=True)
    assert by_x.allclose(6 * x * direction)
    assert by_direction.allclose(3 * x**2)
    assert tensor.autograd.grad(primal.sum(), x)[0].allclose(3 * x**2)


def test_parameters_may_require_grad_without_tangents() -> None:
    weight = real([2.0, 3.0], requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(real([1.0, 2.0]), real([1.0, 10.0]))
        primal, tangent = forward_ad.unpack_dual((dual * weight).sum())
        assert forward_ad.unpack_dual(weight * 2).tangent is None
    assert tangent.item() == 32.0
    assert tensor.autograd.grad(tangent, weight)[0].tolist() == [1.0, 10.0]
    assert primal.requires_grad


def test_inside_no_grad_tangents_are_carried_by_the_level() -> None:
    with tensor.no_grad():
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(real(3.0), real(1.0))
            primal, tangent = forward_ad.unpack_dual(dual * dual)
        assert not tensor.is_grad_enabled()
    assert tangent.item() == 6.0
    assert not primal.requires_grad


def test_levels_and_jvp_nest() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(real(3.0), real(1.0))
        _, inner = jvp(lambda x: x**3, (dual,), (real(1.0),))
        assert forward_ad.unpack_dual(inner).tangent.item() == 18.0
    assert forward_ad.unpack_dual(inner).tangent is None


@forward_ad.dual_level()
def decorated(x: Any, tangent: Any) -> Any:
    return forward_ad.unpack_dual(forward_ad.make_dual(x, tangent).exp()).tangent


def test_a_function_can_be_a_level() -> None:
    assert decorated(real(0.0), real(2.0)).item() == 2.0
    assert decorated(real(0.0), real(3.0)).item() == 3.0


def test_errors() -> None:
    x = real([1.0, 2.0])
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with pytest.raises(RuntimeError, match="no such level"):
        forward_ad.exit_dual_level()
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match=r"of size \[2\] while .* size \[\]"):
            forward_ad.make_dual(x, x[0])
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            forward_ad.make_dual(x.long(), x)
        with pytest.raises(TypeError, match="expected tangent to be a Tensor, not int"):
            forward_ad.make_dual(x, 3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            forward_ad.unpack_dual(3)  # type: ignore[arg-type]
        dual = forward_ad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            forward_ad.make_dual(dual, x)
