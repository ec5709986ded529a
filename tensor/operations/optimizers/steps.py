"""Steps of optimizers, in place: on a device one launch updates many parameters.

A step is defined once, as a NumPy function with the statements of its kernel, by the decorator :func:`step`; those of the
optimizers are in :mod:`nn.optim`.
"""

from __future__ import annotations

import inspect
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import host_loops
from nvrtc_kernels import optimizer_steps as kernels
from nvrtc_kernels.dtypes import float32
from tensor.core import parameter_casts
from tensor.core.base import TensorBase
from tensor.core.host.native_loops import address
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned

from .numbers import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .numbers import Scalar

    Array = NDArray[Any]

#: Elements that a step on the host works on at a time: its operands stay in the processor's cache.
_BLOCK = 1 << 15


def step(cuda: str) -> Callable[[Callable[..., None]], Step]:
    """Define an optimizer's step: both its forms in one place.

    The decorated function is the form for the host, on arrays, in place. Its positional parameters are the operands: the
    parameter, its gradient, which stays as it is, and the states; its keyword-only parameters are numbers that are the
    same for all elements. Both forms compute in float32 for half precision.

    Parameters
    ----------
    cuda
        Statements of the kernel, which refer to an element's operands and to the numbers by the same names; see
        :func:`nvrtc_kernels.optimizer_steps.functor_of`.

    Examples
    --------
    >>> @step("p -= lr * grad;")
    ... def descent(p, grad, *, lr):
    ...     p -= lr * grad
    >>> descent.update([parameters, gradients], lr=0.1)  # doctest: +SKIP
    """
    return lambda function: Step(function, cuda)


class Step:
    """An optimizer's update of parameters and states, made by :func:`step`.

    Attributes
    ----------
    numpy : callable
        The form for the host.
    numbers : tuple of str
        Names of the numbers.
    kernel : nvrtc_kernels.optimizer_steps.Step
        The form for a device.
    """

    def __init__(self, function: Callable[..., None], cuda: str) -> None:
        parameters = inspect.signature(function).parameters.values()
        operands = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        self.numpy = function
        self.numbers = tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)
        self.__doc__ = function.__doc__
        name = function.__name__.removesuffix("_step")
        definition = kernels.functor_of(f"{name}_element", operands, self.numbers, cuda)
        self.kernel = kernels.Step(
            name, f"{name}_element<{{W}}>", len(operands), len(self.numbers), definition=definition
        )

    def __repr__(self) -> str:
        return f"<Step {self.kernel.name}>"

    def plan(self, device_state: Any, dtype: Any) -> Callable[..., None]:
        """What updates tensors of one type on a device."""
        return kernels.plan(device_state.native, self.kernel, dtype)

    def update(
        self, operands: Sequence[Sequence[Tensor]], *, skip: Tensor | None = None, **numbers: Scalar
    ) -> None:
        """Update parameters and states in place.

        Parameters
        ----------
        operands
            The parameters, their gradients, and one sequence for each state. They may be of several types
            and on several devices; those of one parameter are of the same shape, and on the same device.
        skip
            A float32 tensor of one element on a device, which is not 0 where nothing is to be done.
        numbers
            What the step's ``numbers`` names, the same for all parameters; a :class:`~.numbers.Number` where all operands
            are on devices.

        Raises
        ------
        RuntimeError
            If tensors of one parameter differ in shape or device.
        """
        values = [numbers[name] for name in self.numbers]
        assert len(numbers) == len(values)
        if skip is not None or any(isinstance(each, Number) for each in values):
            formulas = DeviceFormulas(values)
            with unrecorded():
                for layouts, written, rows in _by_type(operands, read_only=1):
                    formulas.run(self, layouts, written, rows, skip)
            return
        floats = [float(each) for each in values]  # type: ignore[arg-type]
        with unrecorded():
            for layouts, written, _ in _by_type(operands, read_only=1):
                if layouts[0].device_state.is_cuda:
                    self._on_device(layouts, written, floats)
                else:
                    self._on_host(layouts, written, floats)

    def _on_device(self, layouts: list[Layout], tensors: list[Tensor], values: list[float]) -> None:
        device_state: Any = layouts[0].device_state
        dtype, counts = _as_real(layouts)
        casts = _casts_of(tensors[:: self.kernel.operands]) if parameter_casts.by_storage else None
        if casts is not None:
            self._on_device_with_casts(device_state, dtype, counts, tensors, values, casts)
            return
        run = device_state.plans[self, device_state, dtype]
        run(
            device_state.local.stream.handle,
            [x._storage.address + x._offset for x in tensors],
            counts,
            *values,
        )

    def _on_device_with_casts(
        self,
        device_state: Any,
        dtype: Any,
        counts: list[int],
        tensors: list[Tensor],
        values: list[float],
        casts: list[tuple[parameter_casts.ParameterCast, Tensor] | None],
    ) -> None:
        """The same, and write parameters in another dtype, too, where that is kept."""
        (target_dtype,) = {target._layout.dtype for _, target in filter(None, casts)}
        run = device_state.plans[WITH_CASTS, self.kernel, device_state, dtype, target_dtype]
        operands = self.kernel.operands
        addresses: list[int] = []
        for number, each in enumerate(casts):
            addresses += [x._address for x in tensors[number * operands : (number + 1) * operands]]
            addresses.append(0 if each is None else each[1]._address)
        run(device_state.local.stream.handle, addresses, counts, *values)
        for number, each in enumerate(casts):
            if each is not None:
                # The parameter's write has been counted.
                each[0].version = tensors[number * operands]._storage.version

    def _on_host(self, layouts: list[Layout], tensors: list[Tensor], values: list[float]) -> None:
        dtype, counts = _as_real(layouts)
        loop = kernels.plan_on_host(self.kernel, dtype) if host_loops.worth(sum(counts)) else None
        if loop is None:
            self._by_numpy(tensors, values)
            return
        operands = self.kernel.operands
        for number, count in enumerate(counts):
            row = tensors[number * operands : (number + 1) * operands]
            if count:
                addresses = [address(x, writes=k != 1) for k, x in enumerate(row)]
                loop(count, addresses[0], *addresses[2:], *addresses, *values)

    def _by_numpy(self, tensors: list[Tensor], values: list[float]) -> None:
        operands, numbers = self.kernel.operands, dict(zip(self.numbers, values, strict=True))
        with np.errstate(all="ignore"):
            for begin in range(0, len(tensors), operands):
                arrays = [_elements(x) for x in tensors[begin : begin + operands]]
                half = arrays[0].dtype.itemsize == 2
                for start in range(0, len(arrays[0]), _BLOCK):
                    parts = [array[start : start + _BLOCK] for array in arrays]
                    if not half:
                        self.numpy(*parts, **numbers)
                        continue
                    singles = [part.astype(np.float32) for part in parts]
                    self.numpy(*singles, **numbers)
                    for number, (part, result) in enumerate(zip(parts, singles, strict=True)):
                        if number != 1:
                            part[...] = result


