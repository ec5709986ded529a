"""``Node``: one step of a graph, and its arguments."""

from __future__ import annotations

import builtins
import operator
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nvrtc_kernels.printed_names import printed
from tensor import _assert
from tensor.core.names.absent import hints as _hints
from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .graph import Graph

__all__ = ["Argument", "Node", "has_side_effect", "map_aggregate", "map_arg"]

_F = TypeVar("_F", bound="Callable[..., Any]")

#: What a node may be given: nodes, constants, and tuples, lists, dictionaries and slices of them.
Argument: TypeAlias = Any
Target: TypeAlias = "Callable[..., Any] | str"

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

#: Functions whose calls stay although nobody uses their results.
_side_effectful_functions: set[Callable[..., Any]] = {_assert}

#: Namespaces of published functions and the modules where they are found.
_NAMESPACES = {
    "tensor": "tensor",
    "nn.functional": "nn.functional",
    "linalg": "tensor.linalg",
    "special": "tensor.special",
    "fft": "tensor.fft",
}


def has_side_effect(fn: _F) -> _F:
    """Let calls of ``fn`` stay when dead code is eliminated. A decorator."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """``a`` with ``fn`` applied to everything in its tuples, lists, dictionaries and slices."""
    if isinstance(a, tuple):
        mapped = tuple(map_aggregate(each, fn) for each in a)
        return type(a)(*mapped) if hasattr(a, "_fields") else mapped
    if isinstance(a, list):
        return [map_aggregate(each, fn) for each in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(each, fn) for each in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Any]) -> Argument:
    """``a`` with ``fn`` applied to every node in it."""
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


def qualified_name(function: Callable[..., Any]) -> str:
    """The name by which a program reaches a function: ``tensor.relu``, ``operator.add``, ``builtins.getattr``."""
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return f"builtins.{name}"
    module = function.__module__ or "builtins"
    if module == "_operator":
        module = "operator"
    if getattr(sys.modules.get(module), name, None) is not function or module.startswith("tensor.operations"):
        for namespace, public in _NAMESPACES.items():
            if published(namespace).get(name) is function:
                module = public
                break
    if function is _assert:
        module = "tensor"
    return printed(f"{module}.{name}")


class Node:
    """A step of a :class:`Graph`; made by the graph's methods.

    Parameters
    ----------
    graph : Graph
        Whose step it is.
    name : str
        What its value is called in the code; unique in the graph.
    op : str
        ``placeholder`` (an argument of the function), ``get_attr``, ``call_function``, ``call_method``,
        ``call_module`` or ``output``.
    target : str or Callable
        Which argument, attribute, function, method or submodule.
    args : tuple
        Arguments by position: nodes, constants, and containers of them.
    kwargs : dict of str to object
        Arguments by name.
    return_type : object, optional
        Annotation of its value, then its attribute ``type``.

    Attributes
    ----------
    users : dict of Node to None
        The nodes that use its value.
    meta : dict
        What passes keep with it.
    """

    _args: tuple[Argument, ...]
    _kwargs: dict[str, Argument]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"op must be one of {', '.join(OPS)}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a "
                "Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a str "
                "is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._set(args, kwargs)
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.stack_trace: str | None = None
        # The nodes of a graph are a ring, whose root is no step.
        self._prev = self._next = self
        self._erased = False

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x`` before this node."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move ``x`` behind this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    @property
    def args(self) -> tuple[Argument, ...]:
        """Arguments by position. Assigning updates the users of the nodes in them."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Arguments by name. Assigning updates the users of the nodes in them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes in the arguments, each once."""
        return list(self._input_nodes)

    def _set(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for each in self._input_nodes:
            each.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        self._args = map_arg(tuple(args), use)
        self._kwargs = map_arg(dict(kwargs), use)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the argument at position ``idx``."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert an argument at position ``idx``."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the argument that is called ``key``."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let every user for which ``delete_user_cb`` is true use ``replace_with``; returns those that did use this node."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        users = [each for each in self.users if delete_user_cb(each)]
        for each in users:
            each.replace_input_with(self, replace_with)
        return users

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use ``new_input`` where ``old_input`` was used."""

        def replaced(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node has to stay although nobody uses its value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                return False
            target = operator.attrgetter(str(self.target))(owner)
            return bool(getattr(target, "_is_impure", False))
        return False

    def _pretty_print_target(self, target: Target) -> str:
        return target if isinstance(target, str) else qualified_name(target)

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: Any = None
    ) -> str:
        """The node as a line of the printed graph."""
        annotation = "" if self.type is None else f"{type_repr(self.type)} "
        used = f"%{self.name} : {annotation}[num_users={len(self.users)}] = "
        if self.op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{used}{self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{used}{self.op}[target={self.target}]"
        if self.op == "output":
            return f"return {self._args[0]}"
        args, kwargs = format_argument(self._args), format_argument(self._kwargs)
        return f"{used}{self.op}[target={self._pretty_print_target(self.target)}](args = {args}, kwargs = {kwargs})"

    def __repr__(self) -> str:
        return self.name

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"'{type(self).__name__}' object is not iterable")


def format_argument(arg: Argument) -> str:
    """An argument as the printed graph shows it: nodes with ``%``, strings without quotes."""
    if isinstance(arg, Node):
        return f"%{arg.name}"
    if isinstance(arg, list):
        return f"[{', '.join(map(format_argument, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(format_argument, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {format_argument(value)}' for key, value in arg.items())}}}"
    return str(arg)


def type_repr(annotation: Any) -> str:
    """An annotation as source: ``torch.Tensor``, ``int``, ``typing.Optional[int]``."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        if annotation.__module__ == "builtins":
            return annotation.__qualname__
        module = (
            "tensor" if annotation.__module__ in ("tensor.methods.tensor", "torch") else annotation.__module__
        )
        return printed(f"{module}.{annotation.__qualname__}")
    return repr(annotation)


__getattr__ = _hints(__name__)
