"""Every row of every table gives arrays of the declared types and shapes."""

from __future__ import annotations

import numpy as np
import pytest

from drv.simulator.arithmetic import DTYPES, UnknownInstruction, resolve
from drv.simulator.arithmetic.operation import Row
from drv.simulator.arithmetic.resolution import FAMILIES, table
from tests.drv.simulator.arithmetic.lanes import random_lanes, same

LANES = 7


def _rows(base: str) -> list[Row]:
    return [row for rows in table(base).values() for row in rows]


@pytest.mark.parametrize("base", sorted(FAMILIES))
def test_rows_give_their_declared_types_and_shapes(base: str) -> None:
    rng = np.random.default_rng(0)
    rows = _rows(base)
    assert rows
    for row in rows:
        carries = row.operands.count("cc"), row.results.count("cc")
        operation = resolve(row.opcode, len(row.operands) - carries[0], len(row.results) - carries[1])
        assert (operation.operands, operation.results) == (row.operands, row.results), row.opcode
        for lengths in ((LANES,) * 8, (1,) * 8, (1, LANES) * 4, (LANES, 1) * 4):
            operands = [random_lanes(t, count, rng) for t, count in zip(row.operands, lengths, strict=False)]
            before = [operand.copy() for operand in operands]
            with np.errstate(all="ignore"):
                argument = operation.function(*operands)
            results = argument if len(row.results) > 1 else (argument,)
            lanes = max(len(operand) for operand in operands)
            declared = [(DTYPES[t], (lanes,)) for t in row.results]
            assert [(result.dtype, result.shape) for result in results] == declared, row.opcode
            for operand, copy in zip(operands, before, strict=True):
                assert operand.tobytes() == copy.tobytes(), f"{row.opcode} changed its operand"


def test_uniform_lanes_give_what_full_lanes_give() -> None:
    rng = np.random.default_rng(1)
    for base in sorted(FAMILIES):
        for row in _rows(base):
            operation = resolve(row.opcode, len([t for t in row.operands if t != "cc"]))
            uniform = [random_lanes(t, 1, rng) for t in operation.operands]
            with np.errstate(all="ignore"):
                one = operation.function(*uniform)
                full = operation.function(*(operand.repeat(33) for operand in uniform))
            if len(operation.results) == 1:
                one, full = (one,), (full,)
            for t, a, b in zip(operation.results, one, full, strict=True):
                assert same(t, a.repeat(33), b).all(), row.opcode


@pytest.mark.parametrize("opcode", ["frobnicate.u32", "add", "add.f33", "cvt.f32.s32.u8", "setp.lt", ""])
def test_an_unknown_opcode_is_named(opcode: str) -> None:
    with pytest.raises(UnknownInstruction) as caught:
        resolve(opcode)
    assert caught.value.opcode == opcode


def test_the_number_of_operands_must_be_that_of_a_form() -> None:
    with pytest.raises(UnknownInstruction):
        resolve("add.u32", 3)
