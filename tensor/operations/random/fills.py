"""Random numbers written to tensors: ``uniform_``, ``normal_``, ``random_``, ``bernoulli_`` and their like.

The numbers follow from the generator's seed, its count of calls and the row-major index of the element. So
they are the same, bit for bit, on the CPU and on CUDA devices, and whatever the strides. On a device a kernel
of the current stream makes them, and the host goes on at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import host_loops
from nvrtc_kernels import random as kernels
from nvrtc_kernels.dtypes import UNSIGNED
from tensor.autograd.recording.inplace import check_in_place
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase, view_of
from tensor.core.devices.state import CudaState
from tensor.core.host.native_loops import address
from tensor.core.plans import planned
from tensor.core.plans.copies import check_no_overlap
from tensor.core.plans.steps import one_step
from tensor.operations.creation.conversions import to
from tensor.operations.definition import operation
from tensor.operations.shapes import views

from . import distributions, parameters
from .generator import Generator, default_generator
from .history import record_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.devices.state import DeviceState
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .parameters import Draw


def _fill_plan(layout: Layout) -> Callable[..., None]:
    """How to fill a layout.

    ``device_state.plans[RANDOM, layout]`` carries it out.
    """
    check_no_overlap(layout)
    device_state, shape, strides, dtype = layout.device_state, layout.shape, layout.strides, layout.dtype
    if not isinstance(device_state, CudaState):
        return _host_fill(layout)
    local, fill = device_state.local, kernels.plan(device_state.native, shape, strides, dtype)

    def run(target: Tensor, draw: Draw, seed: int, call: int) -> None:
        name, first, second = draw
        fill(local.stream.handle, target._address, name, seed, call, first, second)

    return run


def _host_fill(layout: Layout) -> Callable[..., None]:
    if not layout.contiguous or not host_loops.worth(layout.numel):
        return _on_host
    loops: dict[str, Callable[..., None] | None] = {}

    def run(target: Tensor, draw: Draw, seed: int, call: int) -> None:
        name, *parameters = kernels.parameters_of(*draw)
        if name not in loops:
            loops[name] = kernels.plan_on_host(name, layout.dtype, layout.numel)
        loop = loops[name]
        if loop is None:
            _on_host(target, draw, seed, call)
        else:
            loop(address(target, writes=True), seed, call, *parameters)

    return run


def _on_host(target: Tensor, draw: Draw, seed: int, call: int) -> None:
    name, first, second = draw
    layout = target._layout
    into = target._writable
    own = into.reshape(-1) if layout.contiguous else None
    drawn = distributions.numbers(name, layout.dtype.numpy, layout.numel, seed, call, first, second, own)
    if own is None:
        into[...] = drawn.reshape(layout.shape)


def _probabilities_plan(layout: Layout, argument: Layout) -> Callable[..., None]:
    """How to fill a layout where each element has its own probability of being 1.

    ``device_state.plans[PROBABILITIES, layout, probability_layout]`` carries it out.
    """
    check_no_overlap(layout)
    device_state = layout.device_state
    if not isinstance(device_state, CudaState):
        return _probabilities_on_host
    native, local, fill = device_state.native, device_state.local, kernels.fill_bernoulli

    def run(target: Tensor, p: Tensor, seed: int, call: int) -> None:
        fill(
            native, local.stream.handle, target._address, layout.shape, layout.strides, layout.dtype,
            p._address, argument.shape, argument.strides, argument.dtype, seed, call,
        )  # fmt: skip

    return run


def _probabilities_on_host(target: Tensor, p: Tensor, seed: int, call: int) -> None:
    layout = target._layout
    limits = np.broadcast_to(distributions.threshold(p._host), layout.shape).reshape(-1)
    drawn = distributions.numbers("bernoulli", layout.dtype.numpy, layout.numel, seed, call, limits)
    target._writable[...] = drawn.reshape(layout.shape)


RANDOM, PROBABILITIES = planned(_fill_plan, takes=UNSIGNED), planned(_probabilities_plan)


def source(generator: Generator | None, device_state: DeviceState, function: str) -> Generator:
    """The generator that numbers for ``device_state`` come from: the one that was given, or the device's own.

    Raises
    ------
    TypeError
        If ``generator`` is something else.
    RuntimeError
        If it is for another type of device.
    """
    if generator is None:
        return default_generator(device_state.device.index)
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{function}(): argument 'generator' must be tensor.Generator, not {type(generator).__name__}"
        )
    if generator.device.type != device_state.device.type:
        raise RuntimeError(
            f"Expected a '{device_state.device.type}' device type for generator but found '{generator.device.type}': "
            f"{function}() works on {device_state.device}"
        )
    return generator


def apply(target: Tensor, draw: Draw, generator: Generator | None, function: str, variant: int = 0) -> Tensor:
    """Write the numbers of one call to ``target``, and return it.

    ``variant`` is the number that PyTorch gives the form of ``function`` in the name of its node.
    """
    check_in_place(target)
    shown = target
    if target._layout.dtype.is_complex:
        shown = views.view_as_real(view_of(target._storage, target._layout, target._offset))
    layout = shown._layout
    device_state = layout.device_state
    run = device_state.plans[RANDOM, layout]
    seed, call = source(generator, device_state, function).next_call(device_state)
    run(shown, draw, seed, call)
    target._storage.version += 1
    if target._autograd is not None:
        record_in_place(target, f"{function.title().replace('_', '')}Backward{variant}")
    return target


@operation(namespace="")
def uniform_(
    input: Tensor, from_: float = 0.0, /, to: float = 1.0, *, generator: Generator | None = None, **named: Any
) -> Tensor:
    """Uniformly distributed numbers in ``[from, to)``; for a complex tensor so are both parts.

    Parameters
    ----------
    from, to : float
        Ends of the range.
    generator : Generator, optional
        The device's default one if not given; it must be of the tensor's type of device.

    Raises
    ------
    RuntimeError
        If an end is no number of the dtype, ``from > to``, the generator is of another type of device, or
        elements overlap in memory.
    NotImplementedError
        For a dtype that is neither floating point nor complex.

    Examples
    --------
    >>> x = tensor.empty(100).uniform_(2, 3)
    >>> bool(((2 <= x) & (x < 3)).all())
    True
    """
    low = _named_from("uniform_", from_, named)
    return apply(input, parameters.uniform(input._layout.dtype, low, to), generator, "uniform_")


@operation(namespace="")
def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of given mean and standard deviation.

    The parts of complex numbers are independent and have half the variance each.

    Raises
    ------
    RuntimeError
        If ``std`` is negative. See :func:`uniform_` too.
    NotImplementedError
        For a dtype that is neither floating point nor complex.

    Examples
    --------
    >>> tensor.empty(2).normal_(5.0, 0.0)
    tensor([5., 5.])
    """
    return apply(input, parameters.normal(input._layout.dtype, mean, std), generator, "normal_")


