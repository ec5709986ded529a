"""Reductions: values of many elements become one.

As for pointwise operations, an operation is one row, and what carries it out follows from the layout, the
dimensions and the type asked for; it is worked out once and kept as a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.dtypes import STORAGE_ONLY, Category, bfloat16, dtype, float16, float32, from_numpy
from nvrtc_kernels.reducers import Reducer
from nvrtc_kernels.reduction_groups import Task
from tensor.core import layout as layouts
from tensor.core.arguments import dimensions
from tensor.core.base import TensorBase, check_outs, check_tensor, empty, maker, wrap
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.dtypes import promotion as rules
from tensor.core.host.half_precision import converted
from tensor.core.plans import not_implemented
from tensor.core.plans.copies import host_conversion
from tensor.operations.scratch import launch_reduction

from .creation.factories import deliver
from .shapes import views

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class Reduction:
    """A reduction over some dimensions.

    Parameters
    ----------
    name : str
        As users call it; errors have it.
    kernel : Reducer or callable
        What the device computes; or what gives that, and the kernel's numbers, for the numbers of the call.
    numpy : callable
        ``numpy(array, axes, *scalars)`` on an array of the type that is computed in gives one array or
        several, with the reduced dimensions kept.
    rule : callable
        ``rule(dtype of the input)`` gives the type to compute in and those of the results.
    categories
        Kinds of input that make sense.
    scalars : int
        Numbers that are given at each call.
    stored : sequence of dtype
        Dtypes that it computes in of those whose elements are only stored; other ones raise NotImplementedError.
    halves : bool
        Whether the NumPy form takes arrays of half precision as they are, too, and converts them itself, block by block.
    """

    #: The dtype that is computed in decides, which need not be the input's.
    takes = STORAGE_ONLY

    def __init__(
        self,
        name: str,
        kernel: Reducer | Callable[..., tuple[Reducer, tuple[float, ...]]],
        numpy: Callable[..., Any],
        rule: Callable[[dtype], tuple[dtype, tuple[dtype, ...]]],
        *,
        categories: Sequence[Category] = tuple(Category),
        identity: bool = True,
        stored: Sequence[dtype] = (),
        halves: bool = False,
    ) -> None:
        self.name = name
        self.kernel = kernel
        self.numpy = numpy
        self.rule = rule
        self.categories = frozenset(categories)
        self.identity = identity
        self.stored = stored
        self.halves = halves
        #: Whether the numbers of a call decide which kernel it is.
        self._chosen_by_numbers = not isinstance(kernel, Reducer)

    def __repr__(self) -> str:
        return f"<Reduction {self.name}>"

    def __call__(
        self, input: Tensor, axes: tuple[int, ...], keepdim: bool, *scalars: float
    ) -> tuple[Tensor, ...]:
        """Results of reducing the dimensions ``axes``. Not recorded."""
        layout = input._layout
        if self._chosen_by_numbers:
            run = layout.device_state.plans[self, layout, axes, keepdim, *scalars]
        else:
            run = layout.device_state.plans[self, layout, axes, keepdim]
        result: tuple[Tensor, ...] = run(input, *scalars)
        return result

    def plan(
        self, layout: Layout, axes: tuple[int, ...], keepdim: bool, *scalars: float
    ) -> Callable[..., tuple[Tensor, ...]]:
        """What reduces tensors of ``layout``: ``run(input, *scalars)``."""
        if layout.dtype.category not in self.categories:
            categories = ", ".join(sorted(each.name.lower() for each in self.categories))
            raise RuntimeError(
                f"{self.name}(): not implemented for {layout.dtype!r}: it takes {categories} tensors"
            )
        shape = layout.shape
        if not self.identity and any(shape[axis] == 0 for axis in axes):
            raise IndexError(
                f"{self.name}(): Expected reduction dim {next(a for a in axes if shape[a] == 0)} to have non-zero size."
            )
        compute, _ = self.rule(layout.dtype)
        if compute.is_storage_only and compute not in self.stored:
            raise not_implemented(self.name, compute)
        outs, _ = self._outputs(layout, axes, keepdim)
        if layout.device_state.is_cuda:
            return self._cuda(layout, axes, keepdim, outs, scalars)
        return self._host(layout, axes, compute, outs)

    @property
    def reducer(self) -> Reducer | None:
        """What the device computes, unless the numbers of a call decide about that."""
        return self.kernel if isinstance(self.kernel, Reducer) else None

    def launcher(
        self,
        reducer: Reducer,
        inputs: Sequence[Layout],
        axes: tuple[int, ...],
        keepdim: bool,
        layout: Layout,
    ) -> Callable[..., tuple[Tensor, ...]]:
        """What reduces tensors of a device that ``reducer`` makes the reduction's input of: ``run(tensors, *numbers)``.

        Parameters
        ----------
        reducer : Reducer
            This operation's own, with another expression of the inputs and, behind its own numbers, more of them.
        inputs : sequence of Layout
            All of one shape.
        axes, keepdim
            As for :meth:`plan`.
        layout : Layout
            Of the input that is computed.
        """
        device_state: Any = layout.device_state
        outs, _ = self._outputs(layout, axes, keepdim)
        launch = self.task(reducer, inputs, axes, keepdim, layout).alone(device_state.native)
        makers = [maker(out) for out in outs]

        def run(tensors: Sequence[Tensor], *numbers: float) -> tuple[Tensor, ...]:
            result = tuple([make() for make in makers])
            addresses = [out._storage.address for out in result] + [x._address for x in tensors]
            launch_reduction(device_state, launch, *addresses, *numbers)
            return result

        return run

    def task(
        self,
        reducer: Reducer,
        inputs: Sequence[Layout],
        axes: tuple[int, ...],
        keepdim: bool,
        layout: Layout,
    ) -> Task:
        """What a device is asked to do, for arguments as those of :meth:`launcher`."""
        outs, strides = self._outputs(layout, axes, keepdim)
        return Task(
            reducer,
            layout.shape,
            axes,
            tuple((strides, out.dtype) for out in outs),
            tuple((each.strides, each.dtype) for each in inputs),
        )

    def _outputs(
        self, layout: Layout, axes: tuple[int, ...], keepdim: bool
    ) -> tuple[list[Layout], tuple[int, ...]]:
        """Layouts of the results, and their strides over the input's dimensions."""
        full = kept_shape(layout.shape, axes)
        short = full if keepdim else tuple(size for axis, size in enumerate(layout.shape) if axis not in axes)
        outs = [layouts.contiguous[short, dtype, layout.device_state] for dtype in self.rule(layout.dtype)[1]]
        return outs, strides_of.contiguous_strides(full)

    def _cuda(
        self,
        layout: Layout,
        axes: tuple[int, ...],
        keepdim: bool,
        outs: list[Layout],
        scalars: tuple[float, ...],
    ) -> Callable[..., tuple[Tensor, ...]]:
        device_state: Any = layout.device_state
        reducer = self.kernel
        if not isinstance(reducer, Reducer):
            # The number decides which kernel it is, and the kernel which numbers it takes.
            reducer, scalars = reducer(*scalars)
        fixed = self.kernel is not reducer
        launch = self.task(reducer, [layout], axes, keepdim, layout).alone(device_state.native)
        if len(outs) == 1 and not launch.scratch_bytes:
            make, local, queue = maker(outs[0]), device_state.local, launch.run

            def run_one(input: Tensor, *numbers: float) -> tuple[Tensor]:
                stream = local.stream
                result = make(stream)
                storage = input._storage
                queue(
                    stream.handle,
                    result._storage.address,
                    storage.address + input._offset,
                    *(scalars if fixed else numbers),
                )
                return (result,)

            return run_one

        def run(input: Tensor, *numbers: float) -> tuple[Tensor, ...]:
            result = [empty(out) for out in outs]
            addresses = [out._storage.address for out in result]
            launch_reduction(
                device_state, launch, *addresses, input._address, *(scalars if fixed else numbers)
            )
            return tuple(result)

        return run

    def _host(
        self, layout: Layout, axes: tuple[int, ...], compute: dtype, outs: list[Layout]
    ) -> Callable[..., tuple[Tensor, ...]]:
        compute_dtype = rules.computes_in(compute)
        converts = layout.dtype is not compute_dtype
        if self.halves and compute_dtype is float32 and layout.dtype in (float16, bfloat16):
            converts = False
        function = self.numpy

        def run(input: Tensor, *scalars: float) -> tuple[Tensor, ...]:
            array = input._host
            with np.errstate(all="ignore"):
                result = function(
                    converted(array, compute_dtype.numpy) if converts else array, axes, *scalars
                )
                if not isinstance(result, tuple):
                    return (_wrapped(result, outs[0]),)
                return tuple([_wrapped(value, out) for value, out in zip(result, outs, strict=True)])

        return run


