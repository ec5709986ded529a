"""Random numbers whose parameters are tensors: ``normal``, ``bernoulli``, ``multinomial``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes, pointwise
from nvrtc_kernels.layouts import broadcast_shapes
from tensor.core import layout as layouts
from tensor.core.arguments import as_int64, two_devices
from tensor.core.base import TensorBase, check_tensor
from tensor.core.creation_arguments import sequence_of_sizes, shaped
from tensor.core.devices.state import CudaState
from tensor.core.modes.grad_mode import no_grad
from tensor.core.plans import planned
from tensor.core.plans.steps import host_step, recorders
from tensor.operations.creation.conversions import cpu_, to
from tensor.operations.definition import operation
from tensor.operations.shapes import views

from . import distributions, parameters
from .captured import refuse_numbers_of_the_host
from .creation import drawn, from_host, layout_of, target
from .fills import apply_probabilities, bernoulli_, on_same_device, source
from .history import record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .generator import Generator

# The products are rounded before they are added, as the host does it.
_EXACTLY = ("--fmad=false",)
_MOST_CATEGORIES = 1 << 24


def _scale_plan(z: Layout, std: Layout) -> Callable[[Tensor, Tensor, float], None]:
    """How to do it for a layout of numbers, and one of standard deviations.

    ``z * std + shift`` in place: ``device_state.plans[SCALE, z, std]``.
    """
    device_state = z.device_state
    if not isinstance(device_state, CudaState):
        return _scale_on_host
    code = "d" if z.dtype is dtypes.float64 else "f"
    expression = pointwise.Expression("normal_scale", "a * b + shift", (("shift", code),), options=_EXACTLY)
    sides = (z.strides, z.dtype), (std.strides, std.dtype)
    launch = pointwise.plan(device_state.native, expression, z.shape, sides[0], *sides)
    local = device_state.local

    def run(target: Tensor, by: Tensor, shift: float) -> None:
        address = target._address
        launch(local.stream.handle, address, address, by._address, shift)

    return run


def _shift_plan(z: Layout, mean: Layout) -> Callable[[Tensor, Tensor], None]:
    """How to do it for a layout of numbers, and one of means.

    ``z + mean`` in place: ``device_state.plans[SHIFT, z, mean]``.
    """
    device_state = z.device_state
    if not isinstance(device_state, CudaState):
        return _shift_on_host
    sides = (z.strides, z.dtype), (mean.strides, mean.dtype)
    expression = pointwise.Expression("normal_shift", "a + b")
    launch = pointwise.plan(device_state.native, expression, z.shape, sides[0], *sides)
    local = device_state.local

    def run(target: Tensor, by: Tensor) -> None:
        address = target._address
        launch(local.stream.handle, address, address, by._address)

    return run


def _compute_array(numbers: Any) -> Any:
    """Half precision is computed in single precision."""
    return numbers if numbers.dtype.kind == "f" and numbers.itemsize >= 4 else numbers.astype(np.float32)


def _scale_on_host(target: Tensor, by: Tensor, shift: float) -> None:
    z, factors = target._writable, _compute_array(by._host)
    with np.errstate(over="ignore", invalid="ignore"):
        z[...] = _compute_array(z) * factors + factors.dtype.type(shift)


def _shift_on_host(target: Tensor, by: Tensor) -> None:
    z = target._writable
    with np.errstate(over="ignore", invalid="ignore"):
        z[...] = _compute_array(z) + _compute_array(by._host)


SCALE, SHIFT = planned(_scale_plan), planned(_shift_plan)


@operation(method=False)
def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers: ``normal(mean, std, size)`` of numbers, or ``normal(mean, std)`` with a tensor.

    Parameters
    ----------
    mean, std : float or Tensor
        Mean and standard deviation of each number. Tensors broadcast; the result has the dtype and device of
        the mean, or of the standard deviation where the mean is a number.
    size : sequence of int
        Shape, where both are numbers; ``dtype``, ``device``, ``requires_grad`` and ``pin_memory`` are for that
        form too.

    Raises
    ------
    RuntimeError
        If a standard deviation is negative, NaN or complex (a CUDA tensor of them is waited for), or tensors are on
        different devices.
    NotImplementedError
        For dtypes that are neither floating point nor complex.
    TypeError
        If neither is a tensor and ``size`` is missing, or one is and there is a ``size``.

    Examples
    --------
    >>> tensor.normal(tensor.tensor([1.0, 2.0]), 0.0)
    tensor([1., 2.])
    >>> tensor.normal(0.0, 1.0, (2, 3)).shape
    tensor.Size([2, 3])
    """
    tensors = [each for each in (mean, std) if isinstance(each, TensorBase)]
    if not tensors:
        if size is None:
            raise TypeError("normal() of two numbers needs a size: normal(mean, std, size)")
        result = layout_of(sequence_of_sizes(size, "normal"), out, dtype, device)
        draw = parameters.normal(result.dtype, mean, std)
        return drawn("normal", draw, result, generator, requires_grad, out, pin_memory)
    if size is not None or dtype is not None or device is not None or requires_grad or pin_memory:
        raise TypeError(
            "normal() of tensors takes their shape, dtype and device: leave out size, dtype, device, "
            "requires_grad and pin_memory"
        )
    first: Any = tensors[0]
    shape, element_dtype, device_state = first._layout.shape, first._layout.dtype, first._layout.device_state
    if len(tensors) == 2:
        shape = broadcast_shapes(shape, tensors[1]._layout.shape)
    numeric = std if not isinstance(std, TensorBase) else 1.0
    draw = parameters.normal(element_dtype, 0.0, numeric)
    given_std = std
    if isinstance(std, TensorBase):
        if std._layout.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        std = on_same_device(std, device_state, "normal")
        # Waits for a CUDA tensor, as PyTorch does: a failed assertion of the kernel would lose the context.
        if std._layout.numel:
            _check_deviations(std.detach())
    shift = 0.0 if isinstance(mean, TensorBase) else parameters.number(mean, "normal", "mean")
    result = layout_of(shape, out, element_dtype, device_state.device)
    output = drawn("normal", draw, result, generator, False, out, False)
    with no_grad():
        _affine(output, mean, std, shift)
    form = 3 if len(tensors) == 2 else 1 if isinstance(mean, TensorBase) else 2
    record(output, f"NormalBackward{form}", mean, given_std)
    return output


