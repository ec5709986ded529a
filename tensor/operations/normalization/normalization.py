"""Normalisations as users call them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import int64
from nvrtc_kernels.normalization import Rows, statistics_type
from tensor.core.arguments import integers, two_devices
from tensor.core.dtypes.limits import finfo
from tensor.core.memory_format import contiguous_format, suggested
from tensor.core.modes.grad_mode import unrecorded
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.shapes.joining import cat

from .batch_normalization import normalize_channels, update_running
from .row_normalization import GROUP_NORM, INSTANCE_NORM, LAYER_NORM, RMS_NORM, normalize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.memory_format import memory_format
    from tensor.methods.tensor import Tensor


def _check(name: str, input: Tensor, **others: Tensor | None) -> None:
    layout = input._layout
    if not layout.dtype.is_floating_point:
        raise NotImplementedError(
            f'"{name}" not implemented for {layout.dtype!r}: convert the input to a floating point dtype first'
        )
    _check_devices(name, input, **others)
    for parameter, other in others.items():
        if other is not None and not other._layout.dtype.is_floating_point:
            raise RuntimeError(
                f"{name}(): expected {parameter} to have a floating point dtype, got {other._layout.dtype!r}"
            )


def _check_devices(name: str, input: Tensor, **others: Tensor | None) -> None:
    layout = input._layout
    for parameter, other in others.items():
        if other is not None and other._layout.device_state is not layout.device_state:
            raise two_devices(name, f"{layout.device} (input)", f"{other._layout.device} ({parameter})")


def _rows_of(
    name: str, input: Tensor, normalized_shape: Sequence[int], *, center: bool, **others: Tensor | None
) -> Rows:
    needed = integers((normalized_shape,), name, "normalized_shape")
    shape = tuple(input._layout.shape)
    if not needed:
        raise RuntimeError(
            f"{name}(): Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for parameter, other in others.items():
        if other is not None and other._layout.shape != needed:
            raise RuntimeError(
                f"{name}(): Expected {parameter} to be of same shape as normalized_shape, but got {parameter} of shape "
                f"{list(other._layout.shape)} and normalized_shape = {list(needed)}"
            )
    lead = len(shape) - len(needed)
    if lead < 0 or shape[lead:] != needed:
        expected = ", ".join(["*", *map(str, needed)])
        raise RuntimeError(
            f"{name}(): Given normalized_shape={list(needed)}, expected input with shape [{expected}], but got input "
            f"of size{list(shape)}"
        )
    return Rows(prod(shape[:lead]), prod(needed), center=center)


@operation(method=False, autocast=Autocast(cuda=FLOAT32))
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last dimensions (Ba, Kiros, Hinton, 2016).

    Parameters
    ----------
    input : Tensor
        Any shape that ends in ``normalized_shape``.
    normalized_shape : sequence of int
        The last dimensions, over which mean and (biased) variance are taken.
    weight, bias : Tensor, optional
        Of shape ``normalized_shape``.
    cudnn_enable
        Taken for PyTorch's sake.

    Raises
    ------
    RuntimeError
        If the input's last dimensions, or the shape of ``weight`` or ``bias``, are not ``normalized_shape``, or
        tensors are on different devices.

    Examples
    --------
    >>> tensor.layer_norm(tensor.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 6.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247],
            [-0.7071, -0.7071,  1.4142]])
    """
    _check("layer_norm", input, weight=weight, bias=bias)
    rows = _rows_of("layer_norm", input, normalized_shape, center=True, weight=weight, bias=bias)
    return normalize(input, weight, bias, eps, rows, LAYER_NORM)


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """``input / sqrt(mean(input**2) + eps) * weight`` over the last dimensions (Zhang, Sennrich, 2019).

    Parameters
    ----------
    input : Tensor
        Of a floating or complex dtype and shape ``(..., *normalized_shape)``; the result has both. Of complex numbers
        the squares are taken, not their absolute values. CUDA autocast computes it in float32.
    normalized_shape : sequence of int
        Sizes of the last dimensions, over which means are taken.
    weight : Tensor, optional
        Of shape ``normalized_shape``.
    eps : float, optional
        By default the machine epsilon of the dtype that is computed in.

    Raises
    ------
    RuntimeError
        If ``normalized_shape`` is empty, the input's last dimensions or the shape of ``weight`` are not it, or the
        devices differ.
    NotImplementedError
        If the input is of integers or bools.

    Examples
    --------
    >>> nn.functional.rms_norm(tensor.tensor([[1.0, 2.0, 2.0]]), (3,))
    tensor([[0.5774, 1.1547, 1.1547]])
    """
    if input._layout.dtype.is_complex:
        return _complex_rms_norm(input, normalized_shape, weight, eps)
    _check("rms_norm", input, weight=weight)
    rows = _rows_of("rms_norm", input, normalized_shape, center=False, weight=weight)
    if eps is None:
        eps = finfo(statistics_type(input._layout.dtype)).eps
    return normalize(input, weight, None, eps, rows, RMS_NORM, _format(input))


def _complex_rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> Tensor:
    _check_devices("rms_norm", input, weight=weight)
    _rows_of("rms_norm", input, normalized_shape, center=False, weight=weight)
    dims = range(-len(integers((normalized_shape,), "rms_norm", "normalized_shape")), 0)
    square = (input * input).mean(tuple(dims), keepdim=True)
    result: Tensor = input * (square + (finfo(input._layout.dtype).eps if eps is None else eps)).rsqrt()
    return result if weight is None else (result * weight).to(input._layout.dtype)


def _check_channels(name: str, channels: int, **vectors: Tensor | None) -> None:
    for parameter, vector in vectors.items():
        if vector is not None and tuple(vector._layout.shape) != (channels,):
            raise RuntimeError(
                f"{name}(): {parameter} should contain {channels} elements not {vector._layout.numel}: expected shape "
                f"[{channels}], one for each channel of the input, got {list(vector._layout.shape)}"
            )


