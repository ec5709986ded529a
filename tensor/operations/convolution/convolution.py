"""Convolutions in one, two and three dimensions, and transposed ones.

Which geometry a call has is found once for the layouts of its operands and its options; :mod:`.directions` has what is computed
for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels.convolution import Geometry, Windows
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase
from tensor.core.memory_format import contiguous_format, suggested
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.planned_options import PLAIN, plan_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.autograd.recording.recorder import BackwardFormula
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format
    from tensor.methods.tensor import Tensor

    from .directions import Direction


def _three(name: str, what: str, argument: Any, rank: int, fill: int) -> tuple[int, int, int]:
    if isinstance(argument, int):
        argument = (argument,) * rank
    values = tuple(int(x) for x in argument)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise RuntimeError(
            f"{name}(): expected {what} to be a single integer or {rank} of them, got {argument!r}"
        )
    depth, height, width = (fill,) * (3 - rank) + values
    return depth, height, width


def _check_operands(name: str, input: Any, weight: Any, bias: Any) -> None:
    """Raise if operands are no tensors of one dtype on one device."""
    for what, x in (("input", input), ("weight", weight), *([("bias", bias)] if bias is not None else [])):
        if not isinstance(x, TensorBase):
            raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(x).__name__}")
        _check_layout(name, what, input._layout, x._layout)


def _check_layout(name: str, what: str, input: Layout, x: Layout) -> None:
    if x.device_state is not input.device_state:
        raise two_devices(name, input.device, x.device)
    if x.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): Input type ({input.dtype!r}) and {what} type ({x.dtype!r}) should be the same"
        )


def _check_shapes(
    name: str, rank: int, input: Layout, weight: Layout, bias: Layout | None, groups: int, *, transposed: bool
) -> None:
    shape, filters = tuple(input.shape), tuple(weight.shape)
    if len(filters) != rank + 2:
        raise RuntimeError(
            f"{name}(): expected {rank + 2}D weight, but got {len(filters)}D weight of size {list(filters)}"
        )
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(shape)}"
        )
    if groups <= 0:
        raise RuntimeError(f"{name}(): non-positive groups is not supported, got {groups}")
    channels = shape[-rank - 1]
    expected = filters[0] if transposed else filters[1] * groups
    if channels != expected:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(filters)}, expected input{list(shape)} to have {expected} "
            f"channels, but got {channels} channels instead"
        )
    if filters[0] % groups or (not transposed and filters[0] < groups):
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(filters)} instead"
        )
    outputs = filters[1] * groups if transposed else filters[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"Given weight of size {list(filters)}, expected bias to be 1-dimensional with {outputs} elements, but got bias "
            f"of size {list(bias.shape)} instead"
        )


def _lifted(shape: Sequence[int], rank: int) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Two dimensions of a shape, and three spatial ones; missing ones have size 1."""
    depth, height, width = (*[1] * (3 - rank), *shape[-rank:])
    return (1 if len(shape) == rank + 1 else shape[0], shape[-rank - 1]), (depth, height, width)


class _Planned(NamedTuple):
    """A call for operands of some layouts and with some options: ``run(input, weight, bias)``, and how it is recorded."""

    run: Callable[..., Tensor]
    formula: BackwardFormula
    #: What gradients follow from, and the format of the result.
    context: tuple[Direction, memory_format]


