"""Runs batches of thread blocks by native code, as far as that goes."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.memory.address_space import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from drv.simulator.ptx.control_flow import End

from . import scheduling
from .instructions import SITE_FIELDS
from .scheduling import RECORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.host.machine_code import LoadedCode
    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.lanes import Lanes
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Code
    from drv.simulator.execution.translation.plan import FunctionPlan

    from .program import NativeProgram

    Array = NDArray[Any]

_INDEX = {name: index for index, name in enumerate(RECORD.fields)}
_ITEMS = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "u32": np.uint32, "i64": np.int64}
#: Blocks of instructions between two looks whether a batch goes round in circles, and such looks after which it does in any
#: case.
LAP, MOST_LAPS = 50_000, 1000
#: Lanes of batches whose constants of threads are cached: 4 MB for each constant that blocks do not share.
_MOST_LANES_CACHED = 1 << 20
_ALL_BITS = (1 << 64) - 1


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Machine:
    """Memory in which native code runs batches of one kernel of up to ``capacity`` lanes.

    Parameters
    ----------
    program, plan
        The kernel's.
    scheduler
        Functions of :mod:`.scheduling`.
    capacity, warps : int
        Lanes, and warps, that there is room for.
    """

    def __init__(
        self, program: NativeProgram, plan: FunctionPlan, scheduler: LoadedCode, capacity: int, warps: int
    ) -> None:
        self.program = program
        self.plan = plan
        self.capacity = capacity = -(-capacity // 64) * 64
        self.warps = warps
        self._run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(scheduler.addresses["run"])
        self.record = np.zeros(len(RECORD.fields), np.int64)
        self._record_address = _address(self.record)
        self.arrays: dict[str, Array] = {}
        blocks = len(plan.blocks)
        layout = program.layout
        sizes = {
            "registers": capacity * (layout.row_bytes + layout.scratch_bytes),
            "shared_values": layout.shared_values(),
            "constants": len(layout.constants),
            "sites": program.sites * SITE_FIELDS,
            "warp_masks": warps,
            "live_masks": warps,
            "ballots": warps,
            "table": max(32 * warps, capacity),
            "waiting": blocks,
            "stalled": blocks,
            "ran": blocks,
        }
        for name in (
            "lane_block",
            "resume",
            "live_first",
            "live_end",
            "run_first",
            "run_end",
            "scratch",
            "slots",
        ):
            sizes[name] = capacity
        for name, size in sizes.items():
            item = RECORD.fields[name]
            assert item is not None
            self._point(name, np.zeros(max(size, 1), _ITEMS[item]))
        for name, table in program.tables.items():
            self._point(name, table)
        self._point("piece_code", program.code(plan.function.name, scheduler))
        self._nothing = np.zeros(16, np.uint8)
        self._point("shared", self._nothing)
        self._point("local", self._nothing)
        # Generic addresses ask for it in any case.
        self._no_bases = np.zeros(capacity, np.int64)
        self._point("shared_base", self._no_bases)
        self._set(capacity=capacity, blocks=blocks, local_bytes=plan.frame_bytes)
        registers = self.arrays["registers"]
        #: Rows of registers, by their numbers.
        self.rows: dict[int, Array] = {}
        for name, offset in layout.rows.items():
            dtype = plan.dtypes[name]
            start = offset * capacity
            self.rows[plan.numbers[name]] = registers[start : start + capacity * dtype.itemsize].view(dtype)
        self._zeroed = [self.rows[plan.numbers[name]] for name in program.zeroed]
        shared = self.arrays["shared_values"]
        #: Values that all threads share, by their registers' numbers.
        self.shared: dict[int, Array] = {
            plan.numbers[name]: shared[number : number + 1].view(plan.dtypes[name])[:1]
            for name, number in layout.shared.items()
        }
        self._compute_shared = None
        if program.shared_values():
            self._compute_shared = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(program.shared_values())
        self._shape: Any = None
        self._constant_names = list(layout.constants)
        self._rows_by_range: dict[Any, tuple[Array, list[Array]]] = {}
        self._launch_range: Any = None
        self._slots: Any = None
        self._memory: Any = None
        self._sees_windows = False
        self._laps = self._last_writes = 0
        #: Whether a batch is to be left to Python as soon as that is possible.
        self.interrupted = False
        self._lap: tuple[int, int] = (-1, 0)

    # The record

    def _point(self, name: str, array: Array) -> None:
        """Let a field have the address of an array, which is kept."""
        self.arrays[name] = array
        self.record[_INDEX[name]] = _address(array)

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self.record[_INDEX[name]] = value

    def _get(self, name: str) -> int:
        return int(self.record[_INDEX[name]])

    # Launches and batches

    def begin_launch(self, launch: LaunchState) -> None:
        """Take a launch's arguments and what else its batches share."""
        self.launch = launch
        self.interrupted = False
        self._point("arguments", launch.parameter_bytes)
        self._set(argument_bytes=launch.parameter_size, shared_bytes=launch.shared_bytes)
        layout = self.program.layout
        values = self.arrays["shared_values"]
        for name, index in layout.symbols.items():
            values[index] = _signed(launch.symbols[name])
        if self._compute_shared is not None:
            shape = (*launch.block, *launch.grid, launch.warps, launch.dynamic_shared, launch.shared_bytes)
            if shape != self._shape:
                self._shape = shape
                self._point("shape", np.array(shape, np.int64))
            self._compute_shared(self._record_address)
        elif layout.shared:
            values[: len(layout.shared)] = launch.invariants.packed
        memory = (launch.memory, launch.memory.generation, launch.device)
        if memory != self._memory:
            self._memory = memory
            self._forget_sites()

    def _forget_sites(self, only_windows: bool = False) -> None:
        if not self.program.sites:
            return
        sites = self.arrays["sites"].reshape(-1, SITE_FIELDS)
        chosen = (sites[:, 3] | sites[:, 4]) != 0 if only_windows else slice(None)
        sites[chosen] = (0, 0, _address(self._nothing), 0, 0)
        self._sees_windows = False

    def begin(self, batch: Batch) -> None:
        """Put the lanes of a batch at the kernel's first block."""
        launch = self.launch
        n, arrays = batch.n, self.arrays
        launch_range = (launch.block, launch.grid, launch.cluster, int(batch.blocks[0]), batch.count)
        if launch_range != self._launch_range:
            self._go_to(batch, launch_range)
        if launch.shared_bytes:
            size = max(batch.shared_stride * batch.count, 16)
            shared = arrays["shared"]
            if shared.size < size or shared is self._nothing:
                shared = np.zeros(size, np.uint8)
                self._point("shared", shared)
            else:
                shared = shared[:size]
                shared.fill(0)
            batch.share(shared)
            base = batch.constant("shared_base", None)
            self._point("shared_base", base if base.shape[0] == n else self._no_bases)
        elif self.arrays["shared_base"] is not self._no_bases:
            self._point("shared_base", self._no_bases)
        if batch.stack_bytes:
            self._point("local", batch.local(np.uint8))
        if self._sees_windows:
            self._forget_sites(only_windows=True)
        for row in self._zeroed:
            row[:n] = 0
        if launch.threads % 32:
            arrays["live_masks"][: batch.warps] = batch.live_masks()
        else:
            arrays["live_masks"].fill(0xFFFFFFFF)
        arrays["live_end"][0] = n
        arrays["live_first"][0] = 0
        arrays["waiting"].fill(0)
        arrays["ran"].fill(0)
        arrays["stalled"].fill(0)
        self._set(
            lanes=n,
            live=n,
            warps=batch.warps,
            converged=0,
            held=0,
            stalled_count=0,
            live_runs=1,
            steps=LAP,
            polls=0,
            polling=0,
            tick=0,
            writes=0,
            inside=0,
            local_stride=batch.stack_bytes,
        )

    def _go_to(self, batch: Batch, launch_range: Any) -> None:
        """Have the special registers of threads for the blocks of a batch."""
        n = batch.n
        self._launch_range = launch_range
        shape = (self.launch.block, batch.count)
        if shape != self._slots:
            self._slots = shape
            self.arrays["slots"][:n] = batch.constant("warp_slot", None)
        known = self._rows_by_range.get(launch_range)
        if known is None:
            constants = (batch.constant(name, axis) for name, axis in self._constant_names)
            # Constants of threads that the kernel has for batches of this size are not copied.
            rows = [np.ascontiguousarray(np.broadcast_to(each, n), np.uint32) for each in constants]
            if len(self._rows_by_range) * self.capacity >= _MOST_LANES_CACHED:
                self._rows_by_range.clear()
            known = self._rows_by_range[launch_range] = (
                np.array([_address(row) for row in rows], np.int64),
                rows,
            )
        self.arrays["constants"][: len(known[0])] = known[0]

    def run(self, batch: Batch) -> bool:
        """Run a batch; whether all its threads have ended. If not, it is left to Python to go on."""
        self.begin(batch)
        self._laps, self._lap, self._last_writes = 0, (-1, 0), 0
        missed = -1
        while True:
            reason = self._run(self._record_address)
            if reason == scheduling.FINISHED:
                self.launch.writes += int(self.record[_INDEX["writes"]])
                batch.end()
                return True
            if reason == scheduling.PYTHON:
                self._python(batch)
                missed = -1
            elif reason == scheduling.MISSED:
                site = self._get("missed")
                if site == missed or not self._resolve(site):
                    self._python(batch)
                    missed = -1
                else:
                    missed = site
            elif reason == scheduling.BAD_INDEX:
                self._bad_index(batch)
            elif reason == scheduling.OUT_OF_STEPS and not self.interrupted and self._goes_on():
                self._set(steps=LAP, polls=0)
            else:
                self.launch.writes += self._get("writes")
                self._leave(batch)
                return False

    @property
    def steps_run(self) -> int:
        """Blocks of instructions that the batch has run."""
        return (self._laps + 1) * LAP - self._get("steps")

    def _goes_on(self) -> bool:
        """Whether a batch that has run for long gets anywhere; what waits for blocks that have not begun does not."""
        writes = self._get("writes")
        lanes = self._get("lanes")
        lane_blocks = self.arrays["lane_block"][:lanes].tobytes()
        state = hash(
            (self._get("converged"), lane_blocks, *(row[:lanes].tobytes() for row in self.rows.values()))
        )
        before, self._laps = self._lap, self._laps + 1
        # A circle of any length is found, for the state to compare with is taken anew after 1, 2, 4, 8, ... laps.
        if self._laps & (self._laps - 1) == 0:
            self._lap = (writes, state)
        waits = self._get("polls") > 0 and writes == self._last_writes
        self._last_writes = writes
        return not waits and (writes, state) != before and self._laps < MOST_LAPS

    # Pieces that Python runs

    def _lanes(self, batch: Batch) -> tuple[Lanes, Any]:
        """The lanes of the runs, from the one that is due, and where they are in a row."""
        first, runs = self._get("run"), self._get("runs")
        starts = self.arrays["run_first"][first:runs].tolist()
        ends = self.arrays["run_end"][first:runs].tolist()
        if len(starts) == 1:
            if ends[0] - starts[0] == batch.n:
                return batch.all_lanes, slice(0, batch.n)
            return batch.all_lanes.subset(np.arange(starts[0], ends[0])), slice(starts[0], ends[0])
        index = np.concatenate([np.arange(first, end) for first, end in zip(starts, ends, strict=True)])
        return batch.all_lanes.subset(index), index

    def _python(self, batch: Batch) -> None:
        number = self._get("piece")
        code = self.program.python(self.plan, number)
        lanes, index = self._lanes(batch)
        rows = self.rows
        registers = {register: self._value(register, code, index) for register in code.inputs}
        code.body(lanes, registers)
        for register in code.outputs:
            row = rows.get(register)
            if row is not None:
                row[index] = registers[register]
        self._set(piece=number + 1, run=0)

    def _value(self, register: int, code: Code, index: Any) -> Array:
        row = self.rows.get(register)
        if row is None:
            shared = self.shared.get(register)
            if shared is None:
                shared = self.launch.template[register]
            # What is kept of it must not change with the next launch.
            copy: Array = shared.copy()
            return copy
        # Results may be what was taken, so that must not change while they are written.
        value: Array = row[index].copy() if register in code.outputs else row[index]
        return value

    def _bad_index(self, batch: Batch) -> None:
        block = self._get("block")
        row = int(self.program.tables["decision"][block])
        lane = self._get("missed")
        if row >= 0:
            index = int(self.arrays["registers"][row * self.capacity :].view(np.uint32)[lane])
        else:
            index = int(self.arrays["shared_values"][-1 - row]) & 0xFFFFFFFF
        raise self.launch.reports.bad_call(batch.all_lanes, self.plan.code(block).site, lane, index)

    # Memory

    def _resolve(self, site: int) -> bool:
        """Let a memory instruction know the memory at the address that it has missed; whether it may go there."""
        launch = self.launch
        address = self._get("address") & _ALL_BITS
        fields = self.arrays["sites"][SITE_FIELDS * site : SITE_FIELDS * (site + 1)]
        for window, memory, size, column in (
            (SHARED_WINDOW, "shared", launch.shared_bytes, 3),
            (LOCAL_WINDOW, "local", self.plan.frame_bytes, 4),
        ):
            if window <= address < window + WINDOW_SIZE:
                fields[:] = (window, size, self._get(memory), 0, 0)
                fields[column] = -1
                self._sees_windows = True
                return site in self.program.generic
        allocation = launch.memory.find(address)
        if (
            allocation is None
            or (allocation.device != launch.device and allocation.device is not None)
            or allocation.access is not None
            or allocation.base & 15
            or (site in self.program.writing and launch.read_only(allocation))
        ):
            return False
        fields[:] = (_signed(allocation.base), allocation.size, _address(allocation.data), 0, 0)
        return True

    # Leaving

    def _leave(self, batch: Batch) -> None:
        """Give the lanes to Python where they stand: each at the beginning of a block, or at the barrier."""
        root = batch.begin()
        n = batch.n
        for register, row in self.rows.items():
            root.registers[register] = row[:n].copy()
        lane_blocks = self.arrays["lane_block"][:n]
        converged, live = self._get("converged"), self._get("live")
        if converged >= 0:
            runs = self._get("live_runs")
            lane_blocks[:] = scheduling.GONE
            ends = self.arrays["live_end"][:runs].tolist()
            for first, end in zip(self.arrays["live_first"][:runs].tolist(), ends, strict=True):
                lane_blocks[first:end] = converged
        if live < n:
            batch.exit(np.flatnonzero(lane_blocks == scheduling.GONE))
        root.resume_at(lane_blocks, converged if live == n else -1)
        held = np.flatnonzero(lane_blocks == scheduling.AT_BARRIER)
        resume = self.arrays["resume"][held]
        for block in self.plan.blocks:
            if block.end is End.BARRIER:
                mine = held[resume == block.targets[0]]
                if len(mine):
                    root.wait_at(self.plan.code(block.index), mine)