def _wrapped(value: NDArray[Any], out: Layout) -> Tensor:
    """A tensor of a result, of which reduced dimensions may be left."""
    value = np.asarray(value).reshape(out.shape)
    dtype = out.dtype.numpy
    if value.dtype is _DOUBLE and dtype is _SINGLE:
        value = value.astype(_SINGLE, order="C")
    elif value.dtype != dtype or not value.flags.c_contiguous:
        held = np.empty(out.shape, dtype)
        host_conversion(from_numpy(value.dtype), out.dtype)(held, value)
        value = held
    return wrap(value, out)


_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


#: All dimensions of tensors of few dimensions.
_ALL = [tuple(range(rank)) for rank in range(9)]


def axes_of(name: str, input: Tensor, dim: Any) -> tuple[int, ...]:
    """Dimensions that ``dim`` names, counted from 0: an int, several, or ``None`` (or none) for all.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If one is named twice.
    """
    rank = len(input._layout.shape)
    if dim is None:
        return _ALL[rank] if rank < len(_ALL) else tuple(range(rank))
    if isinstance(dim, (tuple, list)):
        if not dim:
            return tuple(range(rank))
        return tuple(sorted(dimensions(dim, rank, name))) if rank else ()
    return dimensions((dim,), rank, name) if rank else _no_axes(dim)


