"""Random programs of C++ with their meaning in NumPy, statement by statement.

A statement can be written out, or run over lanes of which a mask says who takes part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from .random_expressions import (
    ARRAYS,
    LENGTH,
    VARIABLES,
    Expression,
    Variables,
    element,
    expressions,
    place,
)


@dataclass(slots=True)
class Machine:
    """The variables of all lanes, threads per block, and which lanes have jumped to the end."""

    variables: Variables
    threads: int
    finished: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.finished = np.zeros(len(self.variables["i"]), bool)

    def copy(self) -> Machine:
        return Machine({name: values.copy() for name, values in self.variables.items()}, self.threads)


class Statement:
    """``written`` is C++. ``run`` acts on the lanes of ``mask`` and returns those that go on behind it;

    lanes that break the loop around are added to ``left``.
    """

    def written(self, indent: str) -> str:
        raise NotImplementedError

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def block(statements: list[Statement], indent: str) -> str:
    return "".join(statement.written(indent + "    ") for statement in statements)


def run(statements: list[Statement], machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
    for statement in statements:
        mask = statement.run(machine, mask, left)
    return mask


@dataclass(frozen=True)
class Assignment(Statement):
    name: str
    expression: Expression

    def written(self, indent: str) -> str:
        return f"{indent}{self.name} = {self.expression.text};\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        variables = machine.variables
        variables[self.name] = np.where(mask, self.expression.value(variables), variables[self.name])
        return mask


@dataclass(frozen=True)
class ElementAssignment(Statement):
    array: str
    index: Expression
    expression: Expression

    def written(self, indent: str) -> str:
        return f"{indent}{place(self.array, self.index)} = {self.expression.text};\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        variables = machine.variables
        index, value = self.index.value(variables) & (LENGTH - 1), self.expression.value(variables)
        array = variables[self.array] = variables[self.array].copy()
        array[mask, index[mask]] = value[mask]
        return mask


@dataclass(frozen=True)
class Branch(Statement):
    condition: Expression
    yes: list[Statement]
    no: list[Statement]

    def written(self, indent: str) -> str:
        text = f"{indent}if ({self.condition.text}) {{\n{block(self.yes, indent)}{indent}}}"
        return text + (f" else {{\n{block(self.no, indent)}{indent}}}\n" if self.no else "\n")

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        holds = self.condition.value(machine.variables) != 0
        on = run(self.yes, machine, mask & holds, left)
        return on | run(self.no, machine, mask & ~holds, left)


@dataclass(frozen=True)
class Switch(Statement):
    """Cases from 0 on, some of which fall through; numbers beyond them go to the default, which is last."""

    chosen: Expression
    cases: list[tuple[list[Statement], bool]]

    def written(self, indent: str) -> str:
        inner = indent + "    "
        text = f"{indent}switch ({self.chosen.text} & 7) {{\n"
        for number, (body, breaks) in enumerate(self.cases):
            label = "default" if number == len(self.cases) - 1 else f"case {number}"
            text += f"{inner}{label}: {{\n{block(body, inner)}{inner}}}\n" + f"{inner}break;\n" * breaks
        return f"{text}{indent}}}\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        last = len(self.cases) - 1
        number = np.minimum(self.chosen.value(machine.variables) & 7, last)
        inside, behind = np.zeros_like(mask), np.zeros_like(mask)
        for at, (body, breaks) in enumerate(self.cases):
            inside = run(body, machine, inside | (mask & (number == at)), left)
            if breaks:
                behind |= inside
                inside = np.zeros_like(mask)
        return behind | inside


@dataclass(frozen=True)
class Loop(Statement):
    """At most seven rounds; their number differs from lane to lane."""

    depth: int
    rounds: Expression
    body: list[Statement]

    def written(self, indent: str) -> str:
        k = f"k{self.depth}"
        head = f"{indent}for (int {k} = 0, n{k} = {self.rounds.text} & 7; {k} < n{k}; ++{k}) {{\n"
        return f"{head}{block(self.body, indent)}{indent}}}\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        rounds = self.rounds.value(machine.variables) & 7
        gone = np.zeros_like(mask)
        for k in range(7):
            run(self.body, machine, mask & ~gone & ~machine.finished & (k < rounds), gone)
        return mask & ~machine.finished


@dataclass(frozen=True)
class Jump(Statement):
    """``break``, ``continue`` or ``goto done`` under a condition."""

    word: str
    condition: Expression

    def written(self, indent: str) -> str:
        return f"{indent}if ({self.condition.text}) {self.word};\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        jumps = mask & (self.condition.value(machine.variables) != 0)
        if self.word == "break":
            left |= jumps
        elif self.word == "goto done":
            machine.finished |= jumps
        return mask & ~jumps


@dataclass(frozen=True)
class Call(Statement):
    """A function that is not inlined works on copies of the variables and returns one of them."""

    number: int
    name: str
    body: list[Statement]

    def written(self, indent: str) -> str:
        return f"{indent}{self.name} = function{self.number}({', '.join(VARIABLES)}, near, wide);\n"

    def definition(self) -> str:
        parameters = ", ".join(f"{type_} {name}" for name, type_ in VARIABLES.items())
        return (
            f"__device__ __noinline__ {VARIABLES[self.name]} function{self.number}({parameters}, int* near, int* wide) {{\n"
            f"{block(self.body, '')}done:\n    return {self.name};\n}}\n"
        )

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        inside = machine.copy()
        run(self.body, inside, mask, np.zeros_like(mask))
        for name in (self.name, *ARRAYS):
            here = mask if name in VARIABLES else mask[:, None]
            machine.variables[name] = np.where(here, inside.variables[name], machine.variables[name])
        return mask


@dataclass(frozen=True)
class Exchange(Statement):
    """All lanes of a warp give each other a variable."""

    name: str
    distance: int

    def written(self, indent: str) -> str:
        return f"{indent}{self.name} = __shfl_xor_sync(0xffffffffu, {self.name}, {self.distance});\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        lanes = np.arange(len(mask)) ^ self.distance
        machine.variables[self.name] = machine.variables[self.name][lanes]
        return mask


@dataclass(frozen=True)
class Neighbour(Statement):
    """All threads of a block read what another has in shared memory, between two barriers."""

    name: str
    distance: int
    at: int

    def written(self, indent: str) -> str:
        other = f"(threadIdx.x + {self.distance}) % blockDim.x * {LENGTH} + {self.at}"
        return f"{indent}__syncthreads();\n{indent}{self.name} = shared[{other}];\n{indent}__syncthreads();\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        blocks = machine.variables["wide"][:, self.at].reshape(-1, machine.threads)
        machine.variables[self.name] = np.roll(blocks, -self.distance, axis=1).ravel()
        return mask


@dataclass(frozen=True)
class Repetition(Statement):
    """A loop that all threads leave together."""

    rounds: int
    body: list[Statement]

    def written(self, indent: str) -> str:
        head = f"{indent}for (int round = 0; round < {self.rounds}; ++round) {{\n"
        return f"{head}{block(self.body, indent)}{indent}}}\n"

    def run(self, machine: Machine, mask: np.ndarray, left: np.ndarray) -> np.ndarray:
        for _ in range(self.rounds):
            mask = run(self.body, machine, mask, np.zeros_like(mask))
        return mask


@dataclass(frozen=True)
class Program:
    statements: list[Statement]
    calls: list[Call]

    def written(self, name: str) -> str:
        """The kernel, and the functions that it calls."""
        parameters = ", ".join(f"{type_}* p{variable}" for variable, type_ in VARIABLES.items())
        loads = "".join(
            f"    {type_} {variable} = p{variable}[t];\n" for variable, type_ in VARIABLES.items()
        )
        stores = "".join(f"    p{variable}[t] = {variable};\n" for variable in VARIABLES)
        arrays = [f"p{array}[t * {LENGTH} + e]" for array in ARRAYS]
        functions = "".join(call.definition() for call in self.calls)
        return f"""
