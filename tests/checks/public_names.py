"""The public names of the packages, and what can be read off their source: parameters, and exceptions that they raise."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensor.operations.definition import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("drv", "nvrtc_kernels", "tensor", "nn", "parallel", "tools")
#: Modules whose public names users import. What is published as an operation is held to rules of its own.
NAMESPACES = (
    "drv",
    "drv.simulator",
    "drv.allocators",
    "nvrtc_kernels",
    "tensor",
    "tensor.accelerator",
    "tensor.accelerator.memory",
    "tensor.amp",
    "tensor.array_api",
    "tensor.array_api.fft",
    "tensor.array_api.linalg",
    "tensor.autograd",
    "tensor.autograd.anomaly_mode",
    "tensor.autograd.forward_ad",
    "tensor.autograd.function",
    "tensor.autograd.functional",
    "tensor.autograd.grad_mode",
    "tensor.autograd.graph",
    "tensor.autograd.variable",
    "tensor.backends",
    "tensor.backends.cpu",
    "tensor.backends.cuda",
    "tensor.backends.cudnn",
    "tensor.backends.mkl",
    "tensor.backends.mkldnn",
    "tensor.backends.mps",
    "tensor.backends.openmp",
    "tensor.backends.opt_einsum",
    "tensor.compiler",
    "tensor.compiler.dynamo",
    "tensor.cpu",
    "tensor.cpu.amp",
    "tensor.cuda",
    "tensor.cuda.amp",
    "tensor.cuda.memory",
    "tensor.cuda.nvtx",
    "tensor.cuda.random",
    "tensor.distributions",
    "tensor.distributions.constraint_registry",
    "tensor.distributions.constraints",
    "tensor.distributions.utils",
    "tensor.func",
    "tensor.hub",
    "tensor.overrides",
    "tensor.jit",
    "tensor.linalg",
    "tensor.onnx",
    "tensor.onnx.operators",
    "tensor.onnx.symbolic_helper",
    "tensor.onnx.utils",
    "tensor.profiler",
    "tensor.profiler.autograd_profiler",
    "tensor.random",
    "tensor.return_types",
    "tensor.serialization",
    "tensor.signal.windows",
    "tensor.sparse",
    "tensor.testing",
    "tensor.utils._pytree",
    "tensor.utils.benchmark",
    "tensor.utils.checkpoint",
    "tensor.utils.data",
    "tensor.utils.deterministic",
    "tensor.utils.dlpack",
    "tensor.utils.hooks",
    "tensor.utils.tensorboard",
    "tensor.version",
    "nn",
    "nn.ao.quantization",
    "nn.attention",
    "nn.attention.bias",
    "nn.attention.flex_attention",
    "nn.attention.varlen",
    "nn.grad",
    "nn.init",
    "nn.module",
    "nn.modules",
    "nn.optim",
    "nn.optim.lr_scheduler",
    "nn.optim.swa_utils",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.prune",
    "nn.utils.rnn",
    "nn.utils.stateless",
    "parallel",
    "parallel.checkpoint",
    "parallel.checkpoint.filesystem",
    "parallel.checkpoint.metadata",
    "parallel.checkpoint.state_dict",
    "parallel.checkpoint.stateful",
    "parallel.comm",
    "parallel.ddp_comm_hooks.default_hooks",
    "parallel.ddp_comm_hooks.hierarchical_hook",
    "parallel.ddp_comm_hooks.powerSGD_hook",
    "parallel.device_mesh",
    "parallel.fsdp",
    "parallel.fsdp.wrap",
    "parallel.launch",
    "parallel.modules",
    "parallel.multiprocessing",
    "parallel.optim",
    "parallel.pipelining",
    "parallel.pipelining.microbatch",
    "parallel.pipelining.schedules",
    "parallel.pipelining.stage",
    "parallel.tensor",
    "parallel.tensor.parallel",
)


@dataclass(frozen=True)
class PublicName:
    """A class, function, method or property that users can reach by ``name``, and the class that it is a member of."""

    name: str
    value: Any
    owner: type | None = None

    @property
    def text(self) -> str:
        """What ``help()`` shows; of a class with what stands at its constructor."""
        text = inspect.getdoc(self.value) or ""
        constructor = self.constructor
        return text if constructor is None else f"{text}\n{constructor.__doc__ or ''}"

    @property
    def constructor(self) -> Any:
        """``__init__`` or ``__new__`` of a class, if these packages define it."""
        if not inspect.isclass(self.value):
            return None
        functions = (vars(self.value).get(name) for name in ("__init__", "__new__"))
        return next((each for each in functions if _is_ours(each)), None)

    @property
    def functions(self) -> list[Any]:
        """The functions whose code this runs."""
        if isinstance(self.value, property):
            return [each for each in (self.value.fget, self.value.fset) if each is not None]
        if inspect.isclass(self.value):
            return [] if self.constructor is None else [self.constructor]
        return [_function(self.value)]

    def parameters(self) -> list[str]:
        """Names of the parameters that a docstring has to speak of."""
        if isinstance(self.value, property) or not self.functions:
            return []
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [
            each.name
            for each in inspect.signature(self.functions[0]).parameters.values()
            if each.kind not in kinds and each.name not in ("self", "cls") and not each.name.startswith("_")
        ]

    def exceptions(self) -> set[str]:
        """Classes that ``raise`` statements name, in the code itself and in the private helpers that it calls."""
        seen: set[Any] = set()
        owner = self.value if inspect.isclass(self.value) else self.owner
        return {name for each in self.functions for name in _raised(each, owner, seen)}


def public_names() -> dict[str, PublicName]:
    """All of them, each once, by their shortest path."""
    operations = {
        id(each)
        for namespace in catalogue._published
        for function in catalogue.published(namespace).values()
        for each in (function, inspect.unwrap(function))
    }
    found: dict[int, PublicName] = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name, value in _public(module):
            if id(_function(value)) not in operations:
                found.setdefault(id(_function(value)), PublicName(f"{namespace}.{name}", value))
            if inspect.isclass(value):
                for member, each in _members(value):
                    if not {id(each), id(_function(each))} & operations:
                        public = PublicName(f"{namespace}.{name}.{member}", each, value)
                        found.setdefault(id(_function(each)), public)
    return {each.name: each for each in sorted(found.values(), key=lambda each: each.name)}


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    names = getattr(module, "__all__", None)
    if names is None:
        own = (
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        )
        names = [name for name in own if name[0] != "_"]
    for name in sorted(names):
        value = getattr(module, name)
        if _is_ours(value) and callable(value):
            yield name, value
    # Settings are properties of the module's own class.
    yield from ((name, value) for name, value in vars(type(module)).items() if isinstance(value, property))


def _members(owner: type) -> Iterator[tuple[str, Any]]:
    for base in owner.__mro__:
        for name, value in vars(base).items() if _is_ours(base) else ():
            function = _function(value)
            is_overridden = inspect.getattr_static(owner, name) is not value
            if inspect.isfunction(function) and _is_ours(function) and name[0] != "_" and not is_overridden:
                yield name, value


def _function(value: Any) -> Any:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, functools.cached_property):
        value = value.func
    return inspect.unwrap(value) if callable(value) else value


def _is_ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] in PACKAGES


def _raised(function: Any, owner: type | None, seen: set[Any]) -> Iterator[str]:
    function = _function(function)
    # Generated code, as that of a dataclass, has no source.
    if (
        not inspect.isfunction(function)
        or function.__code__ in seen
        or function.__code__.co_filename[0] == "<"
    ):
        return
    seen.add(function.__code__)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            # What a nested function raises is raised when that is called.
            if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
                continue
            waiting.append(node)
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = _last_name(node.exc.func)
                if name[:1].isupper():
                    yield name
            if isinstance(node, ast.Call):
                helper = _helper(node.func, function, owner)
                if helper is not None:
                    yield from _raised(helper, owner, seen)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _helper(called: ast.expr, caller: Any, owner: type | None) -> Any:
    """The private function, or private method of the same object, that an expression names."""
    name = _last_name(called)
    if not name.startswith("_") or name.startswith("__"):
        return None
    if isinstance(called, ast.Name):
        return caller.__globals__.get(name)
    on_self = isinstance(called, ast.Attribute) and _last_name(called.value) in ("self", "cls")
    return inspect.getattr_static(owner, name, None) if on_self and owner is not None else None
