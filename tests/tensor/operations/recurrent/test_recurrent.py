"""One direction of a recurrent layer: against formulas, PyTorch and differences, and what it does on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from drv.host import machine_code
from nvrtc_kernels import host_loops
from tensor.operations.recurrent import lstm_on_host
from tensor.operations.recurrent.cells import Cell
from tensor.operations.recurrent.recurrent import recur
from tests.tensor.driver_calls import Calls, counted
from tests.tensor.operations.neural_comparison import on

#: Name, gates, and size of the projected state.
CELLS: dict[str, tuple[str, int, int]] = {
    "rnn_tanh": ("rnn_tanh", 1, 0),
    "rnn_relu": ("rnn_relu", 1, 0),
    "lstm": ("lstm", 4, 0),
    "lstm projected": ("lstm", 4, 2),
    "gru": ("gru", 3, 0),
}
EVEN = [(0, 3), (3, 3), (6, 3)]
#: Sequences of lengths 3, 2 and 1, which end one after another, or begin one after another.
SHRINKING = [(0, 3), (3, 2), (5, 1)]
SPANS = {"even": EVEN, "shrinking": SHRINKING, "growing": SHRINKING[::-1]}
INPUTS, HIDDEN, BATCH = 4, 3, 3


def _arrays(which: str, rows: int, hidden: int = HIDDEN, batch: int = BATCH, seed: int = 0) -> list[Any]:
    """Data, states, and weights; ``None`` for what the cell does not have."""
    name, gates, projected = CELLS[which]
    rng = np.random.default_rng(seed)
    size = projected or hidden
    shapes: list[Any] = [
        (rows, INPUTS),
        (batch, size),
        (batch, hidden) if name == "lstm" else None,
        (gates * hidden, INPUTS),
        (gates * hidden, size),
        (gates * hidden,),
        (gates * hidden,),
        (projected, hidden) if projected else None,
    ]
    return [None if shape is None else rng.standard_normal(shape) for shape in shapes]


def _run(which: str, operands: Any, spans: Any, hidden: int = HIDDEN, batch: int = BATCH) -> Any:
    name, _, projected = CELLS[which]
    data, state, cell_state, *weights = operands
    return recur(Cell(name, hidden, projected), data, (state, cell_state), weights, spans, batch)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _formula(which: str, arrays: Any, spans: Any) -> list[Any]:
    """The same row by row, from the definitions."""
    name, _, projected = CELLS[which]
    data, state, cell_state, of_input, of_hidden, bias, other, projection = arrays
    h, c = state.copy(), None if cell_state is None else cell_state.copy()
    out = np.empty((len(data), h.shape[1]))
    for first, count in spans:
        for row in range(count):
            x, y = of_input @ data[first + row] + bias, of_hidden @ h[row] + other
            if name == "gru":
                (xr, xz, xn), (yr, yz, yn) = np.split(x, 3), np.split(y, 3)
                reset, stay = _sigmoid(xr + yr), _sigmoid(xz + yz)
                result = (1 - stay) * np.tanh(xn + reset * yn) + stay * h[row]
            elif name == "lstm":
                i, f, g, o = np.split(x + y, 4)
                c[row] = _sigmoid(f) * c[row] + _sigmoid(i) * np.tanh(g)
                result = _sigmoid(o) * np.tanh(c[row])
            else:
                result = np.tanh(x + y) if name == "rnn_tanh" else np.maximum(x + y, 0)
            h[row] = out[first + row] = projection @ result if projected else result
    return [out, h] if c is None else [out, h, c]


@pytest.mark.parametrize("order", SPANS)
@pytest.mark.parametrize("which", CELLS)
@pytest.mark.sampled(4)
def test_formula(which: str, order: str, device_name: str) -> None:
    spans = SPANS[order]
    arrays = _arrays(which, sum(count for _, count in spans))
    operands = [None if each is None else on(device_name, each) for each in arrays]
    expected = _formula(which, arrays, spans)
    for grad in (False, True):
        # What is kept for gradients changes nothing.
        operands[3].requires_grad_(grad)
        result = _run(which, operands, spans)
        assert len(result) == len(expected)
        for left, right in zip(result, expected, strict=True):
            assert left.requires_grad is grad
            np.testing.assert_allclose(left.detach().cpu().numpy(), right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("which", CELLS)
def test_first_states_are_zeros_and_biases_may_be_missing(which: str, device_name: str) -> None:
    arrays = _arrays(which, 9)
    zero = [None if each is None else np.zeros_like(each) for each in arrays]
    operands = [None if each is None else on(device_name, each) for each in arrays]
    arrays[1:3], arrays[5:7] = zero[1:3], zero[5:7]
    operands[1] = operands[2] = operands[5] = operands[6] = None
    result = _run(which, operands, EVEN)
    for left, right in zip(result, _formula(which, arrays, EVEN), strict=True):
        np.testing.assert_allclose(left.cpu().numpy(), right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("which", CELLS)
@pytest.mark.sampled(4)
def test_derivatives(which: str, device_name: str) -> None:
    # Differences take long on a simulated device.
    for order in SPANS if device_name == "cpu" else ["shrinking"]:
        spans = SPANS[order]
        arrays = _arrays(which, sum(count for _, count in spans))
        there = [number for number, each in enumerate(arrays) if each is not None]
        operands = tuple(on(device_name, arrays[number], grad=True) for number in there)

        def call(*given: Any, spans: Any = spans, there: Any = there) -> Any:
            every: list[Any] = [None] * 8
            for number, each in zip(there, given, strict=True):
                every[number] = each
            return _run(which, every, spans)

        assert tensor.autograd.gradcheck(call, operands, fast_mode=True)
        if device_name == "cpu" and order != "even":
            assert tensor.autograd.gradgradcheck(call, operands, fast_mode=True)


def test_gradients_of_what_is_given_twice(device_name: str) -> None:
    # One tensor is both weights, and the state is made of the data.
    data, weight = (
        on(device_name, np.random.default_rng(n).standard_normal((3, 3)), grad=True) for n in (0, 1)
    )

    def call(data: Any, weight: Any) -> Any:
        states = data * 2, None
        return recur(Cell("rnn_tanh", 3), data, states, (weight, weight, None, None, None), [(0, 3)], 3)

    assert tensor.autograd.gradcheck(call, (data, weight), fast_mode=True)
    assert tensor.autograd.gradgradcheck(call, (data, weight), fast_mode=True)


@pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", SPANS)
def test_native_loops_on_the_cpu(order: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of an LSTM by loops give what NumPy gives, with and without gradients, and whatever result these are of."""
    spans, outcomes = SPANS[order], []
    arrays = [None if x is None else x.astype(dtype) for x in _arrays("lstm", sum(n for _, n in spans), 21)]
    former = host_loops.mode()
    monkeypatch.setattr(lstm_on_host, "columns_at_once", lambda rows, depth, columns: 32)
    try:
        for mode in ("off", "on"):
            host_loops.set_mode(mode)
            operands = [None if each is None else on("cpu", each) for each in arrays]
            outcome = list(_run("lstm", operands, spans, 21))
            leaves = [each.requires_grad_() for each in operands if each is not None]
            results = _run("lstm", operands, spans, 21)
            outcome += [each.detach() for each in results]
            for number in range(3):
                outcome += tensor.autograd.grad(results[number].square().sum(), leaves, retain_graph=True)
            outcomes.append(outcome)
    finally:
        host_loops.set_mode(former)
    digits = 1e-5 if dtype is np.float32 else 1e-12
    for left, right in zip(*outcomes, strict=True):
        np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=10 * digits, atol=digits)


