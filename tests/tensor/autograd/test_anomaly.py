"""Anomaly mode: which operation it was, and where in the forward pass."""

from __future__ import annotations

import inspect
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor import autograd
from tensor.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    autograd.set_detect_anomaly(False)


def leaf(*values: float, device: str = "cpu") -> Any:
    return tensor.tensor(values, dtype=tensor.float32, device=device, requires_grad=True)


class Failing(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise ValueError("no derivative today")


def the_guilty_line(x: Any) -> Any:
    return x.sqrt()


def test_nan_names_the_node_and_the_line(device_name: str) -> None:
    x = leaf(0, 1, device=device_name)
    with autograd.detect_anomaly():
        loss = (the_guilty_line(x) * 0).sum()
        with pytest.raises(RuntimeError) as caught:
            loss.backward()
    text = str(caught.value)
    assert text.startswith("Function 'SqrtBackward0' returned nan values in its 0th output.")
    first = inspect.getsourcelines(the_guilty_line)[1]
    last_line = text.rstrip().splitlines()[-2:]
    assert f'test_anomaly.py", line {first + 1}, in the_guilty_line' in last_line[0]
    assert last_line[1].strip() == "return x.sqrt()"


def test_which_gradient_is_nan() -> None:
    a, b = leaf(0), leaf(0)
    with autograd.detect_anomaly():
        y = (a * 1) / (b * 1)
        with pytest.raises(RuntimeError, match=r"DivBackward0' returned nan values in its 1th output"):
            y.backward()


@pytest.mark.parity
def test_same_message_as_pytorch() -> None:
    torch = pytest.importorskip("torch")

    def message(library: Any) -> str:
        x = library.tensor([0.0, 1.0], requires_grad=True)
        with library.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
            (x.sqrt() * 0).sum().backward()
        return str(caught.value).splitlines()[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert message(tensor) == message(torch)


def test_nan_is_fine_without_check_and_without_the_mode() -> None:
    x = leaf(0)
    with autograd.detect_anomaly(check_nan=False):
        (x.sqrt() * 0).sum().backward()
    assert x.grad.isnan().item()
    (x.sqrt() * 0).sum().backward()


def test_forward_pass_without_the_mode() -> None:
    y = (leaf(0).sqrt() * 0).sum()
    with (
        autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="enable anomaly detection during the forward pass"),
    ):
        y.backward()


def test_an_error_is_raised_after_a_warning_with_the_line() -> None:
    x = leaf(1)
    with autograd.detect_anomaly():
        y = Failing.apply(x)
        with (
            pytest.warns(UserWarning, match=r"Error detected in FailingBackward") as caught,
            pytest.raises(ValueError, match="no derivative today"),
        ):
            y.backward()
    assert "y = Failing.apply(x)" in str(caught[0].message)


def test_second_derivatives_name_the_first_pass() -> None:
    x = leaf(0)
    with autograd.detect_anomaly():
        y = x.abs().pow(1.5).sum()
        (first,) = autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError) as caught:
            first.backward()
    text = str(caught.value)
    assert "returned nan values" in text
    assert "Previous calculation was induced by" in text
    assert "y = x.abs().pow(1.5).sum()" in text
    assert "autograd.grad(y, x, create_graph=True)" in text


def test_the_mode_ends_with_its_block() -> None:
    assert not is_anomaly_enabled()
    with pytest.warns(UserWarning, match="only be enabled for debugging"):
        mode = autograd.detect_anomaly(check_nan=False)
    assert not is_anomaly_enabled()
    with mode:
        assert is_anomaly_enabled()
        assert not is_anomaly_check_nan_enabled()
        with autograd.set_detect_anomaly(True):
            assert is_anomaly_check_nan_enabled()
        with autograd.set_detect_anomaly(False):
            assert not is_anomaly_enabled()
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled()
    autograd.set_detect_anomaly(True)
    assert is_anomaly_enabled()


def test_passes_of_other_threads_are_looked_at() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            (leaf(0).sqrt() * 0).sum().backward()
        except RuntimeError as error:
            caught.append(error)

    with autograd.set_detect_anomaly(True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "returned nan values" in str(caught[0])