def _casts_of(
    parameters: Sequence[Tensor],
) -> list[tuple[parameter_casts.ParameterCast, Tensor] | None] | None:
    """Casts of parameters, in one dtype, that are written with them; ``None`` where there is none.

    They are right but for the write that is counted and comes.
    """
    result: list[tuple[parameter_casts.ParameterCast, Tensor] | None] = []
    dtype = None
    for x in parameters:
        one = parameter_casts.by_storage.get(x._storage)
        target = None if one is None else one.target
        if one is None or target is None or x._layout is not one.layout or x._storage.address != one.address:
            result.append(None)
            continue
        dtype = dtype or target._layout.dtype
        result.append((one, target) if target._layout.dtype is dtype else None)
    return result if dtype is not None else None


class DeviceFormulas:
    """Numbers of a step that its kernel computes.

    Parameters
    ----------
    values : sequence
        Each a float or a :class:`~.numbers.Number`.
    """

    def __init__(self, values: Sequence[Scalar]) -> None:
        self.constants: list[float] = []
        self.scalars: list[Sequence[Tensor]] = []
        self.shared: list[Tensor] = []
        codes = []
        for value in values:
            if isinstance(value, Number):
                codes.append(value.code.format(*map(self._name, value.leaves)))
            else:
                codes.append(self._name(float(value)))
        self.key = kernels.Formulas(
            tuple(codes),
            len(self.constants),
            tuple(each[0].dtype.name for each in self.scalars),
            tuple(each.dtype.name for each in self.shared),
        )

    def _name(self, leaf: Any) -> str:
        if isinstance(leaf, float):
            self.constants.append(leaf)
            return f"c{len(self.constants) - 1}"
        known: list[Any] = self.shared if isinstance(leaf, TensorBase) else self.scalars
        number = next((i for i, each in enumerate(known) if each is leaf), len(known))
        if number == len(known):
            known.append(leaf)
        return f"{'g' if known is self.shared else 's'}{number}"

    def run(
        self,
        step: Any,
        layouts: list[Layout],
        tensors: list[Tensor],
        rows: Sequence[int],
        skip: Tensor | None,
        extra: Sequence[int] = (),
    ) -> None:
        """Do ``step`` to rows of one type and device, which ``_by_type`` gave."""
        device_state: Any = layouts[0].device_state
        dtype, counts = _as_real(layouts)
        run = device_state.plans[ON_DEVICE, step.kernel, device_state, dtype, self.key]
        operands = step.kernel.operands
        addresses: list[int] = []
        for position, row in enumerate(rows):
            addresses += [x._address for x in tensors[position * operands : (position + 1) * operands]]
            addresses += [each[row]._address for each in self.scalars]
        shared = [_there(each, device_state) for each in self.shared]
        flag = None if skip is None else _there(skip, device_state)
        run(
            device_state.local.stream.handle, addresses, counts, 0 if flag is None else flag._address,
            self.constants, [each._address for each in shared], extra,
        )  # fmt: skip


