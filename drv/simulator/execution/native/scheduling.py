"""Which lanes of a batch run which block next, in the subset of Python that is compiled: see :mod:`.subset`.

It does what :class:`~drv.simulator.execution.activation.Activation` and :class:`~drv.simulator.execution.batch.Batch` do, in
the same order, for a kernel without calls: lanes that stand together run together, else the smallest block first, and lanes
that poll memory give way. A block is cut into *pieces*. A native piece is a function of a range of lanes; for one that only
Python can run, and in every case that is not a usual one, :func:`run` returns, with what it needs.

A *run* is a range of lanes, ``run_first[i]`` to ``run_end[i]``. Blocks that end as :data:`FOREIGN` are never begun.
"""

from __future__ import annotations

from typing import Any

from drv.simulator.execution.activation import LONG_PATIENCE, PATIENCE, POLLING_COST

from .subset import Record, Word, call

#: Numbers that describe an exchange between lanes, and kinds of its operands.
EXCHANGE_FIELDS = 10
CONSTANT, SHARED_VALUE, ROW = 0, 1, 2

#: Why :func:`run` returns.
FINISHED, OUT_OF_STEPS, STUCK, LEAVE, PYTHON, MISSED, BAD_INDEX = 1, 2, 3, 4, 5, 6, 7
#: How a block ends.
JUMP, BRANCH, SWITCH, BARRIER, EXIT, FOREIGN = 0, 1, 2, 3, 4, 5
#: Where lanes are that stand at no block.
GONE, AT_BARRIER = -1, -2

RECORD = Record(
    {
        # The batch: lanes, those that have not ended, values of registers and of constants.
        "lanes": None,
        "live": None,
        "capacity": None,
        "registers": "u8",
        "shared_values": "i64",
        "arguments": "u8",
        "argument_bytes": None,
        "shape": "i64",
        "constants": "i64",
        "sites": "i64",
        # Its memory.
        "shared": "u8",
        "shared_bytes": None,
        "shared_base": "i64",
        "local": "u8",
        "local_bytes": None,
        "local_stride": None,
        "slots": "i32",
        "warp_masks": "u32",
        "live_masks": "u32",
        "warps": None,
        "ballots": "u32",
        "table": "i32",
        "scratch": "i32",
        # Where the lanes are.
        "converged": None,
        "lane_block": "i32",
        "resume": "i32",
        "waiting": "i32",
        "held": None,
        "stalled": "u8",
        "stalled_count": None,
        "live_first": "i32",
        "live_end": "i32",
        "live_runs": None,
        "run_first": "i32",
        "run_end": "i32",
        "runs": None,
        # Turns.
        "steps": None,
        "polls": None,
        "polling": None,
        "tick": None,
        "ran": "i64",
        "writes": None,
        # The block that is run, its piece and run.
        "inside": None,
        "block": None,
        "piece": None,
        "run": None,
        "missed": None,
        "address": None,
        # The kernel's blocks and pieces.
        "blocks": None,
        "first_piece": "i32",
        "end": "u8",
        "first_target": "i32",
        "targets": "i32",
        "decision": "i32",
        "negated": "u8",
        "polls_at": "u8",
        "meets_at": "i32",
        "member_mask": "i64",
        "piece_code": "i64",
        "piece_whole": "u8",
        "operands": "i32",
    }
)


def run(s: Any) -> Word:
    """Run until something happens that is not usual; returns what it is."""
    while True:
        if s.inside == 0:
            if s.steps <= 0:
                return OUT_OF_STEPS
            reason = begin(s)
            if reason != 0:
                return reason
        reason = run_pieces(s)
        if reason != 0:
            return reason
        s.inside = 0
        reason = finish(s)
        if reason != 0:
            return reason


def run_pieces(s: Any) -> Word:
    """The pieces of a block, each for all lanes before the next."""
    stop = s.first_piece[s.block + 1]
    while s.piece < stop:
        function = s.piece_code[s.piece]
        if function == 0:
            return PYTHON
        if s.piece_whole[s.piece] != 0:
            call(function, s, 0, 0)
        else:
            while s.run < s.runs:
                status = call(function, s, s.run_first[s.run], s.run_end[s.run])
                if status != 0:
                    s.missed = status - 1
                    return MISSED
                s.run += 1
        s.run = 0
        s.piece += 1
    return 0


