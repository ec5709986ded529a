"""The lists of autocast: types of results as in the table, and that every function follows its list."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import drv
import nn.functional
import tensor
from tensor.methods.operation_methods import OperationMethods
from tensor.operations import autocast as autocasting
from tensor.operations.definition.catalogue import published
from tests.tensor.conftest import device_name

from .expressions import EXPECTED, operands, results

__all__ = ["device_name"]


@pytest.mark.parametrize("part", range(4))
@pytest.mark.sampled(4)
def test_results(device_name: str, part: int) -> None:
    """Each part on one device at least: both have the same lists but for the functions that :mod:`.expressions` names."""
    output = {
        which: operands(
            tensor, device_name, which, lambda array, kind: tensor.from_numpy(array).to(device_name, kind)
        )
        for which in ("single", "half", "both")
    }

    def run(call: str, names: dict[str, Any]) -> Any:
        with tensor.autocast(device_name):
            return eval(call, names)

    wrong = {}
    for call, both in list(EXPECTED.items())[part::4]:
        expected = both[device_name == "cpu"]
        # What is float32 needs no cast to stay so, and the kernels of each type take time to make.
        known = "s" if device_name == "cuda" and expected[0] == "s" else ""
        result = results(call, tensor, nn.functional, output, run, known)
        if result != expected:
            wrong[call] = f"{result} instead of {expected}"
    assert not wrong


def test_every_form_of_a_definition_has_its_rule() -> None:
    for space, namespace in NAMESPACES.items():
        for name, function in published(space).items():
            if name.endswith("_"):
                continue
            for other, forms in NAMESPACES.items():
                twin = published(other).get(name)
                if twin is not None and bare(twin) is bare(function):
                    rules = [getattr(each, "autocasts", None) for each in (function, twin)]
                    assert rules[0] == rules[1], (
                        f"{space}.{name} and {other}.{name} have different rules: {rules}"
                    )
                    assert getattr(forms, name) is twin
            assert getattr(namespace, name) is function


#: By the names that definitions have for them.
NAMESPACES: dict[str, Any] = {
    "tensor": tensor,
    "Tensor": OperationMethods,
    "nn.functional": nn.functional,
    "fft": tensor.fft,
    "linalg": tensor.linalg,
    "special": tensor.special,
}


def bare(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def test_signatures_stay() -> None:
    assert str(inspect.signature(nn.functional.linear)) == (
        "(input: 'Tensor', weight: 'Tensor', bias: 'Tensor | None' = None, *, out: 'Tensor | None' = None) -> 'Tensor'"
    )
    assert nn.functional.linear.__doc__
    with pytest.raises(TypeError, match="linear"):
        nn.functional.linear()


def test_rows_that_are_in_place_or_have_out_are_left_alone(device_name: str) -> None:
    x = tensor.ones(3, device=device_name, dtype=tensor.float16)
    single = tensor.ones(2, 2, device=device_name)
    with tensor.autocast(device_name):
        assert tensor.exp(x, out=tensor.empty_like(x)).dtype is tensor.float16
        assert x.exp_().dtype is tensor.float16
        assert tensor.mm(single, single, out=tensor.empty_like(single)).dtype is tensor.float32
        assert single.addmm_(single, single).dtype is tensor.float32


def test_binary_cross_entropy_is_an_error(device_name: str) -> None:
    p = tensor.full((3,), 0.5, device=device_name)
    with tensor.autocast(device_name):
        if device_name == "cpu":
            assert nn.functional.binary_cross_entropy(p, p).dtype is tensor.float32
            return
        with pytest.raises(RuntimeError, match="unsafe to autocast.*binary_cross_entropy_with_logits"):
            nn.functional.binary_cross_entropy(p, p)
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.BCELoss()(p, p)
        with tensor.autocast("cuda", enabled=False):
            nn.functional.binary_cross_entropy(p, p)


def test_lowered_casts_for_what_is_no_function_of_its_own(device_name: str) -> None:
    x, half = tensor.ones(2, device=device_name), tensor.ones(2, device=device_name, dtype=tensor.float16)
    double, number = (
        tensor.ones(2, device=device_name, dtype=tensor.float64),
        tensor.arange(2, device=device_name),
    )
    operands = (x, [half, None], double, number, "text")
    assert autocasting.lowered(*operands) is operands or autocasting.lowered(*operands) == operands
    with tensor.autocast(device_name, dtype=tensor.bfloat16):
        a, (b, nothing), c, d, text = autocasting.lowered(*operands)
    assert a.dtype is b.dtype is tensor.bfloat16
    assert c is double
    assert d is number
    assert (nothing, text) == (None, "text")


def test_only_tensors_of_the_type_of_device_are_cast(device: drv.Device) -> None:
    on_device, on_host = tensor.ones(2, 2, device="cuda"), tensor.ones(2, 2)
    with tensor.autocast("cuda"):
        assert (on_device @ on_device).dtype is tensor.float16
        assert (on_host @ on_host).dtype is tensor.float32
        with tensor.autocast("cpu"):
            assert (on_host @ on_host).dtype is tensor.bfloat16
            assert (on_device @ on_device).dtype is tensor.float16
        scalar = tensor.tensor(2.0)
        assert tensor.pow(on_device.half(), scalar).dtype is tensor.float32
    with tensor.autocast("cpu"):
        assert (on_device @ on_device).dtype is tensor.float32


def test_warnings_show_the_line_of_the_user() -> None:
    a = tensor.full((2, 2), 0.5)
    for enabled in (False, True):
        with pytest.warns(UserWarning, match="batchmean") as result, tensor.autocast("cpu", enabled=enabled):
            nn.functional.kl_div(a, a)
        assert result[0].filename == __file__
        with pytest.warns(UserWarning, match="size") as result, tensor.autocast("cpu", enabled=enabled):
            nn.functional.mse_loss(a, a[0])
        assert result[0].filename == __file__
