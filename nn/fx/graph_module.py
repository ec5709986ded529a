"""``GraphModule``: a module whose ``forward`` is the code of a graph."""

from __future__ import annotations

import copy
import linecache
from itertools import count
from typing import TYPE_CHECKING, Any

import tensor
from nn.module import Module
from nn.parameter import Parameter
from tensor.core.names.absent import hints as _hints

from .graph import Graph, PythonCode

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GraphModule"]

#: Name of the attributes, in a graph module's ``meta``, that copies of it keep.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

_files = count()


class _CodeOnlyModule(Module):
    """A module with the attributes ``body`` and nothing else."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Give ``to_module`` the attribute that ``from_module`` has by a dotted name; modules on the way are made."""
    *path, name = target.split(".")
    for each in path:
        source, existing = getattr(from_module, each), getattr(to_module, each, None)
        if source is existing:
            return
        if existing is None:
            existing = Module()
            setattr(to_module, each, existing)
        from_module, to_module = source, existing
    _assign(to_module, name, getattr(from_module, name))


def _assign(module: Module, name: str, value: Any) -> None:
    if isinstance(value, tensor.Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Set an attribute by its dotted name; modules on the way are made."""
    *path, name = target.split(".")
    for each in path:
        if not hasattr(to_module, each):
            setattr(to_module, each, Module())
        to_module = getattr(to_module, each)
    _assign(to_module, name, from_obj)


def _forward_of(code: PythonCode) -> Any:
    """The function ``forward`` that the code defines; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_files)}"
    linecache.cache[file] = len(code.src), None, code.src.splitlines(keepends=True), file
    names = dict(code.globals)
    exec(compile(code.src, file, "exec"), names)
    return names["forward"]


class GraphModule(Module):
    """A module whose ``forward`` is generated from a graph.

    Parameters
    ----------
    root : Module or dict of str to object
        Where the attributes and submodules come from that the graph uses: they are shared, not copied.
    graph : Graph
        What ``forward`` does.
    class_name : str
        Name of the class.

    Examples
    --------
    >>> import nn.fx
    >>> traced = nn.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Flatten()))
    >>> print(traced.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        _1 = getattr(self, "1")(_0);  _0 = None
        return _1
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:  # noqa: PYI034 - of a class of its own
        """Make an object of a class of its own, which gets the generated ``forward``."""
        for each in cls.__mro__:
            if each.__qualname__ == "GraphModuleImpl":
                return super().__new__(cls)
        own = type("GraphModuleImpl", (cls,), {})
        result: GraphModule = super().__new__(own)
        return result

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [str(each.target) for each in graph.nodes if each.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            for target in targets:
                _copy_attr(root, self, target)
        else:
            for target in targets:
                if target not in root:
                    raise RuntimeError(
                        f"the graph refers to {target!r}, which is not among the attributes {list(root)}"
                    )
            # Owners come before what they own.
            for target in sorted(set(targets), key=lambda each: each.count(".")):
                _assign_attr(root[target], self, target)
        self.meta: dict[str, Any] = (
            dict(getattr(root, "meta", None) or {}) if isinstance(root, GraphModule) else {}
        )
        for name, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(self, name, value)
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph. Assigning one generates ``forward`` anew; after changing it in place, call :meth:`recompile`."""
        graph: Graph = self.__dict__["_graph"]
        return graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        return str(self.__dict__["_code"])

    def recompile(self) -> PythonCode:
        """Generate ``forward`` from the graph, after it was changed."""
        code = self.graph.python_code("self")
        self.__dict__["_code"] = code.src
        setattr(type(self), "forward", _forward_of(code))  # noqa: B010 - it is declared as a method
        return code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a submodule by its dotted name; False if something that is no module is in the way."""
        *path, name = target.split(".")
        owner: Any = self
        for each in path:
            if not hasattr(owner, each):
                setattr(owner, each, Module())
            owner = getattr(owner, each)
            if not isinstance(owner, Module):
                return False
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete a submodule by its dotted name; False if there is none."""
        path, _, name = target.rpartition(".")
        try:
            owner = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the submodules that the graph does not call."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
                if node.op == "call_module":
                    used.update(
                        f"{node.target}.{name}"
                        for name, _ in self.get_submodule(str(node.target)).named_modules()
                    )
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The source of ``forward`` as a method of a class; it is printed too, unless ``print_output`` is False."""
        lines = "".join(
            f"    {line}\n" if line else "\n" for line in self.code.strip("\n").rstrip().splitlines()
        )
        text = f"class {self._get_name()}(Module):\n{lines}"
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Left out: save the module by ``tensor.save``."""
        raise NotImplementedError(
            "GraphModule.to_folder is left out: pickle the module, or save its state dict"
        )

    def _attributes(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_graph", "_code")}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        attributes = copy.deepcopy(self._attributes(), memo)
        return _rebuilt(type(self).__name__, attributes, copy.deepcopy(self._graph, memo))

    def __copy__(self) -> GraphModule:
        return _rebuilt(type(self).__name__, dict(self._attributes()), copy.deepcopy(self._graph))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self).__name__, self._attributes(), self._graph)

    def __str__(self) -> str:
        return "\n".join(
            (
                super().__repr__(),
                self.code,
                "# To see more debug info, please use `graph_module.print_readable()`",
            )
        )


def _rebuilt(class_name: str, attributes: dict[str, Any], graph: Graph) -> GraphModule:
    """A graph module with these attributes."""
    result = GraphModule.__new__(GraphModule)
    Module.__init__(result)
    result.__dict__.update(attributes)
    type(result).__name__ = class_name
    result.graph = graph
    return result


__getattr__ = _hints(__name__)
