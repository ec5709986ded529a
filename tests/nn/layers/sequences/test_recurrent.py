"""Recurrent layers and cells against PyTorch's, with its weights."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from tests.nn.parity import assert_refused_like_pytorch, copy_weights
from tests.tensor.comparison import array_of

INPUTS, HIDDEN, STEPS, BATCH = 4, 3, 4, 3
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("RNN", {}),
    "rnn relu deep": ("RNN", {"nonlinearity": "relu", "num_layers": 2, "bias": False}),
    "rnn both ways": ("RNN", {"bidirectional": True, "num_layers": 2, "batch_first": True}),
    "lstm": ("LSTM", {}),
    "lstm deep both ways": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "lstm projected": ("LSTM", {"proj_size": 2, "num_layers": 2, "batch_first": True}),
    "lstm projected both ways": (
        "LSTM",
        {"proj_size": 2, "num_layers": 2, "bidirectional": True, "bias": False},
    ),
    "gru": ("GRU", {"batch_first": True}),
    "gru deep both ways": ("GRU", {"num_layers": 2, "bidirectional": True}),
    "gru without biases": ("GRU", {"bias": False}),
}
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("RNNCell", {}),
    "rnn relu": ("RNNCell", {"nonlinearity": "relu"}),
    "lstm": ("LSTMCell", {}),
    "lstm without biases": ("LSTMCell", {"bias": False}),
    "gru": ("GRUCell", {}),
    "gru without biases": ("GRUCell", {"bias": False}),
}


def _pair(name: str, options: dict[str, Any], place: str) -> tuple[Any, Any]:
    """A layer of this library and PyTorch's, in float64 and with the same weights."""
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(INPUTS, HIDDEN, dtype=torch.float64, **options)
    mine = getattr(nn, name)(INPUTS, HIDDEN, dtype=tensor.float64, **options)
    assert repr(mine) == repr(theirs)
    copy_weights(mine, theirs)
    return mine.to(place), theirs


def _both(array: Any, place: str) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    mine = tensor.from_numpy(array.copy()).to(place).requires_grad_()
    return mine, torch.from_numpy(array.copy()).requires_grad_()


def _flat(value: Any) -> list[Any]:
    """All tensors in nested tuples."""
    return [each for part in value for each in _flat(part)] if isinstance(value, tuple) else [value]


def _compare(mine: Any, theirs: Any, found: Any, expected: Any, leaves: list[tuple[Any, Any]]) -> None:
    """Assert that results are the same, and all gradients of random multiples of them."""
    torch = pytest.importorskip("torch")
    found, expected = _flat(found), _flat(expected)
    rng = np.random.default_rng(3)
    backs = []
    for left, right in zip(found, expected, strict=True):
        assert tuple(left.shape) == tuple(right.shape)
        np.testing.assert_allclose(array_of(left), array_of(right), rtol=1e-9, atol=1e-12)
        backs.append(rng.standard_normal(tuple(right.shape)))
    device = found[0].device
    tensor.autograd.backward(found, [tensor.from_numpy(back.copy()).to(device) for back in backs])
    torch.autograd.backward(expected, [torch.from_numpy(back) for back in backs])
    leaves = [*leaves, *zip(mine.parameters(), theirs.parameters(), strict=True)]
    for left, right in leaves:
        np.testing.assert_allclose(array_of(left.grad), array_of(right.grad), rtol=1e-8, atol=1e-10)


def _states(name: str, options: dict[str, Any], batch: tuple[int, ...], place: str) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    sizes = [options.get("proj_size", HIDDEN)] + ([HIDDEN] if name == "LSTM" else [])
    return [_both(rng.standard_normal((count, *batch, size)), place) for size in sizes]


def _given(states: list[tuple[Any, Any]], which: int) -> Any:
    result = tuple([pair[which] for pair in states])
    return result if len(result) > 1 else result[0]


@pytest.mark.parity
@pytest.mark.parametrize("form", ["batched", "unbatched", "default states"])
@pytest.mark.parametrize("case", LAYERS)
@pytest.mark.sampled(3)
def test_layers(case: str, form: str, device_name: str) -> None:
    name, options = LAYERS[case]
    mine, theirs = _pair(name, options, device_name)
    shape: tuple[int, ...] = (BATCH, STEPS) if options.get("batch_first") else (STEPS, BATCH)
    batch: tuple[int, ...] = (BATCH,)
    if form == "unbatched":
        shape, batch = (STEPS,), ()
    x, other = _both(np.random.default_rng(0).standard_normal((*shape, INPUTS)), device_name)
    if form == "default states":
        _compare(mine, theirs, mine(x), theirs(other), [(x, other)])
        return
    states = _states(name, options, batch, device_name)
    result, expected = mine(x, _given(states, 0)), theirs(other, _given(states, 1))
    _compare(mine, theirs, result, expected, [(x, other), *states])


