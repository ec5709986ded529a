"""Reductions over any dimensions of operands of any layouts.

What is computed is a row of :mod:`.reducers`. How is worked out from the layouts once (:func:`plan`) and then
only launched; :mod:`.reduction_work` chooses among the layouts of work that ``cuda/reduction.cuh`` has.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from drv import bind

from .kernel_cache import KernelCache
from .program import library_program
from .reduction_source import MOST_INPUTS, kernel_source
from .reduction_work import THREADS, Rows, Work, collapsed, work_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .reducers import Reducer

    Types = tuple[tuple[dtype, ...], tuple[dtype, ...]]
    #: ``(grid, block, *first arguments)`` gives what launches the kernel with the others.
    _Bind = Callable[..., Callable[..., None]]

#: Bytes of a state, at most; ``cuda/reduction.cuh`` checks it.
_STATE = 32
_WARP = 32
_MAX_GRID = (1 << 31) - 1


class Plan(NamedTuple):
    """A reduction that is ready to launch.

    Attributes
    ----------
    run : callable
        ``run(stream_handle, *output_addresses, *input_addresses, *scalars, scratch=address)``.
    scratch_bytes : int
        Device memory that a run needs at ``scratch``, aligned to 16 bytes; its contents do not matter.
    """

    run: Callable[..., None]
    scratch_bytes: int = 0


class Form(NamedTuple):
    """How the kernels of a reduction are launched.

    Attributes
    ----------
    layout : bytes
        The structure that says where operands lie.
    layout_type : str
        Its type.
    grid, threads : int
        Blocks, and threads of each, of the kernel that reduces.
    fold, fold_grid : int
        Threads that combine the chunks of a row, and blocks of the kernel in which they do; 0 where rows are not cut.
    scratch_bytes : int
        Device memory for the states of chunks.
    """

    layout: bytes
    layout_type: str
    grid: int
    threads: int
    fold: int = 0
    fold_grid: int = 0
    scratch_bytes: int = 0

    @classmethod
    def of(cls, rows: Rows, work: Work) -> Self:
        """That of ``rows`` which are worked on as ``work`` says."""
        lines = rows.count // work.width if work.columns else rows.count
        grid = min(-(-lines // work.across) * work.chunks, _MAX_GRID)
        form = cls(*rows.pack(work), grid, work.along * work.across)
        if work.chunks == 1:
            return form
        fold = THREADS
        if work.chunks <= 2 * _WARP:
            fold = _WARP
        elif rows.count >= THREADS and work.chunks <= 2 * THREADS:
            # Many rows fill the device with fewer threads each.
            fold = THREADS // 2
        fold_grid = min(-(-rows.count * fold // THREADS), _MAX_GRID)
        return form._replace(fold=fold, fold_grid=fold_grid, scratch_bytes=rows.count * work.chunks * _STATE)


def plan(
    device: Device,
    reducer: Reducer,
    shape: Sequence[int],
    dims: Sequence[int],
    outputs: Sequence[tuple[Sequence[int], dtype]],
    inputs: Sequence[tuple[Sequence[int], dtype]],
) -> Plan:
    """What launches a reduction of inputs of ``shape`` over the dimensions ``dims``.

    Parameters
    ----------
    shape
        Common shape of the inputs; a stretched dimension has stride 0.
    dims
        Dimensions that are reduced, none negative.
    outputs, inputs
        Strides (in elements) and type of each operand. Outputs have a stride for every dimension; those of the
        reduced ones do not matter.

    Raises
    ------
    IndexError
        For a reduction of nothing that has no value, such as the largest of no elements.
    TypeError
        For complex numbers that would have to be compared, and a wrong number of operands.
    """
    _check(reducer, shape, dims, outputs, inputs)
    rows = collapsed(
        shape,
        dims,
        [strides for strides, _ in outputs],
        [strides for strides, _ in inputs],
        keep_order=reducer.with_indices,
        lookups=reducer.lookups,
    )
    if rows.count == 0:
        return Plan(_nothing)
    types = tuple(dtype for _, dtype in outputs), tuple(dtype for _, dtype in inputs)
    work, narrow = work_for(rows, [dtype.itemsize for dtype in types[1]])
    if narrow is None:
        return _planned(device, reducer, rows, types, work)
    return _aligned(device, reducer, rows, types, work, narrow)


def _nothing(*_: Any, scratch: int = 0) -> None:
    """Nothing to compute: no launch."""


def _check(
    reducer: Reducer,
    shape: Sequence[int],
    dims: Sequence[int],
    outputs: Sequence[tuple[Sequence[int], dtype]],
    inputs: Sequence[tuple[Sequence[int], dtype]],
) -> None:
    name = reducer.name
    if len(outputs) != len(reducer.results):
        raise TypeError(f"{name}() has {len(reducer.results)} results, but {len(outputs)} outputs were given")
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise TypeError(f"{name}(): a reduction has 1 to {MOST_INPUTS} inputs, but {len(inputs)} were given")
    if any(not 0 <= dim < len(shape) for dim in dims) or len(set(dims)) != len(dims):
        raise IndexError(
            f"{name}(): dims must be different dimensions of shape {list(shape)}, counted from 0, "
            f"but {list(dims)} were given"
        )
    empty = next((dim for dim in dims if shape[dim] == 0), None)
    if empty is not None and not reducer.identity:
        raise IndexError(
            f"{name}(): Expected reduction dim {empty} to have non-zero size, for nothing has no {name}; "
            f"the shape is {list(shape)}"
        )
    if reducer.ordered:
        for _, dtype in inputs:
            if (reducer.compute or dtype).is_complex:
                raise TypeError(
                    f"{name}() compares values, but complex numbers ({dtype!r}) have no order: reduce their "
                    "magnitudes or their parts"
                )


def _aligned(device: Device, reducer: Reducer, rows: Rows, types: Types, work: Work, narrow: Work) -> Plan:
    """A plan for loads of several elements, and another for addresses that do not allow them."""
    form, launch, fold = _launches(device, reducer, rows, types, work)
    wide = _plan_of(form, launch, fold)
    run_wide = wide.run
    packed = [k for k in range(len(types[1])) if k not in work.stretched]
    positions = [len(types[0]) + k for k in packed]
    mask = work.width * max(types[1][k].itemsize for k in packed) - 1
    scratch_bytes = max(wide.scratch_bytes, Form.of(rows, narrow).scratch_bytes)

    def run_narrow(stream: Any, *arguments: Any, scratch: int) -> None:
        _planned(device, reducer, rows, types, narrow).run(stream, *arguments, scratch=scratch)

    if len(positions) == 1 and fold is None:
        # The most frequent case, without the call of another function.
        (only,) = positions

        def run_one(stream: Any, *arguments: Any, scratch: int = 0) -> None:
            if arguments[only] & mask:
                run_narrow(stream, *arguments, scratch=scratch)
            else:
                launch(stream, *arguments, scratch)

        return Plan(run_one, scratch_bytes)

    def run(stream: Any, *arguments: Any, scratch: int = 0) -> None:
        low = 0
        for position in positions:
            low |= arguments[position]
        if low & mask:
            run_narrow(stream, *arguments, scratch=scratch)
        else:
            run_wide(stream, *arguments, scratch=scratch)

    return Plan(run, scratch_bytes)


def _planned(device: Device, reducer: Reducer, rows: Rows, types: Types, work: Work) -> Plan:
    """A plan for one layout of work."""
    return _plan_of(*_launches(device, reducer, rows, types, work))


def _launches(
    device: Device, reducer: Reducer, rows: Rows, types: Types, work: Work
) -> tuple[Form, Callable[..., None], Callable[..., None] | None]:
    """The form of a plan, what launches its kernel, and what launches the one that combines chunks, if there is one."""
    form = Form.of(rows, work)
    reduce, combine = _launchers(
        device, reducer, types, (form.layout_type, len(form.layout)), work, form.fold
    )
    launch = reduce((form.grid, 1, 1), (form.threads, 1, 1), form.layout)
    fold = None if combine is None else combine((form.fold_grid, 1, 1), (THREADS, 1, 1), form.layout)
    return form, launch, fold


def _plan_of(form: Form, launch: Callable[..., None], fold: Callable[..., None] | None) -> Plan:
    if fold is None:
        return Plan(lambda stream, *arguments, scratch=0: launch(stream, *arguments, scratch))

    def run_chunks(stream: Any, *arguments: Any, scratch: int) -> None:
        launch(stream, *arguments, scratch)
        fold(stream, *arguments, scratch)

    return Plan(run_chunks, form.scratch_bytes)


def _launchers(
    device: Device, reducer: Reducer, types: Types, layout: tuple[str, int], work: Work, fold: int
) -> tuple[_Bind, _Bind | None]:
    """What binds the kernel that reduces to a grid, and the one that combines chunks where there are any."""
    layout_type, layout_bytes = layout
    variant = "columns" if work.columns else "rows"

    def make() -> tuple[_Bind, _Bind | None]:
        source = kernel_source(reducer, *types, layout_type, variant, work, fold)
        program = library_program(source, f"{reducer.name}.cu")
        operands = len(types[0]) + len(types[1])
        codes = (layout_bytes, *"P" * operands, *(code for _, code in reducer.scalars), "P")

        def binder(name: str) -> _Bind:
            function = KernelCache.of(device.runtime).function(program, f"{reducer.name}_{name}", device)
            return partial(bind, function, codes)

        return binder(variant), binder("fold") if fold else None

    key = ("reduction", device.ordinal, reducer, types, layout_type, work.call, work.stretched, fold)
    return device.runtime.cache(key, make)
