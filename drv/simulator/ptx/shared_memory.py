"""Where the shared variables of a kernel lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .program import Address, Symbol, align_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Function, Module

#: Bytes that the system keeps at the start of shared memory, on devices and for kernels that ask where they are.
RESERVED_BYTES = 1024
#: Static shared memory that a kernel may declare; more has to be dynamic.
MOST_STATIC_SHARED = 48 << 10
_RESERVED = "%reserved_smem_offset"


@dataclass(slots=True)
class SharedLayout:
    """Offset of every shared variable that a kernel reaches, in bytes.

    Variables without a size are the dynamic shared memory, which begins at ``dynamic``. The static ones
    end at ``static_end``, and begin after ``reserved`` bytes.
    """

    reserved: int = 0
    static_end: int = 0
    dynamic: int = 0
    offsets: dict[str, int] = field(default_factory=dict)


def shared_layout(module: Module, entry: Function) -> SharedLayout:
    """Lay out the shared memory of a kernel."""
    if not module.shared and not any(map(_may_share, module.functions.values())):
        return SharedLayout()
    functions, mentioned = _reachable(module, entry)
    variables = [v for function in functions for v in function.variables.values() if v.space == "shared"]
    variables += [variable for name, variable in module.shared.items() if name in mentioned]
    layout = SharedLayout()
    if any(map(_asks_for_reserved, functions)):
        layout.reserved = layout.static_end = RESERVED_BYTES
    alignment = 16
    for variable in variables:
        alignment = max(alignment, variable.align)
        if variable.size and not variable.external:
            layout.offsets[variable.name] = align_up(layout.static_end, variable.align)
            layout.static_end = layout.offsets[variable.name] + variable.size
    layout.dynamic = align_up(layout.static_end, alignment)
    for variable in variables:
        layout.offsets.setdefault(variable.name, layout.dynamic)
    return layout


def _may_share(function: Function) -> bool:
    """Whether a function has shared variables, or asks where the reserved ones are."""
    return any(each.space == "shared" for each in function.variables.values()) or _asks_for_reserved(function)


def _asks_for_reserved(function: Function) -> bool:
    return any(_RESERVED in each.text for each in function.instructions)


def _reachable(module: Module, entry: Function) -> tuple[list[Function], set[str]]:
    """``entry`` and the functions that it may call, and all names that they mention.

    A function whose address is taken may be called.
    """
    functions, mentioned = [entry], set(_symbols(entry))
    pending = set(mentioned)
    while pending:
        name = pending.pop()
        more: set[str] = set()
        if name in module.variables:
            more = {symbol for _, symbol, _ in module.variables[name].relocations}
        elif name in module.functions and module.functions[name].defined:
            functions.append(module.functions[name])
            more = set(_symbols(module.functions[name]))
        pending |= more - mentioned
        mentioned |= more
    return functions, mentioned


def _symbols(function: Function) -> Iterator[str]:
    for instruction in function.instructions:
        for operand in instruction.operands:
            base = operand.base if isinstance(operand, Address) else operand
            if isinstance(base, Symbol):
                yield base.name