@pytest.mark.parametrize("used", range(3))
@pytest.mark.parametrize("which", ["lstm", "lstm projected"])
def test_gradients_of_one_result(which: str, used: int, device_name: str) -> None:
    operands = [None if each is None else on(device_name, each, grad=True) for each in _arrays(which, 9)]
    leaves = [each for each in operands if each is not None]
    results = _run(which, operands, EVEN)
    backs = [on(device_name, np.random.default_rng(2).standard_normal(tuple(each.shape))) for each in results]
    result = tensor.autograd.grad(results[used], leaves, backs[used], retain_graph=True)
    backs = [back if number == used else tensor.zeros_like(back) for number, back in enumerate(backs)]
    for left, right in zip(result, tensor.autograd.grad(list(results), leaves, backs), strict=True):
        np.testing.assert_allclose(left.cpu().numpy(), right.cpu().numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("which", CELLS)
@pytest.mark.sampled(4)
def test_types(which: str, kind: str, device_name: str, full_precision: None) -> None:
    arrays = _arrays(which, 9)
    exact, rounded = [], []
    for each in arrays:
        low = None if each is None else on(device_name, each).to(getattr(tensor, kind))
        rounded.append(None if low is None else low.requires_grad_())
        exact.append(None if low is None else low.detach().double().requires_grad_())
    tolerance = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 1e-5}[kind]
    result, expected = _run(which, rounded, EVEN), _run(which, exact, EVEN)
    for left, right in zip(result, expected, strict=True):
        assert left.dtype is getattr(tensor, kind)
        np.testing.assert_allclose(
            left.detach().double().cpu().numpy(), right.detach().cpu().numpy(), rtol=tolerance, atol=tolerance
        )
    sum(each.sum() for each in result).backward()
    sum(each.sum() for each in expected).backward()
    for left, right in zip(rounded, exact, strict=True):
        if left is not None:
            needed = right.grad.cpu().numpy()
            scale = max(np.abs(needed).max(), 1)
            np.testing.assert_allclose(left.grad.double().cpu().numpy(), needed, atol=4 * tolerance * scale)


