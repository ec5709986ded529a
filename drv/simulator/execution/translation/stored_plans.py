"""A translated kernel as bytes, for a cache: lists and tuples of numbers, texts and Python's code, which are read in one go.

It goes with its module, whose instructions it names by their numbers in their functions.
"""

from __future__ import annotations

import marshal
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.ptx.control_flow import Block, End, branch_around
from drv.simulator.ptx.shared_memory import SharedLayout

from .code import Call, Code, Names, Site, Translation
from .invariants import Invariants
from .plan import FunctionParts, KernelPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.simulator.ptx.program import Function, Instruction, Module

#: How a block's last instruction is found: there is none, it is the next one of the function, or leads around that one.
_NO_LAST, _OWN_LAST, _AROUND_NEXT = range(3)
#: Attributes of :class:`Code` that are written as they are.
_CODE = ("inputs", "outputs", "arrives", "of_warpgroup", "of_cluster", "result", "acquires", "reduction")
_code_fields = attrgetter(*_CODE)


def packed(plan: KernelPlan) -> bytes:
    """The bytes of a kernel, with what has been translated of it."""
    shared = plan.shared
    return marshal.dumps(
        (
            (shared.reserved, shared.static_end, shared.dynamic, shared.offsets),
            [(name, _packed_function(each.function, each.parts)) for name, each in plan.functions.items()],
        )
    )


def unpacked(payload: bytes, module: Module, entry: Function) -> KernelPlan:
    """The kernel of these bytes. Raises any exception where they are not what :func:`packed` returns."""
    shared, functions = marshal.loads(payload)
    plan = KernelPlan(module, entry, SharedLayout(*shared))
    for name, record in functions:
        plan.add_function(name, _unpacked_function(module.functions[name], record))
    return plan


def _packed_function(function: Function, parts: FunctionParts) -> tuple[Any, ...]:
    instructions = function.instructions
    numbers = {id(each): number for number, each in enumerate(instructions)}
    blocks = []
    at = 0
    for block in parts.blocks:
        at += len(block.instructions)
        last = _NO_LAST
        if block.last is not None:
            last = _OWN_LAST if id(block.last) in numbers else _AROUND_NEXT
            # Reports of both name the same line.
            numbers[id(block.last)] = at
            at += last == _OWN_LAST
        blocks.append(
            (
                len(block.instructions),
                last,
                block.end.name,
                block.targets,
                block.converges,
                block.live_in,
                block.live_out,
            )
        )
    invariants = parts.invariants
    return (
        blocks,
        [each.str for each in parts.dtypes.values()],
        list(parts.dtypes),
        [(index, _packed_translation(each, numbers)) for index, each in parts.translations.items()],
        invariants
        and (
            [numbers[id(each)] for each in invariants.block.instructions],
            invariants.names,
            invariants.uses_symbols,
            _packed_translation(invariants.translation, numbers),
        ),
    )


def _unpacked_function(function: Function, record: Sequence[Any]) -> FunctionParts:
    packed_blocks, types, registers, translations, packed_invariants = record
    instructions = function.instructions
    blocks: list[Block] = []
    at = 0
    for count, sort, end, targets, converges, live_in, live_out in packed_blocks:
        own = instructions[at : at + count]
        at += count
        last = None
        if sort == _OWN_LAST:
            last = instructions[at]
            at += 1
        elif sort == _AROUND_NEXT:
            last = branch_around(at, instructions[at])
        blocks.append(Block(len(blocks), own, End[end], last, targets, converges, live_in, live_out))
    invariants = None
    if packed_invariants is not None:
        numbers, names, uses_symbols, of_invariants = packed_invariants
        block = Block(-1, [instructions[number] for number in numbers], live_out=names)
        invariants = Invariants(
            block, names, _unpacked_translation(of_invariants, function, [block]), uses_symbols
        )
    dtypes = {each: np.dtype(each) for each in set(types)}
    return FunctionParts(
        blocks,
        {name: dtypes[each] for name, each in zip(registers, types, strict=True)},
        {index: _unpacked_translation(each, function, [blocks[index]]) for index, each in translations},
        invariants,
    )


def _packed_translation(translation: Translation, numbers: dict[int, int]) -> tuple[Any, ...]:
    constants, sites, operations = translation.names.stored()
    return (
        [_packed_code(each, numbers) for each in translation.codes if isinstance(each, Code)],
        translation.module,
        constants,
        [(name, numbers[id(each.instruction)]) for name, each in sites.items()],
        operations,
    )


def _unpacked_translation(record: Sequence[Any], function: Function, blocks: Sequence[Block]) -> Translation:
    codes, module, constants, packed_sites, operations = record
    instructions = function.instructions
    sites = {name: Site(instructions[number], function.name) for name, number in packed_sites}
    return Translation(
        [
            _unpacked_code(each, block, function, instructions)
            for each, block in zip(codes, blocks, strict=True)
        ],
        module,
        Names.restored(constants, sites, operations),
    )


def _packed_code(code: Code, numbers: dict[int, int]) -> tuple[Any, ...]:
    call = code.call
    return (
        _code_fields(code),
        code.polls,
        [line for line, _ in code.lines],
        [numbers[id(instruction)] for _, instruction in code.lines],
        call and (call.target, call.indirect, call.arguments, call.results),
        numbers[id(code.site.instruction)] if hasattr(code, "site") else None,
        code.mask.tobytes() if isinstance(code.mask, np.ndarray) else code.mask,
    )


def _unpacked_code(
    record: Sequence[Any], block: Block, function: Function, instructions: Sequence[Instruction]
) -> Code:
    fields, polls, lines, numbers, call, site, mask = record
    code = object.__new__(Code)
    code.block = block
    for name, value in zip(_CODE, fields, strict=True):
        setattr(code, name, value)
    code.polls = polls
    code.lines = tuple(zip(lines, map(instructions.__getitem__, numbers), strict=True))
    code.call = call and Call(*call)
    if site is not None:
        code.site = Site(instructions[site], function.name)
    code.mask = np.frombuffer(mask, np.uint32) if isinstance(mask, bytes) else mask
    return code
