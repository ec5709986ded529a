"""``wgmma``: matrix products of warpgroups, which go on while their threads do.

Registers have their results when a thread waits: until then they keep what they had under ``lazy``. Products that add to
the results of earlier ones are carried out after these. A warpgroup's product is one operation: when one of its
warps has waited for it, it has been read whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic.matrices import fragments
from drv.simulator.arithmetic.matrices.products import multiply
from drv.simulator.arithmetic.matrices.warpgroups import (
    ROWS,
    UNIT,
    Descriptor,
    matrix,
    negated,
    warpgroup_form,
)
from drv.simulator.checks.observation import Access, Span

from .operations import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.arithmetic.matrices.fragments import Fragment
    from drv.simulator.arithmetic.matrices.warpgroups import WarpgroupForm
    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.lanes import Lanes
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]

WARP, WARPS = 32, 4
THREADS = WARP * WARPS
_DTYPES: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "s32": np.int32}
#: Registers by number, in a function that has a name.
Registers = tuple[str, tuple[int, ...]]


class Factor:
    """A factor in shared memory: positions of its units, ``(warpgroups, lines, units)``, in that of the batch."""

    __slots__ = ("negative", "positions", "ptx_type", "transposed")

    def __init__(self, positions: Array, ptx_type: str, *, transposed: bool, negative: bool) -> None:
        self.positions = positions
        self.ptx_type = ptx_type
        self.transposed = transposed
        self.negative = negative

    def read(self, batch: Batch) -> Array:
        """Bit patterns ``(warpgroups, lines, k)``."""
        units = batch.shared(np.complex128)[self.positions // UNIT]
        values = matrix(units[..., None].view(np.uint8), self.ptx_type, self.transposed)
        return negated(values, self.ptx_type) if self.negative else values


class Product(Operation):
    """A product of each of some warpgroups, whose lanes are in order.

    ``targets`` are registers that are going to have results, and which of these; ``sources`` those that it reads.
    """

    __slots__ = (
        "_addend",
        "_before",
        "_form",
        "_left",
        "_right",
        "function",
        "outputs",
        "results",
        "sources",
        "targets",
    )

    def __init__(
        self,
        lanes: Lanes,
        site: Site,
        token: Any,
        form: WarpgroupForm,
        left: Factor | Array,
        right: Factor,
        targets: Registers,
        sources: tuple[int, ...],
    ) -> None:
        super().__init__(lanes, site, token)
        self._form = form
        self._left = left
        self._right = right
        self.function = targets[0]
        self.outputs = targets[1]
        self.targets = {number: index for index, number in enumerate(targets[1])}
        self.sources = frozenset(sources)
        self._addend: list[Array] | None = None
        self._before: Product | None = None
        self.results: list[Array] = []

    def add_to(self, addend: list[Array] | None, before: Product | None) -> None:
        """Add to registers, or to the results of an earlier product; to nothing where both are left out."""
        self._addend = addend
        self._before = before

    def carry_out(self, which: Array) -> None:
        """Multiply, for all warpgroups."""
        if self.results:
            return
        batch = self.lanes.batch
        form = self._form.product
        if self._before is not None:
            batch.operations.complete(self._before, np.arange(len(self._before.slots)))
            self._addend = self._before.results
            self._before = None
        groups = len(self.slots) // THREADS
        a = self._left.read(batch) if isinstance(self._left, Factor) else self._left
        b = self._right.read(batch).swapaxes(1, 2)
        layout = fragments.accumulator(ROWS // WARPS, form.n)
        c = self._matrices(layout, groups)
        total = multiply(form, a, b, c).reshape(groups * WARPS, ROWS // WARPS, form.n)
        self.results = _registers(layout.spread(total), len(self.slots))
        self._addend = None
        self.left[:] = False

    def _matrices(self, layout: Fragment, groups: int) -> Array:
        form = self._form.product
        dtype = _DTYPES[form.d]
        if self._addend is None:
            return np.zeros((groups, ROWS, form.n), dtype)
        table = np.empty((len(self.slots), len(self._addend)), self._addend[0].dtype)
        for index, each in enumerate(self._addend):
            table[:, index] = each
        elements = table.view(dtype).reshape(groups * WARPS, -1)
        return layout.matrices(elements).reshape(groups, ROWS, form.n)

    def positions(self, slots: Array) -> Array:
        """Where ``slots`` are among the product's lanes; -1 where they are not."""
        at = np.searchsorted(self.slots, slots)
        at[at == len(self.slots)] = 0
        return np.where(self.slots[at] == slots, at, -1)


def _registers(values: Array, lanes: int) -> list[Array]:
    """An array for each register of ``values`` ``(warps, 32 * per)``; elements of 16 bits in pairs."""
    table = np.ascontiguousarray(values).reshape(lanes, -1)
    if table.dtype.itemsize < 4:
        table = table.view(np.uint32)
    return list(np.ascontiguousarray(table.T))


