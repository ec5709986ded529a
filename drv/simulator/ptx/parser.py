"""From PTX text to a :class:`Module`."""

from __future__ import annotations

import struct
from math import prod
from typing import Any, NoReturn

from .names import check_names
from .products import with_results
from .program import (
    TYPE_BYTES,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    PTXSyntaxError,
    Register,
    Symbol,
    Variable,
    Vector,
    align_up,
)
from .shared_memory import MOST_STATIC_SHARED, shared_layout
from .statements import Reader, Unusual, signed_number
from .tokens import Token, tokens

_LINKAGE = {".visible", ".extern", ".weak", ".common"}
#: What a text may ask for at most; each is far beyond what a compiler makes.
_MOST_REGISTERS = 1 << 20
_MOST_ELEMENTS = 1 << 40
_MOST_ALIGNMENT = 1 << 20
_MOST_SCOPES = 100
_ADDRESS_BYTES = 8
_BUILT_IN_HEADER = "__nv_nvrtc_builtin_header.h"
_SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local"}


def parse(text: str) -> Module:
    """Read a PTX text.

    Raises
    ------
    PTXSyntaxError
        If it is malformed; the message names the line.
    """
    parser = _Parser(text)
    try:
        return parser.module()
    except RecursionError:
        parser._fail("parentheses are nested too deeply")


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._lines = text.split("\n")
        self._at = 0
        self._module = Module()
        self._source: tuple[Any, ...] | None = None
        #: Where the code of a location was inlined, the last time that one was named: file, line and column of both.
        self._inlined: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self._calls = 0
        self._reader = Reader(())

    # Words

    def _peek(self) -> Token:
        token = self._tokens[self._at]
        return token if token.match is None else self._in_words(token)

    def _in_words(self, token: Token) -> Token:
        """Put its words in the place of a statement; returns the first."""
        assert token.match is not None
        self._tokens[self._at : self._at + 1] = tokens(token.match.group(), token.line, words_only=True)[:-1]
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._peek()
        if token.kind == "end":
            self._fail("the text ends too early", token)
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._peek().text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> Token:
        token = self._next()
        if token.text != text:
            self._fail(f"expected {text!r}, found {token.text!r}", token)
        return token

    def _fail(self, message: str, token: Token | None = None) -> NoReturn:
        raise PTXSyntaxError((token or self._tokens[min(self._at, len(self._tokens) - 1)]).line, message)

    def _word(self) -> str:
        token = self._next()
        if token.kind != "word":
            self._fail(f"expected a name, found {token.text!r}", token)
        return token.text

    def _integer(self) -> int:
        negative = self._accept("-")
        token = self._next()
        if token.kind != "number":
            self._fail(f"expected a number, found {token.text!r}", token)
        number = self._number(token)
        if number.kind != "int":
            self._fail(f"expected a whole number, found {token.text!r}", token)
        return -number.value if negative else number.value

    def _size(self, most: int, what: str) -> int:
        """A number that is a count or a size, from 0 to ``most``."""
        token = self._peek()
        number = self._integer()
        if not 0 <= number <= most:
            self._fail(f"{number} is no {what} (0 to {most})", token)
        return number

    def _alignment(self) -> int:
        token = self._peek()
        number = self._integer()
        if not 0 < number <= _MOST_ALIGNMENT or number & (number - 1):
            self._fail(f"{number} is no alignment: a power of two up to {_MOST_ALIGNMENT}", token)
        return number

    def _number(self, token: Token, *, negative: bool = False) -> Immediate:
        try:
            return signed_number(token.text, negative=negative)
        except ValueError:
            self._fail(f"{token.text!r} is no number", token)

    # Module scope

    def _version(self) -> tuple[int, int]:
        token = self._next()
        major, _, minor = token.text.partition(".")
        if not (major.isdecimal() and (minor or "0").isdecimal()):
            self._fail(f"{token.text!r} is no version", token)
        return int(major), int(minor or 0)

    def module(self) -> Module:
        module = self._module
        while self._peek().kind != "end":
            token = self._next()
            text = token.text
            if text == ".version":
                module.version = self._version()
            elif text == ".target":
                module.target = self._word()
                while self._accept(","):
                    self._word()
            elif text == ".address_size":
                module.address_size = self._integer()
            elif text == ".file":
                self._file()
            elif text == ".section":
                self._skip_section()
            elif text in (".pragma", ".alias"):
                while self._next().text != ";":
                    continue
            elif text in _LINKAGE or text in _SPACES or text in (".entry", ".func"):
                self._at -= 1
                self._definition()
            elif text != ";":
                self._fail(f"unexpected {text!r}", token)
        # Files are declared at the end of the text.
        locations: dict[Any, tuple[str, int]] = {}
        for function in module.functions.values():
            for instruction in function.instructions:
                location = instruction.source
                if location is not None:
                    if location not in locations:
                        locations[location] = self._in_files(location)
                    instruction.source = locations[location]
        for function in module.entries.values():
            layout = shared_layout(module, function)
            function.reserved_shared_bytes = layout.reserved
            function.static_shared_bytes = layout.static_end - layout.reserved
            if function.static_shared_bytes > MOST_STATIC_SHARED:
                self._fail(
                    f"entry function {function.name!r} uses too much shared data ({function.static_shared_bytes:#x} "
                    f"bytes, {MOST_STATIC_SHARED:#x} max)"
                )
        return module

    def _file(self) -> None:
        index = self._integer()
        self._module.files[index] = self._next().text.strip('"')
        while self._accept(","):
            self._integer()

    def _skip_section(self) -> None:
        self._next()
        self._expect("{")
        depth = 1
        while depth:
            text = self._next().text
            depth += (text == "{") - (text == "}")

    def _definition(self) -> None:
        linkage = set()
        while self._peek().text in _LINKAGE:
            linkage.add(self._next().text)
        if self._peek().text in (".entry", ".func"):
            self._function()
            return
        if self._peek().text not in _SPACES:
            self._fail(f"unexpected {self._peek().text!r}")
        space = _SPACES[self._next().text]
        for variable in self._variables(space):
            variable.visible = bool(linkage & {".visible", ".weak", ".common"})
            variable.external = ".extern" in linkage
            into = self._module.shared if space == "shared" else self._module.variables
            into[variable.name] = variable

    def _variables(self, space: str) -> list[Variable]:
        """Declarations up to the semicolon: ``.align 4 .b8 name[16] = {...}, ...``."""
        align, ptx_type, lanes, managed, reference = 0, "", 1, False, ""
        while self._peek().text.startswith(".") and self._peek().kind == "word":
            word = self._next().text[1:]
            if word == "align":
                align = self._alignment()
            elif word in ("v2", "v4", "v8"):
                lanes = int(word[1:])
            elif word in TYPE_BYTES:
                ptx_type = word
            elif word in ("texref", "surfref"):
                ptx_type, reference = "b64", word
            elif word.startswith("attribute"):
                managed = self._skip_parentheses(".managed")
        if not ptx_type:
            self._fail("a variable without a type")
        variables = []
        while True:
            name = self._word()
            shape = self._dimensions()
            item = TYPE_BYTES[ptx_type]
            size = item * lanes * prod(shape)
            initial = b""
            relocations: list[tuple[int, str, int]] = []
            if self._accept("="):
                values: list[bytes] = []
                self._initializer(ptx_type, values, relocations)
                initial = b"".join(values)
                if 0 in shape:
                    size = len(initial)
                elif len(initial) > size:
                    self._fail(f"{name!r} has {size} bytes, and its initial value has {len(initial)}")
            variable = Variable(name, space, max(size, 0), align or item * lanes, initial, tuple(relocations))
            variable.external = shape == (0,) and not initial
            variable.managed, variable.reference = managed, reference
            variables.append(variable)
            if not self._accept(","):
                break
        self._expect(";")
        return variables

    def _dimensions(self) -> tuple[int, ...]:
        shape = []
        while self._accept("["):
            shape.append(0 if self._peek().text == "]" else self._size(_MOST_ELEMENTS, "number of elements"))
            self._expect("]")
        return tuple(shape)

    def _skip_parentheses(self, token: str) -> bool:
        """Go behind what is in parentheses; whether ``token`` is in there."""
        contained = False
        if self._accept("("):
            depth = 1
            while depth:
                text = self._next().text
                contained |= text == token
                depth += (text == "(") - (text == ")")
        return contained

    def _initializer(
        self, ptx_type: str, values: list[bytes], relocations: list[tuple[int, str, int]]
    ) -> None:
        if self._accept("{"):
            while not self._accept("}"):
                self._initializer(ptx_type, values, relocations)
                self._accept(",")
            return
        size = TYPE_BYTES[ptx_type]
        token = self._peek()
        if token.kind == "word" and not token.text.startswith("."):
            self._relocation(size, values, relocations)
            return
        negative = self._accept("-")
        token = self._next()
        if token.kind != "number":
            self._fail(f"expected a constant, found {token.text!r}", token)
        constant = self._number(token, negative=negative)
        value = constant.value
        if constant.kind == "f64" and ptx_type == "f32":
            value = int.from_bytes(
                struct.pack("<f", struct.unpack("<d", value.to_bytes(8, "little"))[0]), "little"
            )
        values.append((value & ((1 << size * 8) - 1)).to_bytes(size, "little"))

    def _relocation(self, size: int, values: list[bytes], relocations: list[tuple[int, str, int]]) -> None:
        """``name``, ``generic(name)``, ``name+4``, or the byte of an address: ``0xFF(name)``."""
        if size != _ADDRESS_BYTES:
            self._fail(f"an address does not fit into {size} bytes")
        name = self._word()
        generic = name == "generic"
        if generic:
            self._expect("(")
            name = self._word()
        addend = 0
        if self._accept("+") or self._peek().text == "-":
            addend = self._integer()
        if generic:
            self._expect(")")
            if self._accept("+"):
                addend += self._integer()
        relocations.append((sum(map(len, values)), name, addend))
        values.append(bytes(size))

    # Functions

    def _function(self) -> None:
        entry = self._next().text == ".entry"
        results = self._formals() if not entry and self._peek().text == "(" else []
        name = self._word()
        formals = self._formals() if self._peek().text == "(" else []
        function = Function(name, entry, formals, results)
        self._attributes(function)
        declared = self._module.functions.get(name)
        if self._accept(";"):
            if declared is None:
                self._module.functions[name] = function
            return
        self._module.functions[name] = function
        function.defined = True
        self._expect("{")
        self._source = None
        self._reader = Reader(function.register_types)
        self._body(function, [{}], "")
        check_names(function)
        with_results(function)

    def _attributes(self, function: Function) -> None:
        while self._peek().kind == "word" and self._peek().text.startswith("."):
            word = self._next().text
            numbers = []
            while self._peek().kind == "number":
                numbers.append(self._integer())
                self._accept(",")
            if word in (".maxntid", ".reqntid") and numbers:
                function.max_threads = prod(numbers)
            elif word == ".reqnctapercluster" and numbers:
                x, y, z = (*numbers, 1, 1)[:3]
                function.cluster = x, y, z
            elif word == ".explicitcluster":
                function.explicit_cluster = True
            elif word == ".maxclusterrank" and numbers:
                function.max_cluster_blocks = numbers[0]
            elif word == ".pragma":
                while self._next().text != ";":
                    continue

    def _formals(self) -> list[Parameter]:
        self._expect("(")
        formals: list[Parameter] = []
        end = 0
        while not self._accept(")"):
            parameter = self._parameter()
            parameter.offset = align_up(end, parameter.align)
            end = parameter.offset + parameter.size
            formals.append(parameter)
            self._accept(",")
        return formals

    def _parameter(self) -> Parameter:
        """``.param .align 8 .b8 name[16]``; ``.reg`` parameters count as ``.param``."""
        align, ptx_type, pointer = 0, "", False
        while self._peek().text.startswith(".") and self._peek().kind == "word":
            word = self._next().text[1:]
            if word == "ptr":
                # What follows is about the memory that the parameter points to.
                pointer = True
            elif word == "align":
                number = self._alignment()
                align = align if pointer else number
            elif word in TYPE_BYTES:
                ptx_type = word
            elif word == "pred":
                ptx_type = "b8"
        if not ptx_type:
            self._fail("a parameter without a type")
        name = self._word() if self._peek().kind == "word" else "_"
        shape = self._dimensions()
        return Parameter(name, TYPE_BYTES[ptx_type] * prod(shape), align or TYPE_BYTES[ptx_type])

    def _body(self, function: Function, scopes: list[dict[str, str]], suffix: str) -> None:
        """Statements up to the closing brace. ``scopes`` maps declared names to names unique in the function."""
        if suffix:
            scopes[-1].update((name, name + suffix) for name in self._labels_ahead())
        while True:
            token = self._tokens[self._at]
            if token.match is not None and self._statement(function, token, suffix):
                continue
            if self._peek().kind == "end":
                self._fail(f"function {function.name} has no end")
            token = self._next()
            text = token.text
            if text == "}":
                return
            if text == "{":
                self._calls += 1
                if len(scopes) > _MOST_SCOPES:
                    self._fail("braces are nested too deeply", token)
                self._body(function, [*scopes, {}], f"@{self._calls}")
            elif text == ".reg":
                self._registers(function, scopes[-1], suffix)
            elif text in (".local", ".shared"):
                for variable in self._variables(_SPACES[text]):
                    function.variables[variable.name] = variable
            elif text == ".param":
                self._at -= 1
                parameter = self._parameter()
                self._expect(";")
                scopes[-1][parameter.name] = parameter.name + suffix
                parameter.name += suffix
                function.call_parameters[parameter.name] = parameter
            elif text == ".loc":
                self._location()
            elif text == ".file":
                self._file()
            elif text == ".pragma":
                while self._next().text != ";":
                    continue
            elif token.kind == "word" and self._accept(":"):
                self._label(function, text, scopes)
            elif text != ";":
                self._at -= 1
                self._instruction(function, scopes)

    def _statement(self, function: Function, token: Token, suffix: str) -> bool:
        """Read a line that is one statement; whether that was possible."""
        match = token.match
        assert match is not None
        if match["opcode"] is None:
            *here, outer = match.group("file", "line", "column", "outer")
            file, line, column = map(int, here)
            outer_file, outer_line, outer_column = map(int, outer.split()) if outer else (0, 0, 0)
            self._source = self._located(
                (file, line, column), (outer_file, outer_line, outer_column) if outer_file else None
            )
        elif suffix:
            # Names may mean others here.
            return False
        else:
            try:
                opcode, operands, guard = self._reader.read(match)
            except (Unusual, ValueError):
                return False
            source = self._source if self._source is None or self._source[1] else None
            text = " ".join(match.group().split())
            function.instructions.append(Instruction(opcode, operands, guard, token.line, source, text))
        self._at += 1
        return True

    def _registers(self, function: Function, scope: dict[str, str], suffix: str) -> None:
        ptx_type = ""
        while self._peek().text.startswith(".") and self._peek().kind == "word":
            word = self._next().text[1:]
            if word not in ("v2", "v4"):
                ptx_type = word
        while True:
            name = self._word()
            names = [name]
            if self._accept("<"):
                names = [
                    f"{name}{index}" for index in range(self._size(_MOST_REGISTERS, "number of registers"))
                ]
                self._expect(">")
            for each in names:
                unique = each + suffix
                if suffix:
                    scope[each] = unique
                function.register_types[unique] = ptx_type
            if not self._accept(","):
                break
        self._expect(";")

    def _location(self) -> None:
        here = self._integer(), self._integer(), self._integer()
        outer = None
        while self._accept(","):
            word = self._word()
            if word == "inlined_at":
                outer = self._integer(), self._integer(), self._integer()
            else:
                self._word()
                if self._accept("+"):
                    self._integer()
        self._source = self._located(here, outer)

    def _located(self, here: tuple[int, int, int], outer: tuple[int, int, int] | None) -> tuple[Any, ...]:
        """File and line of a location; of inlined code also those that it was inlined at, from the inside out."""
        if outer is None:
            return here[:2]
        self._inlined[here] = outer
        chain = list(here[:2])
        for _ in range(_MOST_SCOPES):
            chain += outer[:2]
            further = self._inlined.get(outer)
            if further is None:
                break
            outer = further
        return tuple(chain)

    def _in_files(self, location: tuple[Any, ...]) -> tuple[str, int]:
        """File and line of an instruction: the innermost ones, but for the compiler's own header that nobody can read."""
        names = [self._module.files.get(int(number), "?") for number in location[::2]]
        places = zip(names, location[1::2], strict=True)
        return next(
            (place for place in places if not place[0].endswith(_BUILT_IN_HEADER)), (names[0], location[1])
        )

    def _labels_ahead(self) -> list[str]:
        """Labels of the scope that begins here; branches may name them before they stand."""
        labels, depth, at = [], 0, self._at
        while self._tokens[at].kind != "end" and depth >= 0:
            token = self._tokens[at]
            depth += (token.text == "{") - (token.text == "}")
            before = self._tokens[at - 1].text
            if depth == 0 and before in ("{", "}", ";", ":") and self._tokens[at + 1].text == ":":
                labels.append(token.text)
            at += 1
        return labels

    def _label(self, function: Function, name: str, scopes: list[dict[str, str]]) -> None:
        name = self._resolve(name, scopes)
        # A statement that follows stays one.
        peek = self._tokens[self._at].text
        if peek == ".branchtargets":
            self._next()
            targets = [self._resolve(self._word(), scopes)]
            while self._accept(","):
                targets.append(self._resolve(self._word(), scopes))
            self._expect(";")
            function.branch_targets[name] = tuple(targets)
        elif peek in (".callprototype", ".calltargets"):
            while self._next().text != ";":
                continue
        elif name in function.labels:
            self._fail(f"label {name!r} stands twice", self._tokens[self._at - 1])
        else:
            function.labels[name] = len(function.instructions)

    def _instruction(self, function: Function, scopes: list[dict[str, str]]) -> None:
        first = self._peek()
        guard = None
        if self._accept("@"):
            negated = self._accept("!")
            guard = Register(self._resolve(self._word(), scopes)), negated
        token = self._next()
        if token.kind != "word":
            self._fail(f"expected an instruction, found {token.text!r}", token)
        opcode = token.text
        while self._accept("::"):
            # A number of bytes is two words: ".L2::128B".
            size = self._next().text if self._peek().kind == "number" else ""
            opcode += "::" + size + self._word()
        operands: list[Operand] = []
        if self._peek().text != ";":
            operands.append(self._operand(function, scopes))
            while self._accept(","):
                operands.append(self._operand(function, scopes))
        end = self._expect(";")
        text = " ".join(" ".join(self._lines[first.line - 1 : end.line]).split())
        source = self._source if self._source is None or self._source[1] else None
        function.instructions.append(Instruction(opcode, tuple(operands), guard, first.line, source, text))

    @staticmethod
    def _resolve(name: str, scopes: list[dict[str, str]]) -> str:
        for scope in reversed(scopes):
            if name in scope:
                return scope[name]
        return name

    def _operand(self, function: Function, scopes: list[dict[str, str]]) -> Operand:
        token = self._peek()
        if token.text == "[":
            return self._address(function, scopes)
        if token.text in "{(" and token.text:
            self._next()
            close = "}" if token.text == "{" else ")"
            items = []
            while not self._accept(close):
                items.append(self._operand(function, scopes))
                self._accept(",")
            return Vector(tuple(items)) if close == "}" else Group(tuple(items))
        if self._accept("!"):
            return Negated(Register(self._resolve(self._word(), scopes)))
        if token.kind == "number" or token.text == "-":
            negative = self._accept("-")
            token = self._next()
            if token.kind != "number":
                self._fail(f"expected a number, found {token.text!r}", token)
            return self._number(token, negative=negative)
        operand = self._name(function, self._word(), scopes)
        if self._accept("|"):
            second = self._name(function, self._word(), scopes)
            if isinstance(operand, (Symbol, Immediate)) or isinstance(second, (Symbol, Immediate)):
                self._fail("two results must be registers", token)
            return Pair(operand, second)
        if isinstance(operand, Symbol) and self._peek().text in ("+", "-"):
            self._accept("+")
            return Address(operand, self._integer())
        return operand

    def _name(
        self, function: Function, name: str, scopes: list[dict[str, str]]
    ) -> Register | Symbol | Immediate | None:
        if name == "_":
            return None
        if name == "WARP_SZ":
            return Immediate(32)
        unique = self._resolve(name, scopes)
        if unique in function.register_types or name.startswith("%"):
            return Register(unique)
        return Symbol(unique)

    def _address(self, function: Function, scopes: list[dict[str, str]]) -> Operand:
        self._expect("[")
        if self._peek().kind == "number" or self._peek().text == "-":
            base: Register | Symbol | Immediate = Immediate(self._integer())
        else:
            resolved = self._name(function, self._word(), scopes)
            if resolved is None:
                self._fail("an address without a base")
            base = resolved
        offset = 0
        coordinates = []
        while not self._accept("]"):
            if self._accept("+") or self._peek().text == "-":
                offset += self._integer()
            elif self._accept(","):
                coordinates.append(self._operand(function, scopes))
            else:
                self._fail(f"expected an address, found {self._peek().text!r}")
        return Address(base, offset, tuple(coordinates))
