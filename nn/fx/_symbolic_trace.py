"""Tracing: a module's ``forward``, or a function, is called with proxies, and what it does with them is the graph."""

from __future__ import annotations

import builtins
import inspect
import math
import sys
import threading
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import tensor
from nn.layers.containers import Sequential
from nn.module import Module
from nn.parameter import Parameter
from tensor.core.names.absent import hints as _hints

from .graph import Graph
from .graph_module import GraphModule
from .interception import functions_ask
from .node import has_side_effect
from .proxy import Proxy, TracerBase, tracer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .node import Argument

__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_T = TypeVar("_T")

#: Functions that are recorded and not traced through, by the globals that have them and their name there.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
#: Methods of classes that are.
_wrapped_methods: list[tuple[type[Any], str]] = []
_state = threading.local()
_ABSENT = object()
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def is_fx_tracing() -> bool:
    """Whether this thread is tracing."""
    return getattr(_state, "depth", 0) > 0


def wrap(fn_or_name: _T) -> _T:
    """Let calls of a function of the calling module be recorded as one node. To be called at module level.

    Parameters
    ----------
    fn_or_name : str or Callable
        The function's name there, as ``"len"``, or the function itself, so that it is a decorator too.

    Raises
    ------
    RuntimeError
        If it is neither.
    NotImplementedError
        If it is not called at module level.

    Examples
    --------
    >>> @nn.fx.wrap  # doctest: +SKIP
    ... def leaf(x, n):
    ...     return x if n > 1 else -x
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name: str = fn_or_name if isinstance(fn_or_name, str) else getattr(fn_or_name, "__name__", "")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


class _Patches:
    """What is exchanged while a trace goes on."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._done: set[tuple[int, str]] = set()

    def item(self, table: dict[str, Any], name: str, value: Any) -> None:
        if (id(table), name) in self._done:
            return
        self._done.add((id(table), name))
        before = table.get(name, _ABSENT)
        table[name] = value
        self._undo.append(
            partial(table.pop, name) if before is _ABSENT else partial(table.__setitem__, name, before)
        )

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        if (id(owner), name) in self._done:
            return
        self._done.add((id(owner), name))
        own, before = name in vars(owner), getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(partial(setattr, owner, name, before) if own else partial(delattr, owner, name))

    def undo(self) -> None:
        for each in reversed(self._undo):
            each()


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls with proxies are nodes."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = tracer_of(args, kwargs)
        if tracer is None:
            return function(*args, **kwargs)
        return tracer.create_proxy("call_function", function, args, kwargs)

    return call


def _recorded_method(cls: type[Any], name: str) -> Callable[..., Any]:
    method = getattr(cls, name)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = tracer_of(args, kwargs)
        if tracer is None:
            return method(*args, **kwargs)
        return tracer.create_proxy("call_method", name, args, kwargs)

    return call


