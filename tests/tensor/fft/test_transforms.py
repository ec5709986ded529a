"""Transforms against NumPy in double precision, PyTorch where it is installed, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from drv.host import threads as host_threads
from tensor.core.devices.state import forget_plans
from tensor.fft import on_host

_RNG = np.random.default_rng(0)
NAMES = [
    f"{before}{name}{after}"
    for name in ("fft",)
    for before in ("", "i", "r", "ir", "h", "ih")
    for after in ("", "2", "n")
]
#: Whether the input is complex.
_COMPLEX = {name: not name.startswith(("rfft", "ihfft")) for name in NAMES}


def _data(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    array = _RNG.standard_normal(shape)
    return array + 1j * _RNG.standard_normal(shape) if _COMPLEX[name] else array


def _options(name: str) -> list[dict[str, Any]]:
    if name.endswith("2"):
        return [{}, {"dim": (0, 2)}, {"s": (5, 3), "norm": "ortho"}, {"dim": (-1, 0), "norm": "forward"}]
    if name.endswith("n"):
        return [
            {},
            {"dim": (1,)},
            {"s": (5, 3)},
            {"dim": (2, 0), "s": (4, 6), "norm": "ortho"},
            {"dim": (0, 1, 2)},
        ]
    return [
        {},
        {"dim": 0},
        {"dim": 1, "n": 7},
        {"n": 3, "norm": "ortho"},
        {"n": 9, "dim": 0, "norm": "forward"},
    ]


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_against_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    array = _data(name, (4, 3, 6))
    for options in _options(name):
        for turned in (False, True):
            x, y = tensor.from_numpy(array.copy()).to(device_name), torch.from_numpy(array.copy())
            if turned:
                x, y = x.permute(2, 0, 1), y.permute(2, 0, 1)
            x.requires_grad_()
            y.requires_grad_()
            result, expected = getattr(tensor.fft, name)(x, **options), getattr(torch.fft, name)(y, **options)
            assert tuple(result.shape) == tuple(expected.shape), options
            np.testing.assert_allclose(
                result.detach().cpu().numpy(),
                expected.detach().resolve_conj().numpy(),
                atol=1e-12,
                err_msg=f"{options}",
            )
            grad = _RNG.standard_normal(tuple(expected.shape))
            if expected.is_complex():
                grad = grad + 1j * _RNG.standard_normal(grad.shape)
            result.backward(tensor.from_numpy(grad.copy()).to(device_name))
            expected.backward(torch.from_numpy(grad))
            np.testing.assert_allclose(
                x.grad.cpu().numpy(), y.grad.resolve_conj().numpy(), atol=1e-12, err_msg=f"{options}"
            )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_real_sizes(size: int, device_name: str) -> None:
    array = _RNG.standard_normal((2, size))
    x = tensor.from_numpy(array).to(device_name)
    half = tensor.fft.rfft(x)
    np.testing.assert_allclose(half.cpu().numpy(), np.fft.rfft(array), atol=1e-13)
    np.testing.assert_allclose(tensor.fft.irfft(half, size).cpu().numpy(), array, atol=1e-13)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "irfftn"])
@pytest.mark.sampled(4)
def test_second_derivatives(name: str, device_name: str) -> None:
    x = tensor.from_numpy(_data(name, (2, 3))).to(device_name).requires_grad_()

    def call(x: Any) -> Any:
        result = getattr(tensor.fft, name)(x)
        return result * result

    assert tensor.autograd.gradcheck(call, (x,))
    assert tensor.autograd.gradgradcheck(call, (x,))


def test_single_precision_stays_single(device_name: str) -> None:
    array = _RNG.standard_normal((3, 100)).astype(np.float32)
    x = tensor.from_numpy(array).to(device_name)
    assert tensor.fft.rfft(x).dtype is tensor.complex64
    assert tensor.fft.irfft(tensor.fft.rfft(x)).dtype is tensor.float32
    assert tensor.fft.fft(x).dtype is tensor.complex64
    assert tensor.fft.fft(tensor.arange(4, device=device_name)).dtype is tensor.complex64
    result = tensor.fft.fft(x).cpu().numpy()
    np.testing.assert_allclose(result, np.fft.fft(array.astype(float)), atol=2e-5)


def test_many_dimensions(device_name: str) -> None:
    array = _RNG.standard_normal((2, 3, 2, 4, 3)) + 0j
    x = tensor.from_numpy(array).to(device_name)
    np.testing.assert_allclose(tensor.fft.fftn(x).cpu().numpy(), np.fft.fftn(array), atol=1e-12)
    dims = (4, 0, 2, 1)
    np.testing.assert_allclose(
        tensor.fft.ifftn(x, dim=dims).cpu().numpy(), np.fft.ifftn(array, axes=dims), atol=1e-12
    )


def test_no_elements(device_name: str) -> None:
    x = tensor.zeros(0, 4, device=device_name)
    assert tensor.fft.rfft(x).shape == (0, 3)
    assert tensor.fft.fft(x).shape == (0, 4)
    assert tensor.fft.irfft(tensor.fft.rfft(x)).shape == (0, 4)


def test_frequencies_and_shifts(device_name: str) -> None:
    for n in (1, 4, 7):
        result = tensor.fft.fftfreq(n, 0.5, device=device_name, dtype=tensor.float64)
        np.testing.assert_allclose(result.cpu().numpy(), np.fft.fftfreq(n, 0.5))
        half = tensor.fft.rfftfreq(n, 0.5, device=device_name, dtype=tensor.float64)
        np.testing.assert_allclose(half.cpu().numpy(), np.fft.rfftfreq(n, 0.5))
    array = _RNG.standard_normal((4, 5))
    x = tensor.from_numpy(array).to(device_name)
    for dim in (None, 0, (0, 1)):
        np.testing.assert_array_equal(tensor.fft.fftshift(x, dim).cpu().numpy(), np.fft.fftshift(array, dim))
        np.testing.assert_array_equal(
            tensor.fft.ifftshift(x, dim).cpu().numpy(), np.fft.ifftshift(array, dim)
        )


def test_results_go_to_out(device_name: str) -> None:
    x = tensor.arange(4.0, device=device_name)
    out = tensor.empty(4, dtype=tensor.complex64, device=device_name)
    assert tensor.fft.fft(x, out=out) is out
    np.testing.assert_allclose(out.cpu().numpy(), np.fft.fft(np.arange(4)))


def test_half_precision_has_to_be_converted(device_name: str) -> None:
    for dtype in (tensor.float16, tensor.bfloat16):
        x = tensor.ones(2, 4, dtype=dtype, device=device_name)
        for name in NAMES:
            with pytest.raises(RuntimeError, match=rf"{name}.*float16.*convert with \.to\(tensor\.float32\)"):
                getattr(tensor.fft, name)(x)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "norm": (lambda x: tensor.fft.fft(x, norm="other"), RuntimeError, 'Invalid normalization mode: "other"'),
    "size": (lambda x: tensor.fft.fft(x, n=0), RuntimeError, r"Invalid number of data points \(0\)"),
    "negative size": (
        lambda x: tensor.fft.rfft(x, n=-1),
        RuntimeError,
        r"Invalid number of data points \(-1\)",
    ),
    "dim": (lambda x: tensor.fft.fft(x, dim=2), IndexError, "Dimension out of range"),
    "number": (lambda x: tensor.fft.fft(x[0, 0]), IndexError, "no dimensions"),
    "twice": (lambda x: tensor.fft.fftn(x, dim=(0, 0)), RuntimeError, "dims must be unique"),
    "lengths": (lambda x: tensor.fft.fftn(x, s=(2,), dim=(0, 1)), RuntimeError, "same length"),
    "many": (lambda x: tensor.fft.fftn(x, s=(2, 2, 2)), RuntimeError, "only has 2 dimensions"),
    "complex": (lambda x: tensor.fft.rfft(x + 0j), RuntimeError, "expects a real input tensor"),
    "no tensor": (lambda x: tensor.fft.fft([1.0]), TypeError, "must be Tensor, not list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call(tensor.ones(3, 4))


@pytest.mark.parity
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("ihfft2", "ihfftn")])
def test_strides_are_pytorchs(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    array = _data(name, (3, 4, 5, 6))
    every = [{"dim": (0, 2)}, {"dim": (3, 0)}, {"dim": (1, 0, 2)}] if name[-1] in "2n" else [{}, {"dim": 0}]
    if name.endswith("2"):
        every[-1] = {}
    for order in ((0, 1, 2, 3), (2, 0, 3, 1), (3, 1, 2, 0)):
        x, y = tensor.from_numpy(array).to(device_name).permute(order), torch.from_numpy(array).permute(order)
        for options in every:
            result, expected = getattr(tensor.fft, name)(x, **options), getattr(torch.fft, name)(y, **options)
            assert tuple(result.stride()) == expected.stride(), (order, options)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((70, 1024), (1,)),
        ((1024, 70), (0,)),
        ((4, 130, 150), (1, 2)),
        ((9, 100, 101), (0, 2)),
        ((300, 260), (0, 1)),
    ],
)
def test_work_that_threads_share(
    shape: tuple[int, ...], dims: tuple[int, ...], dtype: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_threads, "thread_count", lambda: threads)
    monkeypatch.setattr(on_host, "thread_count", lambda: threads)
    monkeypatch.setattr(host_threads, "_threads", host_threads._Threads())
    real = _RNG.standard_normal(shape).astype(dtype)
    both = real + np.asarray(1j, np.result_type(dtype, np.complex64)) * real[::-1]
    atol = (1e-12 if dtype == "float64" else 1e-3) * np.sqrt(real.size)
    wide = both.astype(np.complex128)
    x, z = tensor.from_numpy(real), tensor.from_numpy(both)
    actual, back = tensor.fft.fftn(z, dim=dims), tensor.fft.ifftn(z, dim=dims, norm="ortho")
    np.testing.assert_allclose(actual.numpy(), np.fft.fftn(wide, axes=dims), rtol=0, atol=atol)
    np.testing.assert_allclose(back.numpy(), np.fft.ifftn(wide, axes=dims, norm="ortho"), rtol=0, atol=atol)
    half = tensor.fft.rfftn(x, dim=dims)
    np.testing.assert_allclose(
        half.numpy(), np.fft.rfftn(real.astype(np.float64), axes=dims), rtol=0, atol=atol
    )
    again = tensor.fft.irfftn(half, [shape[dim] for dim in dims], dim=dims)
    np.testing.assert_allclose(again.numpy(), real, rtol=0, atol=atol)
    for function, argument, result in ((tensor.fft.fftn, z, actual), (tensor.fft.rfftn, x, half)):
        assert function(argument, dim=dims).numpy().tobytes() == result.numpy().tobytes()
    # A strided input, whose blocks are none of the result's.
    turned = tensor.from_numpy(np.asfortranarray(both))
    np.testing.assert_allclose(
        tensor.fft.fftn(turned, dim=dims).numpy(), np.fft.fftn(wide, axes=dims), rtol=0, atol=atol
    )


@pytest.mark.parity
def test_single_precision_is_as_precise_as_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    array = (_RNG.standard_normal((64, 1024)) + 1j * _RNG.standard_normal((64, 1024))).astype(np.complex64)
    exact = np.fft.fft(array.astype(np.complex128))
    ours, theirs = tensor.fft.fft(tensor.from_numpy(array)), torch.fft.fft(torch.from_numpy(array))
    assert ours.dtype == tensor.complex64
    assert np.abs(ours.numpy() - exact).max() < 2 * np.abs(theirs.numpy() - exact).max()


def test_a_numpy_whose_loops_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor.randn(3, 4, 5, generator=tensor.Generator().manual_seed(0))

    def results() -> list[Any]:
        forget_plans()
        return [tensor.fft.rfftn(x), tensor.fft.irfftn(tensor.fft.rfft(x), norm="ortho"), tensor.fft.fft(x)]

    expected = results()
    with monkeypatch.context() as patch:
        patch.setattr(on_host, "_loops", lambda: None)
        result = results()
    results()
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-5)