def _no_axes(dim: int) -> tuple[int, ...]:
    dimensions((dim,), 0, "")
    return ()


def kept_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """A shape with the reduced dimensions of size 1."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def are_last(axes: tuple[int, ...], rank: int) -> bool:
    """Whether the reduced dimensions, in order, are the last ones of so many."""
    return axes == (*range(rank - len(axes), rank),)


def stretched(x: Tensor, shape: Sequence[int], axes: Sequence[int], keepdim: bool) -> Tensor:
    """``x`` with the reduced dimensions back, as large as they were."""
    if not keepdim:
        for axis in axes:
            x = views.unsqueeze(x, axis)
    return views.expand(x, shape)


def keep_dims(x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """``x`` with the reduced dimensions back, of size 1."""
    if not keepdim:
        for axis in axes:
            x = views.unsqueeze(x, axis)
    return x


def dtype_to_compute_in(
    function: str, dtype: dtype | None, out: Tensor | None, categories: Sequence[Category] = tuple(Category)
) -> dtype | None:
    """``dtype``, or where none is given that of ``out``, as in PyTorch: if it is of these categories.

    Raises
    ------
    TypeError
        If ``dtype`` is no dtype.
    """
    if dtype is not None:
        return dtype_of_argument(dtype, function)
    if isinstance(out, TensorBase) and out._layout.dtype.category in categories:
        return out._layout.dtype
    return None


def into_out(result: Tensor, out: Tensor | None, name: str, *, casts: bool = False) -> Tensor:
    """``result``, or ``out`` with its elements.

    With ``casts``, ``out`` may have another dtype, of the result's category or a higher one.

    Raises
    ------
    RuntimeError
        If ``out`` has another dtype or device, or derivatives would be needed.
    """
    if out is None:
        return result
    check_tensor(out, name, "out")
    if result.requires_grad or out.requires_grad:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if casts and result._layout.dtype.category <= out._layout.dtype.category:
        result = result.to(out._layout.dtype)
    if out._layout.dtype is not result._layout.dtype:
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {result._layout.dtype!r}, but got {out._layout.dtype!r} instead"
        )
    return deliver(out, result, name)


#: A named tuple of results.
_R = TypeVar("_R", bound="tuple[Tensor, ...]")


def all_into_out(result: _R, out: Any, name: str) -> _R:
    """A named tuple of results, or those that the caller gave with their elements."""
    if out is None:
        return result
    check_outs(out, len(result), name)
    cls: Any = type(result)
    delivered: _R = cls(*(into_out(x, to, name) for x, to in zip(result, out, strict=True)))
    return delivered
