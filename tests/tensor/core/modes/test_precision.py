"""The settings of precision: what they are called, and that every product and convolution follows them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.backends import cuda, cudnn

from .products_and_convolutions import CONVOLUTIONS, PRODUCTS, Operation

pytestmark = pytest.mark.usefixtures("device")
_RNG = np.random.default_rng(0)
BOTH = {**PRODUCTS, **CONVOLUTIONS}


def _results(operation: Operation, arrays: list[np.ndarray[Any, Any]], kind: str) -> list[Any]:
    """The operation's result and the gradients of its operands."""
    operands = [
        tensor.from_numpy(array).to(getattr(tensor, kind)).cuda().requires_grad_() for array in arrays
    ]
    result = operation[0](*operands)
    weights = tensor.from_numpy(np.cos(np.arange(result.numel()) * 7.0)).reshape(result.shape)
    grads = tensor.autograd.grad(result, operands, weights.to(result.dtype).to(result.device))
    return [each.detach().double().cpu().numpy() for each in (result, *grads)]


def _operands(operation: Operation) -> list[np.ndarray[Any, Any]]:
    return [_RNG.standard_normal(shape) for shape in operation[1]]


def _exact(operation: Operation, arrays: list[np.ndarray[Any, Any]], kind: str) -> list[Any]:
    rounded = [tensor.from_numpy(array).to(getattr(tensor, kind)).double().numpy() for array in arrays]
    return _results(operation, rounded, "float64")


def _error(found: Any, exact: Any) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).mean())


def _follows(operation: Operation, set_flag: Callable[[bool], None], other: Callable[[bool], None]) -> None:
    arrays = _operands(operation)
    exact = _exact(operation, arrays, "float32")
    set_flag(False)
    other(True)
    precise = _results(operation, arrays, "float32")
    # From now on everything is planned.
    set_flag(True)
    other(False)
    rounded = _results(operation, arrays, "float32")
    set_flag(False)
    other(True)
    again = _results(operation, arrays, "float32")
    for first, third, truth in zip(precise, again, exact, strict=True):
        np.testing.assert_array_equal(first, third)
        assert _error(first, truth) < 2e-5
    # A bias is added, and its gradient a sum, as precisely as ever.
    assert 1e-4 < _error(rounded[0], exact[0]) < 1e-2
    assert all(_error(one, truth) < 5e-2 for one, truth in zip(rounded, exact, strict=True))
    assert any(_error(one, truth) > 2e-5 for one, truth in zip(rounded[1:], exact[1:], strict=True))


def _set_matmul(on: bool) -> None:
    cuda.matmul.allow_tf32 = on


def _set_convolution(on: bool) -> None:
    cudnn.allow_tf32 = on


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.sampled(4)
def test_products_follow_the_flag_of_products(name: str) -> None:
    _follows(PRODUCTS[name], _set_matmul, _set_convolution)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_follow_their_own(name: str) -> None:
    _follows(CONVOLUTIONS[name], _set_convolution, _set_matmul)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "einsum"])
def test_complex_products_follow_too(name: str) -> None:
    arrays = [_RNG.standard_normal(shape) + 1j for shape in PRODUCTS[name][1]]
    exact = PRODUCTS[name][0](*(tensor.from_numpy(array) for array in arrays)).numpy()
    operands = [tensor.from_numpy(array.astype(np.complex64)).cuda() for array in arrays]
    errors = []
    for on in (False, True, False):
        cuda.matmul.allow_tf32 = on
        errors.append(_error(PRODUCTS[name][0](*operands).cpu().numpy(), exact))
    assert errors[0] == errors[2] < 2e-6
    assert 5e-5 < errors[1] < 1e-2


@pytest.mark.parametrize("name", ["dot", "vdot"])
def test_products_of_two_vectors_are_never_rounded(name: str) -> None:
    a, b = (_RNG.standard_normal(1000).astype(np.float32) for _ in range(2))
    exact = np.dot(a.astype(float), b.astype(float))
    assert cuda.matmul.allow_tf32
    result = getattr(tensor, name)(tensor.from_numpy(a).cuda(), tensor.from_numpy(b).cuda())
    assert abs(result.item() - exact) < 1e-6 * np.abs(a * b).sum()


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.sampled(4)
def test_float16_accumulation(name: str) -> None:
    operation = BOTH[name]
    arrays = _operands(operation)
    exact = _exact(operation, arrays, "float16")
    cuda.matmul.allow_fp16_accumulation = False
    precise = _results(operation, arrays, "float16")
    cuda.matmul.allow_fp16_accumulation = True
    rounded = _results(operation, arrays, "float16")
    cuda.matmul.allow_fp16_accumulation = False
    again = _results(operation, arrays, "float16")
    for first, third in zip(precise, again, strict=True):
        np.testing.assert_array_equal(first, third)
    assert _error(precise[0], exact[0]) < 4e-2
    # Attention keeps its scores in float32, which such sums would not go into; in cdist the squared lengths come last,
    # and are so large that the difference is rounded away.
    if name not in ("attention", "cdist"):
        assert any(not np.array_equal(one, other) for one, other in zip(precise, rounded, strict=True))


