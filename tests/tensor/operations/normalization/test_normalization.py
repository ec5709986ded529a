"""Normalisations against PyTorch's and against formulas, with their derivatives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import normalization as kernels
from tensor.operations.normalization import normalization as functions
from tests.tensor.operations.neural_comparison import assert_like_torch, close, on

_RNG = np.random.default_rng(0)
_PLANES = np.random.default_rng(4).standard_normal((170, 75)).astype(np.float32)


def _normal(*shape: int, kind: Any = np.float32) -> Any:
    return _RNG.standard_normal(shape).astype(kind)


#: Rows of each kernel: one load, several, several warps, too long for registers; several dimensions; few elements.
ROWS = [((3, 40), 1), ((5, 3), 1), ((2, 3, 5), 2), ((2, 1500), 1), ((2, 17000), 1), ((4, 1), 1), ((7,), 1)]


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4), (2, 3, 0)])
def test_a_batch_of_nothing_leaves_running_statistics(shape: tuple[int, ...], device_name: str) -> None:
    mean, var = tensor.full((3,), 2.0, device=device_name), tensor.full((3,), 5.0, device=device_name)
    x = tensor.zeros(shape, device=device_name, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = tensor.batch_norm(x, None, None, mean, var, True, 0.1, 1e-5, False)
        y.sum().backward()
    assert y.shape == shape
    assert x.grad.shape == shape
    assert mean.tolist() == [2.0] * 3
    assert var.tolist() == [5.0] * 3


@pytest.mark.parametrize("masked", ["", "weight", "bias"])
@pytest.mark.parametrize("function", ["layer_norm", "rms_norm"])
@pytest.mark.sampled(4)
def test_gradients_of_many_rows_are_made_at_once(
    function: str, masked: str, checked_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_MULTIPROCESSORS", 1)
    monkeypatch.setattr(kernels, "_ROWS_OF_TEAM", 1)
    results = []
    for device in ("cpu", checked_device):
        x, w, b = (
            tensor.tensor(array, device=device, requires_grad=name != masked)
            for name, array in (("x", _PLANES), ("weight", _PLANES[0]), ("bias", _PLANES[1]))
        )
        affine = (w, b) if function == "layer_norm" else (w,)
        y = getattr(functions, function)(x, (75,), *affine)
        (y * y).sum().backward()
        results.append([each.grad for each in (x, *affine)])
    for expected, result in zip(*results, strict=True):
        assert (expected is None) == (result is None)
        if expected is not None:
            assert result.device.type == checked_device.split(":")[0]
            np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), 2e-5, 2e-4)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("case", "affine"),
    [
        *((case, "both") for case in ROWS),
        *((case, affine) for case in ROWS[:3] for affine in ("weight", "none")),
    ],
    ids=str,
)
@pytest.mark.sampled(3)
def test_rows_like_pytorch(case: Any, affine: str, checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    shape, last = case
    size = shape[len(shape) - last :]
    weight = None if affine == "none" else _normal(*size)
    bias = _normal(*size) if affine == "both" else None
    x = _normal(*shape) + 3
    assert_like_torch(
        checked_device,
        lambda x, w, b: functions.layer_norm(x, size, w, b),
        lambda x, w, b: torch.layer_norm(x, size, w, b),
        (x, weight, bias),
        tolerance=3e-5,
    )
    if affine != "both" or shape[-1] < 10000:
        assert_like_torch(
            checked_device,
            lambda x, w: functions.rms_norm(x, size, w),
            lambda x, w: torch.rms_norm(x, size, w),
            (x, weight),
        )


#: Short and long groups, groups of one channel, no spatial dimensions, several.
GROUPS = [((2, 6, 5), 3), ((2, 4, 3, 4), 2), ((2, 6), 3), ((1, 2, 9000), 1), ((3, 4, 2), 4)]


@pytest.mark.parity
@pytest.mark.parametrize("case", GROUPS, ids=str)
@pytest.mark.sampled(3)
def test_groups_like_pytorch(case: Any, checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    shape, groups = case
    for affine in (True, False):
        assert_like_torch(
            checked_device,
            lambda x, w, b: functions.group_norm(x, groups, w, b),
            lambda x, w, b: torch.group_norm(x, groups, w, b),
            (_normal(*shape), _normal(shape[1]) if affine else None, _normal(shape[1]) if affine else None),
            tolerance=5e-5,
        )


BATCHES = [(5, 3), (2, 3, 4), (2, 3, 4, 5), (2, 1, 2, 3, 2), (40, 33)]


@pytest.mark.parity
@pytest.mark.parametrize("shape", BATCHES, ids=str)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.sampled(3)
def test_batches_like_pytorch(shape: Any, training: bool, affine: bool, checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    channels = shape[1]
    averages = _normal(channels), _RNG.random(channels).astype(np.float32)
    mine = [on(checked_device, each) for each in averages]
    theirs = [torch.from_numpy(each.copy()) for each in averages]
    for _ in range(2):
        assert_like_torch(
            checked_device,
            lambda x, w, b: functions.batch_norm(x, w, b, *mine, training, 0.1, 1e-5),
            lambda x, w, b: torch.batch_norm(x, w, b, *theirs, training, 0.1, 1e-5, False),
            (_normal(*shape), *((_normal(channels), _normal(channels)) if affine else (None, None))),
            tolerance=5e-5,
        )
    for left, right in zip(mine, theirs, strict=True):
        close(left, right)


@pytest.mark.parity
@pytest.mark.parametrize("use", [True, False])
def test_instances_like_pytorch(use: bool, checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    averages = _normal(3), _RNG.random(3).astype(np.float32)
    mine = [on(checked_device, each) for each in averages]
    theirs = [torch.from_numpy(each.copy()) for each in averages]
    assert_like_torch(
        checked_device,
        lambda x, w, b: functions.instance_norm(x, w, b, *mine, use, 0.2, 1e-3),
        lambda x, w, b: torch.instance_norm(x, w, b, *theirs, use, 0.2, 1e-3, False),
        (_normal(2, 3, 7), _normal(3), _normal(3)),
        tolerance=5e-5,
    )
    for left, right in zip(mine, theirs, strict=True):
        close(left, right)
    without = functions.instance_norm(
        on(checked_device, _normal(2, 3, 7)), None, None, None, None, True, 0.1, 1e-5
    )
    np.testing.assert_allclose(without.mean(2).cpu().numpy(), 0, atol=1e-5)


@pytest.mark.parity
def test_neighbouring_channels_like_pytorch(device_name: str) -> None:
    functional = pytest.importorskip("torch.nn.functional")
    for size in (1, 2, 3):
        assert_like_torch(
            device_name,
            lambda x, size=size: functions.local_response_norm(x, size, 0.5, 0.6, 1.5),
            lambda x, size=size: functional.local_response_norm(x, size, 0.5, 0.6, 1.5),
            (_normal(2, 5, 3),),
        )
    with pytest.raises(ValueError, match="3D"):
        functions.local_response_norm(tensor.zeros(2, 3), 2)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_other_types(kind: str, device_name: str) -> None:
    array = _normal(4, 6, 5)
    dtype = getattr(tensor, kind)
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-10}[kind]
    calls = (
        lambda x, w: functions.layer_norm(x.transpose(1, 2), (6,), w, w),
        lambda x, w: functions.rms_norm(x.transpose(1, 2), (6,), w, 1e-5),
        lambda x, w: functions.group_norm(x, 2, w, w),
        lambda x, w: functions.batch_norm(x, w, w, None, None, True, 0.1, 1e-5),
    )
    for call in calls:
        x = on(device_name, array).to(dtype).requires_grad_()
        w = on(device_name, _RNG.random(6).astype(np.float32)).to(dtype).requires_grad_()
        result = call(x, w)
        assert result.dtype is dtype
        back = on(device_name, np.random.default_rng(2).standard_normal(result.shape)).to(dtype)
        result.backward(back)
        wide, factor = (each.detach().double().requires_grad_() for each in (x, w))
        expected = call(wide, factor)
        expected.backward(back.double())
        close(result.double(), expected, tolerance)
        close(x.grad.double(), wide.grad, tolerance * 2)
        close(w.grad.double(), factor.grad, tolerance * 2)
        assert x.grad.dtype is dtype


def test_half_precision_input_with_single_precision_weights(device_name: str) -> None:
    x = on(device_name, _normal(4, 6, 5)).half()
    w, m, v = (on(device_name, _RNG.random(6).astype(np.float32)) for _ in range(3))
    w.requires_grad_()
    result = functions.batch_norm(x, w, w, m, v, True, 0.1, 1e-5)
    assert result.dtype is tensor.float16
    result.float().sum().backward()
    assert w.grad.dtype is tensor.float32
    assert functions.group_norm(x, 3, w, w).dtype is tensor.float16
    assert functions.layer_norm(x.transpose(1, 2), (6,), w, w).dtype is tensor.float16


@pytest.mark.parity
def test_the_machine_epsilon_is_that_of_the_type_computed_in(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    rows = np.array([[1e-4, 2e-4, 3e-4], [0.5, -1, 2]], np.float32)
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        result = functions.rms_norm(on(device_name, rows).to(getattr(tensor, dtype)), (3,))
        expected = torch.rms_norm(torch.from_numpy(rows).to(getattr(torch, dtype)), (3,))
        close(result, expected, 1e-2 if dtype == "bfloat16" else 1e-3)


def test_a_mean_that_is_large_against_the_spread(device_name: str) -> None:
    x = _normal(2, 3, 50) + 4096
    wide = x.astype(np.float64)
    for axes, call in (
        ((2,), lambda x: functions.layer_norm(x, (50,), eps=0)),
        ((1, 2), lambda x: functions.group_norm(x, 1, eps=0)),
        ((0, 2), lambda x: functions.batch_norm(x, None, None, None, None, True, 0.1, 0.0)),
    ):
        expected = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
        result = call(on(device_name, x)).cpu().numpy()
        np.testing.assert_allclose(result, expected, atol=2e-3)


def test_any_strides_and_addresses(device_name: str) -> None:
    x = _normal(4, 6, 9)
    argument = on(device_name, x)
    expected = functions.layer_norm(tensor.from_numpy(np.ascontiguousarray(x.transpose(0, 2, 1))), (6,))
    close(functions.layer_norm(argument.transpose(1, 2), (6,)).cpu(), expected)
    odd = argument.view(-1)[1:193].view(12, 16)
    close(
        functions.layer_norm(odd, (16,)).cpu(),
        functions.layer_norm(tensor.from_numpy(x.reshape(-1)[1:193].reshape(12, 16).copy()), (16,)),
    )
    channels_last = argument.view(2, 6, 6, 3).to(memory_format=tensor.channels_last)
    result = functions.batch_norm(channels_last, None, None, None, None, True, 0.1, 1e-5)
    assert result.is_contiguous(memory_format=tensor.channels_last)
    close(result, functions.batch_norm(argument.view(2, 6, 6, 3), None, None, None, None, True, 0.1, 1e-5))


@pytest.mark.parity
def test_channels_anywhere(checked_device: str) -> None:
    torch = pytest.importorskip("torch")
    view: Any
    for shape, view in (
        ((2, 6, 2, 2), lambda x: x.transpose(1, 3).contiguous().transpose(1, 3)),
        ((2, 8, 3, 3), lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)),
        ((5, 3, 4), lambda x: x.transpose(0, 2)),
        ((3, 6), lambda x: x[:, 1:5]),
        ((3, 8), lambda x: x.reshape(-1)[1:17].view(4, 4)),
    ):
        for training in (True, False):
            channels = view(torch.zeros(shape)).shape[1]
            m, v = _normal(channels), _RNG.random(channels).astype(np.float32)
            argument = [on(checked_device, each) for each in (m, v)]
            others = [torch.from_numpy(each.copy()) for each in (m, v)]
            assert_like_torch(
                checked_device,
                lambda x, w, v=view, t=training, g=argument: functions.batch_norm(
                    v(x), w, w, *g, t, 0.1, 1e-5
                ),
                lambda x, w, v=view, t=training, g=others: torch.batch_norm(
                    v(x), w, w, *g, t, 0.1, 1e-5, False
                ),
                (_normal(*shape), _normal(channels)),
                tolerance=5e-5,
            )


def test_derivatives(device_name: str) -> None:
    x = on(device_name, _normal(2, 4, 2, kind=np.float64), grad=True)
    w, b = (on(device_name, _normal(4, kind=np.float64), grad=True) for _ in range(2))
    short = on(device_name, _normal(2, kind=np.float64), grad=True)
    m, v = (on(device_name, _RNG.random(4)) for _ in range(2))
    cases = (
        (lambda x, w: functions.layer_norm(x, (2,), w, w), (x, short)),
        (lambda x, w: functions.rms_norm(x, (2,), w), (x, short)),
        (lambda x, w, b: functions.group_norm(x, 2, w, b), (x, w, b)),
        (lambda x, w, b: functions.batch_norm(x, w, b, None, None, True, 0.1, 1e-5), (x, w, b)),
        (lambda x, w, b: functions.batch_norm(x, w, b, m, v, False, 0.1, 1e-5), (x, w, b)),
        (lambda x, w, b: functions.instance_norm(x, w, b, None, None, True, 0.1, 1e-5), (x, w, b)),
    )
    for function, inputs in cases:
        assert tensor.autograd.gradcheck(function, inputs, fast_mode=device_name == "cuda")
        assert tensor.autograd.gradgradcheck(function, inputs, fast_mode=device_name == "cuda")


def test_nothing_to_normalise(device_name: str) -> None:
    for shape, size in (((0, 3), (3,)), ((2, 0), (0,))):
        x = tensor.zeros(shape, device=device_name, requires_grad=True)
        w = tensor.ones(size, device=device_name, requires_grad=True)
        functions.layer_norm(x, size, w, w).sum().backward()
        assert x.grad.shape == shape
        np.testing.assert_array_equal(w.grad.cpu().numpy(), np.zeros(size))
    x = tensor.zeros(0, 4, 3, device=device_name)
    assert functions.group_norm(x, 2).shape == (0, 4, 3)


def test_wrong_arguments() -> None:
    x = tensor.zeros(2, 4, 3)
    for match, call in (
        (r"expected input with shape \[\*, 4\]", lambda: functions.layer_norm(x, (4,))),
        ("same shape as normalized_shape", lambda: functions.layer_norm(x, (3,), tensor.ones(4))),
        ("at least 1-dimensional", lambda: functions.layer_norm(x, ())),
        ("divisible by num_groups", lambda: functions.group_norm(x, 3)),
        ("greater than 0", lambda: functions.group_norm(x, 0)),
        ("weight should contain 4 elements", lambda: functions.group_norm(x, 2, tensor.ones(3))),
        (
            "running_mean to be defined",
            lambda: functions.batch_norm(x, None, None, None, None, False, 0.1, 1e-5),
        ),
        (
            "at least 2 dim",
            lambda: functions.batch_norm(tensor.zeros(3), None, None, None, None, True, 0.1, 1e-5),
        ),
    ):
        with pytest.raises(RuntimeError, match=match):
            call()
    with pytest.raises(NotImplementedError, match="floating point"):
        functions.layer_norm(tensor.arange(3), (3,))


def test_names_of_nodes() -> None:
    x = tensor.zeros(2, 4, 3, requires_grad=True)
    assert functions.layer_norm(x, (3,)).grad_fn.name() == "NativeLayerNormBackward0"
    assert functions.group_norm(x, 2).grad_fn.name() == "NativeGroupNormBackward0"
    result = functions.batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    assert result.grad_fn.name() == "NativeBatchNormBackward0"
