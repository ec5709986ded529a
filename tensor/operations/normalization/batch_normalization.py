"""Every channel with mean 0 and variance 1, of the batch or of what ran before: the operation.

Moments and sums of a channel are reductions, which take as many blocks as there is work; what is done to the
elements is one kernel each way. Channels may be anywhere but last or second only at the price of a copy.
"""

from __future__ import annotations

from math import nan, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import channel_normalization as elements
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import normalization as kernels
from nvrtc_kernels import reducers, reduction
from nvrtc_kernels.channel_normalization import Channels
from nvrtc_kernels.normalization import statistics_type
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core import layout as layouts
from tensor.core.base import empty, maker
from tensor.core.host.memory import empty_array
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.scratch import launch_reduction

from . import batch_normalization_on_host as on_planes
from .row_normalization import in_compute_dtype, tensor_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]

#: A running average, and what comes in with a factor: that makes a variance unbiased.
_AVERAGE = Pointwise("running_average", "a + c * (b * d - a)", lambda a, b, c, d: a + c * (b * d - a))


def _others(layout: Layout) -> tuple[int, ...]:
    return tuple(d for d in range(len(layout.shape)) if d != 1)


def _along(layout: Layout) -> tuple[int, ...]:
    """Strides of a vector of channels, stretched over the elements."""
    return tuple(int(d == 1) for d in range(len(layout.shape)))


def _per_channel(array: Array, layout: Layout) -> Array:
    """A vector of channels as it broadcasts over the elements."""
    return array.reshape([-1 if d == 1 else 1 for d in range(len(layout.shape))])


def _moments_plan(layout: Layout) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """What finds them for tensors of ``layout``.

    ``device_state.plans[operation, input](input)``: variance (biased) and mean of each channel.
    """
    statistics_dtype = statistics_type(layout.dtype)
    out = layouts.contiguous[(layout.shape[1],), statistics_dtype, layout.device_state]
    axes = _others(layout)
    if not layout.device_state.is_cuda:
        # Of nothing, 0 / 0 is NaN without the warning that mean() gives.
        count = prod(layout.shape[d] for d in axes)

        def on_host(input: Tensor) -> tuple[Tensor, Tensor]:
            array = in_compute_dtype(input)
            with np.errstate(all="ignore"):
                planes = on_planes.planes(array)
                if planes is not None:
                    variance, mean = on_planes.moments(planes)
                    return tensor_of(variance, out), tensor_of(mean, out)
                mean = array.sum(axes) / count
                away = array - _per_channel(mean, layout)
                np.multiply(away, away, out=away)
                return tensor_of(away.sum(axes) / count, out), tensor_of(mean, out)

        return on_host
    device_state = layout.device_state
    steps = _along(layout), statistics_dtype
    argument = layout.strides, layout.dtype
    launch = reduction.plan(
        device_state.native, reducers.VAR_MEAN, layout.shape, axes, [steps, steps], [argument]
    )

    make = maker(out)

    def on_device(input: Tensor) -> tuple[Tensor, Tensor]:
        variance, mean = make(), make()
        launch_reduction(device_state, launch, variance._address, mean._address, input._address, 0.0)
        return variance, mean

    return on_device


def _channels(layout: Layout) -> Channels | None:
    """Memory of a tensor of shape (N, C, ...) as kernels see it; ``None`` where it has another order, or gaps."""
    shape = layout.shape
    inner = prod(shape[2:])
    if layout.contiguous:
        return Channels(shape[0], shape[1], inner)
    last = strides_of.contiguous_strides((shape[0], *shape[2:], shape[1]))
    if layout.strides == (last[0], last[-1], *last[1:-1]):
        return Channels(shape[0] * inner, shape[1], 1)
    return None


def packed(x: Tensor) -> Tensor:
    """``x`` as kernels take it."""
    layout = x._layout
    if not layout.device_state.is_cuda or layout.contiguous or _channels(layout) is not None:
        return x
    return x.detach().contiguous()


def laid_out_like(x: Tensor, layout: Layout) -> Tensor:
    """``x`` with the strides of ``layout``."""
    if x._layout.strides == layout.strides or not layout.device_state.is_cuda:
        return x
    result: Tensor = empty(layout.with_dtype(x._layout.dtype))
    return result.copy_(x)