@operation(namespace="")
def log_normal_(
    input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Numbers whose logarithm is normal, with mean ``mean`` and standard deviation ``std``.

    Raises
    ------
    RuntimeError
        If ``std`` is not positive. See :func:`uniform_` too.
    NotImplementedError
        For a dtype that is not floating point.

    Examples
    --------
    >>> bool((tensor.empty(100).log_normal_() > 0).all())
    True
    """
    return apply(input, parameters.log_normal(input._layout.dtype, mean, std), generator, "log_normal_")


@operation(namespace="")
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Positive numbers with the density ``lambd * exp(-lambd * x)``.

    Raises
    ------
    RuntimeError
        If ``lambd`` is not positive, or the dtype not floating point. See :func:`uniform_` too.

    Examples
    --------
    >>> bool((tensor.empty(100).exponential_() > 0).all())
    True
    """
    return apply(input, parameters.exponential(input._layout.dtype, lambd), generator, "exponential_")


@operation(namespace="")
def cauchy_(
    input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Numbers with the density ``sigma / (pi * ((x - median)**2 + sigma**2))``.

    Raises
    ------
    RuntimeError
        If ``sigma`` is not positive, or the dtype not floating point. See :func:`uniform_` too.

    Examples
    --------
    >>> tensor.empty(2, 3).cauchy_().shape
    tensor.Size([2, 3])
    """
    return apply(input, parameters.cauchy(input._layout.dtype, median, sigma), generator, "cauchy_")


@operation(namespace="")
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many trials it takes to succeed once, 1 at least, with the probability ``p`` in each.

    Raises
    ------
    RuntimeError
        If ``p`` is not in ``(0, 1)``. See :func:`uniform_` too.
    NotImplementedError
        For bool and complex dtypes.

    Examples
    --------
    >>> bool((tensor.empty(100).geometric_(0.5) >= 1).all())
    True
    """
    return apply(input, parameters.geometric(input._layout.dtype, p), generator, "geometric_")


@operation(namespace="")
def random_(input: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Integers of equal probability: ``random_()``, ``random_(to)``, ``random_(from, to)``.

    Parameters
    ----------
    from : int
        First of the range, by default 0.
    to : int, optional
        One past the last. By default the last is the dtype's largest number or, for a floating point dtype of
        ``d`` binary digits, ``2**d``.

    Raises
    ------
    RuntimeError
        If the range is empty, the dtype does not hold it, or is complex. See :func:`uniform_` too.
    TypeError
        For bounds that are no integers.

    Examples
    --------
    >>> tensor.empty(100).random_(3, 5).unique()
    tensor([3., 4.])
    """
    low, high = _range(bounds, named)
    form = 2 - len(bounds) - len(named)
    return apply(input, parameters.integers(input._layout.dtype, low, high), generator, "random_", form)


@operation(namespace="")
def bernoulli_(input: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Ones with probability ``p``, else zeros.

    Parameters
    ----------
    p : float or Tensor
        The probability, or a floating point tensor of them, whose shape broadcasts to this one's.

    Raises
    ------
    RuntimeError
        If a probability is not in ``[0, 1]`` (on a CUDA device a failed assertion of the kernel, which a later
        call raises), or ``p`` is on another device. See :func:`uniform_` too.
    NotImplementedError
        For a complex dtype, and for probabilities that are not floating point.

    Examples
    --------
    >>> tensor.empty(3).bernoulli_(tensor.tensor([0.0, 1.0, 1.0]))
    tensor([0., 1., 1.])
    """
    layout = input._layout
    if not isinstance(p, TensorBase):
        return apply(input, parameters.bernoulli(layout.dtype, p), generator, "bernoulli_", 2)
    apply_probabilities(input, p, generator)
    record_in_place(input, "BernoulliBackward1", p)
    return input


def apply_probabilities(target: Tensor, p: Tensor, generator: Generator | None) -> None:
    """Write ones, each with the probability of the same index in ``p``, and zeros to ``target``."""
    check_in_place(target)
    layout = target._layout
    parameters.check_bernoulli(layout.dtype)
    p = on_same_device(p, layout.device_state, "bernoulli_")
    argument = p._layout
    if not argument.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"bernoulli_\" not implemented for probabilities of '{argument.dtype.name}': they must be floating point"
        )
    views.expand(p, layout.shape)
    if not layout.device_state.is_cuda:
        _check_probabilities(p)
    run = layout.device_state.plans[PROBABILITIES, layout, argument]
    seed, call = source(generator, layout.device_state, "bernoulli_").next_call(layout.device_state)
    run(target, p, seed, call)
    target._storage.version += 1


def on_same_device(other: Tensor, device_state: DeviceState, function: str) -> Tensor:
    """``other``, or a copy on ``device_state`` if it has one element on the CPU and no dimensions.

    Raises
    ------
    RuntimeError
        If it is on another device.
    """
    result = other._layout
    if result.device_state is device_state:
        return other
    if result.shape or result.device_state.is_cuda:
        raise two_devices(function, device_state.device, result.device)
    return to(other, device_state.device)


@one_step
def _check_probabilities(p: Tensor) -> None:
    probabilities = p._host
    outside = ~((probabilities >= 0) & (probabilities <= 1))
    if outside.any():
        raise RuntimeError(
            f"bernoulli_ expects all probabilities to be in [0, 1], but got p={float(probabilities[outside][0]):g}"
        )


def _named_from(function: str, value: Any, named: dict[str, Any]) -> Any:
    """``from`` is no name that Python's syntax allows a parameter to have."""
    unknown = named.keys() - {"from"}
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument '{min(unknown)}'")
    return named.get("from", value)


def _range(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """First and one past the last, ``None`` for the dtype's."""
    unknown = named.keys() - {"from", "to"}
    if unknown:
        raise TypeError(f"random_() got an unexpected keyword argument '{min(unknown)}'")
    if not bounds and not named:
        return 0, None
    if len(bounds) + len(named) == 1 and "from" not in named:
        last = bounds[0] if bounds else named["to"]
        if last is None:
            raise TypeError("random_(): argument 'to' must be int, not NoneType")
        return 0, last
    taken = dict(zip(("from", "to"), bounds, strict=False))
    if len(bounds) > 2 or taken.keys() & named.keys() or len(taken) + len(named) != 2:
        raise TypeError(
            f"random_() wants (), (to) or (from, to); got {len(bounds)} bounds and {sorted(named)} by name"
        )
    taken |= named
    return taken["from"], taken["to"]
