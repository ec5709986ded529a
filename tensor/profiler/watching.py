"""Putting a profile in the place of the functions that it watches, and putting these back.

While no profile runs, operations, nodes and modules run the functions that they always did. While one runs, the public
functions, wherever a module or class holds them, are replaced by ones that note a span around them; so are the two steps
of the backward engine that run nodes. What watches modules and optimizers is told by the layer that has them
(:func:`~tensor.core.spans.watch_also`).
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from tensor.autograd.engine.engine import GraphTask
from tensor.core import spans as spans_module
from tensor.core.base import TensorBase
from tensor.core.spans import NODE, OPERATION, Span, Spans
from tensor.methods.operators import Operators
from tensor.methods.tensor import Tensor
from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.autograd.recording.node import Node

_NAMESPACES = ("tensor", "Tensor", "nn.functional", "fft", "linalg", "special", "sparse", "signal")
#: Modules whose own calls are parts of operations, and stay as they are.
_INSIDE = (
    "tensor.operations",
    "tensor.methods",
    "tensor.autograd",
    "tensor.core",
    "tensor.profiler",
    "tensor.func",
)
#: Methods that are no published operations, but which programs wait for.
_METHODS = ("backward", "to", "cpu", "cuda", "item", "copy_", "tolist", "numpy", "__getitem__", "__setitem__")
#: Python's operators, by the name that PyTorch's operation has.
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "neg": "neg", "abs": "abs", "invert": "bitwise_not", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip


class Options:
    """What a profile wants to know of spans."""

    __slots__ = ("shapes", "stack")

    def __init__(self, *, shapes: bool, stack: bool) -> None:
        self.shapes = shapes
        self.stack = stack


class Watching:
    """Watches for one profile.

    Parameters
    ----------
    spans : Spans
        Where spans go.
    options : Options
        What is noted of them.
    """

    def __init__(self, spans: Spans, options: Options) -> None:
        self._spans = spans
        self._options = options
        self._undo: list[Callable[[], None]] = []
        #: Operations by the number of the node that they left in the graph.
        self._forward: dict[int, Span] = {}

    def start(self) -> None:
        """Begin."""
        spans_module.collect(self._spans)
        self._replace_functions()
        self._replace_engine()
        self._undo += [watch(self._spans) for watch in spans_module.watches]

    def stop(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()
        spans_module.collect(None)

    # Functions

    def _replace_functions(self) -> None:
        wrapped: dict[int, Any] = {}
        for namespace in _NAMESPACES:
            for name, function in published(namespace).items():
                if id(function) not in wrapped:
                    wrapped[id(function)] = function, self._spanned(function, f"aten::{name}")
        for base in Tensor.__mro__[:-1]:
            for name, function in list(vars(base).items()):
                replacement = wrapped.get(id(function))
                if replacement is not None and replacement[0] is function:
                    self._assign(base, name, replacement[1])
                elif name in _METHODS and callable(function):
                    label = {"__getitem__": "index", "__setitem__": "index_put_"}.get(name, name)
                    self._assign(base, name, self._spanned(function, f"aten::{label}"))
        for name, function in list(vars(Operators).items()):
            bare = name.strip("_")
            operator = _OPERATORS.get(bare) or _OPERATORS.get(bare[1:])
            if name.startswith("__") and operator is not None and callable(function) and bare not in _METHODS:
                suffix = "_" if bare not in _OPERATORS and bare.startswith("i") else ""
                self._assign(Operators, name, self._spanned(function, f"aten::{operator}{suffix}"))
        for name, module in list(sys.modules.items()):
            if name.startswith(_INSIDE):
                continue
            held = getattr(module, "__dict__", None)
            if type(held) is not dict:
                continue
            for key, value in list(held.items()):
                replacement = wrapped.get(id(value))
                if replacement is not None and replacement[0] is value:
                    self._assign_item(held, key, replacement[1])

    def _assign(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner)[name]
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before))

    def _assign_item(self, held: dict[str, Any], name: str, value: Any) -> None:
        before = held[name]
        held[name] = value

        def restore() -> None:
            if held.get(name) is value:
                held[name] = before

        self._undo.append(restore)

    def _spanned(self, function: Any, name: str) -> Any:
        spans, options, forward = self._spans, self._options, self._forward

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if spans_module.active is not spans:
                # A module that was imported while the profile ran holds it still.
                return function(*args, **kwargs)
            span = spans.begin(name, OPERATION)
            if options.shapes:
                span.shapes = [_shape(each) for each in args]
            if options.stack:
                span.stack = _stack()
            try:
                result = function(*args, **kwargs)
            finally:
                spans.end(span)
            first = result[0] if type(result) is tuple and result else result
            if isinstance(first, TensorBase):
                state = first._autograd
                if state is not None and state.edge is not None:
                    span.sequence = number = state.edge[0].sequence
                    # Of operations inside each other the outermost is what the program called.
                    forward[number] = span
            return result

        return noted

    # The engine

    def _replace_engine(self) -> None:
        spans, forward = self._spans, self._forward
        evaluate, finish = GraphTask.evaluate, GraphTask.finish

        def noted_evaluate(task: GraphTask, node: Node) -> list[Any]:
            span = spans.begin(node.name(), NODE)
            span.sequence = node.sequence
            span.forward = forward.get(node.sequence)
            try:
                return evaluate(task, node)
            finally:
                spans.end(span)

        def noted_finish(task: GraphTask, node: Any) -> None:
            span = spans.begin("AccumulateGrad", NODE)
            try:
                finish(task, node)
            finally:
                spans.end(span)

        self._assign(GraphTask, "evaluate", noted_evaluate)
        self._assign(GraphTask, "finish", noted_finish)


def _shape(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return list(value._layout.shape)
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, TensorBase) for each in value):
        return [list(each._layout.shape) for each in value]
    return []


def _stack() -> tuple[tuple[str, int, str], ...]:
    """Lines of Python that called, innermost first, without this package's."""
    result: list[tuple[str, int, str]] = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(result) < 24:
        code = frame.f_code
        if not code.co_filename.startswith(("<", _FOLDER)):
            result.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(result)


_FOLDER = __file__.rpartition("/")[0].rpartition("/")[0]
