"""Operators: kernels by dispatch key, and how a call finds the one for its arguments."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from tensor.autograd import Function, no_grad
from tensor.core.modes.grad_mode import modes
from tensor.core.names.absent import nearest_of
from tensor.methods.overriding.protocol import call_overrides, flattened, has_overrides
from tensor.methods.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .schemas import Schema

#: Keys of kernels, each with those that stand in for it, in the order in which they are looked up.
_BACKENDS = {
    "CPU": ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"),
    "CUDA": ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd"),
}
#: Keys that can be registered for.
KEYS = frozenset(
    (
        *("CPU", "CUDA", "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd"),
        *("Autograd", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA", "BackendSelect"),
        # Of devices that are not here: kernels for them are never run.
        *("XPU", "AutogradXPU", "AutocastXPU", "MPS", "AutogradMPS", "AutocastMPS"),
    )
)

#: Dispatch keys of types of devices.
_KEYS_OF_TYPES: dict[str | None, str] = {
    "cpu": "CPU",
    "cuda": "CUDA",
    None: "CompositeExplicitAutograd",
}
_F = TypeVar("_F", bound="Callable[..., Any]")


class OpOverload:
    """An operator with one schema; calling it runs the kernel for the arguments' devices.

    Attributes
    ----------
    namespace : str
        What stands before ``::`` in its name.
    """

    def __init__(self, schema: Schema, *, checked: bool = False) -> None:
        self._schema = schema
        self.namespace, _, self._opname = schema.name.partition("::")
        self._overloadname = schema.overload_name or "default"
        self.__name__ = self.__qualname__ = f"{self._opname}.{self._overloadname}"
        self.__module__ = f"tensor.ops.{self.namespace}"
        self.tags: list[Any] = []
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        #: Per type of device the dtype to which autocast blocks cast.
        self._autocast: dict[str, Any] = {}
        #: Whether results may not be inputs, and backward passes without a formula are errors.
        self._checked = checked

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def name(self) -> str:
        """``namespace::operator``, with ``.overload`` unless that is the default one."""
        overload = self._schema.overload_name
        return f"{self._schema.name}.{overload}" if overload else self._schema.name

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the operator."""
        return packets[self.namespace, self._opname]

    @property
    def op(self) -> OpOverload:
        """The operator itself."""
        return self

    @property
    def is_view(self) -> bool:
        """Whether the schema says that a result is a view."""
        return "(a)" in str(self._schema)

    def has_kernel_for_dispatch_key(self, key: str) -> bool:
        """Whether a kernel was registered for ``key``."""
        return key in self._kernels

    def register(self, key: str, kernel: Callable[..., Any], *, may_replace: bool = True) -> None:
        """Let ``kernel`` be what runs for a dispatch key.

        Raises
        ------
        RuntimeError
            If there is no such key, or it has a kernel and ``may_replace`` is False.
        """
        if key not in KEYS:
            near = nearest_of(key, KEYS)
            raise RuntimeError(
                f"no dispatch key {key!r} here" + (f": did you mean {near!r}?" if near else "")
            )
        if key in self._kernels and not may_replace:
            raise RuntimeError(f"{self.name()} has a kernel for the dispatch key {key} already")
        self._kernels[key] = kernel

    def registering(self, types: Iterable[str | None]) -> Callable[[_F], _F]:
        """What registers a kernel for types of devices (None: all) or dispatch keys, and returns it."""

        def register(kernel: _F) -> _F:
            for each in types:
                self.register(_KEYS_OF_TYPES.get(each, each or ""), kernel)
            return kernel

        return register

    # Calling

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator, unless an argument or a mode takes over by ``__torch_function__``.

        Raises
        ------
        RuntimeError
            If the arguments are not those of the schema.
        NotImplementedError
            If there is no kernel for the arguments' devices.
        """
        if has_overrides(flattened(args, kwargs)):
            return call_overrides(self, flattened(args, kwargs), args, kwargs)
        return self._run(args, kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self._schema.bind(args, kwargs)
        device = _device_type(bound.values())
        if modes.autocast is not None:
            casting = self._kernels.get(f"Autocast{device}")
            if casting is not None and getattr(modes.autocast, device.lower()) is not None:
                return self._schema.call(casting, bound)
            if self._autocast:
                bound = self._cast(bound, device)
        for key in (f"Autograd{device}", "Autograd"):
            if key in self._kernels and not _state.below_autograd:
                with _below_autograd():
                    return self._schema.call(self._kernels[key], bound)
        backend = next((key for key in _BACKENDS[device] if key in self._kernels), None)
        if backend is None:
            raise NotImplementedError(
                f"Could not run '{self.name()}' with arguments from the '{device}' backend: kernels are registered for "
                f"{sorted(self._kernels) or 'nothing'}; register one by Library.impl or register_kernel"
            )
        kernel = self._kernels[backend]
        if backend == "CompositeImplicitAutograd" and self._backward is None:
            return self._schema.call(kernel, bound)
        needs = modes.recording and any(each.requires_grad for each in _tensors(bound.values()))
        if not needs or not self._schema.number_of_returns:
            return self._below(kernel, bound)
        return _recorded(self, kernel, bound)

    def _below(self, kernel: Callable[..., Any], bound: dict[str, Any]) -> Any:
        """What a kernel of a backend gives: nothing of it is recorded."""
        written = [
            value
            for each in self._schema.arguments
            if each.mutated
            for value in _tensors((bound[each.name],))
        ]
        before = [each._version for each in written]
        with no_grad():
            result = self._schema.call(kernel, bound)
        if self._checked:
            self._check(result, bound)
        for each, version in zip(written, before, strict=True):
            if each._version == version:
                # What the kernel wrote by other ways than operations, as through NumPy.
                each._storage.version += 1
        return result

    def _check(self, result: Any, bound: dict[str, Any]) -> None:
        inputs = {id(each._storage) for each in _tensors(bound.values())}
        for each in _tensors((result,)):
            if id(each._storage) in inputs:
                raise RuntimeError(
                    f"{self.name()}: The output of this custom operator (1) must not also be an input to this custom "
                    "operator and (2) may not alias any inputs to this custom operator or other returns. The most common "
                    "way to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please "
                    "instead return a clone of the offending output tensor(s) (e.g. return x.clone())"
                )
            inputs.add(id(each._storage))

    def _cast(self, bound: dict[str, Any], device: str) -> dict[str, Any]:
        dtype = self._autocast.get(device.lower())
        casts = modes.autocast
        if dtype is None or casts is None or getattr(casts, device.lower()) is None:
            return bound
        return {
            name: value.to(dtype) if isinstance(value, Tensor) and value.dtype.is_floating_point else value
            for name, value in bound.items()
        }


class OpOverloadPacket:
    """All operators of one name; calling it runs the first overload whose schema admits the arguments."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self._name = self.__name__ = name
        self._qualified_op_name = f"{namespace}::{name}"
        self._overloads: dict[str, OpOverload] = {}

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self._name}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._name}"

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads)

    def __iter__(self) -> Iterator[str]:
        return iter(self._overloads)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__") or name == "_overloads":
            raise AttributeError(f"'{self!s}' can't have an overload name beginning with '__'")
        if name not in self._overloads:
            raise AttributeError(f"The underlying op of '{self!s}' has no overload name '{name}'", name=name)
        return self._overloads[name]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the first overload whose schema admits the arguments, unless one of them or a mode takes over.

        Raises
        ------
        RuntimeError
            If none does.
        """
        if has_overrides(flattened(args, kwargs)):
            return call_overrides(self, flattened(args, kwargs), args, kwargs)
        errors = []
        for each in self._overloads.values():
            try:
                each._schema.bind(args, kwargs)
            except RuntimeError as error:
                errors.append(error)
                continue
            return each._run(args, kwargs)
        if len(errors) == 1:
            raise errors[0]
        raise RuntimeError("\n".join([f"no overload of {self!s} takes these arguments:", *map(str, errors)]))


#: Registered operators by namespace and name.
packets: dict[tuple[str, str], OpOverloadPacket] = {}
#: What shapes operators give that are not defined yet, by their names.
fakes: dict[str, Callable[..., Any]] = {}


def add(schema: Schema, *, checked: bool = False) -> OpOverload:
    """Register an operator that has no kernels yet.

    Raises
    ------
    RuntimeError
        If there is one of this name.
    """
    operator = OpOverload(schema, checked=checked)
    key = operator.namespace, operator._opname
    packet = packets.get(key) or OpOverloadPacket(*key)
    if operator._overloadname in packet._overloads:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times: it is "
            f"{packet._overloads[operator._overloadname]._schema} already"
        )
    packet._overloads[operator._overloadname] = operator
    operator._fake = fakes.pop(operator.name(), None)
    packets[key] = packet
    return operator


def remove(operator: OpOverload) -> None:
    """Forget an operator."""
    key = operator.namespace, operator._opname
    packet = packets.get(key)
    if packet is not None and packet._overloads.get(operator._overloadname) is operator:
        del packet._overloads[operator._overloadname]
        if not packet._overloads:
            del packets[key]


def exists(qualified: str) -> bool:
    """Whether there is the operator ``namespace::name``, or ``namespace::name.overload``."""
    namespace, _, name = qualified.partition("::")
    name, _, overload = name.partition(".")
    packet = packets.get((namespace, name))
    return packet is not None and (overload or "default") in packet._overloads


def find(qualified: str) -> OpOverload:
    """The operator ``namespace::name``, or ``namespace::name.overload``.

    Raises
    ------
    RuntimeError
        If there is none.
    """
    namespace, _, name = qualified.partition("::")
    name, _, overload = name.partition(".")
    if not exists(qualified):
        raise RuntimeError(f"operator {qualified} does not exist: define it first")
    return packets[namespace, name]._overloads[overload or "default"]


class _State(threading.local):
    """Whether an autograd kernel is running, which calls its operator again for the kernel below."""

    below_autograd = False


_state = _State()


class _below_autograd:  # noqa: N801 - a block
    def __enter__(self) -> None:
        self._before, _state.below_autograd = _state.below_autograd, True

    def __exit__(self, *error: object) -> None:
        _state.below_autograd = self._before


def _tensors(values: Any) -> Iterator[Tensor]:
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _tensors(each)


def _device_type(values: Any) -> str:
    return "CUDA" if any(each.device.type == "cuda" for each in _tensors(values)) else "CPU"


def _recorded(operator: OpOverload, kernel: Callable[..., Any], bound: dict[str, Any]) -> Any:
    """The results, whose node in the graph calls the operator's formula."""
    schema = operator._schema
    # Tensors in lists are inputs of the node too, one by one.
    flat, sources = [], []
    for name, value in bound.items():
        is_list = isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value)
        sources.append((name, len(value) if is_list else None))
        flat.extend(value) if is_list else flat.append(value)

    def gathered(values: tuple[Any, ...]) -> dict[str, Any]:
        rest = iter(values)
        return {
            name: next(rest) if count is None else [next(rest) for _ in range(count)]
            for name, count in sources
        }

    class Node(Function):
        @staticmethod
        def forward(*values: Any) -> Any:
            result = operator._below(kernel, gathered(values))
            return tuple(result) if isinstance(result, list) else result

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if operator._setup_context is None:
                return
            by_name = gathered(inputs)
            named = {each.name: by_name.pop(each.name) for each in schema.arguments if each.named}
            args = {"inputs": tuple(by_name.values()), "output": output}
            operator._setup_context(ctx, **args, **({"keyword_only_inputs": named} if named else {}))

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            if operator._backward is None:
                return _no_formula(operator, len(flat))
            result = operator._backward(ctx, *gradients)
            result = result if isinstance(result, tuple) else (result,)
            count = sum(not each.named for each in schema.arguments)
            if len(result) != count:
                raise RuntimeError(
                    f"the backward of {operator!s} returned {len(result)} gradients and the operator has {count} inputs"
                )
            spread: list[Any] = []
            for (_, length), each in zip(sources, (*result, *([None] * (len(sources) - count))), strict=True):
                spread.extend([each] if length is None else [None] * length if each is None else each)
            return tuple(spread)

    # Named so before it exists: a function's node takes the name of its class.
    cls = type(f"GeneratedBackwardFor_{operator.namespace}_{operator._opname}_default", (Node,), {})
    return cls.apply(*flat)  # type: ignore[attr-defined]


def _no_formula(operator: OpOverload, count: int) -> tuple[None, ...]:
    if operator._checked:
        raise RuntimeError(
            f"Trying to backward through {operator!s} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )
    warnings.warn(
        f"{operator.name()}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop "
        "through it. This may lead to silently incorrect behavior: use register_autograd to add a formula",
        stacklevel=2,
    )
    return (None,) * count