@host_step
def _check_deviations(std: Tensor) -> None:
    if not (std >= 0).all().item():
        raise RuntimeError(
            f"normal expects all elements of std >= 0.0, but the smallest is {std.min().item()}"
        )


def _affine(result: Tensor, mean: float | Tensor, std: float | Tensor, shift: float) -> None:
    """Multiply by ``std`` and add ``mean`` where they are tensors, and ``shift``."""
    dtype, plans = result._layout.dtype, result._layout.device_state.plans
    shape = result._layout.shape
    parts = views.view_as_real(result) if dtype.is_complex else result
    if isinstance(std, TensorBase):
        factors = views.expand(to(std, dtype.to_real()), shape)
        if dtype.is_complex:
            factors = views.expand(views.unsqueeze(factors, -1), (*shape, 2))
        plans[SCALE, parts._layout, factors._layout](parts, factors, shift)
    if isinstance(mean, TensorBase):
        means = views.expand(to(mean, dtype), shape)
        if dtype.is_complex:
            means = views.view_as_real(means)
        plans[SHIFT, parts._layout, means._layout](parts, means)


@operation()
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Ones with the probabilities in ``input``, else zeros; with ``p``, all with that probability.

    Parameters
    ----------
    input : Tensor
        Floating point probabilities; with ``p`` only its shape, dtype and device matter.

    Returns
    -------
    Tensor
        Row-major, of ``input``'s dtype.

    Raises
    ------
    RuntimeError
        If a probability is not in ``[0, 1]`` (on a CUDA device a failed assertion of the kernel, which a later
        call raises).
    NotImplementedError
        For dtypes without such probabilities.

    Examples
    --------
    >>> tensor.bernoulli(tensor.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    layout = input._layout
    if isinstance(p, TensorBase):
        raise TypeError("bernoulli(): argument 'p' must be float, not Tensor; probabilities go into input")
    if out is None:
        result = target(layout.as_contiguous(), None)
    else:
        check_tensor(out, "bernoulli", "out")
        if out._layout.device_state is not layout.device_state:
            raise two_devices("bernoulli", layout.device, out._layout.device)
        result = target(layout_of(layout.shape, out, None, None), out)
    if p is not None:
        return bernoulli_(result, p, generator=generator)
    apply_probabilities(result, input, generator)
    record(result, "BernoulliBackward0", input)
    return result


@operation()
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn from each row with probabilities in proportion to the row's weights.

    The host draws: for a CUDA tensor it waits until the weights are computed.

    Parameters
    ----------
    input : Tensor
        Floating point weights, shape ``(categories,)`` or ``(rows, categories)``, none negative.
    num_samples : int
        Indices per row.
    replacement : bool
        Whether an index may be drawn more than once. Without it a row needs as many weights that are not 0.

    Returns
    -------
    Tensor
        Shape ``(num_samples,)`` or ``(rows, num_samples)``, int64.

    Raises
    ------
    RuntimeError
        For other shapes and dtypes, a negative or infinite weight, a row that has not enough positive ones.

    Examples
    --------
    >>> tensor.multinomial(tensor.tensor([0.0, 1.0, 0.0]), 4, replacement=True)
    tensor([1, 1, 1, 1])
    """
    layout = input._layout
    shape = layout.shape
    if not layout.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {layout.dtype!r}"
        )
    count = as_int64(num_samples, "multinomial", "num_samples")
    if len(shape) not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {len(shape)} dimensions")
    if count <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {count}")
    categories = shape[-1]
    if not replacement and count > categories:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{count} samples of {categories} categories"
        )
    if categories > _MOST_CATEGORIES:
        raise RuntimeError(f"number of categories cannot exceed 2^24, got {categories}")
    if out is not None:
        check_tensor(out, "multinomial", "out")
    if out is not None and out._layout.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects int64 tensor out, got: {out._layout.dtype!r}")
    if out is not None and out._layout.device_state is not layout.device_state:
        raise RuntimeError(
            f"multinomial(): expected out on {layout.device}, the device of input, got {out._layout.device}"
        )
    chosen = source(generator, layout.device_state, "multinomial")
    refuse_numbers_of_the_host(layout.device_state, "multinomial")
    sizes = (*shape[:-1], count)
    if recorders and out is None:
        sampled = layouts.contiguous[sizes, dtypes.int64, layout.device_state]
        return _sampled(sampled, input.detach(), bool(replacement), *chosen.next_call(layout.device_state))
    weights = cpu_(input.detach())
    _check_weights(weights, 1 if replacement else count)
    indices = distributions.categories(_rows_of(weights), count, bool(replacement), *chosen.next_call())
    result = (
        target(layouts.contiguous[sizes, dtypes.int64, layout.device_state], None) if out is None else out
    )
    shaped(result, sizes)
    from_host(indices.reshape(sizes), result)
    return result


def _rows_of(weights: Tensor) -> NDArray[np.float64]:
    """Weights on the CPU, a row for each distribution."""
    array: NDArray[np.float64] = weights._host.astype(np.float64)
    return array if array.ndim == 2 else array[None]


@host_step
def _sampled(layout: Layout, input: Tensor, replacement: bool, seed: int, call: int) -> Tensor:
    """What :func:`multinomial` gives, as one step of what is recorded."""
    refuse_numbers_of_the_host(layout.device_state, "multinomial")
    weights, count = cpu_(input), layout.shape[-1]
    _check_weights(weights, 1 if replacement else count)
    result = target(layout, None)
    from_host(
        distributions.categories(_rows_of(weights), count, replacement, seed, call).reshape(layout.shape),
        result,
    )
    return result


def _check_weights(input: Tensor, positive: int) -> None:
    """Raise unless all weights are finite and not negative, and each row has enough that are positive."""
    weights = _rows_of(input)
    if not (weights >= 0).all() or np.isinf(weights).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    enough = np.count_nonzero(weights, axis=1)
    if not enough.all() or (len(enough) and not weights.shape[1]):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if (enough < positive).any():
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to "
            f"sample): {positive} samples of a row with {enough.min()} positive weights"
        )