def _apply_plan(
    layout: Layout, mean: Layout, var: Layout, weight: Layout | None, bias: Layout | None
) -> Callable[..., Tensor]:
    """What normalises tensors of ``layout``.

    ``device_state.plans[operation, input, mean, variance, weight, bias]``: ``run(x, mean, var, weight, bias, eps)``.
    """
    out = layout.as_dense()
    if not layout.device_state.is_cuda:

        def on_host(
            x: Tensor, mean: Tensor, var: Tensor, w: Tensor | None, b: Tensor | None, eps: float
        ) -> Tensor:
            array = in_compute_dtype(x)
            with np.errstate(all="ignore"):
                variance = in_compute_dtype(var)
                scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
                if w is not None:
                    scale = scale * in_compute_dtype(w)
                planes = on_planes.planes(array)
                if planes is not None:
                    output = empty_array(array.shape, array.dtype)
                    element_dtype, into = array.dtype, output.reshape(planes.shape)
                    center, scale = in_compute_dtype(mean).astype(element_dtype), scale.astype(element_dtype)
                    shift = None if b is None else in_compute_dtype(b).astype(element_dtype)
                    on_planes.apply(planes, center, scale, shift, into)
                    return of_layout(output, out)
                result = (array - _per_channel(in_compute_dtype(mean), layout)) * _per_channel(scale, layout)
                if b is not None:
                    result += _per_channel(in_compute_dtype(b), layout)
            return of_layout(result.astype(array.dtype, copy=False), out)

        return on_host
    device_state = layout.device_state
    sizes = _channels(layout)
    if sizes is None or not layout.numel:
        return lambda *_: empty(out)
    argument = weight or bias
    dtype = None if argument is None else argument.dtype
    run = elements.plan(device_state.native, sizes, layout.dtype, var.dtype, dtype)
    make, local = maker(layout), device_state.local

    def on_device(
        x: Tensor, mean: Tensor, var: Tensor, w: Tensor | None, b: Tensor | None, eps: float
    ) -> Tensor:
        stream = local.stream
        result = make(stream)
        argument = (x, mean, var, w, b)
        addresses = [0 if each is None else each._storage.address + each._offset for each in argument]
        run(stream.handle, eps, *addresses, result._storage.address)
        return result

    return on_device


def of_layout(array: Array, out: Layout) -> Tensor:
    """A CPU tensor of a dense layout with the elements of ``array``, which nobody else has."""
    if out.contiguous:
        return tensor_of(np.ascontiguousarray(array), out, fresh=True)
    result = empty(out)
    result._writable[...] = tensor_of(
        np.ascontiguousarray(array), layouts.contiguous[out.shape, out.dtype, out.device_state]
    )._host
    return result


def _sums_plan(
    grad: Layout, layout: Layout, mean: Layout, var: Layout
) -> Callable[..., tuple[Tensor, Tensor]]:
    """What sums for tensors of these layouts.

    ``device_state.plans[operation, grad, input, mean, var](grad, input, mean, var, eps)``.

    Sums over each channel of the gradient, and of it times the normalised input.
    """
    statistics_dtype = statistics_type(layout.dtype)
    out = layouts.contiguous[(layout.shape[1],), statistics_dtype, layout.device_state]
    axes, along = _others(layout), _along(layout)
    if not layout.device_state.is_cuda:

        def on_host(grad: Tensor, x: Tensor, mean: Tensor, var: Tensor, eps: float) -> tuple[Tensor, Tensor]:
            g = in_compute_dtype(grad)
            with np.errstate(all="ignore"):
                array = in_compute_dtype(x)
                value, planes = on_planes.planes(g), on_planes.planes(array)
                if value is not None and planes is not None:
                    center, scale = _center_and_scale(array, mean, var, eps)
                    total = on_planes.sums(value, planes, center, scale)
                    return tensor_of(total[0], out), tensor_of(total[1], out)
                products = g * _normalized(x, mean, var, eps)
                total = g.sum(axes, dtype=g.dtype), products.sum(axes, dtype=products.dtype)
            return tensor_of(total[0], out), tensor_of(total[1], out)

        return on_host
    device_state = layout.device_state
    argument = [
        (grad.strides, grad.dtype), (layout.strides, layout.dtype), (along, mean.dtype), (along, var.dtype),
    ]  # fmt: skip
    launch = reduction.plan(
        device_state.native,
        kernels.BATCH_GRADIENTS,
        layout.shape,
        axes,
        [(along, statistics_dtype)] * 2,
        argument,
    )

    make = maker(out)

    def on_device(*operands: Any) -> tuple[Tensor, Tensor]:
        *tensors, eps = operands
        total, products = make(), make()
        addresses = [x._storage.address + x._offset for x in (total, products, *tensors)]
        launch_reduction(device_state, launch, *addresses, eps)
        return total, products

    return on_device


