"""Translation of fences, asynchronous copies and ``mbarrier`` instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import UnknownInstruction
from drv.simulator.ptx.program import Address, Register

from .bulk_instructions import BulkInstructions

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction, Operand

_SCOPES = {"cta", "cluster", "gpu", "sys"}
_COPY_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


class AsynchronousInstructions(BulkInstructions):
    """Instructions become calls of the classes of :mod:`drv.simulator.execution.asynchronous`."""

    def do_membar(self, instruction: Instruction) -> None:
        fields = instruction.fields
        if "proxy" not in fields:
            if fields[1] != "mbarrier_init":
                self.lines.append("X.fence()")
        elif fields[2].partition("::")[0] == "async":
            self.lines.append("X.fence_proxy()")
        elif fields[2].partition("::")[0] == "tensormap" and "acquire" in fields[3]:
            self.lines.append("X.fence_tensor_maps()")

    do_fence = do_membar

    # Copies

    def do_cp(self, instruction: Instruction) -> None:
        fields = instruction.fields
        if fields[1:3] == ["async", "bulk"] or fields[1:4] == ["reduce", "async", "bulk"]:
            self.bulk(instruction)
            return
        if fields[1] != "async" or len(fields) < 3:
            raise UnknownInstruction(instruction.opcode)
        if fields[2] in _COPY_SIZES:
            self._copy(instruction)
        elif fields[2:] == ["commit_group"]:
            self.lines.append("X.commit_copies()")
        elif fields[2:] == ["wait_all"]:
            self.lines.append("X.wait_for_all_copies()")
        elif fields[2:] == ["wait_group"]:
            self.lines.append(f"X.wait_for_copies({self.number_of(instruction.operands[0])})")
        elif fields[2:4] == ["mbarrier", "arrive"]:
            space, middle = self._object_space(instruction, 4)
            if middle - {"noinc"}:
                raise UnknownInstruction(instruction.opcode)
            base, offset = self.address(instruction.operands[0], space)
            arguments = f"{self.site(instruction)}, {space!r}, {base}, {offset}"
            self.lines.append(f"X.arrive_when_copied({arguments}, {'noinc' in middle})")
        else:
            raise UnknownInstruction(instruction.opcode)

    def _copy(self, instruction: Instruction) -> None:
        fields = instruction.fields
        target, source, size, *rest = instruction.operands
        if fields[3].partition("::")[0] != "shared" or fields[4] != "global":
            raise UnknownInstruction(instruction.opcode)
        if self.number_of(size) not in _COPY_SIZES[fields[2]]:
            raise UnknownInstruction(f"{instruction.opcode} of {self.number_of(size)} bytes")
        if any(qualifier.endswith("::cache_hint") for qualifier in fields):
            rest.pop()
        copied = "None"
        if rest and self._is_predicate(rest[0]):
            # Where it holds nothing is read.
            copied = f"np.where({self.use(rest[0], 'pred')}, 0, {self.number_of(size)})"
        elif rest:
            copied = self.use(rest[0], "u32")
        into, into_offset = self.address(target, "shared")
        origin, offset = self.address(source, "global")
        arguments = f"{into}, {into_offset}, {origin}, {offset}, {self.number_of(size)}, {copied}"
        self.lines.append(f"X.copy_async({self.site(instruction)}, {arguments})")

    def _is_predicate(self, operand: Operand) -> bool:
        return isinstance(operand, Register) and (
            operand.name in self.plan.dtypes and self.plan.dtypes[operand.name].kind == "b"
        )

    # Barrier objects

    def _object_space(self, instruction: Instruction, first: int) -> tuple[str, set[str]]:
        """Space of an ``mbarrier`` object, and the qualifiers from ``first`` on that say other things."""
        *middle, ptx_type = instruction.fields[first:]
        if ptx_type != "b64":
            raise UnknownInstruction(instruction.opcode)
        rest = set(middle)
        space = "shared" if rest & {"shared", "shared::cta", "shared::cluster"} else "generic"
        return space, rest - {"shared", "shared::cta", "shared::cluster"} - _SCOPES

    def _object(self, instruction: Instruction, operand: Operand, space: str) -> str:
        """Arguments that name an object: the instruction, the space, the address and its offset."""
        if not isinstance(operand, Address):
            raise UnknownInstruction(instruction.opcode)
        base, offset = self.address(operand, space)
        return f"{self.site(instruction)}, {space!r}, {base}, {offset}"

    def do_mbarrier(self, instruction: Instruction) -> None:
        fields, operands = instruction.fields, instruction.operands
        action = fields[1]
        if action == "pending_count":
            self.define(operands[0], "u32", f"X.pending_count({self.use(operands[1], 'b64')})")
            return
        space, rest = self._object_space(instruction, 2)
        known: set[str] = set()
        if action == "init":
            mbarrier = self._object(instruction, operands[0], space)
            self.lines.append(f"X.init_mbarrier({mbarrier}, {self.use(operands[1], 'u32')})")
        elif action == "inval":
            self.lines.append(f"X.invalidate_mbarrier({self._object(instruction, operands[0], space)})")
        elif action in ("expect_tx", "complete_tx"):
            known = {"relaxed"}
            mbarrier = self._object(instruction, operands[0], space)
            sign = 1 if action == "expect_tx" else -1
            self.lines.append(f"X.change_bytes({mbarrier}, {self.use(operands[1], 'u32')}, {sign})")
        elif action in ("arrive", "arrive_drop"):
            known = {"release", "relaxed", "noComplete", "expect_tx"}
            self._arrive(instruction, space, rest)
        elif action == "test_wait":
            known = {"acquire", "relaxed", "parity"}
            mbarrier, by_parity = self._phase(instruction, space, rest)
            self.define(
                operands[0], "pred", f"X.test_phase({mbarrier}, {by_parity}, {'relaxed' not in rest})"
            )
        else:
            raise UnknownInstruction(instruction.opcode)
        if rest - known:
            raise UnknownInstruction(instruction.opcode)

    def _arrive(self, instruction: Instruction, space: str, rest: set[str]) -> None:
        operands = list(instruction.operands)
        # Without a state, where the object is another block's, the address may come first.
        state = None if isinstance(operands[0], Address) else operands.pop(0)
        mbarrier = self._object(instruction, operands[0], space)
        number = self.use(operands[1], "u32") if len(operands) > 1 else "None"
        count, expected = ("None", number) if "expect_tx" in rest else (number, "None")
        drops = instruction.fields[1] == "arrive_drop"
        call = f"X.arrive({mbarrier}, {count}, {expected}, {drops}, {'relaxed' not in rest})"
        self.define(state, "b64", call)

    def _phase(self, instruction: Instruction, space: str, rest: set[str]) -> tuple[str, bool]:
        """Arguments that name an object and the phase that is waited for; whether that is named by its parity."""
        by_parity = "parity" in rest
        mbarrier = self._object(instruction, instruction.operands[1], space)
        return f"{mbarrier}, {self.use(instruction.operands[2], 'u32' if by_parity else 'b64')}", by_parity

    def awaited_phase(self, instruction: Instruction) -> tuple[str, bool]:
        """What ``mbarrier.try_wait`` waits for: positions of objects and parities; whether it acquires."""
        if not isinstance(instruction.operands[0], Register):
            raise UnknownInstruction(instruction.opcode)
        space, rest = self._object_space(instruction, 2)
        if rest - {"acquire", "relaxed", "parity"}:
            raise UnknownInstruction(instruction.opcode)
        phase, by_parity = self._phase(instruction, space, rest)
        return f"X.phase({phase}, {by_parity})", "relaxed" not in rest