def _channels(name: str, input: Tensor) -> int:
    shape = input._layout.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"{name}(): Expected at least 2 dimensions for input tensor, (N, C, ...), but received {list(shape)}"
        )
    return shape[1]


def _format(input: Tensor) -> memory_format:
    """The input's; row-major on devices, as in PyTorch, whose kernels work on rows there."""
    layout = input._layout
    return contiguous_format if layout.device_state.is_cuda else suggested(layout)


@operation(method=False)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` of each channel (Ioffe, Szegedy, 2015).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...).
    weight, bias : Tensor, optional
        Of shape (C,).
    running_mean, running_var : Tensor, optional
        Of shape (C,): what is taken without ``training``; with it they move by ``momentum`` towards mean and
        unbiased variance of the batch.
    training : bool
        Whether mean and biased variance are those of the batch.
    cudnn_enabled
        Taken for PyTorch's sake.

    Raises
    ------
    RuntimeError
        If weight, bias or running averages have not one element for each channel, or there are no running averages
        without ``training``.

    Examples
    --------
    >>> tensor.batch_norm(tensor.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    name = "batch_norm"
    _check(name, input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    channels = _channels(name, input)
    _check_channels(
        name, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if not training and (running_mean is None or running_var is None):
        missing = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"{name}(): Expected {missing} to be defined when training=False")
    return normalize_channels(input, weight, bias, running_mean, running_var, bool(training), momentum, eps)


@operation(method=False, autocast=Autocast(cuda=FLOAT32))
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, moments over groups of channels (Wu, He, 2018).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...).
    num_groups : int
        Groups into which the channels of a sample are separated.
    weight, bias : Tensor, optional
        Of shape (C,).

    Raises
    ------
    RuntimeError
        If weight or bias have not one element for each channel, or the groups do not divide the channels.

    Examples
    --------
    >>> tensor.group_norm(tensor.tensor([[1.0, 3.0, 10.0, 30.0]]), num_groups=2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    name = "group_norm"
    _check(name, input, weight=weight, bias=bias)
    channels = _channels(name, input)
    shape = input._layout.shape
    if num_groups <= 0:
        raise RuntimeError(f"{name}(): Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            f"{name}(): Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    _check_channels(name, channels, weight=weight, bias=bias)
    rows = Rows(shape[0] * num_groups, channels // num_groups, prod(shape[2:]), num_groups)
    return normalize(input, weight, bias, eps, rows, GROUP_NORM, _format(input))


@operation(method=False)
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """As :func:`batch_norm`, with the moments of each sample apart (Ulyanov, Vedaldi, Lempitsky, 2016).

    Parameters
    ----------
    input : Tensor
        Of a floating dtype and shape (N, C, ...); the result has both.
    weight, bias : Tensor or None
        Of shape (C,).
    running_mean, running_var : Tensor or None
        Averages over the samples' moments, of shape (C,). With ``use_input_stats`` they are updated, else
        taken in place of the moments.
    momentum : float
        Share of the new moments in the averages.
    eps : float
        Added to the variances.

    Raises
    ------
    RuntimeError
        If the input has fewer than two dimensions, a vector is not of shape (C,), averages are needed and
        missing, or the devices differ.
    NotImplementedError
        If the input's dtype is not a floating one.

    Examples
    --------
    >>> x = tensor.tensor([[[1.0, 3.0], [10.0, 30.0]]])
    >>> tensor.instance_norm(x, None, None, None, None, True, 0.1, 1e-5)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    name = "instance_norm"
    _check(name, input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    channels = _channels(name, input)
    _check_channels(
        name, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                f"{name}(): Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return normalize_channels(input, weight, bias, running_mean, running_var, False, momentum, eps)
    shape = input._layout.shape
    inner = prod(shape[2:])
    if running_mean is not None or running_var is not None:
        with unrecorded():
            samples = input.reshape(shape[0], channels, inner)
            var, mean = samples.var(2, correction=0).mean(0), samples.mean((0, 2))
            update_running(running_mean, running_var, mean, var, momentum, inner if shape[0] else 0)
    rows = Rows(shape[0] * channels, 1, inner, channels)
    return normalize(input, weight, bias, eps, rows, INSTANCE_NORM)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def local_response_norm(
    input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha * mean(x ** 2)) ** beta``, the mean over ``size`` neighbouring channels.

    From Krizhevsky, Sutskever, Hinton, 2012. There are zeros beyond the first and the last channel.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...), with at least 3 dimensions, and a floating dtype or int64, whose means are rounded down.

    Raises
    ------
    ValueError
        For fewer dimensions.
    NotImplementedError
        For other dtypes.

    Examples
    --------
    >>> nn.functional.local_response_norm(tensor.ones(1, 3, 2), size=2)
    tensor([[[1.0000, 1.0000],
             [0.9999, 0.9999],
             [0.9999, 0.9999]]])
    """
    if input._layout.dtype is not int64:
        _check("local_response_norm", input)
    shape = list(input._layout.shape)
    if len(shape) < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {len(shape)} dimensions)")
    if not input._layout.numel:
        return input
    squares = input * input
    before, after = size // 2, (size - 1) // 2
    ends = [squares.new_zeros([shape[0], count, *shape[2:]]) for count in (before, after)]
    windows: Any = cat([ends[0], squares, ends[1]], 1).unfold(1, size, 1)
    # Means of integers are integers, as in pooling.
    around = windows.sum(-1) // size if input._layout.dtype is int64 else windows.mean(-1)
    divisor = (around * alpha + k) ** beta
    return input / divisor  # type: ignore[no-any-return]