def _center_and_scale(array: Array, mean: Tensor, var: Tensor, eps: float) -> tuple[Array, Array]:
    """Mean and reciprocal of the standard deviation, in the type of ``array``."""
    variance = in_compute_dtype(var)
    scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
    return in_compute_dtype(mean).astype(array.dtype, copy=False), scale.astype(array.dtype, copy=False)


def _normalized(x: Tensor, mean: Tensor, var: Tensor, eps: float) -> Array:
    array, variance = in_compute_dtype(x), in_compute_dtype(var)
    scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
    result = (array - _per_channel(in_compute_dtype(mean), x._layout)) * _per_channel(scale, x._layout)
    return result.astype(array.dtype, copy=False)


def _input_gradient_plan(
    training: bool, grad: Layout, layout: Layout, mean: Layout, var: Layout, weight: Layout | None
) -> Callable[..., Tensor]:
    """What makes the gradient for tensors of these layouts.

    ``device_state.plans[operation, training, grad, input, mean, var, weight]`` is
    ``run(grad, input, mean, var, weight, sums, eps)``; ``sums`` are those of ``SUMS``, in training.
    """
    out = layout.as_dense()
    share = 1 / max(prod(layout.shape[d] for d in _others(layout)), 1)
    if not layout.device_state.is_cuda:
        return _input_gradient_on_host(layout, out, share, training)
    device_state = layout.device_state
    sizes = _channels(layout)
    if sizes is None or not layout.numel:
        return lambda *_: empty(out)
    dtype = None if weight is None else weight.dtype
    run = elements.plan_backward(
        device_state.native, sizes, grad.dtype, layout.dtype, var.dtype, dtype, training=training
    )
    make, local = maker(layout), device_state.local

    def on_device(
        grad: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, sums: Any, eps: float
    ) -> Tensor:
        stream = local.stream
        result = make(stream)
        argument = (grad, x, mean, var, weight, *(sums or (None, None)))
        addresses = [0 if each is None else each._storage.address + each._offset for each in argument]
        run(stream.handle, eps, share, *addresses, result._storage.address)
        return result

    return on_device


def _input_gradient_on_host(
    layout: Layout, out: Layout, share: float, training: bool
) -> Callable[..., Tensor]:
    def on_host(
        grad: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, sums: Any, eps: float
    ) -> Tensor:
        g = in_compute_dtype(grad)
        with np.errstate(all="ignore"):
            variance = in_compute_dtype(var)
            scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
            if weight is not None:
                scale = scale * in_compute_dtype(weight)
            array = in_compute_dtype(x)
            argument, planes = on_planes.planes(g), on_planes.planes(array)
            if training and argument is not None and planes is not None:
                output = empty_array(array.shape, array.dtype)
                center, rstd = _center_and_scale(array, mean, var, eps)
                total, products = (in_compute_dtype(each) * array.dtype.type(share) for each in sums)
                scale, into = scale.astype(array.dtype, copy=False), output.reshape(planes.shape)
                on_planes.input_gradient(argument, planes, center, products * rstd, total, scale, into)
                return of_layout(output, out)
            if training:
                total, products = (
                    _per_channel(in_compute_dtype(each) * each._host.dtype.type(share), layout)
                    for each in sums
                )
                g = g - total - _normalized(x, mean, var, eps) * products
            result = g * _per_channel(scale, layout)
        return of_layout(result.astype(in_compute_dtype(x).dtype, copy=False), out)

    return on_host