class _Convolution:
    """``device_state.plans[operation, input, weight, bias, *options]`` for the layouts of the operands.

    ``name`` is the public function's, ``rank`` the number of spatial dimensions.
    """

    transposed = False

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank

    def plan(self, x: Layout, weight: Layout, bias: Layout | None, *options: Any) -> _Planned:
        """What convolves tensors of these layouts; raises if they or the options do not fit."""
        # They have all ways to compute one, which only programs that convolve load.
        from .directions import FORMULAS, directions_of

        for what, layout in (("weight", weight), ("bias", bias)):
            if layout is not None:
                _check_layout(self.name, what, x, layout)
        geometry = self.geometry(x, weight, bias, *options)
        batched = len(x.shape) == self.rank + 2
        forward, input, _ = directions_of(geometry, self.rank, batched=batched)
        direction = input if self.transposed else forward
        form = _format(x, weight) if batched else contiguous_format
        return _Planned(direction.plan(x, weight, bias, form), FORMULAS[batched], (direction, form))

    def geometry(
        self,
        x: Layout,
        weight: Layout,
        bias: Layout | None,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> Geometry:
        """The shapes; raises if they do not fit."""
        name, rank = self.name, self.rank
        _check_shapes(name, rank, x, weight, bias, groups, transposed=False)
        strides = _three(name, "stride", stride, rank, 1)
        dilations = _three(name, "dilation", dilation, rank, 1)
        if min(strides) <= 0 or min(dilations) <= 0:
            raise RuntimeError(
                f"{name}(): non-positive stride or dilation is not supported, got {stride}, {dilation}"
            )
        (items, channels), size = _lifted(x.shape, rank)
        (filters, _), kernel = _lifted(weight.shape, rank)
        excess = (0, 0, 0)
        if isinstance(padding, str):
            paddings, excess = _named_padding(name, padding, kernel, strides, dilations)
        else:
            paddings = _three(name, "padding", padding, rank, 0)
            if min(paddings) < 0:
                raise RuntimeError(f"{name}(): negative padding is not supported, got {padding}")
        windows = Windows(size, kernel, strides, paddings, dilations, excess=excess)
        for padded, k, d in zip(windows.padded, kernel, dilations, strict=True):
            if padded < d * (k - 1) + 1:
                raise RuntimeError(
                    f"Calculated padded input size per channel: ({' x '.join(map(str, windows.padded[3 - rank :]))}). "
                    f"Kernel size: ({' x '.join(map(str, kernel[3 - rank :]))}). Kernel size can't be greater than actual input size"
                )
        return Geometry(windows, items, channels, filters, groups)


def _format(x: Layout, weight: Layout) -> memory_format:
    """The format of the result: channels last where one of both has it, for the dtypes that PyTorch keeps it for."""
    name = x.dtype.name
    if x.device_state.is_cuda:
        # cuDNN has no such form for double precision.
        if name in ("float64", "complex128"):
            return contiguous_format
    elif len(weight.shape) == 5 and name not in ("float32", "bfloat16", "complex64"):
        # Volumes that are not oneDNN's.
        return contiguous_format
    form = suggested(x)
    return suggested(weight) if form is contiguous_format else form


def _named_padding(
    name: str, padding: str, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The padding of both ends, and by how much the second one is larger."""
    if padding == "valid":
        return (0, 0, 0), (0, 0, 0)
    if padding != "same":
        raise RuntimeError(f"{name}(): Invalid padding string: {padding!r}: expected 'valid' or 'same'")
    if any(step != 1 for step in strides):
        raise RuntimeError(f"{name}(): padding='same' is not supported for strided convolutions")
    depth, height, width = (d * (k - 1) for k, d in zip(kernel, dilations, strict=True))
    return (depth // 2, height // 2, width // 2), (depth % 2, height % 2, width % 2)


class _TransposedConvolution(_Convolution):
    """The gradient of a convolution's input, as an operation of its own."""

    transposed = True

    def geometry(  # type: ignore[override]
        self,
        x: Layout,
        weight: Layout,
        bias: Layout | None,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: int,
        dilation: Any,
    ) -> Geometry:
        """The shapes of the convolution whose derivative it is; raises if they do not fit."""
        name, rank = self.name, self.rank
        _check_shapes(name, rank, x, weight, bias, groups, transposed=True)
        strides = _three(name, "stride", stride, rank, 1)
        paddings = _three(name, "padding", padding, rank, 0)
        extra = _three(name, "output_padding", output_padding, rank, 0)
        dilations = _three(name, "dilation", dilation, rank, 1)
        if min(strides) <= 0 or min(dilations) <= 0 or min(paddings) < 0 or min(extra) < 0:
            raise RuntimeError(
                f"{name}(): stride and dilation must be positive, paddings not negative, got {stride}, {dilation}, {padding} "
                f"and {output_padding}"
            )
        if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, but got output_padding {output_padding}, "
                f"stride {stride} and dilation {dilation}"
            )
        (items, filters), argument = _lifted(x.shape, rank)
        (_, width), kernel = _lifted(weight.shape, rank)
        depth, height, wide = size = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(argument, strides, paddings, dilations, kernel, extra, strict=True)
        )
        if min(size) <= 0:
            raise RuntimeError(
                f"Given input size per channel: {list(argument)[3 - rank :]}. Calculated output size per channel: "
                f"{list(size)[3 - rank :]}. Output size is too small"
            )
        # Where a whole further window would fit into the output padding, there is none.
        shut = tuple(-e if e >= s else 0 for e, s in zip(extra, strides, strict=True))
        windows = Windows((depth, height, wide), kernel, strides, paddings, dilations, excess=shut)  # type: ignore[arg-type]
        return Geometry(windows, items, width * groups, filters, groups)


