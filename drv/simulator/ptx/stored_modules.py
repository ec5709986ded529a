"""A parsed module as bytes, for a cache: lists and tuples of numbers and texts, which are written and read in one go."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any

from .program import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Negated,
    Pair,
    Parameter,
    Register,
    Symbol,
    Variable,
    Vector,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .program import Operand

_CLASSES = (Immediate, Symbol, Address, Vector, Pair, Negated, Group)
_NUMBERS = {each: number for number, each in enumerate(_CLASSES)}


def packed(module: Module) -> bytes:
    """The bytes of a module."""
    return marshal.dumps(
        (
            module.version,
            module.target,
            module.address_size,
            [_packed_function(each) for each in module.functions.values()],
            [_fields(each) for each in module.variables.values()],
            [_fields(each) for each in module.shared.values()],
            module.files,
        )
    )


def unpacked(payload: bytes) -> Module:
    """The module of these bytes. Raises any exception where they are not what :func:`packed` returns."""
    version, target, address_size, functions, variables, shared, files = marshal.loads(payload)
    return Module(
        version,
        target,
        address_size,
        {each.name: each for each in map(_unpacked_function, functions)},
        {each[0]: Variable(*each) for each in variables},
        {each[0]: Variable(*each) for each in shared},
        files,
    )


def _packed_function(function: Function) -> tuple[Any, ...]:
    # What occurs several times is one object mostly, and one record.
    numbers: dict[int, int] = {}
    operands: list[Any] = []

    def number_of(operand: Operand) -> int:
        number = numbers.get(id(operand))
        if number is None:
            number = numbers[id(operand)] = len(operands)
            operands.append(_packed_operand(operand))
        return number

    instructions = function.instructions
    return (
        operands,
        [each.opcode for each in instructions],
        [tuple(map(number_of, each.operands)) for each in instructions],
        [None if each.guard is None else (number_of(each.guard[0]), each.guard[1]) for each in instructions],
        [each.ptx_line for each in instructions],
        [each.source for each in instructions],
        [each.text for each in instructions],
        function.name,
        function.entry,
        [_fields(each) for each in function.formals],
        [_fields(each) for each in function.results],
        function.labels,
        function.register_types,
        [(name, _fields(each)) for name, each in function.variables.items()],
        [(name, _fields(each)) for name, each in function.call_parameters.items()],
        function.branch_targets,
        function.max_threads,
        function.cluster,
        function.explicit_cluster,
        function.max_cluster_blocks,
        function.defined,
        function.static_shared_bytes,
        function.reserved_shared_bytes,
    )


def _unpacked_function(record: Sequence[Any]) -> Function:
    packed_operands, opcodes, numbers, packed_guards, lines, sources, texts, name, entry, *fields = record
    formals, results, labels, register_types, variables, call_parameters, *rest = fields
    operands = [Register(each) if type(each) is str else _unpacked_operand(each) for each in packed_operands]
    by_number = operands.__getitem__
    guards = [None if each is None else (by_number(each[0]), each[1]) for each in packed_guards]
    instructions = map(
        Instruction,
        opcodes,
        [tuple(map(by_number, each)) for each in numbers],
        guards,
        lines,
        sources,
        texts,
    )
    return Function(
        name,
        entry,
        [Parameter(*each) for each in formals],
        [Parameter(*each) for each in results],
        list(instructions),
        labels,
        register_types,
        {name: Variable(*each) for name, each in variables},
        {name: Parameter(*each) for name, each in call_parameters},
        *rest,
    )


def _fields(record: Any) -> tuple[Any, ...]:
    return tuple([getattr(record, name) for name in type(record).__slots__])


def _packed_operand(value: Any) -> Any:
    """A register as its name, another operand as a list of its class' number and its fields; else the value itself."""
    if type(value) is Register:
        return value.name
    if type(value) is tuple:
        return tuple(map(_packed_operand, value))
    number = _NUMBERS.get(type(value))
    if number is None:
        return value
    if type(value) in (Immediate, Symbol):
        # Their texts are no names of registers.
        return [number, _fields(value)]
    return [number, *map(_packed_operand, _fields(value))]


def _unpacked_operand(value: Any) -> Any:
    if type(value) is str:
        return Register(value)
    if type(value) is tuple:
        return tuple(map(_unpacked_operand, value))
    if type(value) is not list:
        return value
    operand_class: Any = _CLASSES[value[0]]
    if operand_class in (Immediate, Symbol):
        return operand_class(*value[1])
    return operand_class(*map(_unpacked_operand, value[1:]))