def begin(s: Any) -> Word:
    """Choose a block, and the lanes that run it."""
    if s.converged >= 0:
        block = s.converged
        if s.end[block] == FOREIGN:
            return LEAVE
        s.steps -= 1
        if s.polls_at[block] != 0:
            s.polls += 1
            s.steps -= POLLING_COST
        for index in range(s.live_runs):
            s.run_first[index] = s.live_first[index]
            s.run_end[index] = s.live_end[index]
        s.runs = s.live_runs
    else:
        block = choose(s)
        while block >= 0:
            if s.end[block] == FOREIGN:
                return LEAVE
            s.steps -= 1
            gather(s, block)
            if s.meets_at[block] != 0:
                keep_ready(s, block)
            if s.runs > 0:
                break
            s.stalled[block] = 1
            s.stalled_count += 1
            block = choose(s)
        if block < 0:
            if s.held != s.live or s.stalled_count != 0:
                return STUCK
            release(s)
            return begin(s)
        for index in range(s.runs):
            s.waiting[block] -= s.run_end[index] - s.run_first[index]
        clear_stalled(s)
    s.block = block
    s.piece = s.first_piece[block]
    s.run = 0
    s.inside = 1
    return 0


def choose(s: Any) -> Word:
    """The earliest block at which lanes wait, or for a change the one that ran longest ago; -1 if there is none."""
    best = -1
    ready = 0
    for block in range(s.blocks):
        if s.waiting[block] > 0 and s.stalled[block] == 0:
            ready += 1
            if best < 0:
                best = block
    if best < 0:
        return best
    note_turn(s, best)
    patience = LONG_PATIENCE
    if s.polling != 0:
        patience = PATIENCE
    if ready > 1 and (s.tick & (patience - 1)) == 0:
        s.polling = 0
        for block in range(s.blocks):
            if s.waiting[block] > 0 and s.stalled[block] == 0 and s.ran[block] < s.ran[best]:
                best = block
    s.ran[best] = s.tick
    return best


def note_turn(s: Any, block: Word) -> Word:
    """A block has its turn among others."""
    s.tick += 1
    if s.polls_at[block] != 0:
        s.polling = 1
        s.polls += 1
        s.steps -= POLLING_COST
    return 0


def clear_stalled(s: Any) -> Word:
    """Lanes that waited for others look again, for others have moved."""
    if s.stalled_count > 0:
        for block in range(s.blocks):
            s.stalled[block] = 0
        s.stalled_count = 0
    return 0


def gather(s: Any, block: Word) -> Word:
    """Make runs of the lanes that stand at a block."""
    runs = 0
    before = 0
    for lane in range(s.lanes):
        here = s.lane_block[lane] == block
        if here != before:
            if before == 0:
                s.run_first[runs] = lane
            else:
                s.run_end[runs] = lane
                runs += 1
        before = here
    if before != 0:
        s.run_end[runs] = s.lanes
        runs += 1
    s.runs = runs
    return 0


