"""Convolutions against sums written out, PyTorch where it is installed, and differences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.operations.convolution import convolution, convolution_on_device, unfolding

_RNG = np.random.default_rng(0)
#: Name, shapes of input and weight, options.
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ("conv2d", (2, 3, 7, 8), (4, 3, 3, 3), {"padding": 1}),
    "groups": ("conv2d", (2, 4, 7, 8), (6, 2, 3, 2), {"stride": 2, "padding": (1, 0), "groups": 2}),
    "1x1": ("conv2d", (2, 3, 5, 5), (4, 3, 1, 1), {}),
    "1x1 with stride": ("conv2d", (3, 8, 6, 6), (5, 8, 1, 1), {"stride": 2}),
    "depthwise": ("conv2d", (2, 4, 9, 9), (8, 1, 3, 3), {"groups": 4, "padding": 1, "stride": 2}),
    "large": ("conv2d", (2, 3, 13, 12), (4, 3, 3, 3), {"padding": 1}),
    "same": ("conv1d", (2, 3, 10), (4, 3, 3), {"dilation": 2, "padding": "same"}),
    "same, even": ("conv2d", (2, 3, 6, 5), (4, 3, 4, 2), {"dilation": (1, 3), "padding": "same"}),
    "same, even, depthwise": ("conv2d", (2, 4, 6, 5), (4, 1, 2, 4), {"groups": 4, "padding": "same"}),
    "one item, same": ("conv1d", (3, 10), (4, 3, 4), {"padding": "same"}),
    "volume": ("conv3d", (1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"stride": (1, 2, 1)}),
    "no items": ("conv2d", (0, 3, 7, 8), (4, 3, 3, 3), {}),
    "transposed": (
        "conv_transpose2d", (2, 3, 5, 5), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1},
    ),
    "transposed groups": ("conv_transpose1d", (2, 4, 5), (4, 3, 3), {"groups": 2, "dilation": 2}),
    "transposed volume": ("conv_transpose3d", (1, 2, 3, 3, 3), (2, 3, 2, 2, 2), {"stride": 2}),
    "transposed, output padding beyond the stride": (
        "conv_transpose2d", (2, 3, 5, 5), (3, 4, 3, 3), {"dilation": (3, 2), "output_padding": (2, 1)},
    ),
    "transposed depthwise": ("conv_transpose2d", (2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
}  # fmt: skip


@pytest.fixture(params=["whole", "cut"], autouse=True)
def _workspace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work in one piece, and cut into many."""
    if request.param == "cut":
        monkeypatch.setattr(convolution_on_device, "WORKSPACE", 400)


def _on(array: np.ndarray[Any, Any], device: str) -> Any:
    return tensor.from_numpy(array.copy()).to(device).requires_grad_()


def _operands(name: str) -> list[np.ndarray[Any, Any]]:
    function, image, weight, options = CASES[name]
    filters = weight[1] * options.get("groups", 1) if "transpose" in function else weight[0]
    return [_RNG.standard_normal(shape) for shape in (image, weight, (filters,))]


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(3)
def test_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    function, _, _, options = CASES[name]
    arrays = _operands(name)
    mine = [_on(array, device_name) for array in arrays]
    theirs = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(torch, function)(*theirs, **options)
    result = getattr(convolution, function)(*mine, **options)
    assert tuple(result.shape) == tuple(expected.shape)
    np.testing.assert_allclose(result.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-12)
    grad = _RNG.standard_normal(tuple(expected.shape))
    result.backward(tensor.from_numpy(grad.copy()).to(device_name))
    expected.backward(torch.from_numpy(grad))
    for one, two in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one.grad.cpu().numpy(), two.grad.numpy(), atol=1e-11)


