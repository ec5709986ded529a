"""Whether the names in a function mean something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .control_flow import switch_targets
from .program import Address, Group, Negated, Pair, PTXSyntaxError, Register, Symbol, Vector

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from .program import Function, Instruction, Operand

#: Special registers, without their numbers and what follows a dot.
SPECIAL = (
    "%tid %ntid %laneid %warpid %nwarpid %ctaid %nctaid %smid %nsmid %gridid %is_explicit_cluster %clusterid "
    "%nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank %cluster_nctarank %lanemask_eq %lanemask_le "
    "%lanemask_lt %lanemask_ge %lanemask_gt %clock %clock_hi %pm %envreg %globaltimer %globaltimer_lo "
    "%globaltimer_hi %reserved_smem_offset_begin %reserved_smem_offset_end %reserved_smem_offset_cap "
    "%reserved_smem_offset_ %total_smem_size %aggr_smem_size %dynamic_smem_size %current_graph_exec"
)
_SPECIAL = frozenset(SPECIAL.split())


def check_names(function: Function) -> None:
    """Refuse registers that are not declared and branches to labels that do not stand.

    Raises
    ------
    PTXSyntaxError
        For the first such name.
    """
    declared = function.register_types
    for instruction in function.instructions:
        for operand in instruction.operands:
            # Most are no more than a declared register.
            if type(operand) is Register and operand.name in declared:
                continue
            _check_registers(operand, declared, instruction)
        if instruction.guard is not None:
            _check_registers(instruction.guard[0], declared, instruction)
        if not instruction.opcode.startswith("br"):
            continue
        if instruction.base == "bra":
            target = instruction.operands[0] if instruction.operands else None
            if not isinstance(target, Symbol):
                raise PTXSyntaxError(instruction.ptx_line, "a branch without a label")
            if target.name not in function.labels:
                raise PTXSyntaxError(instruction.ptx_line, f"unknown label {target.name!r}")
        elif instruction.base == "brx":
            for label in switch_targets(function, instruction):
                if label not in function.labels:
                    raise PTXSyntaxError(instruction.ptx_line, f"unknown label {label!r}")


def _check_registers(operand: Operand, declared: Container[str], instruction: Instruction) -> None:
    for name in _registers(operand):
        if name not in declared and _stem(name) not in _SPECIAL:
            raise PTXSyntaxError(instruction.ptx_line, f"undeclared register {name!r}")


def _registers(operand: Operand) -> Iterator[str]:
    pending: list[Operand] = [operand]
    while pending:
        operand = pending.pop()
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, (Vector, Group)):
            pending.extend(operand.items)
        elif isinstance(operand, Address):
            pending += [operand.base, *operand.coordinates]
        elif isinstance(operand, Negated):
            pending.append(operand.register)
        elif isinstance(operand, Pair):
            pending += [operand.first, operand.second]


def _stem(name: str) -> str:
    return name.partition(".")[0].rstrip("0123456789") if name != "%clock64" else "%clock"