@pytest.mark.parity
@pytest.mark.parametrize("case", LAYERS)
@pytest.mark.sampled(3)
def test_packed(case: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    name, options = LAYERS[case]
    options = {**options, "batch_first": False}
    mine, theirs = _pair(name, options, device_name)
    lengths = [3, 1, 4, 3]
    x, other = _both(np.random.default_rng(0).standard_normal((4, 4, INPUTS)), device_name)
    states = _states(name, options, (4,), device_name)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    their_packed = torch.nn.utils.rnn.pack_padded_sequence(other, lengths, enforce_sorted=False)
    result, hidden = mine(packed, _given(states, 0))
    expected, their_hidden = theirs(their_packed, _given(states, 1))
    assert isinstance(result, nn.utils.rnn.PackedSequence)
    assert result.batch_sizes.tolist() == expected.batch_sizes.tolist()
    padded = nn.utils.rnn.pad_packed_sequence(result)[0]
    their_padded = torch.nn.utils.rnn.pad_packed_sequence(expected)[0]
    _compare(mine, theirs, (padded, hidden), (their_padded, their_hidden), [(x, other), *states])
    in_order = nn.utils.rnn.pack_padded_sequence(x.detach(), [4, 3, 3, 1])
    expected = theirs(torch.nn.utils.rnn.pack_padded_sequence(other.detach(), [4, 3, 3, 1]))[0].data
    np.testing.assert_allclose(array_of(mine(in_order)[0].data), array_of(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("form", ["batched", "unbatched", "default states"])
@pytest.mark.parametrize("case", CELLS)
def test_cells(case: str, form: str, device_name: str) -> None:
    name, options = CELLS[case]
    mine, theirs = _pair(name, options, device_name)
    rng = np.random.default_rng(0)
    batch = () if form == "unbatched" else (BATCH,)
    x, other = _both(rng.standard_normal((*batch, INPUTS)), device_name)
    if form == "default states":
        _compare(mine, theirs, mine(x), theirs(other), [(x, other)])
        return
    count = 2 if name == "LSTMCell" else 1
    states = [_both(rng.standard_normal((*batch, HIDDEN)), device_name) for _ in range(count)]
    result, expected = mine(x, _given(states, 0)), theirs(other, _given(states, 1))
    _compare(mine, theirs, result, expected, [(x, other), *states])


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_layer_is_its_cell_step_by_step(name: str, device_name: str) -> None:
    layer = getattr(nn, name)(INPUTS, HIDDEN, device=device_name, dtype=tensor.float64)
    cell = getattr(nn, f"{name}Cell")(INPUTS, HIDDEN, device=device_name, dtype=tensor.float64)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    x = tensor.randn(STEPS, BATCH, INPUTS, device=device_name, dtype=tensor.float64)
    out, _ = layer(x)
    state = None
    for step in range(STEPS):
        state = cell(x[step], state)
        hidden = state[0] if isinstance(state, tuple) else state
        np.testing.assert_allclose(array_of(hidden), array_of(out[step]), rtol=1e-12)


def test_first_values() -> None:
    tensor.manual_seed(0)
    for layer in (nn.LSTM(30, 16, 2), nn.GRUCell(30, 16)):
        values = np.concatenate([array_of(each).ravel() for each in layer.parameters()])
        assert np.abs(values).max() <= 0.25
        assert np.abs(values).max() > 0.24
        assert abs(values.mean()) < 0.02


def test_dropout_between_layers(device_name: str) -> None:
    layer = nn.GRU(4, 4, num_layers=3, dropout=1.0).to(device_name)
    x = tensor.randn(2, 2, 4, device=device_name)
    out, _ = layer(x)
    # All of the input of the last layer is gone: nothing but its biases is left.
    np.testing.assert_array_equal(array_of(out), array_of(layer(x * 2)[0]))
    assert not tensor.equal(layer.eval()(x)[0], layer(x * 2)[0])
    half = nn.LSTM(4, 64, num_layers=2, dropout=0.5).to(device_name)
    tensor.manual_seed(1)
    first = half(x)[0]
    tensor.manual_seed(1)
    assert tensor.equal(first, half(x)[0])
    assert not tensor.equal(first, half(x)[0])
    with pytest.warns(UserWarning, match="num_layers"):
        nn.RNN(2, 2, dropout=0.5)


def test_second_derivatives(device_name: str) -> None:
    layer = nn.LSTM(2, 2, bidirectional=True, dtype=tensor.float64, device=device_name)
    x = tensor.randn(2, 2, 2, dtype=tensor.float64, device=device_name, requires_grad=True)
    if device_name == "cpu":
        assert tensor.autograd.gradgradcheck(lambda x: layer(x)[0], (x,), fast_mode=True)
    # A gradient penalty reaches the weights.
    (grad,) = tensor.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    grad.pow(2).sum().backward()
    assert all(each.grad is not None and float(each.grad.abs().sum()) > 0 for each in (layer.weight_hh_l0, x))


def test_copies_and_pickles() -> None:
    layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    x = tensor.randn(2, 3, 3)
    expected = layer(x)[0]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert tensor.equal(other(x)[0], expected)
        assert [len(each) for each in other.all_weights] == [4] * 4
    # A weight that is replaced is the one that is used.
    layer.weight_ih_l0 = nn.Parameter(tensor.zeros(16, 3))
    assert not tensor.equal(layer(x)[0], expected)
    layer.flatten_parameters()
    result = nn.utils.stateless.functional_call(
        layer, {"weight_ih_l0": copy.deepcopy(layer).weight_hh_l0[:, :3]}, (x,)
    )
    assert not tensor.equal(result[0], layer(x)[0])


def test_autocast(device_name: str) -> None:
    x = tensor.randn(2, 3, 4, device=device_name, requires_grad=True)
    dtype = tensor.bfloat16
    layers = [nn.LSTM(4, 4), nn.RNN(4, 4), nn.GRU(4, 4, bidirectional=True)]
    for layer in layers:
        layer.to(device_name)
        with tensor.autocast(device_name, dtype=dtype):
            out, _ = layer(x)
        assert out.dtype is dtype
        np.testing.assert_allclose(array_of(out.float()), array_of(layer(x)[0]), atol=0.05)
        out.float().sum().backward()
        assert layer.weight_hh_l0.grad.dtype is tensor.float32
    cell = nn.LSTMCell(4, 4).to(device_name)
    with tensor.autocast(device_name, dtype=dtype):
        hidden, _ = cell(x[0])
    assert hidden.dtype is dtype


@pytest.mark.simulator_only
def test_tf32_follows_the_flag_of_products() -> None:
    drv.simulator.install()
    tensor.manual_seed(0)
    layer = nn.LSTM(32, 32)
    x = tensor.randn(3, 4, 32)
    exact = array_of(layer.double()(x.double())[0])
    layer, x = layer.float().cuda(), x.cuda()
    away = []
    for allowed in (False, True):
        tensor.backends.cuda.matmul.allow_tf32 = allowed
        away.append(np.abs(array_of(layer(x)[0]) - exact).max())
    assert away[0] < 1e-6 < 1e-5 < away[1] < 1e-3


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_training_under_any_schedule(schedule: str) -> None:
    def train(place: str) -> list[Any]:
        tensor.manual_seed(0)
        layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dtype=tensor.float64)
        head = nn.GRU(8, 2, dtype=tensor.float64)
        sequences = [tensor.randn(length, 3, dtype=tensor.float64).to(place) for length in (2, 3, 1)]
        layer.to(place)
        head.to(place)
        optimizer = nn.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
            loss = head(layer(packed)[0])[0].data.pow(2).sum()
            loss.backward()
            optimizer.step()
        return [array_of(each) for each in (*layer.parameters(), *head.parameters())]

    expected = train("cpu")
    drv.simulator.install(check="full", schedule=schedule)
    with tensor.cuda.stream(tensor.cuda.Stream()):
        result = train("cuda")
    for left, right in zip(result, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
def test_memory_of_training_steps_is_flat() -> None:
    drv.simulator.install()
    layer = nn.GRU(8, 16, num_layers=2, bidirectional=True).cuda()
    x = tensor.randn(5, 4, 8, device="cuda")
    used = []
    for _ in range(4):
        layer(x)[0].sum().backward()
        layer.zero_grad()
        used.append(tensor.cuda.memory_allocated())
    assert len(set(used[1:])) == 1
    # Without gradients the gates and what else is kept for them are gone too.
    with tensor.no_grad():
        out = layer(x)
    assert tensor.cuda.memory_allocated() - used[-1] == sum(-(-each.numel() * 4 // 512) * 512 for each in out)


@pytest.mark.parity
def test_batches_of_any_size(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for batch in (0, 1):
        for name in ("GRU", "RNN"):
            expected = getattr(torch.nn, name)(3, 2)(torch.zeros(4, batch, 3))
            result = getattr(nn, name)(3, 2).to(device_name)(tensor.zeros(4, batch, 3, device=device_name))
            assert [tuple(each.shape) for each in result] == [tuple(each.shape) for each in expected]


WRONG: dict[str, tuple[Any, str]] = {
    "features": (lambda layers, t: layers.LSTM(3, 4)(t.zeros(2, 2, 5)), "Expected 3, got 5"),
    "rank": (lambda layers, t: layers.GRU(3, 4)(t.zeros(3)), "2D or 3D, got 1D"),
    "dtype": (lambda layers, t: layers.LSTM(3, 4)(t.zeros(2, 2, 3, dtype=t.float64)), "float64.*float32"),
    "no steps": (lambda layers, t: layers.LSTM(3, 4)(t.zeros(0, 2, 3)), "sequence length"),
    "state's batch": (
        lambda layers, t: layers.RNN(3, 4)(t.zeros(2, 2, 3), t.zeros(1, 3, 4)),
        "Expected hidden size",
    ),
    "state's rank": (lambda layers, t: layers.RNN(3, 4)(t.zeros(2, 2, 3), t.zeros(2, 4)), "3-D.*2-D"),
    "state's rank unbatched": (
        lambda layers, t: layers.GRU(3, 4)(t.zeros(2, 3), t.zeros(1, 1, 4)),
        "2-D.*3-D",
    ),
    "cell state": (
        lambda layers, t: layers.LSTM(3, 4, proj_size=2)(
            t.zeros(2, 2, 3), (t.zeros(1, 2, 2), t.zeros(1, 2, 2))
        ),
        r"Expected hidden\[1\] size \(1, 2, 4\)",
    ),
    "hidden size": (lambda layers, t: layers.LSTM(3, 0), "greater than zero"),
    "input size": (lambda layers, t: layers.GRU(0, 3), "greater than zero"),
    "size's type": (lambda layers, t: layers.GRU(3, 4.5), "should be of type int"),
    "bias's type": (lambda layers, t: layers.GRU(3, 4, bias=1), "should be of type bool"),
    "layers": (lambda layers, t: layers.GRU(3, 4, num_layers=0), "greater than zero"),
    "projection": (lambda layers, t: layers.LSTM(3, 4, proj_size=4), "smaller than hidden_size"),
    "dropout": (lambda layers, t: layers.LSTM(3, 4, dropout=1.5), r"range \[0, 1\]"),
    "nonlinearity": (lambda layers, t: layers.RNN(3, 4, nonlinearity="sin"), "Unknown nonlinearity"),
    "mode": (lambda layers, t: layers.RNNBase("TREE", 3, 4), "Unrecognized RNN mode"),
    "cell's rank": (lambda layers, t: layers.LSTMCell(3, 4)(t.zeros(1, 2, 3)), "1D or 2D, got 3D"),
    "cell's state": (
        lambda layers, t: layers.GRUCell(3, 4)(t.zeros(2, 3), t.zeros(2, 2, 4)),
        "hidden to be 1D or 2D",
    ),
    "cell's states": (
        lambda layers, t: layers.LSTMCell(3, 4)(t.zeros(2, 3), (t.zeros(2, 4), t.zeros(2, 2, 4))),
        r"hx\[1\] to be 1D or 2D",
    ),
    "cell's features": (lambda layers, t: layers.RNNCell(3, 4)(t.zeros(2, 5)), "inconsistent input_size"),
    "cell's units": (
        lambda layers, t: layers.RNNCell(3, 4)(t.zeros(2, 3), t.zeros(2, 3)),
        "inconsistent hidden_size",
    ),
    "cell's batch": (
        lambda layers, t: layers.RNNCell(3, 4)(t.zeros(2, 3), t.zeros(3, 4)),
        "doesn't match hidden",
    ),
    "cell's nonlinearity": (
        lambda layers, t: layers.RNNCell(3, 4, nonlinearity="sin")(t.zeros(2, 3)),
        "Unknown nonlinearity",
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    assert_refused_like_pytorch(*WRONG[name])


def test_packed_sequences_that_cannot_be() -> None:
    layer = nn.GRU(3, 4)
    with pytest.raises(RuntimeError, match="do not grow"):
        layer(nn.utils.rnn.PackedSequence(tensor.ones(5, 3), tensor.tensor([2, 3])))
    with pytest.raises(RuntimeError, match="the steps have 5 rows together"):
        layer(nn.utils.rnn.PackedSequence(tensor.ones(4, 3), tensor.tensor([3, 2])))


@pytest.mark.parity
@pytest.mark.parametrize("case", [*LAYERS, "cell"])
def test_texts_and_keys(case: str) -> None:
    torch = pytest.importorskip("torch")
    name, options = LAYERS.get(case, ("LSTMCell", {"bias": False}))
    options = {**options, "dropout": 0.25} if options.get("num_layers") else options
    mine, theirs = getattr(nn, name)(3, 4, **options), getattr(torch.nn, name)(3, 4, **options)
    assert repr(mine) == repr(theirs)
    shapes = [
        [(key, tuple(value.shape)) for key, value in each.state_dict().items()] for each in (mine, theirs)
    ]
    assert shapes[0] == shapes[1]