class Tracer(TracerBase):
    """Traces modules and functions. Derived classes say which modules are leaves, and change what is recorded.

    Parameters
    ----------
    autowrap_modules : tuple of modules
        Whose functions are recorded where they are called with proxies: those of :mod:`math`, without more.
    autowrap_functions : tuple of Callable
        Functions that are recorded too, where a traced module knows them by a global name.
    param_shapes_constant : bool
        Whether the shape of a parameter is a constant and not a node.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if name[0] != "_" and callable(value)
        }
        self._autowrap |= {id(each) for each in autowrap_functions}
        self._autowrap_modules = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Module = Module()
        self.root_module_name = ""
        self.submodule_paths: dict[Module, str] = {}
        self.tensor_attrs: dict[Any, str] = {}
        self._constants: dict[int, str] = {}

    # What derived classes change

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a submodule are single nodes: those of PyTorch's own modules are, but of Sequential."""
        module = type(m).__module__
        return (module.startswith(("nn.", "torch.nn", "parallel.")) or module == "nn") and not isinstance(
            m, Sequential
        )

    def path_of_module(self, mod: Module) -> str:
        """The name of a submodule of the traced module.

        Raises
        ------
        NameError
            If it is none.
        """
        path = self.submodule_paths.get(mod)
        if path is None:
            raise NameError(f"module is not installed as a submodule: {type(mod).__name__}")
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a submodule gives: a node, if it is a leaf, otherwise what its ``forward`` does."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: for a parameter, a node, the same each time."""
        is_traced = isinstance(attr_val, Parameter) or (
            self.proxy_buffer_attributes and isinstance(attr_val, tensor.Tensor)
        )
        if not is_traced:
            return attr_val
        path = self._path_of_tensor(attr_val)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = (
                self.create_proxy(
                    "get_attr", path, (), {}, proxy_factory_fn=lambda node: _ShapedProxy(self, node, attr_val)
                )
                if self.param_shapes_constant
                else self.create_proxy("get_attr", path, (), {})
            )
        return parameter_proxy_cache[path]

    def create_arg(self, a: Any) -> Argument:
        """As :meth:`TracerBase.create_arg`; tensors of the module are attributes of it, and other ones become such."""
        if isinstance(a, Parameter):
            path = self._path_of_tensor(a)
            if path is None:
                raise NameError("parameter is not a member of this module")
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, tensor.Tensor):
            return self.create_node("get_attr", self._path_of_tensor(a) or self._constant(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    # Tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module's ``forward``, or of a function.

        Parameters
        ----------
        root : Module or Callable
            What is traced.
        concrete_args : dict of str to object, optional
            Arguments that are not proxies but these values. The graph checks that it is called with them.

        Raises
        ------
        TraceError
            If the program branches on a value, or loops over one.
        """
        if isinstance(root, Module):
            self.root = root
            name = getattr(self, "traced_func_name", "forward")
            function = getattr(type(root), name)
            self.root_module_name = type(root).__name__
        else:
            self.root, function = Module(), root
        self.submodule_paths = {each: path for path, each in self.root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        self._constants = {}
        self.tensor_attrs = {}
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, tensor.Tensor):
                    self.tensor_attrs[id(value)] = f"{path}.{name}" if path else name
        for path, value in (
            *self.root.named_parameters(remove_duplicate=False),
            *self.root.named_buffers(remove_duplicate=False),
        ):
            self.tensor_attrs.setdefault(id(value), path)
        actual = inspect.unwrap(function)
        traced, args = self.create_args_for_root(actual, isinstance(root, Module), concrete_args)
        with ExitStack() as stack:
            stack.enter_context(_tracing())
            stack.enter_context(functions_ask())
            self._patch(stack, actual)
            result = traced(*args)
            annotation = getattr(actual, "__annotations__", {}).get("return")
            annotation = None if isinstance(annotation, str) else annotation
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=annotation)
        self.submodule_paths = {}
        return self.graph

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function, and proxies, or values, for all its parameters by position."""
        args: list[Any] = [self.root] if is_module else []
        parameters = list(inspect.signature(root_fn).parameters.values())[is_module:]
        # As the code has them: those with stars come last.
        parameters.sort(key=lambda each: each.kind in _STARS)
        for each in parameters:
            if concrete_args and each.name in concrete_args:
                args.append(self._specialized(each, concrete_args[each.name]))
            else:
                args.append(self._placeholder(each))
        return _unstarred(root_fn), args

    def _placeholder(self, parameter: inspect.Parameter) -> Any:
        default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        annotation = None if parameter.annotation is inspect.Parameter.empty else parameter.annotation
        if isinstance(annotation, str):
            annotation = None
        name = f"{_STARS.get(parameter.kind, '')}{parameter.name}"
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _specialized(self, parameter: inspect.Parameter, value: Any) -> Any:
        name = parameter.name
        if isinstance(value, (tuple, list, dict)):
            raise NotImplementedError(
                f"concrete_args[{name!r}] is a {type(value).__name__}: containers of proxies are left out; bind the "
                "argument by functools.partial"
            )
        default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        proxy = self.create_proxy("placeholder", f"{name}_1", default, {})
        if value is None:
            message = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
        elif isinstance(value, (bool, int, float, str)):
            message = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", tensor._assert, (proxy == value, message), {})
        return value

    def _patch(self, stack: ExitStack, function: Callable[..., Any]) -> None:
        patches = _Patches()
        stack.callback(patches.undo)
        cache: dict[str, Any] = {}
        original_getattr, original_call = Module.__getattr__, Module.__call__
        tracer = self

        def module_getattr(module: Module, name: str) -> Any:
            return tracer.getattr(name, original_getattr(module, name), cache)

        def module_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return original_call(module, *args, **kwargs)

            tracer._autowrap_in(patches, getattr(type(module).forward, "__globals__", {}))
            return tracer.call_module(module, forward, args, kwargs)

        patches.attribute(Module, "__getattr__", module_getattr)
        patches.attribute(Module, "__call__", module_call)
        for (_, name), table in list(_wrapped.items()):
            value = table.get(name, getattr(builtins, name, _ABSENT))
            if value is not _ABSENT:
                patches.item(table, name, _recorded(value))
        for cls, name in _wrapped_methods:
            patches.attribute(cls, name, _recorded_method(cls, name))
        self._autowrap_in(patches, getattr(function, "__globals__", {}))
        for module in self._autowrap_modules:
            self._autowrap_in(patches, vars(module))

    def _autowrap_in(self, patches: _Patches, table: dict[str, Any]) -> None:
        for name, value in list(table.items()):
            if name[0] != "_" and callable(value) and id(value) in self._autowrap:
                patches.item(table, name, _recorded(value))

    def _path_of_tensor(self, value: Any) -> str | None:
        return self.tensor_attrs.get(id(value))

    def _constant(self, value: Any) -> str:
        if id(value) not in self._constants:
            number = 0
            while hasattr(self.root, f"_tensor_constant{number}"):
                number += 1
            name = f"_tensor_constant{number}"
            setattr(self.root, name, value)
            self._constants[id(value)] = name
        return self._constants[id(value)]


def _unstarred(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with all its parameters by position, so that a proxy stands for all of ``*args``, or of ``**kwargs``."""
    code = getattr(function, "__code__", None)
    if code is None or not (
        code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    ):
        return function
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    plain = code.replace(
        co_argcount=code.co_argcount + code.co_kwonlyargcount + stars,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
    same = inspect.unwrap(function)
    assert isinstance(same, FunctionType)
    return FunctionType(plain, same.__globals__, same.__name__, None, same.__closure__)


class _ShapedProxy(Proxy):
    """A parameter, whose shape is known."""

    def __init__(self, tracer: TracerBase, node: Any, value: Any) -> None:
        super().__init__(node, tracer)
        self._value = value

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self._value.shape

    def size(self, *dim: int) -> Any:
        """The parameter's size."""
        return self._value.size(*dim)

    def dim(self) -> int:
        """Number of the parameter's dimensions."""
        return int(self._value.dim())


@has_side_effect
def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


@contextmanager
def _tracing() -> Iterator[None]:
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A :class:`GraphModule` of a module or a function, with the module's own parameters.

    Parameters
    ----------
    root : Module or Callable
        What is traced.
    concrete_args : dict of str to object, optional
        Arguments that are not proxies but these values, as flags on which the program branches.

    Raises
    ------
    TraceError
        If the program branches on a value, or loops over one.

    Examples
    --------
    >>> import nn.fx
    >>> traced = nn.fx.symbolic_trace(lambda x, y: x * y + 1)
    >>> traced(2, 3)
    7
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)


__getattr__ = _hints(__name__)
