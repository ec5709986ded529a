"""Inputs of generated kernels that are read by an index: what the text of a kernel has for them.

Such an input, a table, has stride 0 where the index goes. Its place is moved by what the index says, before it is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Lookup:
    """How an input is read by an index, one of those that it is read by.

    Attributes
    ----------
    table, index : int
        Numbers of the inputs: what is read, whose strides are 0 where the index goes, and the index.
    size, step : int
        Of the dimension of the table that is indexed, in elements.
    reach : int
        From the table's first element to behind its last one.
    wrap : bool
        Whether negative indices count from the end.
    bounds : str
        CUDA C++ of the structure ``Bounds``: see :func:`.indexing.bounds`.
    number : int
        Which of the table's indices it is.
    ignored : int, optional
        The index for which anything may be read: it is not checked.
    """

    table: int
    index: int
    size: int
    step: int
    reach: int
    wrap: bool
    bounds: str
    number: int = 0
    ignored: int | None = None

    def checked(self, index: str, bounds: str, ctype: str) -> str:
        """CUDA C++ of the position, as ``ctype``, that an expression ``index`` names; ``bounds`` is the structure's name."""
        wrap = "true" if self.wrap else "false"
        position = f"checked<{bounds}, {wrap}, {ctype}>({index}, {self.size}, {self.number})"
        if self.ignored is None:
            return position
        ignored = f"static_cast<long long>({self.ignored % (1 << 64)}ULL)"
        return f"({index} == {ignored} ? static_cast<{ctype}>(0) : {position})"


def bounds_of(lookups: Sequence[Lookup], prefix: str = "") -> list[str]:
    """The structures ``Bounds0``, ``Bounds1``, ..., one for each lookup, with a prefix of their names."""
    return [
        each.bounds.replace("struct Bounds", f"struct {prefix}Bounds{number}")
        for number, each in enumerate(lookups)
    ]


def members(lookups: Sequence[Lookup], indices: Sequence[str], first: int) -> list[str]:
    """Members of a structure that load indices, and move the places of tables.

    Parameters
    ----------
    lookups : sequence of Lookup
        In order.
    indices : sequence of str
        Pointers to their indices.
    first : int
        Operands in front of the inputs, among the places.
    """
    lines = [f"static constexpr int lookups = {len(lookups)};"]
    if lookups:
        lines += [
            "template <class Place>",
            "__device__ void load_indices(const Place* at, long long* index) const {",
        ]
        lines += [
            f"    index[{k}] = {pointer}[at[{first + each.index}]];"
            for k, (each, pointer) in enumerate(zip(lookups, indices, strict=True))
        ]
        lines += [
            "}",
            "template <class Place>",
            "__device__ void look_up(const long long* index, Place* at) const {",
        ]
        for k, each in enumerate(lookups):
            position = each.checked(f"index[{k}]", f"Bounds{k}", "Place")
            lines.append(f"    at[{first + each.table}] += {position} * {each.step};")
        lines.append("}")
    return [f"    {line}" for line in lines]
