"""Rows with mean 0 and variance 1, or mean square 1, times a weight and plus a bias: the operations.

What users call is in :mod:`.normalization`. The input is seen as ``(rows, channels, inner)``, as
:class:`nvrtc_kernels.normalization.Rows` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import normalization as kernels
from nvrtc_kernels.layouts import contiguous_strides
from nvrtc_kernels.reduction_groups import Task
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core import layout as layouts
from tensor.core.base import maker, view_of, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.host.memory import empty_array
from tensor.core.memory_format import contiguous_format
from tensor.core.plans import planned
from tensor.core.plans.copies import formatted, host_conversion
from tensor.operations.creation.copies import contiguous
from tensor.operations.scratch import launch, launch_reduction

from . import row_normalization_on_host as on_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from nvrtc_kernels.normalization import Rows
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def in_compute_dtype(input: Tensor) -> Array:
    """Elements of a CPU tensor in the type that is computed in; not to be written."""
    dtype = input._layout.dtype
    compute_dtype = rules.computes_in(dtype)
    if dtype is compute_dtype:
        return input._host
    result = empty_array(input._layout.shape, compute_dtype.numpy)
    host_conversion(dtype, compute_dtype)(result, input._host)
    return result


def tensor_of(array: Array, layout: Layout, *, fresh: bool = False) -> Tensor:
    """A CPU tensor of ``layout`` with the elements of an array of the type that is computed in.

    Parameters
    ----------
    array : array
        Its memory is the tensor's where it owns it.
    layout : Layout
        Of the tensor.
    fresh : bool
        Whether nobody else has the memory, though the array does not own it, as that of
        :func:`tensor.core.host.memory.empty_array` does not.
    """
    array = np.asarray(array)
    own = fresh or array.flags.owndata
    if array.dtype != layout.dtype.numpy or not array.flags.c_contiguous or not own:
        held = empty_array(array.shape, layout.dtype.numpy)
        host_conversion(rules.computes_in(layout.dtype), layout.dtype)(held, array)
        array = held
    return wrap(array.reshape(layout.shape), layout)


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x._address


def _forward_plan(
    layout: Layout, weight: dtype | None, rows: Rows, cast_to: dtype | None = None
) -> Callable[..., tuple[Tensor, Tensor | None, Tensor]]:
    """What normalises contiguous tensors of ``layout``.

    ``device_state.plans[operation, input, weight's dtype, rows]``: ``run(input, weight, bias, eps)``. A further dtype in the
    key is that of the result, in place of the input's.

    It gives the result, the means and the scales; without centring no means.
    """
    result_layout = layout if cast_to is None else layout.with_dtype(cast_to)
    statistics_layout = layouts.contiguous[
        (rows.rows,), kernels.statistics_type(layout.dtype), layout.device_state
    ]
    center = rows.center
    if not layout.device_state.is_cuda:
        return _on_host(result_layout, statistics_layout, rows)
    device_state = layout.device_state
    run = kernels.plan(device_state.native, rows, layout.dtype, weight, result_layout.dtype)
    make, make_statistics, local = maker(result_layout), maker(statistics_layout), device_state.local

    def on_device(
        input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        stream = local.stream
        result = make(stream)
        mean = make_statistics(stream) if center else None
        scale = make_statistics(stream)
        run(
            stream.handle, eps, input._address, _address(weight), _address(bias), result._address,
            _address(mean), scale._address,
        )  # fmt: skip
        return result, mean, scale

    return on_device


def _on_host(
    layout: Layout, statistics_layout: Layout, rows: Rows
) -> Callable[..., tuple[Tensor, Tensor | None, Tensor]]:
    def forward(
        input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        array = _in_rows(input, rows)
        out = empty_array(array.shape, array.dtype)
        means, scales = on_host.forward(array, _widened(weight), _widened(bias), eps, rows, out)
        mean = None if means is None else tensor_of(means, statistics_layout)
        return tensor_of(out, layout, fresh=True), mean, tensor_of(scales, statistics_layout)

    return forward


def _in_rows(x: Tensor, rows: Rows) -> Array:
    return in_compute_dtype(x).reshape(rows.rows, rows.n)


def _widened(x: Tensor | None) -> Array | None:
    return None if x is None else in_compute_dtype(x).reshape(-1)


def _gradients_on_host(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    scale: Tensor,
    rows: Rows,
    out: Array | None,
    sums: bool,
) -> tuple[Array, Array] | None:
    operands = _in_rows(grad, rows), _in_rows(input, rows), _widened(weight), _widened(mean)
    return on_host.gradients(*operands, in_compute_dtype(scale).reshape(-1), rows, out, sums)


def _backward_plan(grad: Layout, layout: Layout, weight: dtype | None, rows: Rows) -> Callable[..., Tensor]:
    """What makes the gradient for contiguous tensors of these layouts.

    ``device_state.plans[operation, grad, input, weight's dtype, rows]``: ``run(grad, input, weight, mean, scale)``.

    It gives the gradient of the input.
    """
    if not layout.device_state.is_cuda:

        def backward(
            grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor | None, scale: Tensor
        ) -> Tensor:
            out = empty_array((rows.rows, rows.n), rules.computes_in(layout.dtype).numpy)
            _gradients_on_host(grad, input, weight, mean, scale, rows, out, sums=False)
            return tensor_of(out, layout, fresh=True)

        return backward
    device_state = layout.device_state
    run = kernels.plan_backward(device_state.native, rows, grad.dtype, layout.dtype, weight)
    make, local = maker(layout), device_state.local

    def on_device(
        grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor | None, scale: Tensor
    ) -> Tensor:
        stream = local.stream
        result = make(stream)
        run(
            stream.handle, grad._address, input._address, _address(weight), _address(mean),
            scale._address, result._address,
        )  # fmt: skip
        return result

    return on_device


def _weight_gradients_plan(
    grad: Layout, layout: Layout, dtype: dtype, rows: Rows
) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """What sums over the rows.

    ``device_state.plans[operation, grad, input, weight's dtype, rows]``: ``run(grad, input, mean, scale)``.

    It gives the gradients of weight and bias, of shape ``(groups * channels,)``; that of the bias is ``None``
    where no means are taken away.
    """
    out = layouts.contiguous[(rows.groups * rows.channels,), dtype, layout.device_state]
    if not layout.device_state.is_cuda:

        def summed(
            grad: Tensor, input: Tensor, mean: Tensor | None, scale: Tensor
        ) -> tuple[Tensor, Tensor | None]:
            sums = _gradients_on_host(grad, input, None, mean, scale, rows, None, sums=True)
            assert sums is not None
            return tensor_of(sums[0], out), tensor_of(sums[1], out) if rows.center else None

        return summed
    device_state = layout.device_state
    sums = weight_gradients_task(grad, layout, dtype, rows).alone(device_state.native)

    make = maker(out)

    def on_device(
        grad: Tensor, input: Tensor, mean: Tensor | None, scale: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        result = [make() for _ in range(1 + rows.center)]
        operands = [x._address for x in (*result, grad, input, mean, scale) if x is not None]
        launch_reduction(device_state, sums, *operands)
        return result[0], result[1] if rows.center else None

    return on_device


def weight_gradients_task(grad: Layout, layout: Layout, dtype: dtype, rows: Rows) -> Task:
    """What a device is asked to do for the sums over the rows, for layouts as those of their plan's key."""
    shape = rows.rows // rows.groups, rows.groups, rows.channels, rows.inner
    steps = contiguous_strides(shape)
    statistics = (rows.groups, 1, 0, 0), kernels.statistics_type(layout.dtype)
    inputs = (steps, grad.dtype), (steps, layout.dtype), *([statistics] * (1 + rows.center))
    return Task(
        kernels.WEIGHT_GRADIENTS if rows.center else kernels.RMS_WEIGHT_GRADIENT,
        shape,
        (0, 3),
        (((0, rows.channels, 1, 0), dtype),) * (1 + rows.center),
        inputs,
    )


def _gradients_plan(
    grad: Layout, layout: Layout, weight: dtype | None, dtype: dtype, rows: Rows
) -> Callable[..., tuple[Tensor, Tensor, Tensor | None]] | None:
    """What makes the gradients of input, weight and bias of contiguous tensors at once, where that is possible.

    ``device_state.plans[operation, grad, input, weight's dtype, dtype, rows]``: ``run(grad, input, weight, mean, scale)``.
    """
    device_state: Any = layout.device_state
    if not device_state.is_cuda:
        summed = layouts.contiguous[(rows.groups * rows.channels,), dtype, device_state]

        def at_once(
            grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor | None, scale: Tensor
        ) -> tuple[Tensor, Tensor, Tensor | None]:
            out = empty_array((rows.rows, rows.n), rules.computes_in(layout.dtype).numpy)
            sums = _gradients_on_host(grad, input, weight, mean, scale, rows, out, sums=True)
            assert sums is not None
            of_bias = tensor_of(sums[1], summed) if rows.center else None
            return tensor_of(out, layout, fresh=True), tensor_of(sums[0], summed), of_bias

        return at_once
    plan = kernels.plan_gradients(device_state.native, rows, grad.dtype, layout.dtype, weight, dtype)
    if plan is None:
        return None
    out = layouts.contiguous[(rows.channels,), dtype, device_state]
    make, make_sum = maker(layout), maker(out)

    def on_device(
        grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor | None, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        result, of_weight = make(), make_sum()
        of_bias = make_sum() if rows.center else None
        sums = [of_weight._address] if of_bias is None else [of_weight._address, of_bias._address]
        launch(
            device_state, plan, grad._address, input._address, _address(weight), _address(mean),
            scale._address, result._address, *sums,
        )  # fmt: skip
        return result, of_weight, of_bias

    return on_device


FORWARD, BACKWARD, WEIGHT_GRADIENTS, GRADIENTS = (
    planned(_forward_plan),
    planned(_backward_plan),
    planned(_weight_gradients_plan),
    planned(_gradients_plan),
)


def normalize(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rows: Rows,
    formula: BackwardFormula,
    form: memory_format = contiguous_format,
) -> Tensor:
    """The normalised input in a memory format, recorded."""
    plain = contiguous(input)
    scale_by = None if weight is None else contiguous(weight)
    shift_by = None if bias is None else contiguous(bias)
    dtype = None
    if scale_by is not None:
        dtype = scale_by._layout.dtype
        if shift_by is not None and shift_by._layout.dtype is not dtype:
            shift_by = shift_by.to(dtype)
    elif shift_by is not None:
        dtype = shift_by._layout.dtype
    run = plain._layout.device_state.plans[FORWARD, plain._layout, dtype, rows]
    result, mean, scale = run(plain, scale_by, shift_by, eps)
    result = formatted(result, form)
    like = None if bias is None else bias._layout
    formula.record((result,), (input, weight, bias), (mean, scale), (like, eps, rows))
    return result


def _gradients(
    expected: tuple[bool, ...],
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    scale: Tensor,
    bias: Layout | None,
    eps: float,
    rows: Rows,
) -> tuple[Tensor | None, ...]:
    plain, grad = contiguous(input), contiguous(grad)
    plans = plain._layout.device_state.plans
    result: list[Tensor | None] = [None, None, None]
    # Shapes are those that users gave; sums are one for each channel.
    likes = None if weight is None else weight._layout, bias
    factor = None if weight is None else contiguous(weight)
    dtype = None if factor is None else factor._layout.dtype
    sums: Sequence[Any] | None = None
    if expected[0] and (expected[1] or expected[2]):
        sums_dtype = next(like.dtype for like in likes if like is not None)
        at_once = plans[GRADIENTS, grad._layout, plain._layout, dtype, sums_dtype, rows]
        if at_once is not None:
            result[0], *sums = at_once(grad, plain, factor, mean, scale)
    if expected[0] and result[0] is None:
        run = plans[BACKWARD, grad._layout, plain._layout, dtype, rows]
        result[0] = run(grad, plain, factor, mean, scale)
    if expected[1] or expected[2]:
        if sums is None:
            sums_dtype = next(like.dtype for like in likes if like is not None)
            run = plans[WEIGHT_GRADIENTS, grad._layout, plain._layout, sums_dtype, rows]
            sums = run(grad, plain, mean, scale)
        for position, like in enumerate(likes):
            if expected[position + 1] and like is not None:
                # A tensor of its own, and no view, so that it is handed on without a copy.
                each = sums[position]
                shape = layouts.contiguous[like.shape, dtype, plain._layout.device_state]
                result[position + 1] = view_of(each._storage, shape, each._offset)
    return tuple(result)


def _composed(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, _: Layout | None, eps: float, rows: Rows
) -> Tensor:
    """The same by operations that have derivatives themselves."""
    compute_dtype = kernels.statistics_type(input._layout.dtype)
    x = input.to(compute_dtype).reshape(rows.rows // rows.groups, rows.groups, rows.channels, rows.inner)
    if rows.center:
        x = x - x.mean((2, 3), keepdim=True)
    x = x * ((x * x).mean((2, 3), keepdim=True) + eps).rsqrt()
    if weight is not None:
        x = x * weight.to(compute_dtype).reshape(1, rows.groups, rows.channels, 1)
    if bias is not None:
        x = x + bias.to(compute_dtype).reshape(1, rows.groups, rows.channels, 1)
    return x.reshape(input._layout.shape).to(input._layout.dtype)


LAYER_NORM = BackwardFormula(
    "NativeLayerNormBackward0",
    "input weight bias mean scale",
    joint=Derivative(_gradients, needs="input weight mean scale"),
    composition=Composition(_composed, needs="input weight bias"),
)
RMS_NORM = LAYER_NORM.named("FusedRmsNormBackward0")
GROUP_NORM = LAYER_NORM.named("NativeGroupNormBackward0")
#: Of an instance norm, which PyTorch computes as a batch norm.
INSTANCE_NORM = LAYER_NORM.named("NativeBatchNormBackward0")