# Attention of half precision is no product of cuBLAS: its sums are float32 always.
@pytest.mark.parametrize("name", [name for name in BOTH if name != "attention"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.sampled(4)
def test_reduced_sums(name: str, kind: str) -> None:
    """What cuBLAS is told at each product; the simulator has no split sums to show in results."""
    flag = f"allow_{'fp16' if kind == 'float16' else 'bf16'}_reduced_precision_reduction"
    arrays = _operands(BOTH[name])
    for allowed in (True, False, True):
        setattr(cuda.matmul, flag, allowed)
        _results(BOTH[name], arrays, kind)
        assert _math_mode() == (0 if allowed else 16)
    setattr(cuda.matmul, flag, False)
    other = "bfloat16" if kind == "float16" else "float16"
    _results(BOTH[name], arrays, other)
    assert _math_mode() == 0


def _math_mode() -> int:
    """How the handle of this thread was last told to compute."""
    from tensor.core.devices.state import cuda_state
    from tensor.operations.products.blas import handle_for

    handle = handle_for(cuda_state(0))
    return int(handle.library.cublasGetMathMode(handle.handle))


# Names


def test_as_documented() -> None:
    assert cuda.matmul.allow_tf32 is True
    assert cudnn.allow_tf32 is True
    assert cuda.matmul.allow_fp16_reduced_precision_reduction is True
    assert cuda.matmul.allow_bf16_reduced_precision_reduction is True
    assert cuda.matmul.allow_fp16_accumulation is False
    assert tensor.get_float32_matmul_precision() == "high"


def test_names_of_the_same_state() -> None:
    for name, tf32 in (("highest", False), ("high", True), ("medium", True)):
        tensor.set_float32_matmul_precision(name)
        assert tensor.get_float32_matmul_precision() == name
        assert cuda.matmul.allow_tf32 is tf32
        assert cuda.matmul.fp32_precision == ("tf32" if tf32 else "ieee")
    assert cudnn.allow_tf32 is True
    cuda.matmul.allow_tf32 = True
    assert tensor.get_float32_matmul_precision() == "high"
    cuda.matmul.fp32_precision = "ieee"
    assert tensor.get_float32_matmul_precision() == "highest"
    assert cuda.matmul.allow_tf32 is False
    assert tensor.backends.fp32_precision == "none"
    cudnn.fp32_precision = "ieee"
    assert cudnn.allow_tf32 is False
    assert cudnn.conv.fp32_precision == "ieee"
    assert tensor.backends.fp32_precision == "ieee"
    tensor.backends.fp32_precision = "tf32"
    assert cudnn.allow_tf32 is cuda.matmul.allow_tf32 is True
    cudnn.conv.fp32_precision = "ieee"
    assert cudnn.allow_tf32 is False
    cudnn.fp32_precision = "none"
    assert cudnn.fp32_precision == "tf32"


def test_convolutions_for_a_while() -> None:
    with cudnn.flags(allow_tf32=False, deterministic=True):
        assert cudnn.allow_tf32 is False
        assert cudnn.deterministic is True
    assert cudnn.allow_tf32 is True
    assert cudnn.deterministic is False


def test_wrong_values() -> None:
    for value in (1, "yes", None):
        with pytest.raises(RuntimeError, match="allow_tf32 expects a bool, but got"):
            cuda.matmul.allow_tf32 = value
        with pytest.raises(RuntimeError, match="allow_tf32 expects a bool, but got"):
            cudnn.allow_tf32 = value
        with pytest.raises(RuntimeError, match="expects a bool"):
            cuda.matmul.allow_fp16_accumulation = value
    for target in (cuda.matmul, cudnn, cudnn.conv, tensor.backends):
        with pytest.raises(RuntimeError, match="Unknown precision.*'bf16x9'"):
            target.fp32_precision = "bf16x9"
    with pytest.raises(ValueError, match="'highest', 'high', 'medium', got 'low'"):
        tensor.set_float32_matmul_precision("low")
    with pytest.raises(AttributeError):
        cuda.matmul.allow_tf16 = True
    assert cuda.matmul.allow_tf32 is cudnn.allow_tf32 is True


def test_the_cpu_is_always_exact() -> None:
    a, b = (tensor.from_numpy(_RNG.standard_normal((64, 64)).astype(np.float32)) for _ in range(2))
    exact = a.double() @ b.double()
    assert _error((a @ b).numpy(), exact.numpy()) < 2e-6