MOMENTS, APPLY, SUMS, INPUT_GRADIENT = (
    planned(_moments_plan),
    planned(_apply_plan),
    planned(_sums_plan),
    planned(_input_gradient_plan),
)


def _layout(x: Tensor | None) -> Layout | None:
    return None if x is None else x._layout


def _plain(x: Tensor | None) -> Tensor | None:
    """A vector as kernels take it."""
    return x if x is None or x._layout.contiguous else x.contiguous()


def _as_dtype(x: Tensor, dtype: dtype) -> Tensor:
    return x if x._layout.dtype is dtype else x.to(dtype)


def normalize_channels(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """The normalised input of shape (N, C, ...), recorded. In training running averages are updated."""
    argument = packed(input)
    layout = argument._layout
    plans = layout.device_state.plans
    if training:
        var, mean = plans[MOMENTS, layout](argument)
        with unrecorded():
            channels = layout.shape[1]
            count = layout.numel // channels if channels else 0
            update_running(running_mean, running_var, mean, var, momentum, count)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean, var = running_mean.contiguous(), running_var.contiguous()
        mean = _as_dtype(mean, var._layout.dtype)
    w, b = _plain(weight), _plain(bias)
    if w is not None and b is not None:
        b = _as_dtype(b, w._layout.dtype)
    result: Tensor = plans[APPLY, layout, mean._layout, var._layout, _layout(w), _layout(b)](
        argument, mean, var, w, b, eps
    )
    if training:
        mean, var = mean.detach(), var.detach()
    _FORMULA.record((result,), (input, weight, bias), (mean, var), (_layout(bias), eps, training))
    return result


def update_running(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    var: Tensor,
    momentum: float,
    count: int,
) -> None:
    """Move running averages towards the moments of a batch; that of the variance is unbiased.

    A batch of ``count`` 0 has no moments, and leaves them as they are.
    """
    if not count:
        return
    if running_mean is not None:
        _AVERAGE.in_place(running_mean, mean, momentum, 1.0)
    if running_var is not None:
        _AVERAGE.in_place(running_var, var, momentum, count / (count - 1) if count > 1 else nan)


def _gradients(
    expected: tuple[bool, ...],
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    var: Tensor,
    bias: Layout | None,
    eps: float,
    training: bool,
) -> tuple[Tensor | None, ...]:
    input = packed(input)
    grad = laid_out_like(grad, input._layout)
    plans = input._layout.device_state.plans
    layouts_of = grad._layout, input._layout, mean._layout, var._layout
    sums = None
    if training or expected[1] or expected[2]:
        sums = plans[(SUMS, *layouts_of)](grad, input, mean, var, eps)
    result: list[Tensor | None] = [None, None, None]
    if expected[0]:
        w = _plain(weight)
        run = plans[(INPUT_GRADIENT, training, *layouts_of, _layout(w))]
        result[0] = run(grad, input, mean, var, w, sums, eps)
    if expected[1] and weight is not None and sums is not None:
        result[1] = _as_dtype(sums[1], weight._layout.dtype)
    if expected[2] and bias is not None and sums is not None:
        result[2] = _as_dtype(sums[0], bias.dtype)
    return tuple(result)


def _composed(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    _: Layout | None,
    eps: float,
    training: bool,
) -> Tensor:
    """The same by operations that have derivatives themselves."""
    layout = input._layout
    compute_dtype = statistics_type(layout.dtype)
    axes = _others(layout)
    shape = [-1 if d == 1 else 1 for d in range(len(layout.shape))]
    x = input.to(compute_dtype)
    if training:
        x = x - x.mean(axes, keepdim=True)
        x = x * ((x * x).mean(axes, keepdim=True) + eps).rsqrt()
    else:
        x = (x - mean.to(compute_dtype).reshape(shape)) * (var.to(compute_dtype).reshape(shape) + eps).rsqrt()
    if weight is not None:
        x = x * weight.to(compute_dtype).reshape(shape)
    if bias is not None:
        x = x + bias.to(compute_dtype).reshape(shape)
    return x.to(layout.dtype)


_FORMULA = BackwardFormula(
    "NativeBatchNormBackward0",
    "input weight bias mean var",
    joint=Derivative(_gradients, needs="input weight mean var"),
    composition=Composition(_composed, needs="input weight bias mean var"),
)
