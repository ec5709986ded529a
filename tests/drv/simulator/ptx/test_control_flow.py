"""Basic blocks and live registers."""

from __future__ import annotations

from drv.simulator.ptx import parse
from drv.simulator.ptx.control_flow import Block, End, blocks_of

HEAD = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k()
{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
"""


def blocks(text: str) -> list[Block]:
    return blocks_of(parse(f"{HEAD}{text}\n}}\n").functions["k"])


def registers(names: tuple[str, ...]) -> set[str]:
    return {name for name in names if name.startswith("%")}


def test_a_loop() -> None:
    before, loop, after = blocks(
        "mov.b32 %r1, 0;\nmov.b32 %r4, 7;\nL:\nadd.s32 %r1, %r1, %r4;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra L;\n"
        "st.global.b32 [%rd1], %r1;\nret;"
    )
    assert (before.end, loop.end, after.end) == (End.FALL, End.BRANCH, End.RETURN)
    assert before.targets == (1,)
    assert loop.targets == (1, 2)
    assert registers(loop.live_in) == {"%r1", "%r4", "%rd1"}
    assert registers(after.live_in) == {"%r1", "%rd1"}


def test_a_guarded_instruction_is_branched_around() -> None:
    before, guarded, after = blocks("@!%p1 st.global.b32 [%rd1], %r1;\nst.global.b32 [%rd2], %r2;\nret;")
    assert before.last is not None
    assert before.last.guard is not None
    assert not before.last.guard[1]
    assert before.targets == (2, 1)
    assert [i.opcode for i in guarded.instructions] == ["st.global.b32"]
    assert guarded.targets == (2,)
    assert "%r1" not in after.live_in


def test_a_guarded_write_keeps_the_old_value_alive() -> None:
    before, *_ = blocks("@%p1 mov.b32 %r1, 1;\nst.global.b32 [%rd1], %r1;\nret;")
    assert "%r1" in before.live_in


def test_a_switch() -> None:
    result = blocks("T: .branchtargets A, B, A;\nbrx.idx %r1, T;\nA:\nmov.b32 %r2, 1;\nB:\nret;")
    assert result[0].end is End.SWITCH
    assert result[0].targets == (1, 2, 1)


def test_barriers_and_warp_meetings_part_blocks() -> None:
    first, second, third = blocks(
        "mov.b32 %r1, 0;\nbar.sync 0;\nmov.b32 %r2, 1;\n"
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nshfl.sync.bfly.b32 %r4, %r3, 2, 31, -1;\nret;"
    )
    assert first.end is End.BARRIER
    assert not second.converges
    assert third.converges
    assert len(third.instructions) == 2


def test_meetings_of_different_lanes_part_blocks() -> None:
    result = blocks("shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nshfl.sync.bfly.b32 %r4, %r3, 2, 31, 255;\nret;")
    assert [block.converges for block in result] == [True, True]


def test_the_carry_is_alive_between_blocks() -> None:
    first, *_ = blocks(
        "add.cc.u32 %r1, %r1, %r2;\nbar.sync 0;\naddc.u32 %r3, %r3, 0;\nst.global.b32 [%rd1], %r3;\nret;"
    )
    assert "%cc" in first.live_out


def test_code_that_falls_off_the_end_returns() -> None:
    result = blocks("@%p1 bra L;\nmov.b32 %r1, 1;\nL:")
    assert result[-1].end is End.RETURN