@pytest.mark.parametrize("which", CELLS)
@pytest.mark.sampled(4)
def test_wide_loads(which: str, device_name: str, full_precision: None) -> None:
    """Many rows, of which threads take several units at once, and then few."""
    batch, hidden = 4100, 8
    spans = [(0, batch), (batch, 5)]
    results: list[list[Any]] = []
    for device, dtype in (("cpu", np.float64), (device_name, np.float32)):
        arrays = [
            None if each is None else each.astype(dtype) for each in _arrays(which, batch + 5, hidden, batch)
        ]
        operands = [None if each is None else on(device, each, grad=True) for each in arrays]
        result = _run(which, operands, spans, hidden, batch)
        rng = np.random.default_rng(1)
        backs = [on(device, rng.standard_normal(tuple(each.shape)).astype(dtype)) for each in result]
        tensor.autograd.backward(list(result), backs)
        results.append([*[each.detach() for each in result], *[x.grad for x in operands if x is not None]])
    for left, right in zip(*results, strict=True):
        np.testing.assert_allclose(right.cpu().numpy(), left.numpy(), rtol=1e-3, atol=2e-3)


def test_unaligned_gradients(device_name: str) -> None:
    operands = [None if each is None else on(device_name, each, grad=True) for each in _arrays("gru", 9)]
    out = _run("gru", operands, EVEN)[0]
    back = tensor.ones(out.numel() + 1, dtype=out.dtype, device=device_name)[1:].view(out.shape)
    out.backward(back)
    again = [None if each is None else on(device_name, each, grad=True) for each in _arrays("gru", 9)]
    _run("gru", again, EVEN)[0].sum().backward()
    for left, right in zip(operands, again, strict=True):
        if left is not None:
            np.testing.assert_array_equal(left.grad.cpu().numpy(), right.grad.cpu().numpy())


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_any_schedule_on_a_side_stream(schedule: str) -> None:
    def step(place: str) -> list[Any]:
        actual = []
        for which in CELLS:
            operands = [None if each is None else on(place, each, grad=True) for each in _arrays(which, 6)]
            results = _run(which, operands, SHRINKING)
            sum((each * each).sum() for each in results).backward()
            actual += [*[each.detach() for each in results], *[x.grad for x in operands if x is not None]]
        return actual

    expected = [each.numpy() for each in step("cpu")]
    drv.simulator.install(check="full", schedule=schedule)
    with tensor.cuda.stream(tensor.cuda.Stream()):
        result = [each.cpu().numpy() for each in step("cuda")]
    for left, right in zip(result, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
@pytest.mark.parametrize("which", CELLS)
def test_a_step_is_one_kernel_beside_products(which: str) -> None:
    # So many units are too many for one multiprocessor to be done in one launch.
    drv.simulator.install(multiprocessors=1)

    def launches(steps: int, calls: Calls) -> int:
        spans = [(3 * number, 3) for number in range(steps)]
        arrays = _arrays(which, 3 * steps, 20)
        operands = [None if each is None else on("cuda", each, grad=True) for each in arrays]
        calls.clear()
        results = _run(which, operands, spans, 20)
        tensor.autograd.backward(list(results), [tensor.ones_like(each) for each in results])
        return calls["cuLaunchKernel"]

    with counted() as calls:
        launches(4, calls)
        # Forward and back; projected states take a kernel more.
        kernels = 2 if which == "lstm projected" else 1
        assert launches(8, calls) - launches(4, calls) == 4 * 2 * kernels


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("which", ["RNN", "LSTM", "GRU"])
def test_no_sequences(which: str, bidirectional: bool, device_name: str) -> None:
    """A batch of none gives results of none, and gradients that are 0. Rows have as many bytes as sequences of steps take."""
    layer = getattr(nn, which)(8, 16, num_layers=2, bidirectional=bidirectional).to(device_name)
    data = tensor.ones(3, 0, 8, device=device_name, requires_grad=True)
    directions = 1 + bidirectional
    output, state = layer(data)
    assert output.shape == (3, 0, 16 * directions)
    for each in state if which == "LSTM" else (state,):
        assert each.shape == (2 * directions, 0, 16)
    output.sum().backward()
    assert data.grad is not None and data.grad.shape == data.shape
    for parameter in layer.parameters():
        assert not parameter.grad.any()


def test_errors(device_name: str) -> None:
    operands = [None if each is None else on(device_name, each) for each in _arrays("lstm", 9)]
    with pytest.raises(RuntimeError, match="same dtype"):
        _run("lstm", [operands[0].float(), *operands[1:]], EVEN)
    with pytest.raises(NotImplementedError, match="int64"):
        _run("lstm", [None if each is None else each.long() for each in operands], EVEN)
    for number, (name, wrong) in enumerate(
        {
            "data": (8, 4),
            "hx": (3, 4),
            "cx": (2, 3),
            "weight_ih": (12, 5),
            "weight_hh": (9, 3),
            "bias_ih": (3,),
        }.items()
    ):
        argument = [*operands]
        argument[number] = tensor.ones(wrong, dtype=tensor.float64, device=device_name)
        with pytest.raises(RuntimeError, match=f"expected {name} of shape"):
            _run("lstm", argument, EVEN)
    operands[3].requires_grad_()
    out = _run("lstm", operands, EVEN)[0].sum()
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


@pytest.mark.parity
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_functions_of_parameters(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    gates = CELLS[name][1] * HIDDEN
    shapes: list[tuple[int, ...]] = [(gates, INPUTS), (gates, HIDDEN), (gates,), (gates,)] * 2
    params = [rng.standard_normal(shape) for shape in shapes]
    arrays = rng.standard_normal((2, BATCH, INPUTS)), rng.standard_normal((2, BATCH, HIDDEN))

    def call(library: Any, make: Any, batch_first: bool, packed: bool) -> Any:
        function = getattr(library, name)
        x, h = (make(each) for each in arrays)
        states = (h, h + 1) if name == "lstm" else h
        weights = [make(each) for each in params]
        if packed:
            data = x.reshape(2 * BATCH, INPUTS)[:5]
            return function(data, library.tensor([3, 2]), states, weights, True, 1, 0.0, False, True)
        x = x.transpose(0, 1) if batch_first else x
        return function(
            x, states, weights, True, num_layers=1, dropout=0.0, train=False, bidirectional=True, batch_first=batch_first
        )  # fmt: skip

    for form in ((False, False), (True, False), (False, True)):
        result = call(tensor, lambda array: on(device_name, array), *form)
        expected = call(torch, torch.from_numpy, *form)
        for left, right in zip(result, expected, strict=True):
            np.testing.assert_allclose(left.cpu().numpy(), right.numpy(), rtol=1e-10, atol=1e-12)
    x, h = (on(device_name, each) for each in arrays)
    rest = True, 1, 0.0, False, True, False
    with pytest.raises(RuntimeError, match="expected 8 parameters"):
        getattr(tensor, name)(x, (h, h) if name == "lstm" else h, [], *rest)
    with pytest.raises(RuntimeError, match="expects"):
        getattr(tensor, name)(x, (h, h, h), [on(device_name, each) for each in params], *rest)
    with pytest.raises(TypeError, match="batch_sizes"):
        getattr(tensor, name)(x, h)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"])
def test_cells_as_functions(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    _, h, c, *weights = _arrays(name.removesuffix("_cell"), BATCH)
    data = np.random.default_rng(2).standard_normal((BATCH, INPUTS))

    def call(library: Any, make: Any, count: int) -> Any:
        states = (make(h), make(c)) if c is not None else make(h)
        actual = getattr(library, name)(make(data), states, *[make(each) for each in weights[:count]])
        return actual if isinstance(actual, tuple) else (actual,)

    for count in (2, 4):
        result = call(tensor, lambda array: on(device_name, array), count)
        for left, right in zip(result, call(torch, torch.from_numpy, count), strict=True):
            np.testing.assert_allclose(left.cpu().numpy(), right.numpy(), rtol=1e-10, atol=1e-12)
