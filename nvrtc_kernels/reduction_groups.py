"""Several like reductions in one launch.

Small reductions take less time than their launches: a training step has one for each bias and each weight of a normalization.
Here the blocks of many are one grid, whose second coordinate says which reduction a block works on; layouts and operands are
in a table among the kernel's parameters. Each is cut up and added in the order that :func:`.reduction.plan` has for it alone, so
results are the same, bit for bit.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from drv import bind

from . import reduction
from .kernel_cache import KernelCache
from .program import library_program
from .reduction import Form, Plan
from .reduction_source import kernel_source
from .reduction_work import THREADS, Work, collapsed, work_for

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .layouts import Ints
    from .reducers import Reducer

#: Bytes of a table: with the other argument it stays under the 4 KiB that every device takes.
_BYTES = 3840
#: What scratch memory of each reduction is aligned to.
_ALIGNMENT = 16


class Task(NamedTuple):
    """A reduction; :func:`.reduction.plan` tells of the attributes."""

    reducer: Reducer
    shape: Ints
    dims: Ints
    outputs: tuple[tuple[Ints, dtype], ...]
    inputs: tuple[tuple[Ints, dtype], ...]

    def alone(self, device: Device) -> Plan:
        """What launches it by itself."""
        return reduction.plan(device, self.reducer, self.shape, self.dims, self.outputs, self.inputs)

    def like(self) -> Hashable:
        """What is equal for reductions that :func:`plan` takes together; ``None`` for one that is none of several."""
        if self.reducer.scalars or 0 in self.shape:
            return None
        member = _Member.of(self)
        work = member.work
        return (
            self.reducer,
            member.types,
            member.form.layout_type,
            work.call,
            work.stretched,
            member.form.fold,
        )


def capacity(task: Task) -> int:
    """How many reductions like ``task`` one launch takes."""
    return _BYTES // _Member.of(task).size


class _Member(NamedTuple):
    """A reduction of several."""

    types: tuple[tuple[dtype, ...], tuple[dtype, ...]]
    work: Work
    form: Form
    #: Which operands are loaded in packs, and what is no multiple of their sizes in an address that is none.
    packed: Ints
    mask: int
    #: Scratch memory if it is launched by itself, whatever its addresses are.
    scratch_alone: int

    @classmethod
    def of(cls, task: Task) -> _Member:
        rows = collapsed(
            task.shape,
            task.dims,
            [strides for strides, _ in task.outputs],
            [strides for strides, _ in task.inputs],
            keep_order=task.reducer.with_indices,
            lookups=task.reducer.lookups,
        )
        types = tuple(each for _, each in task.outputs), tuple(each for _, each in task.inputs)
        work, narrow = work_for(rows, [each.itemsize for each in types[1]])
        packed = [k for k in range(len(types[1])) if k not in work.stretched] if narrow is not None else []
        mask = work.width * max((types[1][k].itemsize for k in packed), default=1) - 1
        form = Form.of(rows, work)
        scratch_alone = max(form.scratch_bytes, 0 if narrow is None else Form.of(rows, narrow).scratch_bytes)
        return cls(types, work, form, tuple(len(types[0]) + k for k in packed), mask, scratch_alone)

    @property
    def operands(self) -> int:
        return len(self.types[0]) + len(self.types[1])

    @property
    def size(self) -> int:
        """Bytes in the table."""
        return 8 * (self.operands + 1) + len(self.form.layout) + -len(self.form.layout) % 8


def plan(device: Device, tasks: Sequence[Task]) -> Plan:
    """What launches ``tasks`` together.

    Parameters
    ----------
    device : Device
        Where.
    tasks : sequence of Task
        At least one, and at most :func:`capacity`, of which :meth:`Task.like` gives the same.

    Returns
    -------
    Plan
        Its ``run`` is given the operands' addresses of one reduction after the other: outputs, then inputs. Where one of
        them does not lie as their loads need it, each reduction is launched by itself.
    """
    members = [_Member.of(task) for task in tasks]
    first = members[0]
    operands, form = first.operands, first.form
    launch, launch_fold = _launchers(device, tasks[0].reducer, members)
    scratch_at, scratch_bytes = [], 0
    for member in members:
        scratch_at.append(scratch_bytes)
        scratch_bytes += -(-member.form.scratch_bytes // _ALIGNMENT) * _ALIGNMENT
    width = len(form.layout)
    entry = f"{operands}QQ{width}s{-width % 8}x"
    table = struct.Struct(f"={entry * len(tasks)}{first.size * (_BYTES // first.size - len(tasks))}x")
    slots = [slice(start, start + operands) for start in range(0, operands * len(tasks), operands)]
    rest = [(at, member.form.layout) for at, member in zip(scratch_at, members, strict=True)]
    checked = [
        (start.start + position, member.mask)
        for start, member in zip(slots, members, strict=True)
        for position in member.packed
    ]

    def run(stream: Any, *addresses: int, scratch: int = 0) -> None:
        if any(addresses[position] & mask for position, mask in checked):
            for slot, task in zip(slots, tasks, strict=True):
                # One after the other on the stream: each may have the scratch memory of all.
                task.alone(device).run(stream, *addresses[slot], scratch=scratch)
            return
        numbers: list[Any] = []
        for slot, others in zip(slots, rest, strict=True):
            numbers += addresses[slot]
            numbers += others
        packed = table.pack(*numbers)
        launch(stream, packed, scratch)
        if launch_fold is not None:
            launch_fold(stream, packed, scratch)

    return Plan(run, max(scratch_bytes, *[member.scratch_alone for member in members]))


def _launchers(
    device: Device, reducer: Reducer, members: Sequence[_Member]
) -> tuple[Callable[..., None], Callable[..., None] | None]:
    """What launches the kernel that reduces, and the one that combines chunks where there are any."""
    first = members[0]
    work, form, most = first.work, first.form, _BYTES // first.size
    variant = "columns" if work.columns else "rows"

    def make() -> list[Callable[..., Any]]:
        source = kernel_source(reducer, *first.types, form.layout_type, variant, work, form.fold, most)
        program = library_program(source, f"{reducer.name}_group.cu")

        def binder(name: str) -> Callable[..., Any]:
            function = KernelCache.of(device.runtime).function(program, f"{reducer.name}_{name}", device)
            return partial(bind, function, (most * first.size, "P"))

        return [binder(each) for each in ((variant, "fold") if form.fold else (variant,))]

    key = (
        "reductions",
        device.ordinal,
        reducer,
        first.types,
        form.layout_type,
        work.call,
        work.stretched,
        form.fold,
    )
    reduce, *combine = device.runtime.cache(key, make)
    grid = max(member.form.grid for member in members)
    launch = reduce((grid, len(members), 1), (form.threads, 1, 1))
    if not combine:
        return launch, None
    fold_grid = max(member.form.fold_grid for member in members)
    return launch, combine[0]((fold_grid, len(members), 1), (THREADS, 1, 1))