def _there(x: Tensor, device_state: Any) -> Tensor:
    """A number of a device on another one."""
    return x if x._layout.device_state is device_state else x.to(device_state.device)


def _on_device_plan(
    step: kernels.Step, device_state: Any, dtype: Any, formulas: kernels.Formulas
) -> Callable[..., None]:
    """``device_state.plans[ON_DEVICE, step, device_state, dtype, formulas]``: see :func:`kernels.plan_on_device`."""
    return kernels.plan_on_device(device_state.native, step, dtype, formulas)


ON_DEVICE = planned(_on_device_plan)


def _with_casts_plan(step: kernels.Step, device_state: Any, dtype: Any, cast: Any) -> Callable[..., None]:
    """``device_state.plans[WITH_CASTS, step, device_state, dtype, cast]``: see :func:`kernels.plan_with_casts`."""
    return kernels.plan_with_casts(device_state.native, step, dtype, cast)


WITH_CASTS = planned(_with_casts_plan)


def _by_type(
    columns: Sequence[Sequence[Tensor]], read_only: int
) -> Iterator[tuple[list[Layout], list[Tensor], Sequence[int]]]:
    """Rows of tensors without gaps and of one type and device: a layout for each row, the tensors flat, the rows' numbers.

    A row is an element of each of ``columns``. The tensors of the column ``read_only`` are read, the others will be written
    when the iteration goes on. Where one has gaps, or an order of its own, a copy takes its place, and is copied back then.
    """
    layouts = [x._layout for x in columns[0]]
    tensors = list(chain.from_iterable(zip(*columns, strict=True)))
    if _alike(layouts, columns):
        for number, column in enumerate(columns):
            if number != read_only:
                for x in column:
                    x._storage.version += 1
        yield layouts, tensors, range(len(layouts))
        return
    result: dict[tuple[Any, Any], tuple[list[Layout], list[Tensor], list[int]]] = {}
    copies: list[tuple[Tensor, Tensor]] = []
    for position, (layout, *row) in enumerate(zip(layouts, *columns, strict=True)):
        if not layout.numel:
            continue
        if not layout.dense or any(x._layout is not layout for x in row):
            target = layout.as_dense()
            replaced = [_as_laid_out(x, row[0], target) for x in row]
            copies += [
                (x, each)
                for number, (x, each) in enumerate(zip(row, replaced, strict=True))
                if each is not x and number != read_only
            ]
            layout, row = target, replaced
        group = result.setdefault((layout.device_state, layout.dtype), ([], [], []))
        group[0].append(layout)
        group[1].extend(row)
        group[2].append(position)
        for number, x in enumerate(row):
            if number != read_only:
                x._storage.version += 1
    yield from result.values()
    for x, each in copies:
        x.copy_(each)


def _alike(layouts: list[Layout], columns: Sequence[Sequence[Tensor]]) -> bool:
    """Whether all tensors are of one type and device and without gaps, and those of a row laid out as ``layouts`` says.

    It is so of almost every model, and told without a step of Python for each row.
    """
    if any([x._layout for x in column] != layouts for column in columns[1:]):
        return False
    distinct = set(layouts)
    return all(each.dense and each.numel for each in distinct) and (
        len({(each.device_state, each.dtype) for each in distinct}) == 1
    )


