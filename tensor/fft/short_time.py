"""Spectra of the windows of a signal, and the signal that such spectra belong to."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.core.warning import warn_caller
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.resampling.padding import constant_pad, pad
from tensor.operations.shapes import slices, views
from tensor.operations.shapes.overlap_add import overlap_add

from .functions import single_or_double
from .transforms import REAL, c2c, c2r, r2c

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

#: Squares of windows that add up to less than this somewhere cannot be divided by.
_LEAST_OVERLAP = 1e-11


def _integer(name: str, what: str, argument: Any) -> int:
    if isinstance(argument, bool) or not hasattr(argument, "__index__"):
        raise TypeError(f"{name}(): argument '{what}' must be int, not {type(argument).__name__}")
    return int(argument.__index__())


def _sizes(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    """Elements of a transform, between windows, and of a window."""
    size = _integer(name, "n_fft", n_fft)
    hop = size // 4 if hop_length is None else _integer(name, "hop_length", hop_length)
    length = size if win_length is None else _integer(name, "win_length", win_length)
    if size < 1:
        raise RuntimeError(f"{name}(): expected 0 < n_fft, but got n_fft={size}")
    if hop < 1:
        raise RuntimeError(f"{name}(): expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= size:
        raise RuntimeError(f"{name}(): expected 0 < win_length <= n_fft={size}, but got win_length={length}")
    return size, hop, length


def _check(name: str, input: Any, window: Any, length: int) -> None:
    if not isinstance(input, TensorBase):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    if window is None:
        warn_caller(
            "A window was not provided. A rectangular window will be applied, which is known to cause spectral leakage. "
            f"Other windows such as hann_window or hamming_window are recommended: give one to {name}() as window=",
        )
        return
    if not isinstance(window, TensorBase):
        raise TypeError(f"{name}(): argument 'window' must be Tensor, not {type(window).__name__}")
    if window._layout.device_state is not input._layout.device_state:
        raise RuntimeError(
            f"{name} input and window must be on the same device but got input on {input._layout.device} and window "
            f"on {window._layout.device}"
        )
    if tuple(window._layout.shape) != (length,):
        raise RuntimeError(
            f"{name}(): expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window._layout.shape)}"
        )


def _middle(window: Tensor, size: int) -> Tensor:
    """The window with zeros at both ends, ``size`` elements in all."""
    missing = size - window._layout.shape[0]
    return constant_pad(window, ((missing // 2, missing - missing // 2),), 0) if missing else window


def _complex(x: Tensor | None) -> bool:
    return x is not None and x._layout.dtype.is_complex


@operation(autocast=Autocast(cpu=FLOAT32))
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Short-time Fourier transform: the spectra of windows of a signal.

    Without a window the frames are read from the signal where they lie, on CUDA by cuFFT itself.

    Parameters
    ----------
    input
        ``(length,)`` or ``(signals, length)``, real or complex.
    n_fft
        Elements of each transform.
    hop_length
        Elements between the beginnings of windows, by default ``n_fft // 4``.
    win_length
        Elements of a window, by default ``n_fft``; shorter ones stand in the middle of the transformed elements.
    window
        ``(win_length,)``, what the elements are multiplied by; ones by default.
    center
        Whether the signal is padded with ``n_fft // 2`` elements at both ends, by ``pad_mode`` of
        :func:`nn.functional.pad`, so that window ``t`` has element ``t * hop_length`` in its middle.
    normalized
        Whether to divide by the square root of ``n_fft``.
    onesided
        Whether to leave out what mirrors the rest; by default so for real data.
    return_complex
        Whether the result is complex, or has a last dimension of real and imaginary parts. Real input needs it.
    align_to_window
        Only without ``center``: whether the first window, and not the first frame, begins with the signal.

    Returns
    -------
    Tensor
        ``(..., frequencies, windows)``.

    Raises
    ------
    RuntimeError
        If ``n_fft``, ``hop_length`` or ``win_length`` is not positive, the window longer than ``n_fft``, or the
        signal shorter than it, half a spectrum is asked of complex data, the input is half precision, or it is real
        and ``return_complex`` is not given.

    Examples
    --------
    >>> signal = tensor.ones(8)
    >>> tensor.stft(signal, 4, window=tensor.ones(4), return_complex=True).shape
    tensor.Size([3, 9])
    """
    size, hop, length = _sizes("stft", n_fft, hop_length, win_length)
    _check("stft", input, window, length)
    dtype, shape = input._layout.dtype, input._layout.shape
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"stft(): expected a tensor of floating point or complex values, got {dtype!r}")
    if len(shape) not in (1, 2):
        raise RuntimeError(f"stft(): expected a 1D or 2D tensor, got shape {list(shape)}")
    mixed = _complex(input) or _complex(window)
    if return_complex is None:
        if not mixed:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs: return_complex=True is what "
                "PyTorch will further require"
            )
        return_complex = True
    half = not mixed if onesided is None else bool(onesided)
    if half and mixed:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    x: Any = input
    if center:
        lead: Any = x if len(shape) == 2 else views.unsqueeze(x, 0)
        lead = pad(views.unsqueeze(lead, 0), (size // 2, size // 2), pad_mode)
        x = views.squeeze(lead, 0) if len(shape) == 2 else views.squeeze(views.squeeze(lead, 0), 0)
    elif align_to_window:
        missing = size - length
        x = constant_pad(x, ((0, 0),) * (len(shape) - 1) + ((missing // 2, missing - missing // 2),), 0)
    room = x._layout.shape[-1]
    if size > room:
        raise RuntimeError(
            f"stft(): expected 0 < n_fft <= {room}, the length of the signal, but got n_fft={size}"
        )
    frames: Any = slices.unfold(x, -1, size, hop)
    if window is not None:
        frames = frames * _middle(window, size)
    elif length < size:
        frames = frames * _middle(x.new_ones(length), size)
    frames = single_or_double("stft", frames, complex=True if not half else None)
    scale = 1 / sqrt(size) if normalized else 1.0
    last = len(frames._layout.shape) - 1
    result = r2c(frames, (last,), scale=scale) if half else c2c(frames, (last,), inverse=False, scale=scale)
    result = views.transpose(result, -1, -2)
    return result if return_complex else views.view_as_real(result)


@operation()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose :func:`stft` is nearest to ``input``, in the sense of least squares.

    The transformed windows are added up where they overlap and divided by the sum of the squared windows, which must
    be positive everywhere; on CUDA that check waits for the device.

    Parameters
    ----------
    input
        ``(..., frequencies, windows)``, complex, as :func:`stft` gives it with the same arguments.
    onesided
        Whether ``input`` is half a spectrum, by default if it has as many frequencies as that.
    length
        Elements of the signal; beyond the windows there are zeros.
    return_complex
        Whether the signal is complex.

    Raises
    ------
    RuntimeError
        If the spectra have not the size that ``n_fft`` and ``onesided`` ask for, the window is longer than ``n_fft``,
        or the windows leave a gap.

    Examples
    --------
    >>> signal, window = tensor.arange(8.0), tensor.hann_window(4)
    >>> spectra = tensor.stft(signal, 4, window=window, return_complex=True)
    >>> tensor.istft(spectra, 4, window=window).allclose(signal, atol=1e-5)
    True
    """
    size, hop, window_length = _sizes("istft", n_fft, hop_length, win_length)
    _check("istft", input, window, window_length)
    shape = input._layout.shape
    if not _complex(input):
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True, got "
            f"{input._layout.dtype!r}"
        )
    if len(shape) not in (2, 3) or not input._layout.numel:
        raise RuntimeError(
            f"istft(): expected a tensor (frequencies, windows) or (signals, frequencies, windows) with elements, got "
            f"shape {list(shape)}"
        )
    if hop > window_length:
        raise RuntimeError(
            f"istft(): expected 0 < hop_length <= win_length={window_length}, but got hop_length={hop}"
        )
    half = shape[-2] != size if onesided is None else bool(onesided)
    if return_complex and half:
        raise RuntimeError("Cannot have onesided input with return_complex=True: give the whole spectrum")
    if not return_complex and _complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    expected = size // 2 + 1 if half else size
    if shape[-2] != expected:
        raise RuntimeError(
            f"istft(): expected {expected} frequencies for n_fft={size} and onesided={half}, but got {shape[-2]}"
        )
    windows = shape[-1]
    extent = size + hop * (windows - 1)
    start = size // 2 if center else 0
    end = extent - start if length is None else start + _integer("istft", "length", length)
    if not start < min(end, extent):
        raise RuntimeError(
            f"istft(): no element of the signal is known from {windows} window(s) of {size} elements with "
            f"center={center} and length={length}"
        )
    frames: Any = views.transpose(input, -1, -2)
    scale = 1 / sqrt(size) if normalized else 1 / size
    last = len(shape) - 1
    if return_complex:
        frames = c2c(frames, (last,), inverse=True, scale=scale)
    else:
        frames = c2r(frames, (last,), size, scale=scale)
    if window is None:
        window = frames.new_ones(window_length, dtype=REAL.get(frames.dtype, frames.dtype))
    taper: Any = _middle(window, size)
    signal: Any = overlap_add(frames * taper, hop, extent)
    envelope: Any = overlap_add(views.expand(taper * taper, (windows, size)), hop, extent)
    known = min(end, extent) - start
    signal = slices.narrow(signal, -1, start, known)
    envelope = slices.narrow(envelope, -1, start, known)
    least = envelope.detach().abs().min().item()
    if not least >= _LEAST_OVERLAP:
        raise RuntimeError(
            f"istft(): window overlap add min: the squares of the windows add up to {least:g} somewhere, where the signal "
            "cannot be known. Use a smaller hop_length, another window, or center=True"
        )
    signal = signal / envelope
    if end <= extent:
        return signal  # type: ignore[no-any-return]
    warn_caller(
        "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
        "Please check your center and hop_length settings.",
    )
    return constant_pad(signal, ((0, 0),) * (len(shape) - 2) + ((0, end - extent),), 0)