def keep_ready(s: Any, block: Word) -> Word:
    """Of the runs keep the lanes that find all live members of their masks here."""
    count_in_warps(s)
    # Runs become single lanes where warps differ; most often all are ready, or none is.
    runs = s.runs
    ready = 0
    total = 0
    for index in range(runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            warp = s.slots[lane] >> 5
            missing = mask_of(s, block, lane) & s.live_masks[warp] & ~s.warp_masks[warp]
            total += 1
            if missing == 0:
                ready += 1
                s.table[lane] = 1
            else:
                s.table[lane] = 0
    if ready == total:
        return 0
    if ready == 0:
        s.runs = 0
        return 0
    ready_runs = 0
    before = 0
    for lane in range(s.lanes):
        here = 0
        if s.lane_block[lane] == block:
            here = s.table[lane]
        if here != before:
            if before == 0:
                s.run_first[ready_runs] = lane
            else:
                s.run_end[ready_runs] = lane
                ready_runs += 1
        before = here
    if before != 0:
        s.run_end[ready_runs] = s.lanes
        ready_runs += 1
    s.runs = ready_runs
    return 0


def mask_of(s: Any, block: Word, lane: Word) -> Word:
    """Member mask with which a lane meets others at a block."""
    if s.meets_at[block] == 1:
        return s.member_mask[block]
    if s.meets_at[block] == 2:
        return s.shared_values[s.member_mask[block]] & 4294967295
    return load_u32(s, s.member_mask[block], lane)


def load_u32(s: Any, row: Word, lane: Word) -> Word:
    """A register of 4 bytes whose values begin at ``row`` bytes per lane."""
    at = row * s.capacity + 4 * lane
    return s.registers[at] | s.registers[at + 1] << 8 | s.registers[at + 2] << 16 | s.registers[at + 3] << 24


def store_u32(s: Any, row: Word, lane: Word, value: Word) -> Word:
    """Set a register of 4 bytes."""
    at = row * s.capacity + 4 * lane
    s.registers[at] = value
    s.registers[at + 1] = value >> 8
    s.registers[at + 2] = value >> 16
    s.registers[at + 3] = value >> 24
    return 0


def count_in_warps(s: Any) -> Word:
    """Masks, by warp, of the lanes of the runs."""
    for warp in range(s.warps):
        s.warp_masks[warp] = 0
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            slot = s.slots[lane]
            s.warp_masks[slot >> 5] = s.warp_masks[slot >> 5] | 1 << (slot & 31)
    return 0


def finish(s: Any) -> Word:
    """Send the lanes of the runs where the block leads."""
    block = s.block
    end = s.end[block]
    first = s.targets[s.first_target[block]]
    if end == EXIT:
        return leave(s)
    if s.converged >= 0:
        if end == JUMP or end == BARRIER:  # noqa: SIM109 - the subset has no tuples
            s.converged = first
            return 0
        return diverge(s, block, 1)
    if end == JUMP:
        for index in range(s.runs):
            for lane in range(s.run_first[index], s.run_end[index]):
                s.lane_block[lane] = first
            s.waiting[first] += s.run_end[index] - s.run_first[index]
        return join(s, first)
    if end == BARRIER:
        for index in range(s.runs):
            for lane in range(s.run_first[index], s.run_end[index]):
                s.lane_block[lane] = AT_BARRIER
                s.resume[lane] = first
            s.held += s.run_end[index] - s.run_first[index]
        return 0
    return diverge(s, block, 0)


def diverge(s: Any, block: Word, were_converged: Word) -> Word:
    """A branch, or a branch by an index."""
    at = s.first_target[block]
    known = s.first_target[block + 1] - at
    row = s.decision[block]
    total = 0
    for index in range(s.runs):
        total += s.run_end[index] - s.run_first[index]
    only = -1
    if row < 0:
        only = decide(s, block, row, 0)
        if only >= known:
            s.missed = s.run_first[0]
            return BAD_INDEX
    elif s.end[block] == BRANCH:
        taken = 0
        for index in range(s.runs):
            for lane in range(s.run_first[index], s.run_end[index]):
                taken += s.registers[row * s.capacity + lane]
        if s.negated[block] != 0:
            taken = total - taken
        if taken == total:
            only = 0
        if taken == 0:
            only = 1
    if only < 0:
        return scatter(s, block)
    target = s.targets[at + only]
    if were_converged != 0:
        s.converged = target
        return 0
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            s.lane_block[lane] = target
    s.waiting[target] += total
    return join(s, target)


def decide(s: Any, block: Word, row: Word, lane: Word) -> Word:
    """Which of a block's targets a lane goes to."""
    if s.end[block] == SWITCH:
        if row < 0:
            return s.shared_values[-1 - row] & 4294967295
        return load_u32(s, row, lane)
    if row < 0:
        return (s.shared_values[-1 - row] & 1) ^ 1 ^ s.negated[block]
    return s.registers[row * s.capacity + lane] ^ 1 ^ s.negated[block]


def scatter(s: Any, block: Word) -> Word:
    """Lanes go to different targets."""
    at = s.first_target[block]
    known = s.first_target[block + 1] - at
    row = s.decision[block]
    if s.end[block] == SWITCH:
        for index in range(s.runs):
            for lane in range(s.run_first[index], s.run_end[index]):
                chosen = decide(s, block, row, lane)
                if chosen >= known:
                    s.missed = lane
                    return BAD_INDEX
    s.converged = -1
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            target = s.targets[at + decide(s, block, row, lane)]
            s.lane_block[lane] = target
            s.waiting[target] += 1
    for target in range(at, at + known):
        if join(s, s.targets[target]) != 0:
            return 0
    return 0


def join(s: Any, block: Word) -> Word:
    """Lanes stand together again if all of them are at one block."""
    if s.waiting[block] == s.live:
        note_turn(s, block)
        s.ran[block] = s.tick
        s.steps -= 1
        s.waiting[block] = 0
        s.converged = block
    return 0


def leave(s: Any) -> Word:
    """The lanes of the runs end."""
    if s.converged >= 0:
        s.live = 0
        return FINISHED
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            s.lane_block[lane] = GONE
            slot = s.slots[lane]
            s.live_masks[slot >> 5] = s.live_masks[slot >> 5] & ~(1 << (slot & 31))
        s.live -= s.run_end[index] - s.run_first[index]
    if s.live == 0:
        return FINISHED
    runs = 0
    before = 0
    for lane in range(s.lanes):
        here = s.lane_block[lane] != GONE
        if here != before:
            if before == 0:
                s.live_first[runs] = lane
            else:
                s.live_end[runs] = lane
                runs += 1
        before = here
    if before != 0:
        s.live_end[runs] = s.lanes
        runs += 1
    s.live_runs = runs
    for block in range(s.blocks):
        if s.waiting[block] > 0:
            return join(s, block)
    return 0


def release(s: Any) -> Word:
    """All live lanes wait at the barrier: they go on."""
    s.held = 0
    for lane in range(s.lanes):
        if s.lane_block[lane] == AT_BARRIER:
            target = s.resume[lane]
            s.lane_block[lane] = target
            s.waiting[target] += 1
    for block in range(s.blocks):
        if s.waiting[block] > 0:
            return join(s, block)
    return 0


# Exchanges between the lanes of a warp: pieces for all runs at once


def operand(s: Any, at: Word, lane: Word) -> Word:
    """An operand of 32 bits: a constant, a value that all threads have, or a register."""
    if s.operands[at] == CONSTANT:
        return s.operands[at + 1] & 4294967295
    if s.operands[at] == SHARED_VALUE:
        return s.shared_values[s.operands[at + 1]] & 4294967295
    return load_u32(s, s.operands[at + 1], lane)


def shuffle(s: Any, first: Word, end: Word) -> Word:
    """``shfl``, as :func:`drv.simulator.execution.warps.shuffle` does it."""
    at = s.piece * EXCHANGE_FIELDS
    mode = s.operands[at]
    for slot in range(32 * s.warps):
        s.table[slot] = -1
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            s.table[s.slots[lane]] = lane
    result = s.operands[at + 7]
    predicate = s.operands[at + 8]
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            slot = s.slots[lane]
            own = slot & 31
            by = operand(s, at + 3, lane) & 31
            clamp = operand(s, at + 5, lane)
            segment = clamp >> 8 & 31
            highest = own & segment | clamp & 31 & ~segment
            valid = 0
            if mode == 0:
                source = own - by
                if source >= highest:
                    valid = 1
            else:
                if mode == 1:
                    source = own + by
                elif mode == 2:
                    source = own ^ by
                else:
                    source = own & segment | by & ~segment
                if source <= highest:
                    valid = 1
            if valid == 0:
                source = own
            other = s.table[slot - own + source]
            if other < 0:
                other = lane
            s.scratch[lane] = operand(s, at + 1, other)
            if predicate >= 0:
                s.registers[predicate * s.capacity + lane] = valid
    if result >= 0:
        for index in range(s.runs):
            for lane in range(s.run_first[index], s.run_end[index]):
                store_u32(s, result, lane, s.scratch[lane])
    return 0


def vote(s: Any, first: Word, end: Word) -> Word:
    """``vote``, as :func:`drv.simulator.execution.warps.vote` does it."""
    at = s.piece * EXCHANGE_FIELDS
    mode = s.operands[at]
    count_in_warps(s)
    for warp in range(s.warps):
        s.ballots[warp] = 0
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            holds = truth(s, at + 1, lane)
            slot = s.slots[lane]
            s.ballots[slot >> 5] = s.ballots[slot >> 5] | holds << (slot & 31)
    row = s.operands[at + 5]
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            warp = s.slots[lane] >> 5
            mask = operand(s, at + 3, lane)
            ballot = s.ballots[warp] & mask
            members = s.warp_masks[warp] & mask
            if mode == 0:
                if row >= 0:
                    store_u32(s, row, lane, ballot)
            else:
                holds = 0
                if mode == 1 and ballot != 0:
                    holds = 1
                if mode == 2 and ballot == members:
                    holds = 1
                if mode == 3 and (ballot == members or ballot == 0):
                    holds = 1
                if row >= 0:
                    s.registers[row * s.capacity + lane] = holds
    return 0


def truth(s: Any, at: Word, lane: Word) -> Word:
    """A predicate."""
    if s.operands[at] == CONSTANT:
        return s.operands[at + 1]
    if s.operands[at] == SHARED_VALUE:
        return s.shared_values[s.operands[at + 1]] & 1
    return s.registers[s.operands[at + 1] * s.capacity + lane]


def active_lanes(s: Any, first: Word, end: Word) -> Word:
    """``activemask``."""
    count_in_warps(s)
    row = s.operands[s.piece * EXCHANGE_FIELDS]
    for index in range(s.runs):
        for lane in range(s.run_first[index], s.run_end[index]):
            if row >= 0:
                store_u32(s, row, lane, s.warp_masks[s.slots[lane] >> 5])
    return 0
