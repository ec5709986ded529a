"""Cross entropy and negative log-likelihood against PyTorch's, with their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor.operations.losses.classification import cross_entropy, nll_loss
from tests.tensor.launched_kernels import launched
from tests.tensor.operations.neural_comparison import assert_like_torch, close, on

_RNG = np.random.default_rng(0)
#: Lines in packs and not, several warps, classes that are not neighbours in memory, one line.
SHAPES = [(4, 8), (3, 5), (2, 700), (1, 5001), (2, 3, 4), (2, 5, 2, 3), (6,)]


def _case(shape: tuple[int, ...], kind: Any = np.float32) -> tuple[Any, Any, Any]:
    classes = shape[0] if len(shape) == 1 else shape[1]
    lines = () if len(shape) == 1 else (shape[0], *shape[2:])
    target = np.asarray(_RNG.integers(0, classes, lines))
    if lines:
        target.reshape(-1)[0] = 2
    logits = (_RNG.standard_normal(shape) * 3).astype(kind)
    return logits, target, (_RNG.random(classes) + 0.5).astype(kind)


@pytest.mark.parity
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.sampled(3)
def test_classes_like_pytorch(shape: Any, checked_device: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    x, target, weight = _case(shape)
    for options in (
        {},
        {"weight": weight, "reduction": "mean"},
        {"reduction": "none", "ignore_index": 2},
        {"weight": weight, "reduction": "sum", "ignore_index": 2, "label_smoothing": 0.3},
        {"label_smoothing": 0.2},
        {"weight": weight, "label_smoothing": 0.1, "ignore_index": 2},
    ):
        if len(shape) == 1 and "ignore_index" in options:
            continue
        w = options.pop("weight", None)
        _compare(checked_device, cross_entropy, functional.cross_entropy, x, target, w, options)
        if "label_smoothing" not in options:
            _compare(checked_device, nll_loss, functional.nll_loss, x, target, w, options)


def _compare(place: str, mine: Any, theirs: Any, x: Any, target: Any, weight: Any, options: Any) -> None:
    torch = pytest.importorskip("torch")
    wide = None if weight is None else on(place, weight)
    reference = None if weight is None else torch.from_numpy(weight)
    assert_like_torch(
        place,
        lambda x, t: mine(x, t, wide, **options),
        lambda x, t: theirs(x, t, reference, **options),
        (x, target),
    )


@pytest.mark.parity
@pytest.mark.parametrize("shape", [(4, 8), (2, 5, 3), (6,)], ids=str)
def test_probabilities_like_pytorch(shape: Any, device_name: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    x, _, weight = _case(shape)
    chances = _RNG.random(shape).astype(np.float32)
    for options in ({}, {"reduction": "sum", "label_smoothing": 0.2}, {"reduction": "none"}):
        assert_like_torch(
            device_name,
            lambda x, t, w, options=options: cross_entropy(x, t, w, **options),
            lambda x, t, w, options=options: functional.cross_entropy(x, t, w, **options),
            (x, chances, weight if options else None),
        )


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_other_types(kind: str, device_name: str) -> None:
    logits, target, weight = _case((4, 16))
    x = on(device_name, logits).to(getattr(tensor, kind)).requires_grad_()
    wide = x.detach().double().requires_grad_()
    w = on(device_name, weight).to(x.dtype)
    goals = on(device_name, target)
    result = cross_entropy(x, goals, w, label_smoothing=0.1)
    expected = cross_entropy(wide, goals, w.double(), label_smoothing=0.1)
    assert result.dtype is x.dtype
    result.backward()
    expected.backward()
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}[kind]
    close(result.double(), expected, tolerance)
    close(x.grad.double(), wide.grad, tolerance)
    close(nll_loss(x, goals, reduction="none").double(), nll_loss(wide, goals, reduction="none"), tolerance)


def test_logits_far_from_zero(device_name: str) -> None:
    rows = [[1e4, 1e4 - 1, 0.0], [-1e4, -1e4, -1e4 + 2], [0.0, -float("inf"), 1.0]]
    target = [1, 0, 0]
    x = tensor.tensor(rows, device=device_name, requires_grad=True)
    result = cross_entropy(x, tensor.tensor(target, device=device_name), reduction="none")
    wide = np.array(rows)
    with np.errstate(all="ignore"):
        logs = wide - wide.max(1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    np.testing.assert_allclose(result.detach().cpu().numpy(), -logs[np.arange(3), target], rtol=1e-5)
    result.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.exp(logs) - np.eye(3)[target], atol=1e-5)


def test_nothing_counts(device_name: str) -> None:
    x = tensor.zeros(2, 3, device=device_name, requires_grad=True)
    target = tensor.full((2,), -100, device=device_name)
    assert np.isnan(cross_entropy(x, target).item())
    total = cross_entropy(x, target, reduction="sum")
    assert total.item() == 0
    total.backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), np.zeros((2, 3)))


def test_derivatives(device_name: str) -> None:
    for shape in ((2, 3), (2, 3, 2)):
        logits, target, weight = _case(shape, np.float64)
        x, goals, w = on(device_name, logits, grad=True), on(device_name, target), on(device_name, weight)
        fast = device_name == "cuda"
        for function in (
            lambda x, g=goals, w=w: cross_entropy(x, g, w, label_smoothing=0.2),
            lambda x, g=goals: cross_entropy(x, g, ignore_index=2, reduction="none"),
            lambda x, g=goals, w=w: nll_loss(x * x, g, w),
        ):
            assert tensor.autograd.gradcheck(function, (x,), fast_mode=fast)
            assert tensor.autograd.gradgradcheck(function, (x,), fast_mode=fast)


def test_strides_and_addresses(device_name: str) -> None:
    x = on(device_name, _RNG.standard_normal((5, 4)).astype(np.float32))
    target = on(device_name, _RNG.integers(0, 5, 8))[::2]
    close(cross_entropy(x.t(), target), cross_entropy(x.t().contiguous(), target.contiguous()))
    odd = x.view(-1)[1:17].view(2, 8)
    close(cross_entropy(odd, target[:2]), cross_entropy(odd.clone(), target[:2]))


def test_targets_that_are_no_classes(request: pytest.FixtureRequest) -> None:
    x = tensor.zeros(2, 3)
    for function in (cross_entropy, nll_loss):
        for wrong in (3, -1):
            with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
                function(x, tensor.tensor([0, wrong]))
    if request.config.getoption("--gpu"):
        return
    for function in (cross_entropy, nll_loss):
        drv.simulator.install()
        with pytest.raises(drv.DeviceAssertError):
            function(x.cuda(), tensor.tensor([0, 3]).cuda()).item()
        drv.reset()


def test_wrong_arguments() -> None:
    x = tensor.zeros(2, 3)
    for error, match, call in (
        (ValueError, "batch_size", lambda: cross_entropy(x, tensor.zeros(3, dtype=tensor.int64))),
        (
            RuntimeError,
            "target size",
            lambda: cross_entropy(tensor.zeros(2, 3, 4), tensor.zeros(2, 5).long()),
        ),
        (RuntimeError, "expected scalar type Long", lambda: cross_entropy(x, tensor.zeros(2))),
        (RuntimeError, "all 3 classes", lambda: nll_loss(x, tensor.zeros(2).long(), tensor.ones(2))),
        (
            RuntimeError,
            "between 0.0 and 1.0",
            lambda: cross_entropy(x, tensor.zeros(2).long(), label_smoothing=2),
        ),
        (ValueError, "not a valid value", lambda: cross_entropy(x, tensor.zeros(2).long(), reduction="all")),
    ):
        with pytest.raises(error, match=match):
            call()
    with pytest.warns(UserWarning, match="reduction='sum'"):
        cross_entropy(x, tensor.zeros(2).long(), size_average=False)


def test_names_of_nodes() -> None:
    x = tensor.zeros(2, 3, requires_grad=True)
    assert cross_entropy(x, tensor.zeros(2).long()).grad_fn.name() == "NllLossBackward0"
    wide = tensor.zeros(2, 3, 4, 4, requires_grad=True)
    assert nll_loss(wide, tensor.zeros(2, 4, 4).long()).grad_fn.name() == "NllLoss2DBackward0"


@pytest.mark.simulator_only
@pytest.mark.parametrize("half", [tensor.bfloat16, tensor.float16])
@pytest.mark.parametrize(("shape", "lines"), [((7, 11), (7,)), ((11,), ()), ((2, 5, 3), (2, 3))])
def test_autocast_reads_logits_of_half_precision_as_float32(
    half: tensor.dtype, shape: tuple[int, ...], lines: tuple[int, ...]
) -> None:
    """The loss and the gradient have the bits of those of a cast, and there is no launch of one."""
    drv.simulator.install(check="full")
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = tensor.randint(2, classes, lines, device="cuda")
    weight = tensor.rand(classes, device="cuda", dtype=half)
    for options in (
        {},
        {"label_smoothing": 0.1},
        {"reduction": "sum", "ignore_index": 1},
        {"reduction": "none", "weight": weight},
        {"weight": weight, "label_smoothing": 0.2},
    ):
        x = tensor.randn(*shape, device="cuda", dtype=half, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        single = options | {"weight": weight.float()} if "weight" in options else options
        with launched() as names, tensor.autocast("cuda", dtype=half):
            loss = cross_entropy(x, target, **options)
            (grad,) = tensor.autograd.grad(loss, x, tensor.ones_like(loss))
        assert sum("copy" in name for name in names) == ("weight" in options)
        expected = cross_entropy(y.float(), target, **single)
        assert loss.dtype is tensor.float32
        assert tensor.equal(loss, expected)
        ones = tensor.ones_like(expected)
        (of_grad,) = tensor.autograd.grad(expected, y, ones)
        assert grad.dtype is half
        assert tensor.equal(grad, of_grad)
        seconds = []
        for each in (x, y):
            with tensor.autocast("cuda", dtype=half):
                result = cross_entropy(each, target, **options)
            (first,) = tensor.autograd.grad(result, each, ones, create_graph=True)
            seconds += tensor.autograd.grad(first.float().square().sum(), each)
        assert seconds[0].dtype is half
        assert tensor.isfinite(seconds[0]).all()
        assert tensor.equal(*seconds)


@pytest.mark.simulator_only
def test_a_block_that_is_off_leaves_the_loss_in_half_precision() -> None:
    drv.simulator.install(check="full")
    x, target = tensor.randn(4, 5, device="cuda", dtype=tensor.float16), tensor.arange(4, device="cuda")
    with tensor.autocast("cuda"):
        assert cross_entropy(x, target).dtype is tensor.float32
        assert cross_entropy(x, tensor.softmax(x, 1).half()).dtype is tensor.float32
        assert cross_entropy(x[:0], target[:0], reduction="sum").dtype is tensor.float32
        with tensor.autocast("cuda", enabled=False):
            assert cross_entropy(x, target).dtype is tensor.float16