def _convolve(
    operation: _Convolution, input: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]
) -> Tensor:
    try:
        layouts = input._layout, weight._layout, None if bias is None else bias._layout
    except AttributeError:
        _check_operands(operation.name, input, weight, bias)
        raise
    for each in options:
        if type(each) not in PLAIN:
            run, formula, context = plan_for(operation, layouts, options)
            break
    else:
        # The commonest options, without a call.
        run, formula, context = layouts[0].device_state.plans[operation, *layouts, *options]
    result: Tensor = run(input, weight, bias)
    if modes.recording:
        # As mask_of() would, without the call.
        a, b, c = input._autograd, weight._autograd, None if bias is None else bias._autograd
        mask = (
            a is not None and a.requires_grad,
            b is not None and b.requires_grad,
            None if bias is None else c is not None and c.requires_grad,
        )
        if True in mask:
            formula.record((result,), (input, weight, bias), (), context, mask)
    return result


_CONV1D, _CONV2D, _CONV3D = (_Convolution(f"conv{rank}d", rank) for rank in (1, 2, 3))
_CONV_TRANSPOSE1D, _CONV_TRANSPOSE2D, _CONV_TRANSPOSE3D = (
    _TransposedConvolution(f"conv_transpose{rank}d", rank) for rank in (1, 2, 3)
)


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of signals, as neural networks have it: the kernel is not turned around.

    Along each dimension the result has ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``.
    weight
        Filters ``(F, C / groups, kernel)``, of the dtype and device of ``input``.
    bias
        ``(F,)``, added to all elements of the result's channels; none by default.
    stride
        Steps from one window to the next: an integer.
    padding
        Zeros at both ends of each dimension: an integer; ``"valid"`` for none, or ``"same"`` for as many as
        give the result the size of the input, the end one more where their number is odd (``stride`` must be 1).
    dilation
        Steps from one element of a window to the next: an integer.
    groups
        Into how many groups channels and filters are divided; the filters of a group see its channels only.

    Returns
    -------
    Tensor
        ``(N, F, ...)``, or ``(F, ...)`` for one signal, of the dtype of ``input``. Half precision is added up in float32;
        float32 is rounded to TF32 on devices while ``backends.cudnn.allow_tf32`` says so. Autocast casts the operands.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    RuntimeError
        If dtypes or devices of the operands differ; if ``input`` has not the channels that ``weight`` and ``groups``
        ask for, ``weight`` another number of dimensions or channels that ``groups`` does not divide, or ``bias`` not
        one element for each output channel; if the padded input is smaller than the kernel; for a stride or dilation
        below 1, a negative padding, or another text than those above.

    Examples
    --------
    >>> x, weight = tensor.randn(20, 16, 50), tensor.randn(33, 16, 3)
    >>> nn.functional.conv1d(x, weight, stride=2).shape
    tensor.Size([20, 33, 24])
    """
    return _convolve(_CONV1D, input, weight, bias, (stride, padding, dilation, groups))


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of images, as neural networks have it: the kernel is not turned around.

    Along each dimension the result has ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``.
    weight
        Filters ``(F, C / groups, kernel_height, kernel_width)``, of the dtype and device of ``input``.
    bias
        ``(F,)``, added to all elements of the result's channels; none by default.
    stride
        Steps from one window to the next: an integer, or 2 of them, one for each of height and width.
    padding
        Zeros at both ends of each dimension: an integer, or 2 of them; ``"valid"`` for none, or ``"same"`` for as many as
        give the result the size of the input, the end one more where their number is odd (``stride`` must be 1).
    dilation
        Steps from one element of a window to the next: an integer, or 2 of them.
    groups
        Into how many groups channels and filters are divided; the filters of a group see its channels only.

    Returns
    -------
    Tensor
        ``(N, F, ...)``, or ``(F, ...)`` for one image, of the dtype of ``input``. Half precision is added up in float32;
        float32 is rounded to TF32 on devices while ``backends.cudnn.allow_tf32`` says so. Autocast casts the operands.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    RuntimeError
        If dtypes or devices of the operands differ; if ``input`` has not the channels that ``weight`` and ``groups``
        ask for, ``weight`` another number of dimensions or channels that ``groups`` does not divide, or ``bias`` not
        one element for each output channel; if the padded input is smaller than the kernel; for a stride or dilation
        below 1, a negative padding, or another text than those above.

    Examples
    --------
    >>> x, weight, bias = tensor.randn(1, 4, 5, 5), tensor.randn(8, 4, 3, 3), tensor.zeros(8)
    >>> nn.functional.conv2d(x, weight, bias, padding=1).shape
    tensor.Size([1, 8, 5, 5])
    """
    return _convolve(_CONV2D, input, weight, bias, (stride, padding, dilation, groups))


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of volumes, as neural networks have it: the kernel is not turned around.

    Along each dimension the result has ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``.
    weight
        Filters ``(F, C / groups, kernel_depth, kernel_height, kernel_width)``, of the dtype and device of ``input``.
    bias
        ``(F,)``, added to all elements of the result's channels; none by default.
    stride
        Steps from one window to the next: an integer, or 3 of them, one for each of depth, height and width.
    padding
        Zeros at both ends of each dimension: an integer, or 3 of them; ``"valid"`` for none, or ``"same"`` for as many as
        give the result the size of the input, the end one more where their number is odd (``stride`` must be 1).
    dilation
        Steps from one element of a window to the next: an integer, or 3 of them.
    groups
        Into how many groups channels and filters are divided; the filters of a group see its channels only.

    Returns
    -------
    Tensor
        ``(N, F, ...)``, or ``(F, ...)`` for one volume, of the dtype of ``input``. Half precision is added up in float32;
        float32 is rounded to TF32 on devices while ``backends.cudnn.allow_tf32`` says so. Autocast casts the operands.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    RuntimeError
        If dtypes or devices of the operands differ; if ``input`` has not the channels that ``weight`` and ``groups``
        ask for, ``weight`` another number of dimensions or channels that ``groups`` does not divide, or ``bias`` not
        one element for each output channel; if the padded input is smaller than the kernel; for a stride or dilation
        below 1, a negative padding, or another text than those above.

    Examples
    --------
    >>> x, weight = tensor.randn(2, 4, 8, 8, 8), tensor.randn(6, 4, 3, 3, 3)
    >>> nn.functional.conv3d(x, weight).shape
    tensor.Size([2, 6, 6, 6, 6])
    """
    return _convolve(_CONV3D, input, weight, bias, (stride, padding, dilation, groups))


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of signals: what the derivative of :func:`conv1d` by its input is.

    Every element of the input adds the kernel, times itself, to a window of the result. Along each dimension the result has
    ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``.
    weight
        ``(C, F / groups, kernel)``, of the dtype and device of ``input``.
    bias
        ``(F,)``, added to all elements of the result's channels; none by default.
    stride
        Steps from one window of the result to the next: an integer.
    padding
        Elements that are left out at both ends of the result: an integer.
    output_padding
        Added to the size of the result at its end, as inputs of several sizes are convolved to the same: an integer, below
        the stride or the dilation.
    groups
        Into how many groups the channels of input and result are divided.
    dilation
        Steps from one element of a window to the next: an integer.

    Returns
    -------
    Tensor
        ``(N, F, ...)``, or ``(F, ...)`` for one signal, of the dtype of ``input``; see :func:`conv1d` about precision.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    RuntimeError
        If dtypes or devices of the operands differ; if ``input`` has not the channels that ``weight`` and ``groups``
        ask for, ``weight`` another number of dimensions or channels that ``groups`` does not divide, or ``bias`` not
        one element for each output channel; if the result would be empty; for a stride or dilation below 1, a
        negative padding, or an ``output_padding`` that is too large.

    Examples
    --------
    >>> x, weight = tensor.randn(20, 16, 50), tensor.randn(16, 33, 3)
    >>> nn.functional.conv_transpose1d(x, weight, stride=2).shape
    tensor.Size([20, 33, 101])
    """
    return _convolve(
        _CONV_TRANSPOSE1D, input, weight, bias, (stride, padding, output_padding, groups, dilation)
    )


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of images: what the derivative of :func:`conv2d` by its input is.

    Every element of the input adds the kernel, times itself, to a window of the result. Along each dimension the result has
    ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``.
    weight
        ``(C, F / groups, kernel_height, kernel_width)``, of the dtype and device of ``input``.
    bias
        ``(F,)``, added to all elements of the result's channels; none by default.
    stride
        Steps from one window of the result to the next: an integer, or 2 of them, one for each of height and width.
    padding
        Elements that are left out at both ends of the result: an integer, or 2 of them.
    output_padding
        Added to the size of the result at its end, as inputs of several sizes are convolved to the same: an integer, or 2 of them, below
        the stride or the dilation.
    groups
        Into how many groups the channels of input and result are divided.
    dilation
        Steps from one element of a window to the next: an integer, or 2 of them.

    Returns
    -------
    Tensor
        ``(N, F, ...)``, or ``(F, ...)`` for one image, of the dtype of ``input``; see :func:`conv2d` about precision.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    RuntimeError
        If dtypes or devices of the operands differ; if ``input`` has not the channels that ``weight`` and ``groups``
        ask for, ``weight`` another number of dimensions or channels that ``groups`` does not divide, or ``bias`` not
        one element for each output channel; if the result would be empty; for a stride or dilation below 1, a
        negative padding, or an ``output_padding`` that is too large.

    Examples
    --------
    >>> x, weight = tensor.randn(1, 4, 5, 5), tensor.randn(4, 8, 3, 3)
    >>> nn.functional.conv_transpose2d(x, weight, stride=2, padding=1, output_padding=1).shape
    tensor.Size([1, 8, 10, 10])
    """
    return _convolve(
        _CONV_TRANSPOSE2D, input, weight, bias, (stride, padding, output_padding, groups, dilation)
    )


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of volumes: what the derivative of :func:`conv3d` by its input is.

    Every element of the input adds the kernel, times itself, to a window of the result. Along each dimension the result has
    ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``.
    weight
        ``(C, F / groups, kernel_depth, kernel_height, kernel_width)``, of the dtype and device of ``input``.
    bias
        ``(F,)``, added to all elements of the result's channels; none by default.
    stride
        Steps from one window of the result to the next: an integer, or 3 of them, one for each of depth, height and width.
    padding
        Elements that are left out at both ends of the result: an integer, or 3 of them.
    output_padding
        Added to the size of the result at its end, as inputs of several sizes are convolved to the same: an integer, or 3 of them, below
        the stride or the dilation.
    groups
        Into how many groups the channels of input and result are divided.
    dilation
        Steps from one element of a window to the next: an integer, or 3 of them.

    Returns
    -------
    Tensor
        ``(N, F, ...)``, or ``(F, ...)`` for one volume, of the dtype of ``input``; see :func:`conv3d` about precision.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    RuntimeError
        If dtypes or devices of the operands differ; if ``input`` has not the channels that ``weight`` and ``groups``
        ask for, ``weight`` another number of dimensions or channels that ``groups`` does not divide, or ``bias`` not
        one element for each output channel; if the result would be empty; for a stride or dilation below 1, a
        negative padding, or an ``output_padding`` that is too large.

    Examples
    --------
    >>> x, weight = tensor.randn(1, 4, 4, 4, 4), tensor.randn(4, 2, 3, 3, 3)
    >>> nn.functional.conv_transpose3d(x, weight, stride=2).shape
    tensor.Size([1, 2, 9, 9, 9])
    """
    return _convolve(
        _CONV_TRANSPOSE3D, input, weight, bias, (stride, padding, output_padding, groups, dilation)
    )