class Products:
    """The products of a batch that threads have not waited for, and their groups."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._closed = np.zeros(batch.n, np.int64)
        self._members: list[Product] = []

    def add(self, product: Product) -> None:
        """A product belongs to the groups that its threads have open."""
        product.group = self._closed[product.slots]
        self._members.append(product)

    def close(self, slots: Array) -> None:
        """Threads close their groups."""
        self._closed[slots] += 1

    def before(self, product: Product) -> Product | None:
        """The latest product of the same lanes into the same registers that some of the lanes have not waited for."""
        for each in reversed(self._members):
            if (
                each.function == product.function
                and each.outputs == product.outputs
                and np.array_equal(each.slots, product.slots)
            ):
                return each
        return None

    def touched(self, function: str, numbers: Sequence[int], lanes: Lanes, *, writes: bool) -> Product | None:
        """A product that is going to write one of these registers of some of ``lanes``, or to read one that is written."""
        for each in self._members:
            if each.function == function and any(
                number in each.targets or (writes and number in each.sources) for number in numbers
            ):
                at = each.positions(lanes.slots)
                if each.open[at[at >= 0]].any():
                    return each
        return None

    def rename(self, function: str, target: int, source: int) -> None:
        """Register ``target`` holds from now on what ``source`` does, or something else where that is -1."""
        for each in self._members:
            if each.function == function:
                if source in each.targets:
                    each.targets[target] = each.targets[source]
                elif target not in each.outputs:
                    each.targets.pop(target, None)

    def wait(
        self, lanes: Lanes, allowed: int, function: str, numbers: Sequence[int], values: Sequence[Array]
    ) -> list[Array]:
        """``lanes`` wait until at most ``allowed`` of their closed groups are left. Registers with what has come since."""
        result = list(values)
        index_of = {number: index for index, number in enumerate(numbers)}
        observer = lanes.launch.observer
        late = lanes.launch.schedule != "eager"
        pending = []
        for member in self._members:
            at = member.positions(lanes.slots)
            mine = np.flatnonzero(at >= 0)
            at = at[mine]
            due = member.open[at] & (member.group[at] < self._closed[member.slots[at]] - allowed)
            if due.any():
                mine, at = mine[due], at[due]
                self._batch.operations.complete(member, np.arange(len(member.slots)))
                if member.token is not None and observer is not None:
                    groups = np.unique(at // THREADS)
                    which = (groups[:, None] * THREADS + np.arange(THREADS)).ravel()
                    observer.products_end(member.token, which, lanes.subset(mine))
                if late and member.function == function:
                    self._deliver(member, lanes.n, mine, at, index_of, result)
                member.open[at] = False
            if member.open.any():
                pending.append(member)
        self._members = pending
        return result

    @staticmethod
    def _deliver(
        member: Product, n: int, mine: Array, at: Array, index_of: dict[int, int], result: list[Array]
    ) -> None:
        """Results come to the registers of the lanes ``mine``."""
        for number, which in member.targets.items():
            index = index_of.get(number)
            if index is None:
                continue
            old = result[index]
            new = np.repeat(old, n, axis=0) if old.shape[0] == 1 and n > 1 else old.copy()
            new[mine] = member.results[which][at].view(new.dtype)
            result[index] = new


class ProductAccess:
    """The ``wgmma`` instructions of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def constant(self, name: str, axis: int | None = None) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def _warps(self, site: Site) -> Array | None: ...

    def multiply_async(
        self,
        site: Site,
        opcode: str,
        targets: Registers,
        values: Sequence[Array],
        left: Array | tuple[tuple[int, ...], Sequence[Array]],
        right: Array,
        scale: Array,
        negative: tuple[bool, bool],
        transposed: tuple[bool, bool],
    ) -> list[Array]:
        """``wgmma.mma_async``: registers of the result, as far as they have changed.

        ``left`` is a descriptor, or the numbers and the values of registers. ``scale`` says whether the ``values`` of the
        registers of the result are added.
        """
        order = self._warps(site)
        lanes: Any = self if order is None else self.subset(order)
        self._check_warpgroups(site, lanes)
        form = warpgroup_form(opcode)
        groups = lanes.n // THREADS
        product = form.product

        def ordered(value: Array) -> Array:
            return value if order is None or value.shape[0] == 1 else value[order]

        spans: list[Span] = []
        sources: tuple[int, ...] = ()
        if isinstance(left, tuple):
            sources, registers = left
            table = np.empty((lanes.n, len(registers)), registers[0].dtype)
            for index, each in enumerate(registers):
                table[:, index] = ordered(each)
            layout = fragments.left(ROWS // WARPS, product.k, product.a)
            elements = fragments.unpacked(table.reshape(groups * WARPS, WARP, -1), product.a)
            a: Any = layout.matrices(elements).reshape(groups, ROWS, product.k)
            if negative[0]:
                a = negated(a, product.a)
        else:
            a = self._factor(site, lanes, ordered(left), ROWS, product.a, transposed[0], negative[0], spans)
        b = self._factor(site, lanes, ordered(right), product.n, product.b, transposed[1], negative[1], spans)
        token = None
        if self.launch.observer is not None:
            token = self.launch.observer.asynchronous_begins(lanes, site, spans, generic=False)
        operation = Product(lanes, site, token, form, a, b, targets, sources)
        products = self.batch.products
        adds = np.broadcast_to(ordered(scale), (lanes.n,))
        if adds.any():
            self._add_to(operation, adds, [lanes.broadcast(ordered(each)) for each in values])
        if token is not None or self.launch.schedule != "eager":
            products.add(operation)
        self.batch.operations.issue(operation)
        if self.launch.schedule != "eager":
            return list(values)
        return [_unordered(order, each) for each in operation.results]

    def _add_to(self, product: Product, adds: Array, values: list[Array]) -> None:
        """Let the lanes of ``adds`` add to what the registers of the result hold, or are going to hold."""
        before = None
        if self.launch.schedule != "eager":
            # What has not been waited for is in no register.
            before = self.batch.products.before(product)
        if before is not None and adds.all() and before.open.all():
            product.add_to(None, before)
            return
        if before is not None:
            self.batch.operations.complete(before, np.arange(len(before.slots)))
            coming = zip(before.results, values, strict=True)
            values = [np.where(before.open, new.view(old.dtype), old) for new, old in coming]
        product.add_to([np.where(adds, each, each.dtype.type(0)) for each in values], None)

    def _check_warpgroups(self, site: Site, lanes: Any) -> None:
        """A fault where not all warps of a warpgroup are there."""
        slots = lanes.thread
        if lanes.n % THREADS == 0:
            table = slots.reshape(-1, THREADS)
            if (table[:, 0] % THREADS == 0).all() and (table[:, -1] - table[:, 0] == THREADS - 1).all():
                return
        raise self.launch.reports.part_of_warpgroup(self, site, 0)

    def _factor(
        self,
        site: Site,
        lanes: Any,
        descriptors: Array,
        lines: int,
        ptx_type: str,
        transposed: bool,
        negative: bool,
        spans: list[Span],
    ) -> Factor:
        """A factor in shared memory, which is added to what the observer is told of."""
        groups = lanes.n // THREADS
        first = lanes.broadcast(descriptors)[::THREADS]
        known: dict[int, Array] = {}
        addresses = np.stack(
            [
                known[bits]
                if bits in known
                else known.setdefault(bits, Descriptor.of(bits).addresses(lines, transposed))
                for bits in first.tolist()
            ]
        )
        size = self.launch.shared_bytes
        bad = np.argwhere((addresses < 0) | (addresses + UNIT > size))
        if bad.size:
            if self.launch.checked:
                group = int(bad[0][0])
                at = int(addresses[tuple(bad[0])])
                raise self.launch.reports.window(
                    lanes, site, group * THREADS, at, UNIT, Access.READ, size, "shared"
                )
            addresses = np.clip(addresses, 0, max(size - UNIT, 0)) & ~(UNIT - 1)
        if self.launch.observer is not None:
            # Each warp of a warpgroup reads its own rows of the first factor, and all of the second.
            flat = addresses.reshape(groups, -1)
            leaders = np.arange(0, lanes.n, WARP).reshape(groups, WARPS)
            offsets, lane = np.repeat(flat, WARPS, axis=0).ravel(), np.repeat(leaders.ravel(), flat.shape[1])
            spans.append(Span(Access.READ, offsets, UNIT, lane))
        base = lanes.broadcast(lanes.constant("shared_base"))[::THREADS]
        return Factor(addresses + base[:, None, None], ptx_type, transposed=transposed, negative=negative)

    def commit_products(self) -> None:
        """``wgmma.commit_group``."""
        self.batch.products.close(self.slots)

    def wait_for_products(
        self, allowed: int, function: str, numbers: Sequence[int], values: Sequence[Array]
    ) -> list[Array]:
        """``wgmma.wait_group``: registers of a function with what has come to them since."""
        result = self.batch.products.wait(self, allowed, function, numbers, values)  # type: ignore[arg-type]
        self.batch.operations.draw()
        return result

    def rename_product(self, function: str, target: int, source: int) -> None:
        """A register takes what may be another one's result."""
        self.batch.products.rename(function, target, source)

    def touch_products(self, site: Site, function: str, numbers: Sequence[int], writes: bool) -> None:
        """Threads read, or write, registers that products may be going to write, or to read."""
        observer = self.launch.observer
        if observer is None:
            return
        product = self.batch.products.touched(function, numbers, self, writes=writes)  # type: ignore[arg-type]
        if product is not None and product.token is not None:
            observer.registers_touched(product.lanes, product.site, self, site, writes=writes)  # type: ignore[arg-type]

    def unfenced_product(self, site: Site, writer: Site | None) -> None:
        """A product whose registers were written without a fence since, or that no fence comes before."""
        if self.launch.observer is not None:
            self.launch.observer.registers_unfenced(self, writer, site)  # type: ignore[arg-type]


def _unordered(order: Array | None, values: Array) -> Array:
    if order is None:
        return values
    result = np.empty_like(values)
    result[order] = values
    return result
