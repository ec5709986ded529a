"""One value in every element."""

from __future__ import annotations

from math import copysign
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import pointwise
from nvrtc_kernels.dtypes import Category

from .base import maker
from .copies import copy_
from .recording.inplace import attach_in_place, check_in_place
from .recording.modes import modes
from .recording.node import Node
from .scalars import element

if TYPE_CHECKING:
    from collections.abc import Callable

    from .layout import Layout
    from .tensors import Tensor

_EXPRESSIONS = {
    Category.BOOL: pointwise.Expression("fill", "value", (("value", "?"),)),
    Category.INTEGER: pointwise.Expression("fill", "value", (("value", "q"),)),
    Category.FLOATING: pointwise.Expression("fill", "value", (("value", "d"),)),
    Category.COMPLEX: pointwise.Expression("fill", "(complex128{re, im})", (("re", "d"), ("im", "d"))),
}


class _Fill:
    """The operation; ``place.plans[FILL, layout]`` carries it out."""

    def plan(self, layout: Layout) -> Callable[[Tensor, Any], None]:
        """How to fill a layout."""
        if not layout.place.is_cuda:
            return _on_host
        # What a stretched dimension shows is written once.
        sizes = zip(layout.shape, layout.strides, strict=True)
        layout = layout.with_strides(
            tuple(1 if step == 0 and size else size for size, step in sizes), layout.strides
        )
        place, count = layout.place, layout.numel
        launch = pointwise.plan(
            place.native, _EXPRESSIONS[layout.dtype.category], layout.shape, (layout.strides, layout.dtype)
        )
        local = place.local
        is_complex = layout.dtype.is_complex
        by_memset = layout.dense and count > 0 and not is_complex
        is_floating = layout.dtype.is_floating_point
        clear = _clearing(layout)

        def run(target: Tensor, value: Any) -> None:
            # A negative zero is no zero here: its bits are not all 0.
            if by_memset and not value and not (is_floating and copysign(1.0, value) < 0):
                clear(target)
            elif is_complex:
                launch(local.stream.handle, target._address, value.real, value.imag)
            else:
                launch(local.stream.handle, target._address, value)

        return run


FILL = _Fill()


class _Zero:
    """``place.plans[ZERO, layout](target)`` fills with zeros."""

    def plan(self, layout: Layout) -> Callable[[Tensor], None]:
        """How to clear a layout."""
        if layout.place.is_cuda and layout.dense and layout.numel:
            return _clearing(layout)
        fill, zero = FILL.plan(layout), element(0, layout.dtype)
        return lambda target: fill(target, zero)


ZERO = _Zero()


def _clearing(layout: Layout) -> Callable[[Tensor], None]:
    """What sets all bytes of tensors of a dense layout on a device to 0."""
    place: Any = layout.place
    runtime, native, local, nbytes = place.runtime, place.native, place.local, layout.nbytes
    memset, current = runtime.driver.cuMemsetD8Async, runtime.current

    def clear(target: Tensor) -> None:
        if current.device is not native:
            native.make_current()
        status = memset(target._storage.address + target._offset, 0, nbytes, local.stream.handle)[0]
        if status:
            runtime.fail(status, "cuMemsetD8Async", f"{nbytes} bytes")

    return clear


class _Filled:
    """``place.plans[FILLED, layout](value)`` is a new tensor on a device with ``value`` everywhere."""

    def plan(self, layout: Layout) -> Callable[[Any], Tensor]:
        """How to make one of ``layout``."""
        make, fill = maker(layout), FILL.plan(layout)
        by_memset = layout.dense and layout.numel > 0
        clear = _clearing(layout)
        kind = layout.dtype

        def run(value: Any) -> Tensor:
            if by_memset and type(value) is int and value == 0:
                made = make()
                clear(made)
                return made
            number = element(value, kind)
            made = make()
            fill(made, number)
            return made

        return run


FILLED = _Filled()


def _on_host(target: Tensor, value: Any) -> None:
    target._writable.fill(value)


def fill_(input: Tensor, value: Any) -> Tensor:
    """Write ``value``, a number or a 0-dim tensor, to every element.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the number, or the tensor ``value`` has dimensions.
    """
    origin = getattr(value, "_layout", None)
    if origin is not None:
        if origin.shape:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(origin.shape)} dimensions."
            )
        return copy_(input, value.clone() if value._storage is input._storage else value)
    check_in_place(input)
    layout = input._layout
    layout.place.plans[FILL, layout](input, element(value, layout.dtype))
    input._storage.version += 1
    _recorded(input, FillNode)
    return input


def _recorded(input: Tensor, cls: type[FillNode]) -> None:
    state = input._autograd
    if state is not None and state.requires_grad and modes.recording:
        node = cls.__new__(cls)
        node.saved = ()
        attach_in_place(node, (input,), input)


class FillNode(Node):
    """A recorded fill: what was there before has no influence."""

    __slots__ = ()

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "FillBackward0"

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """Zeros."""
        return grads[0].new_zeros(grads[0].shape)


class ZeroNode(FillNode):
    """A recorded fill with 0."""

    __slots__ = ()

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "ZeroBackward0"


def zero_(input: Tensor) -> Tensor:
    """Write 0 to every element."""
    check_in_place(input)
    layout = input._layout
    layout.place.plans[ZERO, layout](input)
    input._storage.version += 1
    _recorded(input, ZeroNode)
    return input


def fill(input: Tensor, value: Any) -> Tensor:
    """``value``, a number or a 0-dim tensor, in every element of a new tensor like ``input``."""
    return fill_(input.clone(), value)