def _written_out(x: Any, w: Any, stride: int, padding: int) -> Any:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((x.shape[i] - w.shape[i]) // stride + 1 for i in (2, 3))
    out = np.zeros((x.shape[0], w.shape[0], height, width))
    for i, j in np.ndindex(height, width):
        part = x[:, :, i * stride : i * stride + w.shape[2], j * stride : j * stride + w.shape[3]]
        out[:, :, i, j] = np.einsum("nchw,fchw->nf", part, w)
    return out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_types(stride: int, kind: str, device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensor.core.modes.precision import settings

    monkeypatch.setattr(settings, "convolution_tf32", False)
    x, w = _RNG.standard_normal((2, 3, 6, 5)), _RNG.standard_normal((4, 3, 3, 2))
    dtype = getattr(tensor, kind)
    argument = [_on(array, device_name).detach().to(dtype) for array in (x, w)]
    result = convolution.conv2d(*argument, stride=stride, padding=1)
    expected = _written_out(*[each.double().cpu().numpy() for each in argument], stride, 1)
    assert result.dtype is dtype
    tolerance = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 1e-5, "float64": 1e-12}[kind]
    np.testing.assert_allclose(result.double().cpu().numpy(), expected, atol=tolerance, rtol=tolerance)


def test_tf32_follows_its_own_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    import drv
    from tensor.core.modes.precision import settings

    drv.simulator.install()
    x, w = (_RNG.standard_normal(shape).astype(np.float32) for shape in ((1, 8, 6, 6), (4, 8, 3, 3)))
    expected = _written_out(x.astype(float), w.astype(float), 1, 0)
    errors = {}
    for on in (True, False):
        monkeypatch.setattr(settings, "convolution_tf32", on)
        monkeypatch.setattr(settings, "matmul_tf32", not on)
        result = convolution.conv2d(*[tensor.from_numpy(each.copy()).cuda() for each in (x, w)])
        errors[on] = np.abs(result.cpu().numpy() - expected).max()
    assert errors[False] < 1e-5 < 1e-4 < errors[True]


@pytest.mark.parametrize("name", ["groups", "1x1", "depthwise", "transposed"])
@pytest.mark.sampled(4)
def test_second_derivatives(name: str, device_name: str) -> None:
    function, _, _, options = CASES[name]
    shapes = {
        "groups": ((1, 2, 4, 3), (2, 1, 2, 2)),
        "1x1": ((1, 2, 2, 2), (2, 2, 1, 1)),
        "depthwise": ((1, 2, 3, 3), (2, 1, 2, 2)),
        "transposed": ((1, 2, 2, 2), (2, 1, 3, 3)),
    }[name]
    options = {**options, **({"groups": 2} if options.get("groups") else {})}
    x, w = (_on(_RNG.standard_normal(shape), device_name) for shape in shapes)

    def call(x: Any, w: Any) -> Any:
        return getattr(convolution, function)(x, w, **options)

    assert tensor.autograd.gradcheck(call, (x, w))
    assert tensor.autograd.gradgradcheck(call, (x, w))


@pytest.mark.parity
def test_third_derivatives(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    arrays = [_RNG.standard_normal(shape) for shape in ((2, 2, 4, 5), (3, 2, 2, 3), (3,))]

    def third(library: Any, x: Any, w: Any, b: Any) -> Any:
        grad = library.autograd.grad
        actual = library.conv2d(x, w, b, stride=(1, 2), padding=1)
        (first,) = grad((actual**3).sum(), x, create_graph=True)
        (second,) = grad((first**2).sum(), w, create_graph=True)
        return grad((second**2).sum(), (x, w, b))

    result = third(tensor, *[_on(array, device_name) for array in arrays])
    expected = third(torch, *[torch.from_numpy(array.copy()).requires_grad_() for array in arrays])
    for one, two in zip(result, expected, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), two.numpy(), rtol=1e-9)


def test_saved_operands_may_not_change(device_name: str) -> None:
    x, w = (_on(_RNG.standard_normal(shape), device_name) for shape in ((1, 2, 3, 3), (2, 2, 2, 2)))
    doubled = x * 2.0
    result = convolution.conv2d(doubled, w)
    doubled.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_options_of_other_types(device_name: str) -> None:
    x, w = tensor.ones(1, 2, 5, 5, device=device_name), tensor.ones(3, 2, 2, 2, device=device_name)
    for _ in range(2):
        assert convolution.conv2d(x, w, stride=2, padding=(1, 1)).shape == (1, 3, 3, 3)
        assert convolution.conv2d(x, w, None, [2, 2], [1, 1]).shape == (1, 3, 3, 3)
        # What equals a number that was planned for is not taken for it.
        with pytest.raises(TypeError):
            convolution.conv2d(x, w, stride=2.0, padding=(1, 1))
        with pytest.raises(RuntimeError, match=r"2 of them, got \[1, 2, 3\]"):
            convolution.conv2d(x, w, stride=[1, 2, 3])


def test_names_of_nodes() -> None:
    x, w = tensor.ones(1, 1, 3, 3, requires_grad=True), tensor.ones(1, 1, 2, 2, requires_grad=True)
    result = convolution.conv2d(x, w)
    assert result.grad_fn.name() == "ConvolutionBackward0"
    assert convolution.conv2d(x[0], w).grad_fn.name() == "SqueezeBackward1"


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "channels": (lambda x: convolution.conv2d(x, tensor.ones(4, 2, 3, 3)), RuntimeError, "to have 2 channels, but got 3"),
    "weight": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 3)), RuntimeError, "expected 4D weight"),
    "input": (lambda x: convolution.conv2d(x[0, 0], tensor.ones(4, 3, 3, 3)), RuntimeError, "Expected 3D .* or 4D"),
    "dtype": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 3, 3).double()), RuntimeError, "should be the same"),
    "bias": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 3, 3), tensor.ones(3)), RuntimeError, "with 4 elements"),
    "kernel": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 9, 9)), RuntimeError, "Kernel size can't be greater"),
    "stride": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 3, 3), stride=0), RuntimeError, "non-positive stride"),
    "same": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 3, 3), stride=2, padding="same"), RuntimeError, "strided"),
    "padding": (lambda x: convolution.conv2d(x, tensor.ones(4, 3, 3, 3), padding="none"), RuntimeError, "'valid' or 'same'"),
    "groups": (lambda x: convolution.conv2d(x, tensor.ones(4, 1, 3, 3), groups=3), RuntimeError, "divisible by 3"),
    "output_padding": (
        lambda x: convolution.conv_transpose2d(x, tensor.ones(3, 1, 3, 3), output_padding=1), RuntimeError, "output padding",
    ),
    "no tensor": (lambda x: convolution.conv2d(x, [1.0]), TypeError, "must be Tensor, not list"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call(tensor.ones(2, 3, 5, 5))


UNFOLDED = {
    "plain": ((2, 3, 5, 6), {"kernel_size": 2}),
    "all": ((2, 3, 7, 6), {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0), "dilation": (1, 2)}),
    "one item": ((3, 5, 6), {"kernel_size": 3, "padding": 1}),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", UNFOLDED)
def test_unfold_and_fold(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    shape, options = UNFOLDED[name]
    array = _RNG.standard_normal(shape)
    mine, theirs = _on(array, device_name), torch.from_numpy(array.copy()).requires_grad_()
    result = unfolding.unfold(mine, **options)
    expected = torch.nn.functional.unfold(theirs, **options)
    np.testing.assert_array_equal(result.detach().cpu().numpy(), expected.detach().numpy())
    back = unfolding.fold(result, shape[-2:], **options)
    expected_back = torch.nn.functional.fold(expected, shape[-2:], **options)
    np.testing.assert_allclose(back.detach().cpu().numpy(), expected_back.detach().numpy())
    (back**2).sum().backward()
    (expected_back**2).sum().backward()
    np.testing.assert_allclose(mine.grad.cpu().numpy(), theirs.grad.numpy())


def test_wrong_windows() -> None:
    with pytest.raises(RuntimeError, match="no windows"):
        unfolding.unfold(tensor.ones(1, 1, 2, 2), 3)
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        unfolding.fold(tensor.ones(1, 3, 4), 3, 2)
    with pytest.raises(RuntimeError, match="sliding blocks 2 \\* 2 = 4"):
        unfolding.fold(tensor.ones(1, 4, 5), 3, 2)
    with pytest.raises(RuntimeError, match="3D or 4D"):
        unfolding.unfold(tensor.ones(2, 2), 1)
