"""Translation of texture and surface instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import DTYPES, UnknownInstruction
from drv.simulator.execution.texturing.geometry import GEOMETRIES, Geometry
from drv.simulator.ptx.program import Address, Immediate, Pair, Register, Symbol, Vector

from .block_writer import BlockWriter, name_of

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction, Operand

_BOUNDARIES = ("trap", "clamp", "zero")
_COMPONENTS = "rgba"
_TYPES = ("f32", "s32", "u32", "f16")
_CACHE = {"ca", "cg", "cs", "cv", "wb", "wt"}
_QUERIES = {"width", "height", "depth", "array_size"}
_TEXTURE_QUERIES = _QUERIES | {"normalized_coords", "num_mipmap_levels", "num_samples"}
_REDUCTIONS = ("add", "min", "max", "and", "or")
_REDUCED = ("u32", "s32", "b32", "u64", "s64")
_ELEMENTS = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}
_KNOWN = (
    "forms that are known: of textures .1d, .2d, .3d, .a1d, .a2d, .cube and .acube, with .level and .grad, whose sampler is "
    "their own; not multisampled ones, and no comparison of depths"
)


class TextureInstructions(BlockWriter):
    """Instructions become calls of the classes of :mod:`drv.simulator.execution.texturing`."""

    def image(self, operand: Operand) -> tuple[str, Operand]:
        """Handles of textures or surfaces, and the coordinates behind them."""
        if not isinstance(operand, Address) or operand.offset or len(operand.coordinates) > 1:
            raise UnknownInstruction(str(operand), _KNOWN)
        coordinates = operand.coordinates[0] if operand.coordinates else None
        if isinstance(operand.base, Symbol):
            # A texture or surface reference is a variable, which holds what is bound to it.
            return self.emit(f"X.launch.reference({operand.base.name!r})"), coordinates
        return self.use(operand.base, "u64"), coordinates

    def _geometry(self, instruction: Instruction) -> tuple[str, Geometry]:
        name = next((each for each in instruction.fields if each in GEOMETRIES), "")
        if not name:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        return name, GEOMETRIES[name]

    def _items(self, operand: Operand, ptx_type: str, count: int) -> list[str]:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) < count or any(item is None for item in items[:count]):
            raise UnknownInstruction(str(operand), _KNOWN)
        return [self.use(item, ptx_type) for item in items[:count]]

    def _coordinates(self, operand: Operand, geometry: Geometry, ptx_type: str) -> str:
        """Coordinates as the text of a tuple; the layer comes first, and is an integer."""
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) not in (geometry.numbers, geometry.operands):
            raise UnknownInstruction(str(operand), _KNOWN)
        numbers = []
        for position, item in enumerate(items[: geometry.numbers]):
            numbers.append(self.use(item, "u32" if geometry.layered and position == 0 else ptx_type))
        return f"({''.join(f'{number}, ' for number in numbers)})"

    def _results(self, operand: Operand, ptx_type: str, values: str) -> None:
        """Let the registers of a vector, or a single one, have the arrays of a list."""
        if isinstance(operand, Pair):
            # Everything is resident.
            if operand.second is not None:
                self.define(operand.second, "pred", self.constant("pred", 1))
            operand = operand.first
        items = operand.items if isinstance(operand, Vector) else (operand,)
        for position, item in enumerate(items):
            if item is not None:
                self.define(item, ptx_type, f"{values}[{position}]")

    # Textures

    def do_tex(self, instruction: Instruction) -> None:
        name, geometry = self._geometry(instruction)
        fields, operands = instruction.fields[1:], list(instruction.operands)
        *front, ptx_type, coordinate_type = fields
        if set(front) - {name, "v4", "level", "grad", "base", "noftz"} or ptx_type not in _TYPES:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        if coordinate_type not in ("f32", "s32") or (geometry.cube and coordinate_type != "f32"):
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        handles, where = self.image(operands[1])
        arguments = [self.site(instruction), handles, repr(name), repr(ptx_type)]
        arguments.append(self._coordinates(where, geometry, coordinate_type))
        rest = operands[2:]
        if "level" in front:
            arguments.append(f"level={self.use(rest.pop(0), coordinate_type)}")
        elif "grad" in front:
            ways = [self._items(rest.pop(0), "f32", geometry.rank + geometry.cube) for _ in range(2)]
            arguments.append(f"gradients=[{', '.join('[' + ', '.join(way) + ']' for way in ways)}]")
        if rest:
            offsets = self._offsets(instruction, rest, geometry)
            arguments.append(f"offsets={offsets}")
        values = self.emit(f"X.sample({', '.join(arguments)})")
        self._results(operands[0], ptx_type, values)

    def _offsets(self, instruction: Instruction, rest: list[Operand], geometry: Geometry) -> str:
        if len(rest) != 1 or geometry.cube or not isinstance(rest[0], (Vector, Register, Immediate)):
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        return f"[{', '.join(self._items(rest[0], 's32', geometry.rank))}]"

    def do_tld4(self, instruction: Instruction) -> None:
        name, geometry = self._geometry(instruction)
        _, component, *front, ptx_type, coordinate_type = instruction.fields
        operands = list(instruction.operands)
        if component not in _COMPONENTS or set(front) - {name, "v4"} or ptx_type not in _TYPES:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        if coordinate_type != "f32" or geometry.rank != 2:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        handles, where = self.image(operands[1])
        coordinates = self._coordinates(where, geometry, "f32")
        arguments = f"{self.site(instruction)}, {handles}, {name!r}, {ptx_type!r}"
        arguments += f", {_COMPONENTS.index(component)}, {coordinates}"
        if operands[2:]:
            arguments += f", {self._offsets(instruction, operands[2:], geometry)}"
        self._results(operands[0], ptx_type, self.emit(f"X.gather({arguments})"))

    def do_txq(self, instruction: Instruction) -> None:
        fields, operands = instruction.fields[1:], instruction.operands
        query = next((each for each in fields if each in _TEXTURE_QUERIES), "")
        if not query or set(fields) - {query, "level", "b32"}:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        handles, _ = self.image(operands[1])
        level = f", {self.use(operands[2], 'u32')}" if "level" in fields else ""
        call = f"X.query_texture({self.site(instruction)}, {handles}, {query!r}{level})"
        self.define(operands[0], "b32", call)

    # Surfaces

    def _surface(self, instruction: Instruction, operand: Operand, known: set[str]) -> str:
        """The first arguments of a call: site, handles, geometry, boundary and coordinates."""
        name, geometry = self._geometry(instruction)
        boundary = instruction.fields[-1]
        if set(instruction.fields[1:-1]) - known - _CACHE - {name} or boundary not in _BOUNDARIES:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        handles, where = self.image(operand)
        coordinates = self._coordinates(where, geometry, "u32")
        return f"{self.site(instruction)}, {handles}, {name!r}, {boundary!r}, {coordinates}"

    def do_suld(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        ptx_type = instruction.fields[-2]
        arguments = self._surface(instruction, source, {"b", "v2", "v4", *_ELEMENTS})
        if ptx_type not in _ELEMENTS or "b" not in instruction.fields:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        items = target.items if isinstance(target, Vector) else (target,)
        call = f"X.load_surface({arguments}, np.{name_of(DTYPES[ptx_type])}, {len(items)})"
        self._results(target, ptx_type, self.emit(call))

    def do_sust(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        ptx_type = instruction.fields[-2]
        formatted = "p" in instruction.fields
        known = {"p", "b32"} if formatted else {"b", *_ELEMENTS}
        arguments = self._surface(instruction, target, known | {"v2", "v4"})
        if ptx_type not in _ELEMENTS or {"b", "p"}.isdisjoint(instruction.fields):
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        items = source.items if isinstance(source, Vector) else (source,)
        values = "".join(f"{self.use(item, ptx_type)}, " for item in items)
        method = "store_formatted" if formatted else "store_surface"
        self.lines.append(f"X.{method}({arguments}, ({values}))")

    def do_sured(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        fields = instruction.fields
        operation = next((each for each in fields if each in _REDUCTIONS), "")
        ptx_type = fields[-2]
        arguments = self._surface(instruction, target, {"b", "p", *_REDUCTIONS, *_REDUCED})
        if not operation or ptx_type not in _REDUCED:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        if ptx_type == "b32" and operation in ("add", "min", "max"):
            # What the elements are tells.
            ptx_type = "s32"
        (item,) = source.items if isinstance(source, Vector) else (source,)
        if operation in ("and", "or"):
            ptx_type = f"b{ptx_type[1:]}"
        value = self.use(item, ptx_type)
        formatted = "p" in fields
        self.lines.append(
            f"X.reduce_surface({arguments}, {operation!r}, {ptx_type!r}, {value}, formatted={formatted})"
        )

    def do_suq(self, instruction: Instruction) -> None:
        fields, operands = instruction.fields[1:], instruction.operands
        query = next((each for each in fields if each in _QUERIES), "")
        if not query or set(fields) - {query, "b32"}:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        handles, _ = self.image(operands[1])
        self.define(operands[0], "b32", f"X.query_surface({self.site(instruction)}, {handles}, {query!r})")
