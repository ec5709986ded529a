"""A graph as the Python source of a function."""

from __future__ import annotations

import builtins
import math
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import dtype
from tensor.core.devices.device import device
from tensor.core.memory_format import layout, memory_format

from .node import Node, qualified_name, type_repr

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph import Graph

#: Functions of :mod:`operator` and how they are written.
MAGIC = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
_IN_PLACE = {
    "iadd": "+=",
    "iand": "&=",
    "ifloordiv": "//=",
    "ilshift": "<<=",
    "imod": "%=",
    "imul": "*=",
    "imatmul": "@=",
    "ior": "|=",
    "ipow": "**=",
    "irshift": ">>=",
    "isub": "-=",
    "itruediv": "/=",
    "ixor": "^=",
}
#: The modules whose names the code may use as they are.
_ROOTS = ("tensor", "nn", "parallel", "torch")


@dataclass(slots=True)
class PythonCode:
    """Source, and what it finds as globals."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)


class CodeGen:
    """Writes the source of a graph; derived classes write another signature or another return."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def forward({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """The line that returns."""
        return f"return {output_args}"

    def python_code(self, graph: Graph, root_module: str) -> PythonCode:
        """The source of ``graph``, in which the module is called ``root_module``."""
        return _Writer(self, graph, root_module).write()


class _Writer:
    """One writing of a graph."""

    def __init__(self, codegen: CodeGen, graph: Graph, root: str) -> None:
        self._codegen = codegen
        self._graph = graph
        self._root = root
        self._globals: dict[str, Any] = {}
        self._parameters: list[str] = []
        self._returned = ""

    def write(self) -> PythonCode:
        last_uses = self._graph.last_uses()
        lines = []
        for node in self._graph.nodes:
            text = self._statement(node)
            if text is None:
                continue
            if node.op in ("output", "placeholder"):
                lines.append(text)
                continue
            dropped = [*last_uses.get(node, ()), *(() if node.users else (node,))]
            end = f";  {' = '.join([*map(repr, dropped), 'None'])}" if dropped else ""
            lines.append(f"{text}{end}")
        head = self._codegen.gen_fn_def(self._parameters, self._returned)
        body = "".join(f"    {line}\n" for line in lines or ["pass"])
        return PythonCode(f"\n\n\n{head}\n{body}    ", self._globals)

    def _statement(self, node: Node) -> str | None:
        if node.op == "placeholder":
            return self._parameter(node)
        if node.op == "output":
            if node.type is not None:
                self._returned = f" -> {self._annotation(node.type)}"
            return self._codegen.generate_output(self._text(node.args[0]))
        annotation = "" if node.type is None else f" : {self._annotation(node.type)}"
        return f"{node!r}{annotation} = {self._expression(node)}"

    def _parameter(self, node: Node) -> str | None:
        target = str(node.target)
        annotation = "" if node.type is None else f" : {self._annotation(node.type)}"
        default = f" = {self._text(node.args[0])}" if node.args else ""
        self._parameters.append(f"{target}{annotation}{default}")
        name = target.replace("*", "")
        return None if name == node.name else f"{node!r} = {name}"

    def _expression(self, node: Node) -> str:
        target, args = node.target, node.args
        if node.op == "get_attr":
            return self._path(self._root, str(target))
        if node.op == "call_module":
            return f"{self._path(self._root, str(target))}({self._arguments(args, node.kwargs)})"
        if node.op == "call_method":
            return f"{self._path(self._text(args[0]), str(target))}({self._arguments(args[1:], node.kwargs)})"
        assert callable(target)
        name = target.__name__
        if target.__module__ == "_operator" and not node.kwargs:
            if name in MAGIC:
                return MAGIC[name].format(*map(self._text, args))
            if name in _IN_PLACE:
                first, second = map(self._text, args)
                return f"{first}; {first} {_IN_PLACE[name]} {second}"
        is_attribute = target is getattr and len(args) == 2 and isinstance(args[1], str)
        if is_attribute and args[1].isidentifier():
            return self._path(self._text(args[0]), args[1])
        return f"{self._function(target)}({self._arguments(args, node.kwargs)})"

    def _path(self, base: str, path: str) -> str:
        """Attributes of attributes; what is no identifier, as the number of a layer, is looked up by getattr."""
        for each in path.split("."):
            base = f"{base}.{each}" if each.isidentifier() else f'getattr({base}, "{each}")'
        return base

    def _function(self, function: Callable[..., Any]) -> str:
        name = qualified_name(function)
        if getattr(builtins, function.__name__, None) is function:
            return str(function.__name__)
        root = name.partition(".")[0]
        if root in _ROOTS and _reached(name) is function:
            self._global(root, sys.modules[root])
            return name
        return self._global(
            re.sub(r"[^0-9a-zA-Z_]", "_", f"{function.__module__}.{function.__name__}"), function
        )

    def _global(self, name: str, value: Any) -> str:
        """A name of the code's globals for ``value``, which is ``name`` if that is free."""
        free, number = name, 0
        while self._globals.get(free, value) is not value:
            number += 1
            free = f"{name}_{number}"
        self._globals[free] = value
        return free

    def _annotation(self, annotation: Any) -> str:
        text = type_repr(annotation)
        root = text.partition(".")[0]
        if root in _ROOTS and root in sys.modules:
            self._global(root, sys.modules[root])
            return text
        if isinstance(annotation, type) and annotation.__module__ == "builtins":
            return text
        return self._global(re.sub(r"[^0-9a-zA-Z_]+", "_", text).strip("_"), annotation)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return ", ".join(
            [*map(self._text, args), *(f"{key} = {self._text(value)}" for key, value in kwargs.items())]
        )

    def _text(self, value: Any) -> str:
        """An argument as source."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, list):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, tuple):
            parts = f"({', '.join(map(self._text, value))}{',' if len(value) == 1 else ''})"
            if hasattr(value, "_fields"):
                return f"{self._global(type(value).__name__, type(value))}{parts}"
            return parts
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self._text(each)}' for key, each in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        if isinstance(value, float) and not math.isfinite(value):
            return (
                self._global("nan", math.nan)
                if value != value
                else f"{'-' if value < 0 else ''}{self._global('inf', math.inf)}"
            )
        if isinstance(value, (dtype, layout, memory_format)):
            name = repr(value)
            root = name.partition(".")[0]
            self._global(root, sys.modules[root])
            return name
        if isinstance(value, device):
            self._global("device", type(value))
            return repr(value)
        if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes, range)):
            return repr(value)
        if isinstance(value, type) or callable(value):
            return self._function(value)
        return self._global(type(value).__name__.lower(), value)


def _reached(name: str) -> Any:
    first, *rest = name.split(".")
    value: Any = sys.modules.get(first)
    for each in rest:
        value = getattr(value, each, None)
    return value