def _as_laid_out(x: Tensor, parameter: Tensor, target: Layout) -> Tensor:
    """``x``, or a copy of it as the layout ``target``."""
    layout = x._layout
    if layout is target:
        return x
    if layout.shape != target.shape or layout.device_state is not target.device_state:
        raise RuntimeError(
            f"a parameter of shape {list(target.shape)} on {target.device} has a gradient or state of shape "
            f"{list(layout.shape)} on {layout.device}: they must be alike. After moving a module to another device, make "
            "its optimizer anew or load its state dict"
        )
    result = parameter.new_empty_strided(target.shape, target.strides)
    return result.copy_(x)


def _as_real(layouts: list[Layout]) -> tuple[Any, list[int]]:
    """Type that elements are computed with as, and how many each tensor has: two of each complex one."""
    dtype = layouts[0].dtype
    if not dtype.is_complex:
        return dtype, [layout.numel for layout in layouts]
    return dtype.to_real(), [2 * layout.numel for layout in layouts]


def _elements(x: Tensor) -> Array:
    """Elements of a CPU tensor without gaps in the order of memory, complex ones as pairs."""
    array, layout = x._writable, x._layout
    if not layout.contiguous:
        order = sorted(range(array.ndim), key=lambda d: -layout.strides[d])
        array = array.transpose(order)
    array = array.reshape(-1)
    return array.view(layout.dtype.to_real().numpy) if layout.dtype.is_complex else array


def decayed(sign: float, decay: float, factor: float, grad: Array, p: Array) -> Array:
    """The gradient of what is minimized, with ``decay`` times the parameter as L2 penalty.

    Decoupled weight decay multiplies the parameter by ``factor``. ``sign`` is -1 to maximize.
    """
    g = grad if sign > 0 else -grad
    if decay:
        g = g + decay * p
    if factor != 1:
        p *= factor
    return g


class Unscale:
    """Multiplies gradients by a number, and finds out whether all of them are finite."""

    kernel = kernels.Step("unscale", "Unscale<{W}>", 1, 1, 1)

    def plan(self, device_state: Any, dtype: Any) -> Callable[..., None]:
        """What multiplies tensors of one type on a device."""
        return kernels.plan(device_state.native, self.kernel, dtype)

    def __call__(self, grads: Sequence[Tensor], factor: Scalar) -> list[Tensor]:
        """Multiply ``grads`` in place. ``factor`` may be a :class:`~.numbers.Number` where all of them are on devices.

        Returns
        -------
        list of Tensor
            For each device that they are on one float32 element, which is 1 where a gradient was not finite, and 0
            otherwise. It is not read here, so nothing waits.
        """
        flags: dict[Any, Tensor] = {}
        formulas = DeviceFormulas([factor]) if isinstance(factor, Number) else None
        with unrecorded():
            for layouts, tensors, rows in _by_type([grads], read_only=-1):
                device_state: Any = layouts[0].device_state
                flag = flags.get(device_state)
                if flag is None:
                    flag = flags[device_state] = tensors[0].new_zeros(1, dtype=float32)
                if formulas is not None:
                    formulas.run(self, layouts, tensors, rows, None, (flag._address,))
                    continue
                if not device_state.is_cuda:
                    self._on_host(tensors, factor, flag)  # type: ignore[arg-type]
                    continue
                dtype, counts = _as_real(layouts)
                run = device_state.plans[self, device_state, dtype]
                addresses = [x._address for x in tensors]
                run(device_state.local.stream.handle, addresses, counts, factor, flag._address)
        return list(flags.values())

    def _on_host(self, tensors: list[Tensor], factor: float, flag: Tensor) -> None:
        with np.errstate(all="ignore"):
            for each in tensors:
                array = _elements(each)
                if not np.isfinite(array).all():
                    flag._writable[...] = 1
                array *= array.dtype.type(factor)


unscale = Unscale()


class _Advance:
    """Adds 1 to counts on devices."""

    kernel = kernels.Step("advance", "Advance<{W}>", 1, 0)

    def __call__(self, steps: Sequence[Tensor], skip: Tensor | None) -> None:
        with unrecorded():
            formulas = DeviceFormulas(())
            for layouts, tensors, rows in _by_type([steps], read_only=-1):
                formulas.run(self, layouts, tensors, rows, skip)


#: Adds 1 to each of the tensors that count steps on devices, unless ``skip``, a float32 tensor, is not 0.
advance_on_device = _Advance()


def advance(steps: Sequence[Tensor]) -> list[float]:
    """Add 1 to each of the CPU tensors that count steps; the new counts."""
    arrays = [each._writable for each in steps]
    result = [array.item() + 1.0 for array in arrays]
    for each, array, number in zip(steps, arrays, result, strict=True):
        array.fill(number)
        each._storage.version += 1
    return result
