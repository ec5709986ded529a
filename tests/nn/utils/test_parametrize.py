"""Parametrized tensors, weight and spectral normalisation."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.utils import parametrizations, parametrize
from tests.nn.parity import assert_like_pytorch, copy_weights
from tests.tensor.comparison import array_of

pytestmark = pytest.mark.usefixtures("full_precision")


def module_types(nn: Any) -> dict[str, Any]:
    """Parametrizations that can, and cannot, be used."""

    class Square(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x * x

    class Double(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x * 2

        def right_inverse(self, x: Any) -> Any:
            return x / 2

    class Sum(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

        def right_inverse(self, value: Any) -> Any:
            return value - 1, value * 0 + 1

    class Wider(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x.double()

    class Smaller(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x.sum()

    class Number(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x

        def right_inverse(self, x: Any) -> Any:
            return 3

    class Part(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x

        def right_inverse(self, x: Any) -> Any:
            return x[:1]

    class Refusing(nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x + 1

        def right_inverse(self, x: Any) -> Any:
            raise NotImplementedError

    types = (Square, Double, Sum, Wider, Smaller, Number, Part, Refusing)
    return {each.__name__: each for each in types}


def layer_of(lib: Any, nn: Any, *names: str, unsafe: bool = False) -> Any:
    layer = nn.Linear(3, 2)
    with lib.no_grad():
        layer.weight.copy_(lib.arange(6.0).reshape(2, 3))
    for name in names:
        result = module_types(nn)[name]()
        nn.utils.parametrize.register_parametrization(layer, "weight", result, unsafe=unsafe)
    return layer


def told(layer: Any) -> Any:
    return (
        repr(layer),
        layer.weight,
        list(layer.state_dict()),
        [(name, each) for name, each in layer.named_parameters() if "weight" in name],
    )


@pytest.mark.parity
@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ("Square",),
        ("Double",),
        ("Sum",),
        ("Wider",),
        ("Smaller",),
        ("Number",),
        ("Part",),
        ("Refusing",),
        ("Square", "Double"),
        ("Double", "Square"),
        ("Double", "Double"),
        ("Sum", "Double"),
        ("Square", "Smaller"),
        ("Square", "Wider"),
    ],
)
def test_registration(names: tuple[str, ...], unsafe: bool) -> None:
    assert_like_pytorch(lambda lib, nn: told(layer_of(lib, nn, *names, unsafe=unsafe)))


def test_failed_registration_changes_nothing() -> None:
    layer = layer_of(tensor, nn)
    weight = layer.weight
    for name in ("Smaller", "Wider", "Number", "Part"):
        with pytest.raises(ValueError):
            parametrize.register_parametrization(layer, "weight", module_types(nn)[name]())
        assert type(layer) is nn.Linear
        assert layer.weight is weight
        assert layer.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def removed(leave: bool, *names: str) -> Any:
    def program(lib: Any, nn: Any) -> Any:
        layer = layer_of(lib, nn, *names)
        nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
        return told(layer), type(layer).__name__, type(layer.weight).__name__

    return program


@pytest.mark.parity
@pytest.mark.parametrize("names", [("Square",), ("Double", "Square"), ("Sum",), ()])
@pytest.mark.parametrize("leave", [True, False])
def test_removal(leave: bool, names: tuple[str, ...]) -> None:
    assert_like_pytorch(removed(leave, *names))


def assigned(*names: str, value: Any = lambda lib, nn: lib.ones(2, 3)) -> Any:
    def program(lib: Any, nn: Any) -> Any:
        layer = layer_of(lib, nn, *names)
        layer.weight = value(lib, nn)
        return told(layer)

    return program


@pytest.mark.parity
@pytest.mark.parametrize(
    "names", [("Square",), ("Double",), ("Double", "Double"), ("Sum",), ("Sum", "Double")]
)
def test_assignment(names: tuple[str, ...]) -> None:
    assert_like_pytorch(assigned(*names))


@pytest.mark.parity
def test_parameter_cannot_be_assigned() -> None:
    assert_like_pytorch(assigned("Double", value=lambda lib, nn: nn.Parameter(lib.ones(2, 3))))


@pytest.mark.parity
def test_training() -> None:
    def program(lib: Any, nn: Any) -> Any:
        layer = layer_of(lib, nn, "Double", "Square")
        layer(lib.ones(1, 3)).sum().backward()
        return layer.parametrizations.weight.original.grad

    assert_like_pytorch(program)


def test_cached() -> None:
    layer = layer_of(tensor, nn, "Square")
    calls: list[int] = []
    layer.parametrizations.weight[0].register_forward_hook(lambda *args: calls.append(1))
    with parametrize.cached():
        assert layer.weight is layer.weight
        layer(tensor.ones(1, 3))
        with parametrize.cached():
            layer(tensor.ones(1, 3))
        layer(tensor.ones(1, 3))
    assert len(calls) == 1
    assert layer.weight is not layer.weight
    assert len(calls) == 3


@pytest.mark.parity
def test_buffers_and_several_tensors() -> None:
    def program(lib: Any, nn: Any) -> Any:
        module = nn.Module()
        module.register_buffer("x", lib.ones(2))
        module.y = nn.Parameter(lib.ones(2))
        register = nn.utils.parametrize.register_parametrization
        for name in ("x", "y"):
            register(module, name, module_types(nn)["Double"]())
        result = [list(module.state_dict()), module.x, module.y, [k for k, _ in module.named_buffers()]]
        nn.utils.parametrize.remove_parametrizations(module, "x")
        result += [type(module).__name__, list(module.state_dict())]
        nn.utils.parametrize.remove_parametrizations(module, "y")
        is_parametrized = nn.utils.parametrize.is_parametrized
        return [*result, type(module).__name__, is_parametrized(module), is_parametrized(module, "x")]

    assert_like_pytorch(program)


def test_copies() -> None:
    layer = layer_of(tensor, nn, "Double")
    result = copy.deepcopy(layer)
    assert repr(result) == repr(layer)
    assert result.weight.tolist() == layer.weight.tolist()
    parametrize.remove_parametrizations(result, "weight")
    assert type(result) is nn.Linear
    assert layer.weight.tolist() == result.weight.tolist()
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_type_and_transfer() -> None:
    layer = layer_of(tensor, nn, "Double", "Square")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert parametrize.type_before_parametrizations(nn.Linear(1, 1)) is nn.Linear
    other = nn.Linear(3, 2)
    parametrize.transfer_parametrizations_and_params(layer, other)
    assert other.weight.tolist() == layer.weight.tolist()
    assert other.parametrizations.weight.original is not layer.parametrizations.weight.original
    with pytest.raises(ValueError, match="no parametrized tensor"):
        parametrize.transfer_parametrizations_and_params(nn.Linear(1, 1), other)


@pytest.mark.parity
def test_missing_tensor() -> None:
    def program(lib: Any, nn: Any) -> Any:
        nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), "x", module_types(nn)["Square"]())

    assert_like_pytorch(program)


# Normalised weights


def inputs() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


NORMALISED = {
    "weight": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
    "weight, all": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=None),
    "weight, inputs": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=1),
    "spectral": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
    "spectral, inputs": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), dim=1),
    "spectral, several": lambda nn: nn.utils.parametrizations.spectral_norm(
        nn.Linear(3, 4), n_power_iterations=3
    ),
    "spectral of a vector": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), "bias"),
    "old spectral": lambda nn: nn.utils.spectral_norm(nn.Linear(3, 4)),
}


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:`:FutureWarning")
@pytest.mark.parametrize("name", [*NORMALISED, "old weight", "old weight, all"])
def test_normalised_weights(name: str) -> None:
    torch = pytest.importorskip("torch")

    def make(nn: Any) -> Any:
        if name == "old weight":
            return nn.utils.weight_norm(nn.Linear(3, 4))
        if name == "old weight, all":
            return nn.utils.weight_norm(nn.Linear(3, 4), dim=None)
        return NORMALISED[name](nn)

    layer, reference = make(nn), make(torch.nn)
    assert repr(layer) == repr(reference)
    copy_weights(layer, reference)
    for _ in range(2):
        result, expected = layer(tensor.from_numpy(inputs())), reference(torch.from_numpy(inputs()))
        np.testing.assert_allclose(array_of(result), array_of(expected), rtol=1e-4, atol=1e-5)
    (result**2).sum().backward()
    (expected**2).sum().backward()
    theirs = dict(reference.named_parameters())
    for key, mine in layer.named_parameters():
        np.testing.assert_allclose(array_of(mine.grad), array_of(theirs[key].grad), rtol=1e-3, atol=1e-4)
    layer.eval()
    reference.eval()
    for key, mine in layer.state_dict().items():
        np.testing.assert_allclose(
            array_of(mine), array_of(reference.state_dict()[key]), rtol=1e-4, atol=1e-5
        )
    result, expected = layer(tensor.from_numpy(inputs())), reference(torch.from_numpy(inputs()))
    np.testing.assert_allclose(array_of(result), array_of(expected), rtol=1e-4, atol=1e-5)


def test_weight_norm_keeps_the_weight() -> None:
    layer = nn.Linear(3, 4)
    before = array_of(layer.weight).copy()
    parametrizations.weight_norm(layer)
    np.testing.assert_allclose(array_of(layer.weight), before, rtol=1e-6)
    with tensor.no_grad():
        layer.parametrizations.weight.original0.fill_(2.0)
    np.testing.assert_allclose(np.linalg.norm(array_of(layer.weight), axis=1), [2.0] * 4, rtol=1e-6)


def test_spectral_norm_is_one() -> None:
    tensor.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(6, 4), n_power_iterations=50)
    np.testing.assert_allclose(np.linalg.svd(array_of(layer.weight))[1][0], 1.0, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:`:FutureWarning")
def test_old_forms_are_removed() -> None:
    layer = nn.Linear(3, 4)
    before = array_of(layer.weight).copy()
    nn.utils.weight_norm(layer)
    state = layer.state_dict()
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    np.testing.assert_allclose(array_of(layer.weight), before, rtol=1e-6)
    assert list(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(layer)
    newer = parametrizations.weight_norm(nn.Linear(3, 4))
    newer.load_state_dict(state)
    np.testing.assert_allclose(array_of(newer.weight), before, rtol=1e-6)
    nn.utils.spectral_norm(layer)
    assert layer.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    assert "spectral_norm" not in layer.state_dict()._metadata[""]
    assert isinstance(layer.weight, nn.Parameter)


def test_on_devices(device_name: str) -> None:
    layer = parametrizations.spectral_norm(parametrizations.weight_norm(nn.Linear(3, 2)), "bias").to(
        device_name
    )
    result = layer(tensor.ones(1, 3, device=device_name))
    result.sum().backward()
    assert {each.grad.device.type for each in layer.parameters()} == {device_name}
