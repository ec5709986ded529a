"""``Proxy``: a value that is not there yet, and records what is done with it."""

from __future__ import annotations

import dis
import enum
import inspect
import operator
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from nvrtc_kernels.dtypes import dtype
from tensor import Tensor
from tensor.core.devices.device import device
from tensor.core.memory_format import layout, memory_format
from tensor.core.names.absent import hints as _hints

from .graph_code import MAGIC
from .node import Argument, Node, Target, map_aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .graph import Graph

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase", "base_types"]

#: What arguments consist of, beside nodes and containers.
base_types = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout, bytes)


class TraceError(ValueError):
    """What was asked of a value needs the value, which tracing does not have."""


class TracerBase:
    """What makes nodes of what is done with proxies. Derived classes say what becomes of constants and of branches."""

    graph: Graph
    trace_asserts = False
    record_stack_traces = False
    proxy_buffer_attributes = False

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a node of arguments that contain nodes."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """Insert a node of arguments that contain proxies, and return its value."""
        nodes, named = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, nodes, named, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """An argument of a node for ``a``.

        Raises
        ------
        NotImplementedError
            If it is nothing that a graph can hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node) or a is None or a is ...:
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = tuple(self.create_arg(each) for each in a)
            return type(a)(*parts) if hasattr(a, "_fields") else parts
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            if any(isinstance(key, Proxy) for key in a):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. Got key: a Proxy"
                )
            return {key: self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, (*base_types, enum.Enum)) or inspect.isfunction(a) or isinstance(a, type):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """What ``if proxy:`` sees: an error, unless a derived class knows."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: branch on something that is "
            "known when the module is traced, or make the function a leaf by fx.wrap"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What a loop over a proxy sees: an error, unless a derived class knows."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument: its length is not known when the module is traced"
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``**proxy`` sees: a call of its ``keys``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Records into a graph: what is done with proxies of a graph's nodes becomes further nodes of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """The value of a node while a program is traced. What is done with it becomes nodes.

    Parameters
    ----------
    node : Node
        Which gives the value.
    tracer : TracerBase, optional
        Who records; without it, nodes are added to the graph of ``node``.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        # Copying and pickling ask for these, and would go round in circles.
        if name in ("node", "tracer") or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"'Proxy' object has no attribute {name!r}")
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked(sys._getframe(1))
        if count is not None:
            return iter([self[position] for position in range(count)])
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """What the tracer gives for ``**proxy``."""
        return self.tracer.keys(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __round__(self, ndigits: int | None = None) -> Any:
        return self.tracer.create_proxy(
            "call_function", round, (self, *(() if ndigits is None else (ndigits,))), {}
        )

    # Said and not inferred: they are assigned below.
    __getitem__: Any
    __hash__ = object.__hash__


class Attribute(Proxy):
    """An attribute of a value, which becomes a node when it is used other than by a call."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of ``getattr(root, attr)``."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _unpacked(frame: Any) -> int | None:
    """Into how many names the statement of a frame unpacks what it iterates; None if it does something else."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.arg if instruction.opname.startswith("UNPACK_SEQUENCE") else None
    return None


def _magic(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Proxy, *others: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *others), {})

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    return method


_REFLECTED = frozenset(
    [
        "add",
        "sub",
        "mul",
        "floordiv",
        "truediv",
        "mod",
        "pow",
        "lshift",
        "rshift",
        "and_",
        "or_",
        "xor",
        "matmul",
    ]
)
for _name in MAGIC:
    _plain = _name.strip("_")
    _function = getattr(operator, _name)
    setattr(Proxy, f"__{_plain}__", _magic(_function))
    if _name in _REFLECTED:
        setattr(Proxy, f"__r{_plain}__", _reflected(_function))


def tracer_of(args: Any, kwargs: Any) -> TracerBase | None:
    """The tracer of the first proxy in the arguments of a call."""
    proxies: list[Proxy] = []

    def look(each: Any) -> Any:
        if isinstance(each, Proxy):
            proxies.append(each)
        return each

    map_aggregate((args, kwargs), look)
    return proxies[0].tracer if proxies else None


__getattr__ = _hints(__name__)