namespace of_{name} {{
{functions}
extern "C" __global__ void {name}({parameters}, {", ".join(f"int* p{array}" for array in ARRAYS)}) {{
    extern __shared__ int shared[];
    int t = blockIdx.x * blockDim.x + threadIdx.x;
{loads}    int near[{LENGTH}], *wide = shared + threadIdx.x * {LENGTH};
    for (int e = 0; e < {LENGTH}; ++e) {{ near[e] = {arrays[0]}; wide[e] = {arrays[1]}; }}
{block(self.statements, "")}done:
{stores}    for (int e = 0; e < {LENGTH}; ++e) {{ {arrays[0]} = near[e]; {arrays[1]} = wide[e]; }}
}}
}}
"""

    def run(self, variables: Variables, threads: int) -> Variables:
        """The variables at the end, in blocks of ``threads``."""
        machine = Machine(dict(variables), threads)
        lanes = len(machine.finished)
        run(self.statements, machine, np.ones(lanes, bool), np.zeros(lanes, bool))
        return machine.variables


@dataclass(slots=True)
class _Draft:
    """What may still be drawn."""

    draw: st.DrawFn
    control: bool
    jumps: bool
    calls: list[Call] = field(default_factory=list)

    def statements(self, depth: int, *, in_loop: bool, in_call: bool) -> list[Statement]:
        count = self.draw(st.integers(1, 12 if depth == 0 else 3))
        together = depth == 0 and self.control
        return [
            self.statement(depth, in_loop=in_loop, in_call=in_call, together=together) for _ in range(count)
        ]

    def statement(self, depth: int, *, in_loop: bool, in_call: bool, together: bool) -> Statement:
        """``together``: all threads of a block get here at once."""
        draw = self.draw
        kind = draw(st.integers(0, 13)) if self.control and depth < 3 else 0
        nested = {"in_loop": in_loop, "in_call": in_call}
        if kind == 6:
            index = draw(expressions("int", 2))
            return ElementAssignment(draw(st.sampled_from(ARRAYS)), index, draw(expressions("int")))
        if kind in (7, 8):
            no = self.statements(depth + 1, **nested) if draw(st.booleans()) else []
            return Branch(draw(expressions("int", 2)), self.statements(depth + 1, **nested), no)
        if kind in (9, 10):
            body = self.statements(depth + 1, in_loop=True, in_call=in_call)
            return Loop(depth, draw(expressions("int", 1)), body)
        if kind == 11:
            cases = [
                (self.statements(depth + 1, in_loop=False, in_call=in_call), draw(st.booleans()))
                for _ in range(draw(st.integers(1, 5)))
            ]
            return Switch(draw(expressions("int", 1)), cases)
        if kind == 12:
            words = ["break", "continue"] * in_loop + ["goto done"] * (self.jumps or in_call)
            if words:
                return Jump(draw(st.sampled_from(words)), draw(expressions("int", 2)))
        if kind == 13 and not in_call:
            name = draw(st.sampled_from(list(VARIABLES)))
            body = self.statements(depth + 1, in_loop=False, in_call=True)
            self.calls.append(Call(len(self.calls), name, body))
            return self.calls[-1]
        if kind == 5 and together and not self.jumps:
            name = draw(st.sampled_from(list(VARIABLES)))
            return Exchange(name, draw(st.integers(1, 31)))
        if kind == 3 and together and not self.jumps:
            return Neighbour(
                draw(st.sampled_from(["i", "j"])), draw(st.integers(1, 40)), draw(st.integers(0, 7))
            )
        if kind == 2 and depth == 0 and together:
            body = [
                self.statement(1, in_loop=False, in_call=False, together=True)
                for _ in range(draw(st.integers(1, 4)))
            ]
            return Repetition(draw(st.integers(0, 3)), body)
        name = draw(st.sampled_from(list(VARIABLES)))
        if kind == 4:
            name = draw(st.sampled_from(["i", "j"]))
            return Assignment(name, element(draw(st.sampled_from(ARRAYS)), draw(expressions("int", 2))))
        return Assignment(name, draw(expressions(VARIABLES[name])))


@st.composite
def programs(draw: st.DrawFn, *, control: bool) -> Program:
    """Straight lines; with ``control`` also branches, loops, switches, jumps, calls, arrays, shuffles, barriers."""
    draft = _Draft(draw, control, jumps=draw(st.booleans()))
    return Program(draft.statements(0, in_loop=False, in_call=False), draft.calls)
