"""Embeddings alone and in bags against PyTorch's, with their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nn import functional
from tensor.operations.indexing import embedding as embeddings
from tests.tensor.launched_kernels import launched
from tests.tensor.operations.neural_comparison import assert_like_torch, close, on

_RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parity
@pytest.mark.parametrize("shape", [(5,), (3, 4), (), (0,)], ids=str)
def test_rows_like_pytorch(shape: Any, checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    indices = np.asarray(_RNG.integers(0, 6, shape))
    for options in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True, "padding_idx": 0}):
        assert_like_torch(
            checked_device,
            lambda w, i, options=options: embeddings.embedding(w, i, **options),
            lambda w, i, options=options: torch.embedding(w, i, **options),
            (_normal(6, 3), indices),
        )


@pytest.mark.parity
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags_like_pytorch(mode: str, padding: int | None, checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    indices = np.array([0, 3, 1, 1, 2, 5, 3, 1, 0])
    offsets = np.array([0, 2, 2, 7, 9])
    number = ["sum", "mean", "max"].index(mode)
    factors = _normal(9) if mode == "sum" else None

    def call(function: Any, w: Any, i: Any, o: Any, f: Any) -> Any:
        return function(w, i, o, False, number, False, f, False, padding)[0]

    assert_like_torch(
        checked_device,
        lambda *a: call(embeddings.embedding_bag, *a),
        lambda *a: call(torch.embedding_bag, *a),
        (_normal(6, 3), indices, offsets, factors),
    )
    w = _normal(6, 3)
    mine = embeddings.embedding_bag(
        on(checked_device, w), on(checked_device, indices).int(), on(checked_device, offsets), mode=mode,
        include_last_offset=True, padding_idx=padding,
    )  # fmt: skip
    theirs = torch.embedding_bag(
        torch.from_numpy(w), torch.from_numpy(indices), torch.from_numpy(offsets), False, number, False, None, True,
        padding,
    )  # fmt: skip
    close(mine[0], theirs[0])


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_other_types(kind: str, device_name: str) -> None:
    w = on(device_name, _normal(4, 3)).to(getattr(tensor, kind)).requires_grad_()
    wide = w.detach().double().requires_grad_()
    indices = on(device_name, np.repeat([0, 1, 1, 3], 10))
    starts = on(device_name, np.array([0, 5, 20]))
    tolerance = {"float16": 3e-3, "bfloat16": 2e-2, "float64": 1e-12}[kind]
    for call in (
        lambda w: embeddings.embedding(w, indices),
        lambda w: embeddings.embedding_bag(w, indices, starts, mode="mean")[0],
        lambda w: embeddings.embedding_bag(w, indices, starts, mode="sum")[0],
    ):
        result, expected = call(w), call(wide)
        assert result.dtype is w.dtype
        close(result.double(), expected, tolerance)
        result.sum().backward()
        expected.sum().backward()
        close(w.grad.double(), wide.grad, tolerance)
        w.grad = wide.grad = None


def test_gradients_divided_by_frequencies(device_name: str) -> None:
    indices, starts = on(device_name, np.array([0, 2, 2, 2, 3])), on(device_name, np.array([0, 3]))
    w = tensor.zeros(4, 2, device=device_name, requires_grad=True)
    embeddings.embedding_bag(w, indices, starts, True)[0].sum().backward()
    np.testing.assert_allclose(w.grad.cpu().numpy()[:, 0], [1, 0, 1, 1], rtol=1e-6)


def test_derivatives(device_name: str) -> None:
    w = on(device_name, _RNG.standard_normal((4, 2)), grad=True)
    factors = on(device_name, _RNG.standard_normal(5), grad=True)
    indices, starts = on(device_name, np.array([0, 3, 1, 1, 2])), on(device_name, np.array([0, 2, 2]))
    fast = device_name == "cuda"
    cases = [
        (lambda w: embeddings.embedding(w * w, indices, 1, True), (w,)),
        (lambda w: embeddings.embedding_bag(w * w, indices, starts, mode="mean")[0], (w,)),
        (lambda w: embeddings.embedding_bag(w * w, indices, starts, mode="max")[0], (w,)),
        (lambda w, f: embeddings.embedding_bag(w, indices, starts, per_sample_weights=f)[0], (w, factors)),
    ]
    for number, (function, inputs) in enumerate(cases):
        # What is left out on purpose is no derivative: padding and frequencies are compared with PyTorch's.
        if number:
            assert tensor.autograd.gradcheck(function, inputs, fast_mode=fast)
            assert tensor.autograd.gradgradcheck(function, inputs, fast_mode=fast)
    second = tensor.autograd.grad(cases[0][0](w).sum(), w, create_graph=True)[0]
    second.sum().backward()
    expected = np.zeros((4, 2))
    expected[[0, 2, 3]] = 2
    np.testing.assert_allclose(w.grad.cpu().numpy(), expected)


@pytest.mark.simulator_only
@pytest.mark.parametrize("index", [tensor.int32, tensor.int64], ids=str)
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.float16, tensor.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "lookups", "padding"),
    [
        (256, 384, 512, None),
        (5, 3, 100, 2),
        (64, 130, 64, 0),
        (7, 1, 4096, None),
        (9, 128, 0, None),
        (2, 129, 33, 1),
    ],
)
@pytest.mark.sampled(24)
def test_gradients_in_one_launch(
    rows: int, columns: int, lookups: int, padding: int | None, dtype: Any, index: Any
) -> None:
    """Rows named often, once and never, tiles of columns that are full and not, and parts of warps."""
    drv.simulator.install(check="full", schedule="lazy")
    rng = np.random.default_rng(rows)
    # Some rows come much more often than others.
    numbers = np.minimum(rng.integers(0, rows, lookups), rng.integers(0, rows, lookups))
    gradients = rng.integers(-8, 8, (lookups, columns))
    table = tensor.zeros(rows, columns, device="cuda", dtype=dtype, requires_grad=True)
    values = tensor.tensor(gradients, device="cuda", dtype=dtype)
    result = functional.embedding(
        tensor.tensor(numbers, device="cuda", dtype=index), table, padding_idx=padding
    )
    with launched() as names:
        (got,) = tensor.autograd.grad(result, table, values)
    expected = np.zeros((rows, columns))
    np.add.at(expected, numbers, gradients)
    if padding is not None:
        expected[padding] = 0
    rounded = tensor.tensor(expected, dtype=dtype).double().numpy()
    np.testing.assert_array_equal(got.cpu().double().numpy(), rounded)
    assert [each for each in names if each.startswith(("embedding_", "fill", "sort"))] == [
        "embedding_gradient"
    ]
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
@pytest.mark.parametrize("index", [tensor.int32, tensor.int64], ids=str)
@pytest.mark.parametrize("dtype", [tensor.float32, tensor.float64, tensor.float16, tensor.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "columns", "lookups", "often", "padding"),
    [
        (41, 264, 160, 40, 2),
        (70, 130, 64, 1, None),
        (1301, 1, 5200, 5000, None),
        (9, 128, 0, 0, None),
        (33, 8, 100, 17, 0),
    ],
)
@pytest.mark.sampled(24)
def test_gradients_by_slots(
    rows: int,
    columns: int,
    lookups: int,
    often: int,
    padding: int | None,
    dtype: Any,
    index: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row that has more lookups than slots, and more than a batch, beside rows with few and none."""
    drv.simulator.install(check="full", schedule="random", seed=rows)
    monkeypatch.setattr(embeddings.kernels, "_MOST_LOOKUPS", -1)
    rng = np.random.default_rng(rows)
    numbers = rng.permutation(np.append(np.full(often, rows // 2), rng.integers(0, rows, lookups - often)))
    gradients = rng.integers(-4, 4, (lookups, columns))
    table = tensor.zeros(rows, columns, device="cuda", dtype=dtype, requires_grad=True)
    # Neither aligned nor, where the number of columns is odd, a multiple of a load.
    store = tensor.zeros(lookups * columns + 1, device="cuda", dtype=dtype)
    values = store[columns % 2 :][: lookups * columns].view(lookups, columns)
    values.copy_(tensor.tensor(gradients, dtype=dtype))
    indices = tensor.tensor(numbers.astype(np.int64), device="cuda", dtype=index)
    results = []
    for _ in range(2):
        with launched() as names:
            result = functional.embedding(indices, table, padding_idx=padding)
            results += tensor.autograd.grad(result, table, values)
    assert any(each.startswith("embedding_gradient_of_") for each in names)
    expected = np.zeros((rows, columns))
    np.add.at(expected, numbers.astype(np.int64), gradients)
    if padding is not None:
        expected[padding] = 0
    rounded = tensor.tensor(expected, dtype=dtype).double().numpy()
    for result in results:
        np.testing.assert_array_equal(result.cpu().double().numpy(), rounded)
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
def test_rows_by_slots_are_summed_in_the_order_of_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    drv.simulator.install(check="full")
    monkeypatch.setattr(embeddings.kernels, "_MOST_LOOKUPS", -1)
    numbers, back = _RNG.integers(0, 30, 100), _normal(100, 4)
    table = tensor.zeros(30, 4, device="cuda", requires_grad=True)
    embeddings.embedding(table, on("cuda", numbers)).backward(on("cuda", back))
    expected = np.zeros((30, 4), np.float32)
    for number, row in zip(numbers, back, strict=True):
        expected[number] += row
    assert table.grad is not None
    np.testing.assert_array_equal(table.grad.cpu().numpy(), expected)


@pytest.mark.simulator_only
def test_gradients_of_many_lookups_are_sorted() -> None:
    drv.simulator.install(check="full")
    table = tensor.zeros(3, 2, device="cuda", requires_grad=True)
    indices = tensor.arange(4097, device="cuda") % 3
    with launched() as names:
        functional.embedding(indices, table).sum().backward()
    assert "embedding_gradient" not in names
    assert table.grad is not None
    assert table.grad[:, 0].tolist() == [1366, 1366, 1365]


def test_the_same_in_every_run(device_name: str) -> None:
    indices = on(device_name, _RNG.integers(0, 3, 500))
    back = on(device_name, _normal(500, 2))
    result = []
    for _ in range(2):
        w = tensor.zeros(3, 2, device=device_name, requires_grad=True)
        embeddings.embedding(w, indices).backward(back)
        result.append(w.grad.cpu().numpy())
    np.testing.assert_array_equal(*result)


@pytest.mark.parity
def test_long_rows_are_scaled_down(device_name: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    import torch

    w = _normal(5, 3) * 3
    indices = np.array([0, 3, 3, 1])
    mine = on(device_name, w)
    theirs = torch.from_numpy(w.copy())
    embeddings.renormalise(mine, on(device_name, indices), 1.5, 2.0)
    functional.embedding(torch.from_numpy(indices), theirs, max_norm=1.5)
    close(mine, theirs)


def test_one_hot(device_name: str) -> None:
    x = tensor.tensor([[0, 2], [1, 0]], device=device_name)
    np.testing.assert_array_equal(
        embeddings.one_hot(x).cpu().numpy(), np.eye(3, dtype=np.int64)[[[0, 2], [1, 0]]]
    )
    assert embeddings.one_hot(x, 5).shape == (2, 2, 5)
    assert embeddings.one_hot(x[:0], 4).shape == (0, 2, 4)
    for wrong, match in (((x - 1,), "non-negative"), ((x.cpu(), 2), "smaller than num_classes")):
        with pytest.raises(RuntimeError, match=match):
            embeddings.one_hot(*wrong)
    with pytest.raises(RuntimeError, match="empty"):
        embeddings.one_hot(x[:0])
    with pytest.raises(RuntimeError, match="index tensor"):
        embeddings.one_hot(x.float())


def test_indices_that_are_no_rows(request: pytest.FixtureRequest) -> None:
    w = tensor.zeros(3, 2)
    for wrong in (3, -1):
        indices = tensor.tensor([0, wrong])
        with pytest.raises(IndexError):
            embeddings.embedding(w, indices)
        with pytest.raises(IndexError, match=f"index {wrong} is out of range"):
            embeddings.embedding_bag(w, indices, tensor.tensor([0]))
        if request.config.getoption("--gpu"):
            continue
        for call in (
            lambda indices: embeddings.embedding(w.cuda(), indices.cuda()),
            lambda indices: embeddings.embedding_bag(w.cuda(), indices.cuda(), tensor.tensor([0]).cuda())[0],
        ):
            drv.simulator.install()
            with pytest.raises(drv.DeviceAssertError):
                call(indices).cpu()
            drv.reset()


def test_wrong_arguments() -> None:
    w, i = tensor.zeros(3, 2), tensor.tensor([0, 1])
    for error, match, call in (
        (RuntimeError, "2-D", lambda: embeddings.embedding(w[0], i)),
        (RuntimeError, "scalar types: Long, Int", lambda: embeddings.embedding(w, w)),
        (ValueError, "sum, mean or max", lambda: embeddings.embedding_bag(w, i, i, mode="median")),
        (RuntimeError, "has to be 0", lambda: embeddings.embedding_bag(w, i, i + 1)),
        (AssertionError, "within num_embeddings", lambda: embeddings.embedding_bag(w, i, i, padding_idx=3)),
        (
            NotImplementedError,
            "mode='sum'",
            lambda: embeddings.embedding_bag(w, i, i, mode="max", per_sample_weights=w[:2, 0]),
        ),
    ):
        with pytest.raises(error, match=match):
            call()
