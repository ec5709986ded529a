"""Clipping of gradients, parameters as vectors, calls with other tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nn import utils
from tests.nn.parity import assert_like_pytorch
from tests.tensor.comparison import array_of


def parameters_of(lib: Any, nn: Any) -> list[Any]:
    """Parameters with gradients, but for one."""
    values = np.random.default_rng(0)
    result = []
    for shape in ((3, 2), (4,), (), (0,)):
        each = nn.Parameter(lib.zeros(*shape))
        each.grad = lib.from_numpy(np.asarray(values.standard_normal(shape), np.float32) * 4)
        result.append(each)
    result.append(nn.Parameter(lib.zeros(2)))
    return result


def rounded(values: Any) -> Any:
    return np.float32(np.asarray(array_of(values), np.float64)).round(4).tolist()


@pytest.mark.parity
@pytest.mark.parametrize("norm", [2.0, 1, 3.5, math.inf])
@pytest.mark.parametrize("bound", [0.5, 1, 1000.0])
def test_clipping_by_norm(norm: float, bound: float) -> None:
    def program(lib: Any, nn: Any) -> Any:
        argument = parameters_of(lib, nn)
        total = nn.utils.clip_grad_norm_(iter(argument), bound, norm)
        return rounded(total), total.dim(), [rounded(each.grad) for each in argument[:-1]], argument[-1].grad

    assert_like_pytorch(program)


CLIPPED = {
    "nothing": lambda lib, nn: nn.utils.clip_grad_norm_([], 1.0),
    "no gradient": lambda lib, nn: nn.utils.clip_grad_norm_(nn.Parameter(lib.ones(2)), 1.0),
    "generator": lambda lib, nn: nn.utils.clip_grad_norm_((each for each in ()), 1.0),
    "not finite": lambda lib, nn: nn.utils.clip_grad_norm_(
        _not_finite(lib, nn), 1.0, error_if_nonfinite=True
    ),
    "not finite allowed": lambda lib, nn: rounded(nn.utils.clip_grad_norm_(_not_finite(lib, nn), 1.0)),
    "old name": lambda lib, nn: rounded(nn.utils.clip_grad_norm(parameters_of(lib, nn), 0.5)),
    "total": lambda lib, nn: nn.utils.get_total_norm([lib.ones(3), lib.ones(1)]),
    "total of one": lambda lib, nn: nn.utils.get_total_norm(lib.full((4,), 3.0)),
    "total of types": lambda lib, nn: str(
        nn.utils.get_total_norm([lib.ones(3).half(), lib.ones(1).double()]).dtype
    ),
}


def _not_finite(lib: Any, nn: Any) -> Any:
    result = nn.Parameter(lib.ones(2))
    result.grad = lib.tensor([math.inf, 1.0])
    return result


@pytest.mark.parity
@pytest.mark.parametrize("name", CLIPPED)
def test_special_cases_of_clipping(name: str) -> None:
    assert_like_pytorch(CLIPPED[name])


@pytest.mark.parity
def test_clipping_by_value() -> None:
    def program(lib: Any, nn: Any) -> Any:
        argument = parameters_of(lib, nn)
        assert nn.utils.clip_grad_value_(argument, 1.5) is None
        return [rounded(each.grad) for each in argument[:-1]]

    assert_like_pytorch(program)


#: Element counts: none, few, one chunk of the kernel and its neighbours, and more tensors than a launch takes.
COUNTS = {
    "few": (3, 0, 1, 17),
    "chunks": (8192, 8191, 8193, 1),
    "many": (2,) * 400,
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "complex64"])
@pytest.mark.sampled(4)
def test_norm_and_scaling_of_many_tensors(device_name: str, kind: str, name: str) -> None:
    if name != "few" and kind in ("bfloat16", "complex64"):
        return
    counts = COUNTS[name]
    dtype = getattr(tensor, kind)
    values = np.random.default_rng(0)
    arrays = [values.standard_normal(count) + 1j * values.standard_normal(count) for count in counts]
    if kind != "complex64":
        arrays = [each.real.copy() for each in arrays]
    argument = [nn.Parameter(tensor.zeros(len(each), dtype=dtype, device=device_name)) for each in arrays]
    for parameter, array in zip(argument, arrays, strict=True):
        parameter.grad = tensor.from_numpy(array).to(device_name, dtype)
    exact = [array_of(each.grad).astype(np.complex128) for each in argument]
    expected = math.sqrt(sum((abs(each) ** 2).sum() for each in exact))
    total = utils.clip_grad_norm_(argument, 1.0)
    precision = {"float16": 1e-3, "bfloat16": 8e-3}.get(kind, 1e-5)
    assert abs(total.item() / expected - 1) < precision
    assert total.device.type == device_name
    assert total.dtype is (tensor.float32 if kind == "complex64" else dtype)
    for parameter, array in zip(argument, exact, strict=True):
        result = array_of(parameter.grad).astype(np.complex128)
        np.testing.assert_allclose(result, array / expected, rtol=2 * precision, atol=precision * 1e-2)


def test_gradients_that_are_not_dense(device_name: str) -> None:
    whole = tensor.arange(24, dtype=tensor.float32, device=device_name).reshape(4, 6)
    parts = [whole[:, ::2], whole.t()[:0], whole[:2].t()]
    argument = [nn.Parameter(tensor.zeros(*each.shape, device=device_name)) for each in parts]
    for parameter, part in zip(argument, parts, strict=True):
        parameter.grad = part.clone() if part is parts[2] else part
    argument[2].grad = parts[2].clone().t().contiguous().t()
    squares = (array_of(parts[0]) ** 2).sum() + (array_of(parts[2]) ** 2).sum()
    before = [array_of(each.grad).copy() for each in argument]
    total = utils.clip_grad_norm_(argument, 2.0)
    assert abs(total.item() / math.sqrt(squares) - 1) < 1e-6
    for parameter, array in zip(argument, before, strict=True):
        np.testing.assert_allclose(array_of(parameter.grad), array * (2 / math.sqrt(squares)), rtol=1e-5)


@pytest.mark.parity
def test_gradients_of_several_types() -> None:
    def program(lib: Any, nn: Any) -> Any:
        argument = [nn.Parameter(lib.zeros(2, dtype=dtype)) for dtype in (lib.float32, lib.float64)]
        for each in argument:
            each.grad = lib.full((2,), 3.0, dtype=each.dtype)
        total = nn.utils.clip_grad_norm_(argument, 1.0)
        return str(total.dtype), rounded(total), [rounded(each.grad) for each in argument]

    assert_like_pytorch(program)


def test_clipping_counts_as_a_write() -> None:
    parameter = nn.Parameter(tensor.ones(3))
    parameter.grad = tensor.full((3,), 2.0)
    version = parameter.grad._version
    utils.clip_grad_norm_(parameter, 1.0)
    assert parameter.grad._version == version + 1


def test_gradients_are_read_and_written_in_bounds() -> None:
    drv.simulator.install(check="full")
    argument = [nn.Parameter(tensor.zeros(count, device="cuda")) for count in (5, 8200)]
    for each in argument:
        each.grad = tensor.ones(each.shape[0], device="cuda")
    utils.clip_grad_norm_(argument, 1.0)
    tensor.cuda.synchronize()
    assert list(drv.simulator.findings()) == []


def test_clipping_on_devices() -> None:
    drv.simulator.install(devices=2, check="race", schedule="lazy")
    first = nn.Parameter(tensor.zeros(3, device="cuda:0"))
    second = nn.Parameter(tensor.zeros(4, device="cuda:1"))
    first.grad = tensor.full((3,), 2.0, device="cuda:0")
    second.grad = tensor.full((4,), 3.0, device="cuda:1")
    total = utils.clip_grad_norm_([first, second], 1.0)
    assert total.device == first.device
    assert abs(total.item() - math.sqrt(48)) < 1e-5
    np.testing.assert_allclose(first.grad.tolist(), [2 / math.sqrt(48)] * 3, rtol=1e-5)
    np.testing.assert_allclose(second.grad.tolist(), [3 / math.sqrt(48)] * 4, rtol=1e-5)


@pytest.mark.parity
def test_vectors() -> None:
    def program(lib: Any, nn: Any) -> Any:
        argument = [nn.Parameter(lib.arange(6.0).reshape(2, 3)), nn.Parameter(lib.tensor(7.0))]
        vector = nn.utils.parameters_to_vector(argument)
        nn.utils.vector_to_parameters(vector.detach() * 2, argument)
        return vector, vector.requires_grad, argument, [each.is_leaf for each in argument]

    assert_like_pytorch(program)


VECTORS = {
    "nothing": lambda lib, nn: nn.utils.parameters_to_vector([]),
    "number": lambda lib, nn: nn.utils.vector_to_parameters(3, []),
    "longer": lambda lib, nn: nn.utils.vector_to_parameters(lib.ones(3), [lib.ones(2)]),
    "shorter": lambda lib, nn: nn.utils.vector_to_parameters(lib.ones(3), [lib.ones(4)]),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", VECTORS)
def test_special_cases_of_vectors(name: str) -> None:
    assert_like_pytorch(VECTORS[name])


def test_vector_that_is_too_short_changes_nothing() -> None:
    argument = [nn.Parameter(tensor.zeros(2)), nn.Parameter(tensor.zeros(2))]
    with pytest.raises(RuntimeError, match=r"the parameters have 4 elements, the vector has shape \[3\]"):
        utils.vector_to_parameters(tensor.ones(3), argument)
    assert argument[0].tolist() == [0.0, 0.0]


def test_vector_of_several_devices() -> None:
    drv.simulator.install()
    argument = [nn.Parameter(tensor.zeros(2)), nn.Parameter(tensor.zeros(2, device="cuda"))]
    with pytest.raises(TypeError, match="different devices.*cpu, cuda:0"):
        utils.parameters_to_vector(argument)


CALLS = {
    "both": ({"weight": (2, 3), "bias": (2,)}, {}),
    "one": ({"weight": (2, 3)}, {}),
    "strict": ({"weight": (2, 3)}, {"strict": True}),
    "strict both": ({"weight": (2, 3), "bias": (2,)}, {"strict": True}),
    "unknown": ({"weight": (2, 3), "x": (2,)}, {"strict": True}),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
def test_functional_call(name: str) -> None:
    shapes, options = CALLS[name]

    def program(lib: Any, nn: Any) -> Any:
        layer = nn.Linear(3, 2)
        nn.init.ones_(layer.weight)
        nn.init.ones_(layer.bias)
        argument = {key: lib.full(shape, 3.0, requires_grad=True) for key, shape in shapes.items()}
        with_tensor = nn.utils.stateless.functional_call(layer, argument, lib.ones(1, 3), **options)
        with_tensor.sum().backward()
        return with_tensor, [each.grad for each in argument.values()], layer.weight, layer.weight.grad

    torch = pytest.importorskip("torch")
    # PyTorch's older name warns that it is old.
    torch.nn.utils.stateless.functional_call, former = (
        torch.func.functional_call,
        torch.nn.utils.stateless.functional_call,
    )
    try:
        assert_like_pytorch(program)
    finally:
        torch.nn.utils.stateless.functional_call = former


def test_tied_tensors_are_replaced_together() -> None:
    model = nn.Module()
    model.first = nn.Linear(2, 2, bias=False)
    model.second = nn.Linear(2, 2, bias=False)
    model.second.weight = model.first.weight
    model.forward = lambda x: model.second(model.first(x))
    eye = tensor.eye(2) * 3
    call = utils.stateless.functional_call
    assert call(model, {"first.weight": eye}, tensor.ones(1, 2)).tolist() == [[9.0, 9.0]]
    with pytest.raises(ValueError, match="first.weight and second.weight, which are tied"):
        call(model, {"first.weight": eye, "second.weight": eye * 2}, tensor.ones(1, 2))
    both = {"first.weight": eye, "second.weight": eye * 2}
    assert call(model, both, tensor.ones(1, 2), tie_weights=False).tolist() == [[18.0, 18.0]]
    assert model.first.weight is model.second.weight
    assert isinstance(model.first.weight, nn.Parameter)


def test_own_tensors_come_back_after_an_error() -> None:
    layer = nn.Linear(3, 2)
    own = layer.weight
    with pytest.raises(RuntimeError):
        utils.stateless.functional_call(layer, {"weight": tensor.ones(5, 5)}, tensor.ones(1, 3))
    assert layer.weight is own
