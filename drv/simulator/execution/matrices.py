"""Matrix instructions, for the lanes of whole warps: products, and fragments from and to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic.matrices import fragments
from drv.simulator.arithmetic.matrices.fragments import LANES
from drv.simulator.arithmetic.matrices.products import BITS, matrix_form, multiply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.arithmetic.matrices.fragments import Fragment
    from drv.simulator.arithmetic.matrices.products import MatrixForm

    from .launch_state import LaunchState
    from .translation.code import Site

    Array = NDArray[Any]

_RESULT_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
#: Rows of the 8 by 8 matrices of ``ldmatrix``, and what each has: 8 elements of 16 bits in 4 words.
_ROWS, _WORDS = 8, 4


class MatrixAccess:
    """The matrix instructions of :class:`~.lanes.Lanes`, which has the attributes named here."""

    __slots__ = ()

    if TYPE_CHECKING:
        launch: LaunchState
        n: int
        _in_warps: Any

        @property
        def block(self) -> NDArray[np.int64]: ...
        @property
        def thread(self) -> NDArray[np.int64]: ...
        def constant(self, name: str, axis: int | None = None) -> Array: ...
        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array, *, repeated: bool = False) -> Any: ...

    def _warps(self, site: Site) -> Array | None:
        """Indices of the lanes in order of their warps; ``None`` where they are so. All warps are whole."""
        if self._in_warps is False:
            slots = self.broadcast(self.constant("warp_slot"))
            order = None
            if self.n > 1 and (slots[1:] <= slots[:-1]).any():
                order = np.argsort(slots)
                slots = slots[order]
            whole = self.n % LANES == 0
            if whole:
                table = slots.reshape(-1, LANES)
                whole = bool(
                    (table[:, 0] & 31 == 0).all() and (table[:, -1] - table[:, 0] == LANES - 1).all()
                )
            if not whole:
                warps, present = np.unique(slots >> 5, return_counts=True)
                short = int(np.flatnonzero(present < LANES)[0])
                lane = int(np.flatnonzero(self.broadcast(self.constant("warp_slot")) >> 5 == warps[short])[0])
                raise self.launch.reports.part_of_warp(self, site, lane, int(present[short]))
            self._in_warps = order
        return None if self._in_warps is None else np.asarray(self._in_warps)

    def _registers(self, order: Array | None, values: Sequence[Array]) -> Array:
        """Registers as ``(warps, 32, registers)``."""
        table = np.empty((self.n, len(values)), values[0].dtype)
        for index, value in enumerate(values):
            table[:, index] = value if order is None or value.shape[0] == 1 else value[order]
        return table.reshape(-1, LANES, len(values))

    def _values(self, order: Array | None, table: Array) -> list[Array]:
        """The inverse of :meth:`_registers`: an array per register."""
        columns = np.ascontiguousarray(table.reshape(self.n, -1).T)
        if order is None:
            return list(columns)
        result = np.empty_like(columns)
        result[:, order] = columns
        return list(result)

    def _spread(self, order: Array | None, fragment: Fragment, matrices: Array) -> list[Array]:
        """Registers of the elements of ``matrices``; those of 16 bits in pairs."""
        table = fragment.spread(matrices).reshape(-1, LANES * fragment.per)
        if table.dtype.itemsize < 4:
            table = np.ascontiguousarray(table).view(np.uint32)
        return self._values(order, table)

    def multiply_matrices(
        self, site: Site, opcode: str, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array]
    ) -> list[Array]:
        """``mma.sync`` and ``wmma.mma.sync``: registers of the result from those of the factors and the addend."""
        form = matrix_form(opcode)
        order = self._warps(site)
        left, right, addend, result = _layouts(opcode, form)
        first, second = (
            fragment.matrices(fragments.unpacked(self._registers(order, values), ptx_type))
            for fragment, values, ptx_type in ((left, a, form.a), (right, b, form.b))
        )
        held = self._registers(order, c)
        elements = held.view(_RESULT_DTYPES[form.c]).reshape(held.shape[0], -1)
        total = multiply(form, first, second, addend.matrices(elements))
        return self._spread(order, result, total)

    # Matrices of 8 by 8 elements of 16 bits

    def load_matrices(
        self, site: Site, space: str, address: Array, offset: int, count: int, transposed: bool
    ) -> list[Array]:
        """``ldmatrix``: each group of 8 lanes has the addresses of the rows of a matrix."""
        order = self._warps(site)
        giving, chosen = self._givers(order, count)
        mine = chosen.broadcast(address if address.shape[0] == 1 else address[giving])
        words = getattr(chosen, f"load_{space}")(site, mine, offset, np.uint32, 4, _WORDS)
        rows = np.stack([chosen.broadcast(each) for each in words], axis=1)
        table = rows.reshape(-1, count, _ROWS, _WORDS)
        if transposed:
            table = _transposed(table)
        return self._values(order, table.reshape(-1, count, LANES).transpose(0, 2, 1))

    def store_matrices(
        self, site: Site, space: str, address: Array, offset: int, transposed: bool, values: Sequence[Array]
    ) -> None:
        """``stmatrix``: the inverse of :meth:`load_matrices`."""
        order = self._warps(site)
        count = len(values)
        table = self._registers(order, values).transpose(0, 2, 1).reshape(-1, count, _ROWS, _WORDS)
        if transposed:
            table = _transposed(table)
        giving, chosen = self._givers(order, count)
        mine = chosen.broadcast(address if address.shape[0] == 1 else address[giving])
        words = np.ascontiguousarray(table.reshape(-1, _WORDS).T)
        getattr(chosen, f"store_{space}")(site, mine, offset, np.uint32, 4, _WORDS, tuple(words))

    def transpose_matrix(self, site: Site, value: Array) -> Array:
        """``movmatrix``."""
        order = self._warps(site)
        table = self._registers(order, [value]).reshape(-1, 1, _ROWS, _WORDS)
        return self._values(order, _transposed(table).reshape(-1, LANES, 1))[0]

    def _givers(self, order: Array | None, count: int) -> tuple[Array, Any]:
        """Lanes whose addresses count when ``count`` matrices move, warp by warp: indices, and these lanes."""
        lanes = np.arange(self.n) if order is None else order
        giving = lanes.reshape(-1, LANES)[:, : _ROWS * count].ravel()
        return giving, self.subset(giving)

    # Fragments of wmma

    def load_fragment(
        self,
        site: Site,
        space: str,
        fragment: tuple[str, int, int, int, str, str],
        address: Array,
        offset: int,
        stride: Array | None,
    ) -> list[Array]:
        """``wmma.load``. ``fragment`` is which of a, b and c, the shape, the PTX type and the layout in memory."""
        order = self._warps(site)
        chosen, mine, ptx_type, each = self._elements(order, fragment, address, stride)
        dtype = np.dtype(f"uint{each}")
        values = getattr(chosen, f"load_{space}")(site, mine, offset, dtype.type, dtype.itemsize, 1)
        table = chosen.broadcast(values).reshape(self.n, -1)
        if dtype.itemsize < 4:
            table = np.ascontiguousarray(table).view(np.uint32)
        table = table.view(_RESULT_DTYPES[ptx_type]) if ptx_type in ("f32", "f64", "s32") else table
        return self._values(order, table)

    def store_fragment(
        self,
        site: Site,
        space: str,
        fragment: tuple[str, int, int, int, str, str],
        address: Array,
        offset: int,
        stride: Array | None,
        values: Sequence[Array],
    ) -> None:
        """``wmma.store``."""
        order = self._warps(site)
        chosen, mine, _, each = self._elements(order, fragment, address, stride)
        dtype = np.dtype(f"uint{each}")
        elements = self._registers(order, values).view(dtype).ravel()
        getattr(chosen, f"store_{space}")(site, mine, offset, dtype.type, dtype.itemsize, 1, elements)

    def _elements(
        self,
        order: Array | None,
        fragment: tuple[str, int, int, int, str, str],
        address: Array,
        stride: Array | None,
    ) -> tuple[Any, Array, str, int]:
        """A lane for each element of a fragment (for each word, where elements are small), and their addresses.

        Also the PTX type, and the bits of what each lane moves.
        """
        which, m, n, k, ptx_type, layout = fragment
        tile = fragments.of_wmma(which, m, n, k, ptx_type)
        row, column = np.divmod(tile.elements, tile.columns)
        line, along = (row, column) if layout == "row" else (column, row)
        length = tile.columns if layout == "row" else tile.rows
        bits = BITS[ptx_type]
        step = 32 // bits if bits < 8 else 1
        line, along = (each.reshape(LANES, -1)[:, ::step] for each in (line, along))
        lanes = np.arange(self.n) if order is None else order
        chosen = self.subset(np.repeat(lanes, line.shape[1]), repeated=True)
        lead = np.array([length]) if stride is None else stride.astype(np.int64)
        if order is not None and lead.shape[0] > 1:
            lead = lead[order]
        tiles = (self.n // LANES, LANES, 1)
        lead = np.broadcast_to(lead, (self.n,)).reshape(tiles)
        base = address if order is None or address.shape[0] == 1 else address[order]
        base = np.broadcast_to(base, (self.n,)).reshape(tiles)
        away = (line * lead + along) * bits // 8
        return chosen, (base + away.astype(base.dtype)).ravel(), ptx_type, bits if bits >= 8 else 32


def _transposed(table: Array) -> Array:
    """Matrices ``(..., 8, 4)`` of words, each two elements, transposed."""
    elements = np.ascontiguousarray(table).view(np.uint16)
    return np.ascontiguousarray(elements.swapaxes(-1, -2)).view(np.uint32)


def _layouts(opcode: str, form: MatrixForm) -> tuple[Fragment, Fragment, Fragment, Fragment]:
    """Layouts of the two factors, the addend and the result."""
    m, n, k = form.m, form.n, form.k
    if opcode.startswith("wmma"):
        a, b = (fragments.of_wmma(each, m, n, k, form.a) for each in "ab")
        c = fragments.of_wmma("c", m, n, k, form.c)
        return a, b, c, c
    if (m, k, form.a) == (8, 4, "f16"):
        return (
            fragments.of_quad_pairs("a", form.a_layout),
            fragments.of_quad_pairs("b", form.b_layout),
            fragments.of_quad_pairs(form.c, ""),
            fragments.of_quad_pairs(form.d, ""),
        )
    c = fragments.accumulator(m, n)
    return fragments.left(m, k, form.a), fragments.right(k, n, form.b), c, c
