"""Translation of matrix instructions: ``mma``, ``wmma``, ``ldmatrix``, ``stmatrix``, ``movmatrix``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from drv.simulator.arithmetic import UnknownInstruction
from drv.simulator.arithmetic.matrices import fragments
from drv.simulator.arithmetic.matrices.products import BITS, is_wmma_shape, known_shapes, matrix_form
from drv.simulator.ptx.program import Vector

from .memory_instructions import MemoryInstructions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.simulator.ptx.program import Instruction, Operand

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
#: PTX types of the registers that hold elements of a type, where they are not bits.
_REGISTER_TYPES = {"f32": "f32", "f64": "f64", "s32": "s32"}
_LDMATRIX = "forms of {} that are known: .m8n8 with .x1, .x2 or .x4, .trans or not, of .b16"


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


class MatrixInstructions(MemoryInstructions):
    """Instructions become calls of :class:`~drv.simulator.execution.matrices.MatrixAccess`."""

    def all_of(self, operand: Operand, ptx_type: str) -> str:
        """The registers of a fragment as the text of a tuple."""
        return f"({''.join(f'{self.use(item, ptx_type)}, ' for item in _items(operand))})"

    def define_all(self, targets: Iterable[Operand], ptx_type: str, call: str) -> None:
        """Give registers the arrays that ``call`` gives, in order."""
        targets = list(targets)
        values = [self.emit("None") for _ in targets]
        del self.lines[-len(values) :]
        self.lines.append(f"{', '.join(values)}, = {call}")
        for target, value in zip(targets, values, strict=True):
            if target is not None:
                self.define(target, ptx_type, value)

    def do_mma(self, instruction: Instruction) -> None:
        form = matrix_form(instruction.opcode)
        if len(instruction.operands) != 4:
            raise UnknownInstruction(instruction.opcode, known_shapes(instruction.base))
        d, a, b, c = instruction.operands
        factor = "f64" if form.a == "f64" else "b32"
        addend = _REGISTER_TYPES.get(form.c, "b32")
        values = [self.all_of(each, ptx_type) for each, ptx_type in ((a, factor), (b, factor), (c, addend))]
        call = f"X.multiply_matrices({self.site(instruction)}, {instruction.opcode!r}, {', '.join(values)})"
        self.define_all(_items(d), _REGISTER_TYPES.get(form.d, "b32"), call)

    def do_wmma(self, instruction: Instruction) -> None:
        fields = instruction.fields
        if fields[1] == "mma":
            self.do_mma(instruction)
            return
        known = known_shapes("wmma")
        matched = next(filter(None, map(_SHAPE.fullmatch, fields)), None)
        which, ptx_type = fields[2], fields[-1]
        space = next(
            (
                qualifier.partition("::")[0]
                for qualifier in fields
                if qualifier.startswith(("global", "shared"))
            ),
            "generic",
        )
        layout = next((qualifier for qualifier in fields if qualifier in ("row", "col")), "")
        if (
            matched is None
            or ptx_type not in BITS
            or not layout
            or (fields[1], which) not in (("load", "a"), ("load", "b"), ("load", "c"), ("store", "d"))
            or not is_wmma_shape(matched.group(), ptx_type)
        ):
            raise UnknownInstruction(instruction.opcode, known)
        m, n, k = map(int, matched.groups())
        fragment = ("c" if which == "d" else which, m, n, k, ptx_type, layout)
        if BITS[ptx_type] < 8 and layout != ("row" if which == "a" else "col"):
            raise UnknownInstruction(instruction.opcode, known)
        operands = instruction.operands
        target, held = (operands[1], operands[0]) if fields[1] == "load" else (operands[0], operands[1])
        base, offset = self.address(target, space)
        stride = self.use(operands[2], "s32") if len(operands) > 2 else "None"
        site = self.site(instruction)
        register_type = _REGISTER_TYPES.get(ptx_type, "b32")
        per = fragments.of_wmma(*fragment[:5]).per
        if len(_items(held)) != -(-per * BITS[ptx_type] // max(32, BITS[ptx_type])):
            raise UnknownInstruction(instruction.opcode, known)
        where = f"{site}, {space!r}, {fragment!r}, {base}, {offset}, {stride}"
        if fields[1] == "load":
            self.define_all(_items(held), register_type, f"X.load_fragment({where})")
        else:
            self.lines.append(f"X.store_fragment({where}, {self.all_of(held, register_type)})")

    def do_ldmatrix(self, instruction: Instruction) -> None:
        target, address = instruction.operands
        items = _items(target)
        space, transposed = self._matrices(instruction, len(items))
        base, offset = self.address(address, space)
        where = f"{self.site(instruction)}, {space!r}, {base}, {offset}, {len(items)}, {transposed}"
        self.define_all(items, "b32", f"X.load_matrices({where})")

    def do_stmatrix(self, instruction: Instruction) -> None:
        address, source = instruction.operands
        space, transposed = self._matrices(instruction, len(_items(source)))
        base, offset = self.address(address, space)
        where = f"{self.site(instruction)}, {space!r}, {base}, {offset}, {transposed}"
        self.lines.append(f"X.store_matrices({where}, {self.all_of(source, 'b32')})")

    def _matrices(self, instruction: Instruction, registers: int) -> tuple[str, bool]:
        """Memory space, and whether the matrices are transposed on their way."""
        fields = [qualifier.partition("::")[0] for qualifier in instruction.fields]
        known = _LDMATRIX.format(fields[0])
        if (
            fields[3] != "m8n8"
            or fields[4] != f"x{registers}"
            or registers not in (1, 2, 4)
            or fields[-1] != "b16"
        ):
            raise UnknownInstruction(instruction.opcode, known)
        return "shared" if "shared" in fields else "generic", "trans" in fields

    def do_movmatrix(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        if instruction.opcode != "movmatrix.sync.aligned.m8n8.trans.b16":
            raise UnknownInstruction(instruction.opcode, "known: movmatrix.sync.aligned.m8n8.trans.b16")
        self.define(target, "b32", f"X.transpose_matrix({self.site(instruction)}, {self.use(source, 'b32')})")
