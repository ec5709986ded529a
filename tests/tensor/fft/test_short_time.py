"""Short-time transforms against PyTorch's, their derivatives, and what they cost on a device."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from tensor.core.devices.state import cuda_state
from tensor.fft.plan_cache import plan_cache

_RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("ignore:A window was not provided")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"hop_length": 3},
    {"win_length": 5},
    {"center": False},
    {"center": False, "win_length": 4, "align_to_window": True},
    {"center": False, "win_length": 5, "align_to_window": False},
    {"pad_mode": "constant", "normalized": True},
    {"pad_mode": "replicate", "hop_length": 8},
    {"onesided": False},
]


def _both(array: np.ndarray[Any, Any], torch: Any, place: str, grad: bool = False) -> tuple[Any, Any]:
    x, y = tensor.from_numpy(array.copy()).to(place), torch.from_numpy(array.copy())
    return (x.requires_grad_(), y.requires_grad_()) if grad else (x, y)


@pytest.mark.parity
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_against_pytorch(options: dict[str, Any], device_name: str) -> None:
    torch = pytest.importorskip("torch")
    for shape, kind, tapered in (
        ((40,), "real", False),
        ((2, 37), "real", True),
        ((2, 37), "complex", False),
        ((40,), "complex", True),
    ):
        array = _RNG.standard_normal(shape)
        if kind == "complex":
            array = array + 1j * _RNG.standard_normal(shape)
        x, y = _both(array, torch, device_name, grad=True)
        argument = dict(options, return_complex=True)
        window, other = _both(_RNG.random(options.get("win_length", 8)), torch, device_name, grad=True)
        result = tensor.stft(x, 8, window=window if tapered else None, **argument)
        expected = torch.stft(y, 8, window=other if tapered else None, **argument)
        assert tuple(result.shape) == tuple(expected.shape)
        assert result.stride() == expected.stride()
        np.testing.assert_allclose(result.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-12)
        grad = _RNG.standard_normal(expected.shape) + 1j * _RNG.standard_normal(expected.shape)
        result.backward(tensor.from_numpy(grad.copy()).to(device_name))
        expected.backward(torch.from_numpy(grad))
        np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), atol=1e-12)
        if tapered:
            np.testing.assert_allclose(window.grad.cpu().numpy(), other.grad.numpy(), atol=1e-11)


INVERSE: list[dict[str, Any]] = [
    {},
    {"hop_length": 3},
    {"center": False},
    {"normalized": True, "length": 30},
    {"length": 50},
    {"onesided": True},
    {"return_complex": True, "onesided": False},
]


@pytest.mark.parity
@pytest.mark.parametrize("options", INVERSE, ids=str)
@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
def test_inverse_against_pytorch(options: dict[str, Any], device_name: str) -> None:
    torch = pytest.importorskip("torch")
    frequencies = 8 if options.get("return_complex") else 5
    array = _RNG.standard_normal((2, frequencies, 13)) + 1j * _RNG.standard_normal((2, frequencies, 13))
    for spectra in (array, array[0]):
        x, y = _both(spectra, torch, device_name, grad=True)
        window, other = _both(_RNG.random(8) + 0.1, torch, device_name, grad=True)
        result = tensor.istft(x, 8, window=window, **options)
        expected = torch.istft(y, 8, window=other, **options)
        assert tuple(result.shape) == tuple(expected.shape)
        np.testing.assert_allclose(result.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-12)
        grad = _RNG.standard_normal(expected.shape)
        if expected.is_complex():
            grad = grad + 1j * _RNG.standard_normal(grad.shape)
        result.backward(tensor.from_numpy(grad.copy()).to(device_name))
        expected.backward(torch.from_numpy(grad))
        np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), atol=1e-11)
        np.testing.assert_allclose(window.grad.cpu().numpy(), other.grad.numpy(), atol=1e-11)


@pytest.mark.parametrize("size", [8, 9])
def test_there_and_back(size: int, device_name: str) -> None:
    array = _RNG.standard_normal((2, 61)).astype(np.float32)
    x = tensor.from_numpy(array).to(device_name)
    window = tensor.hann_window(size, device=device_name)
    result = x.stft(size, window=window, return_complex=True)
    assert result.dtype is tensor.complex64
    back = result.istft(size, window=window, length=61)
    np.testing.assert_allclose(back.cpu().numpy(), array, atol=1e-5)


def test_real_and_imaginary_parts(device_name: str) -> None:
    x = tensor.from_numpy(_RNG.standard_normal(40)).to(device_name)
    whole = tensor.stft(x, 8, return_complex=True)
    assert tensor.equal(tensor.stft(x, 8, return_complex=False), tensor.view_as_real(whole))
    assert tensor.stft(x + 0j, 8).shape == (8, 21)


def test_odd_windows_begin_with_the_signal() -> None:
    x = tensor.zeros(12)
    x[0] = x[-1] = 1
    window = tensor.tensor([3.0, 1.0, 2.0, 1.0, 5.0])
    result = x.stft(
        8, 7, window=window, win_length=5, center=False, return_complex=True, align_to_window=True
    )
    assert result.abs().mean(0).tolist() == pytest.approx([3, 5])


@pytest.mark.parametrize("which", ["stft", "complex stft", "istft"])
@pytest.mark.sampled(4)
def test_second_derivatives(which: str, device_name: str) -> None:
    window = tensor.from_numpy(_RNG.random(4) + 0.2).to(device_name)
    array = _RNG.standard_normal((3, 3)) if which == "istft" else _RNG.standard_normal(5)
    if which != "stft":
        array = array + 1j * _RNG.standard_normal(array.shape)
    x = tensor.from_numpy(array).to(device_name).requires_grad_()
    window.requires_grad_()

    def call(x: Any, window: Any) -> Any:
        if which == "istft":
            return tensor.istft(x, 4, window=window) ** 2
        result = tensor.stft(x, 4, 2, window=window, return_complex=True)
        return result * result

    assert tensor.autograd.gradcheck(call, (x, window))
    assert tensor.autograd.gradgradcheck(call, (x, window))


@pytest.mark.simulator_only
def test_frames_are_read_where_they_lie() -> None:
    drv.simulator.install(check="race")
    x = tensor.from_numpy(_RNG.standard_normal(4096)).cuda()
    tensor.stft(x, 64, 16, center=False, return_complex=True)
    (key,) = plan_cache(cuda_state(0))._plans
    # Transforms of 64 elements that begin 16 apart: they overlap.
    assert (key.transform_type, key.sizes, key.input.step, key.input.batch) == ("r2c", (64,), 1, 16)
    before = tensor.cuda.memory_allocated()
    tensor.cuda.reset_peak_memory_stats()
    result = tensor.stft(x, 64, 16, center=False, return_complex=True)
    work = -(-result.numel() * 16 // 512) * 512
    assert tensor.cuda.max_memory_allocated() - before <= 2 * work


@pytest.mark.simulator_only
def test_the_envelope_is_not_spread_out() -> None:
    """The squares of a window are added up from the window itself: no copy for each place where it stands."""
    from tensor.operations.shapes.overlap_add import overlap_add

    drv.simulator.install(check="race")
    window = tensor.ones(256, device="cuda", dtype=tensor.float64)
    spread = window.expand(1000, 256)
    before = tensor.cuda.memory_allocated()
    tensor.cuda.reset_peak_memory_stats()
    result = overlap_add(spread, 2, 256 + 2 * 999)
    assert tensor.cuda.max_memory_allocated() - before <= 2 * result.nbytes
    assert result[1000].item() == 128


@pytest.mark.parametrize(
    "geometry", [(1, 4, 2, 10), (3, 5, 1, 20), (2, 4, 4, 16), (2, 3, 5, 30), (7, 4, 3, 25), (5, 1, 2, 12)]
)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.sampled(4)
def test_overlapping_windows_add_up(geometry: tuple[int, int, int, int], name: str, device_name: str) -> None:
    from tensor.operations.shapes.overlap_add import overlap_add

    windows, size, step, extent = geometry
    array = _RNG.integers(-4, 5, (2, windows, size)).astype(np.float64)
    expected = np.zeros((2, extent))
    for at in range(windows):
        expected[:, at * step : at * step + size] += array[:, at]
    x = tensor.from_numpy(array).to(device_name).to(getattr(tensor, name))
    for argument in (x, x.transpose(0, 1).contiguous().transpose(0, 1), x[:, None]):
        result = overlap_add(argument, step, extent)
        assert result.dtype is x.dtype
        np.testing.assert_array_equal(
            result.reshape(2, extent).to(tensor.complex128).real.cpu().numpy(), expected
        )


def test_half_precision_has_to_be_converted(device_name: str) -> None:
    for dtype in (tensor.float16, tensor.bfloat16):
        x = tensor.ones(40, device=device_name, dtype=dtype)
        with pytest.raises(RuntimeError, match=r"stft.*convert with \.to\(tensor\.float32\)"):
            tensor.stft(x, 8, return_complex=True)
        # What it is multiplied by may be single precision.
        window = tensor.hann_window(8, device=device_name)
        assert tensor.stft(x, 8, window=window, return_complex=True).dtype is tensor.complex64


def test_warnings() -> None:
    x = tensor.ones(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        window = tensor.hann_window(8)
        spectrum = tensor.stft(x, 8, window=window, return_complex=True)
        tensor.istft(spectrum, 8, window=window)
        with pytest.raises(UserWarning, match="A window was not provided"):
            tensor.stft(x, 8, return_complex=True)
        with pytest.raises(UserWarning, match="shorter than the length parameter"):
            tensor.istft(spectrum, 8, window=window, length=60)


def _spectra() -> Any:
    return tensor.zeros(2, 5, 9, dtype=tensor.complex64)


def _window() -> Any:
    return tensor.hann_window(8)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "return_complex": (lambda x: tensor.stft(x, 8), RuntimeError, "requires the return_complex parameter"),
    "onesided": (
        lambda x: tensor.stft(x + 0j, 8, onesided=True),
        RuntimeError,
        "Cannot have onesided output",
    ),
    "n_fft": (lambda x: tensor.stft(x, 0, return_complex=True), RuntimeError, "0 < n_fft, but got n_fft=0"),
    "long": (
        lambda x: tensor.stft(x, 41, center=False, return_complex=True),
        RuntimeError,
        "0 < n_fft <= 40.*n_fft=41",
    ),
    "hop": (lambda x: tensor.stft(x, 8, 0, return_complex=True), RuntimeError, "hop_length > 0"),
    "win_length": (
        lambda x: tensor.stft(x, 8, win_length=9, return_complex=True),
        RuntimeError,
        "0 < win_length <= n_fft=8, but got win_length=9",
    ),
    "window": (
        lambda x: tensor.stft(x, 8, window=tensor.ones(7), return_complex=True),
        RuntimeError,
        r"1D window tensor of size equal to win_length=8, but got window with size \[7\]",
    ),
    "no tensor": (lambda x: tensor.stft(x, 8, window=[1.0] * 8, return_complex=True), TypeError, "not list"),
    "padding": (
        lambda x: tensor.stft(x, 100, return_complex=True),
        RuntimeError,
        "Padding size should be less",
    ),
    "dimensions": (lambda x: tensor.stft(x[None], 8, return_complex=True), RuntimeError, "1D or 2D tensor"),
    "integers": (
        lambda x: tensor.stft(x.long(), 8, return_complex=True),
        RuntimeError,
        "floating point or complex",
    ),
    "align": (
        lambda x: tensor.stft(x, 8, return_complex=True, align_to_window=True),
        RuntimeError,
        "only be set when center = false",
    ),
    "mode": (
        lambda x: tensor.stft(x, 8, return_complex=True, pad_mode="other"),
        NotImplementedError,
        "padding mode other",
    ),
    "inverse, real": (
        lambda _: tensor.istft(_spectra().real, 8, window=_window()),
        RuntimeError,
        "requires a complex-valued input",
    ),
    "inverse, gap": (
        lambda _: tensor.istft(_spectra(), 8, window=_window(), center=False),
        RuntimeError,
        "window overlap add min",
    ),
    "inverse, zeros": (
        lambda _: tensor.istft(_spectra(), 8, window=tensor.zeros(8)),
        RuntimeError,
        "window overlap add min",
    ),
    "inverse, frequencies": (
        lambda _: tensor.istft(_spectra(), 8, window=_window(), onesided=False),
        RuntimeError,
        "expected 8 frequencies for n_fft=8 and onesided=False, but got 5",
    ),
    "inverse, half": (
        lambda _: tensor.istft(_spectra(), 8, window=_window(), return_complex=True),
        RuntimeError,
        "Cannot have onesided",
    ),
    "inverse, complex window": (
        lambda _: tensor.istft(_spectra(), 8, window=_window() + 0j),
        RuntimeError,
        "incompatible with return_complex=False",
    ),
    "inverse, hop": (
        lambda _: tensor.istft(_spectra(), 8, 9, window=_window()),
        RuntimeError,
        "0 < hop_length <= win_length=8",
    ),
    "inverse, empty": (
        lambda _: tensor.istft(_spectra()[..., :0], 8, window=_window()),
        RuntimeError,
        "with elements",
    ),
    "inverse, nothing": (
        lambda _: tensor.istft(_spectra()[..., :1], 8, window=_window()),
        RuntimeError,
        "no element of the signal is known",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call(tensor.ones(2, 40))


def test_window_elsewhere() -> None:
    drv.simulator.install()
    with pytest.raises(RuntimeError, match="must be on the same device"):
        tensor.stft(tensor.ones(40), 8, window=tensor.ones(8, device="cuda"), return_complex=True)
