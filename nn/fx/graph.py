"""``Graph``: the steps of a function, in the order in which they run."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints
from tensor.core.warning import warn_caller

from .graph_code import CodeGen, PythonCode
from .node import Argument, Node, Target, map_aggregate, map_arg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nn.module import Module

__all__ = ["CodeGen", "Graph", "PythonCode"]

#: Names that the code of graphs reads as globals.
_RESERVED = frozenset(
    ("tensor", "nn", "torch", "parallel", "operator", "math", "inf", "nan", "device", "self")
)


class _Names:
    """The names that are taken in a graph."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: defaultdict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A free identifier that resembles ``candidate``: it gets a number where it is taken, a keyword or a builtin."""
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.match(r"(.*)_(\d+)$", candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, 0)
        number = number or self._counts[base]
        while candidate in self._used or self._illegal(candidate):
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        return candidate

    @staticmethod
    def _illegal(name: str) -> bool:
        return keyword.iskeyword(name) or name in vars(builtins) or name in _RESERVED


class _Nodes:
    """The nodes of a graph in their order; ``reversed`` gives the opposite one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph._length

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root._next
        while node is not root:
            following = node._next
            if not node._erased:
                yield node
            # What was inserted behind the node meanwhile is visited too.
            node = node._next if not node._erased else following

    def __reversed__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root._prev
        while node is not root:
            preceding = node._prev
            if not node._erased:
                yield node
            node = node._prev if not node._erased else preceding


class Graph:
    """Steps of a function: placeholders first, one output last.

    Parameters
    ----------
    owning_module : Module, optional
        The :class:`GraphModule` whose graph it is.
    tracer_cls : type, optional
        The class of the tracer that made it.
    tracer_extras : dict, optional
        Accepted for compatibility.

    Examples
    --------
    >>> import nn.fx, operator
    >>> graph = nn.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(operator.mul, (x, 2)))
    >>> nn.fx.GraphModule(nn.Module(), graph)(21)
    42
    """

    def __init__(
        self,
        owning_module: Module | None = None,
        tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._length = 0
        self._insert_before = self._root
        self._names = _Names()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._codegen = CodeGen()

    @property
    def nodes(self) -> _Nodes:
        """All nodes in their order, as an iterable with a length."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of an ``op``; with ``target``, those with this target."""
        return [each for each in self.nodes if each.op == op and (target is None or each.target == target)]

    # Making nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a node at the insertion point, which is the end unless :meth:`inserting_before` moved it.

        Raises
        ------
        RuntimeError
            If an argument is a node of another graph.
        """
        args, kwargs = args or (), kwargs or {}

        def check(node: Node) -> Node:
            if node.graph is not self:
                raise RuntimeError(
                    f"Tried to use node {node} of another graph as an argument: copy it with node_copy() first"
                )
            return node

        map_arg((args, kwargs), check)
        unique = self._names.create_name(name if name is not None else _candidate(target))
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        self._insert_before.prepend(node)
        self._length += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """A parameter of the function, which may have a default."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """The value of an attribute of the module; warns if the owning module has none of that name."""
        if self.owning_module is not None and not _has_attribute(self.owning_module, qualified_name):
            warn_caller(
                f"Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule: there is "
                f"no {qualified_name!r}; add it with add_submodule, register_buffer or an assignment"
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a submodule; warns if the owning module has none of that name."""
        if self.owning_module is not None and not _has_attribute(self.owning_module, module_name):
            warn_caller(
                f"Attempted to insert a call_module Node with no underlying reference in the owning GraphModule: there "
                f"is no {module_name!r}; add it with add_submodule"
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the function returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def output_node(self) -> Node:
        """The node of what the function returns."""
        node = self._root._prev
        if node.op != "output":
            raise AssertionError("the graph has no output")
        return node

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node) -> Node:
        """Insert a copy of a node of another graph, whose nodes ``arg_transform`` replaces with ones of this graph."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        copy = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copy.meta = {**node.meta}
        copy.stack_trace = node.stack_trace
        return copy

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Insert copies of all nodes of ``g`` but its output, and return what the output has, as nodes of this graph.

        ``val_map`` says which nodes stand for nodes of ``g`` already, and is completed.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    @contextmanager
    def _inserting(self, before: Node) -> Iterator[None]:
        previous, self._insert_before = self._insert_before, before
        try:
            yield
        finally:
            self._insert_before = previous

    def inserting_before(self, n: Node | None = None) -> Any:
        """A block in which nodes are inserted before ``n``; without it, before all nodes."""
        if n is not None and n.graph is not self:
            raise AssertionError("Node to insert before is not in graph")
        return self._inserting(self._root._next if n is None else n)

    def inserting_after(self, n: Node | None = None) -> Any:
        """A block in which nodes are inserted behind ``n``; without it, before all nodes."""
        if n is not None and n.graph is not self:
            raise AssertionError("Node to insert after is not in graph")
        return self._inserting(self._root._next if n is None else n._next)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses.

        Raises
        ------
        RuntimeError
            If it has users.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warn_caller(f"erase_node({to_erase}) on an already erased node")
            return
        if self._insert_before is to_erase:
            self._insert_before = to_erase._next
        # Its links stay, so that a loop over the nodes goes on from it.
        to_erase._remove_from_list()
        to_erase._erased = True
        self._length -= 1
        to_erase._set((), {})

    def eliminate_dead_code(
        self, is_impure_node: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> bool:
        """Remove nodes without users that have no side effects; returns whether there were any."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        before = self._length
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._length < before

    def lint(self) -> None:
        """Check that each node is used behind its definition, names are unique and targets are there.

        Raises
        ------
        RuntimeError
            If an argument is no node of this graph, comes later, or a name is taken twice or not there.
        """
        seen_values: set[Node] = set()
        seen_names: set[str] = set()
        for node in self.nodes:
            for each in node.all_input_nodes:
                if each.graph is not self:
                    raise RuntimeError(f"Argument '{each}' of Node '{node}' does not belong to this Graph")
                if each not in seen_values:
                    raise RuntimeError(
                        f"Argument '{each}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            seen_values.add(node)
            if node.name in seen_names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen_names.add(node.name)
            named = node.op in ("call_module", "get_attr")
            if (
                named
                and self.owning_module is not None
                and not _has_attribute(self.owning_module, str(node.target))
            ):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute of the module"
                )

    def last_uses(self) -> dict[Node, list[Node]]:
        """By node, the nodes whose values it is the last to use."""
        seen: set[Node] = set()
        uses: dict[Node, list[Node]] = {}
        for node in reversed(self.nodes):
            for each in node.all_input_nodes:
                if each not in seen:
                    seen.add(each)
                    uses.setdefault(node, []).append(each)
        return uses

    # Code

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let ``codegen`` write the source."""
        self._codegen = codegen

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The source of ``forward``, in which the module is called ``root_module``, and its globals."""
        return self._codegen.python_code(self, root_module)

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of ``forward`` as those of the placeholders."""
        return args

    def process_outputs(self, out: Any) -> Any:
        """The output as what ``forward`` returns."""
        return out

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in (rows[0], ["-" * width for width in widths], *rows[1:]):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    def on_generate_code(self, make_transformer: Callable[..., Any]) -> None:
        """Not there: derive from :class:`CodeGen` and use :meth:`set_codegen`."""
        raise NotImplementedError("on_generate_code is left out: derive from CodeGen and call set_codegen()")

    def __str__(self) -> str:
        lines = "".join(f"\n    {each.format_node()}" for each in self.nodes)
        return f"graph():{lines}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        copy = memo[id(self)] = Graph(tracer_cls=self._tracer_cls)
        copy._codegen = self._codegen
        nodes: dict[Node, Node] = {}
        for node in self.nodes:
            nodes[node] = copy.node_copy(node, nodes.__getitem__)
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        references = {node: _Reference(position) for position, node in enumerate(self.nodes)}
        records = [
            (
                node.op,
                node.target,
                map_arg(node.args, references.__getitem__),
                map_arg(node.kwargs, references.__getitem__),
                node.name,
                node.type,
            )
            for node in self.nodes
        ]
        return _graph_of, (records, self._codegen)


class _Reference:
    """A node by its position, in a pickle."""

    def __init__(self, position: int) -> None:
        self.position = position


def _graph_of(records: list[tuple[Any, ...]], codegen: CodeGen) -> Graph:
    nodes: list[Node] = []

    def resolved(each: Any) -> Any:
        return nodes[each.position] if isinstance(each, _Reference) else each

    graph = Graph()
    graph._codegen = codegen
    for op, target, args, kwargs, name, annotation in records:
        # `map_aggregate` knows what arguments consist of; a reference is a leaf of it.
        args, kwargs = map_aggregate(args, resolved), map_aggregate(kwargs, resolved)
        nodes.append(graph.create_node(op, target, args, kwargs, name, annotation))
    return graph


def _candidate(target: Target) -> str:
    """What a node is called after: the function, method, submodule or attribute, in snake case."""
    name = target if isinstance(target, str) else target.__name__
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _has_attribute(module: Module, path: str) -> bool:
    owner: Any = module
    for each in path.split("."):
        if not hasattr(owner, each):
            return False
        owner = getattr(owner, each)
    return owner is not None


__getattr__ = _hints(__name__)
