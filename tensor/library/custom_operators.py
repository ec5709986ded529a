"""``custom_op``: a Python function as an operator, with formulas for gradients and kernels for devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from . import operators
from .operators import OpOverload
from .schemas import Schema, infer_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nvrtc_kernels.dtypes import dtype

    from .registration import Library

    Function: TypeAlias = Callable[..., Any]

_TYPES = ("cpu", "cuda")


class CustomOpDef:
    """An operator that a program made by :func:`custom_op`; calling it runs it.

    Parameters
    ----------
    namespace, name : str
        What it is called.
    schema : str
        Its parameters and results.
    fn : Callable
        Its kernel for devices that have no other.
    """

    def __init__(self, namespace: str, name: str, schema: str, fn: Function) -> None:
        self._namespace = namespace
        self._name = name
        self._schema = schema
        self._init_fn = fn
        self.__name__ = name
        self.__doc__ = fn.__doc__
        parsed = Schema.parse(f"{name}{schema}", namespace)
        packet = operators.packets.get((namespace, name))
        if packet is not None and "default" in packet._overloads:
            # As a cell of a notebook that runs again.
            operators.remove(packet.default)
        self._opoverload = operators.add(parsed, checked=True)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Function | None = None, /) -> Any:
        """Let ``fn`` be the kernel for these types of devices, None for all; without ``fn``, a decorator."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Function, /) -> Function:
        """Say what shapes the operator gives. A decorator."""
        register_fake(self, fn)
        return fn

    def register_autograd(self, backward: Function, /, *, setup_context: Function | None = None) -> None:
        """Say how the operator is differentiated, as :func:`register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_autocast(self, device_type: str, cast_inputs: dtype) -> None:
        """Let autocast blocks cast the operator's floating inputs to ``cast_inputs``."""
        register_autocast(self, device_type, cast_inputs)


def custom_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """A function as an operator; without ``fn``, a decorator.

    What the function calls is not recorded: :meth:`CustomOpDef.register_autograd` says how it is differentiated.

    Parameters
    ----------
    name : str
        ``namespace::name``: it is found as ``tensor.ops.namespace.name`` too.
    fn : Callable
        The kernel, whose annotations say what it takes and returns.
    mutates_args : str or Iterable of str
        Names of parameters to which it writes; ``"unknown"`` for all tensors.
    device_types : str or sequence of str, optional
        For which types of devices it is the kernel; all, without it.
    schema : str, optional
        Instead of the annotations.
    tags : object
        Kept as the operator's ``tags``.

    Raises
    ------
    ValueError
        If the name has no namespace, or an annotation is missing.

    Examples
    --------
    >>> @tensor.library.custom_op("example_of_custom_op::cube", mutates_args=())
    ... def cube(x: tensor.Tensor) -> tensor.Tensor:
    ...     return x**3
    >>> cube.register_autograd(
    ...     lambda ctx, gradient: gradient * 3 * ctx.saved_tensors[0] ** 2,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    ... )
    >>> x = tensor.tensor([2.0], requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    tensor([12.])
    """

    def define(fn: Function) -> CustomOpDef:
        namespace, _, operator = name.partition("::")
        if not operator:
            raise ValueError(
                f"Expected the name of a custom operator to be of the form `namespace::name`, got {name!r}"
            )
        text = schema if schema is not None else infer_schema(fn, mutates_args=mutates_args)
        definition = CustomOpDef(namespace, operator, text, fn)
        definition._opoverload.tags = (
            list(tags) if isinstance(tags, (list, tuple)) else [] if tags is None else [tags]
        )
        register_kernel(definition, device_types, fn)
        return definition

    return define if fn is None else define(fn)


def _operator(op: str | OpOverload | CustomOpDef) -> OpOverload:
    if isinstance(op, CustomOpDef):
        return op._opoverload
    return op if isinstance(op, OpOverload) else operators.find(op)


def register_kernel(
    op: str | OpOverload | CustomOpDef,
    device_types: str | Sequence[str] | None,
    func: Function | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Let ``func`` be the kernel of an operator for types of devices, None for all; without it, a decorator.

    ``op`` is an operator or its name, ``device_types`` are ``"cpu"`` and ``"cuda"``, and ``lib`` is accepted for
    compatibility.
    """
    types = [device_types] if isinstance(device_types, str) or device_types is None else list(device_types)
    register = _operator(op).registering(types)
    return register if func is None else register(func)


def register_fake(
    op: str | OpOverload | CustomOpDef,
    func: Function | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Say what shapes an operator gives; without ``func``, a decorator.

    Nothing here runs without values, so the function ``func`` of the operator ``op``, which need not be defined yet, is
    kept and not called. ``lib`` and ``allow_override`` are accepted for compatibility.
    """

    def register(fake: Function) -> Function:
        if isinstance(op, str) and not operators.exists(op):
            operators.fakes[op] = fake
        else:
            _operator(op)._fake = fake
        return fake

    return register if func is None else register(func)


def register_autograd(
    op: str | OpOverload | CustomOpDef,
    backward: Function,
    /,
    *,
    setup_context: Function | None = None,
    lib: Library | None = None,
) -> None:
    """Say how an operator is differentiated.

    Parameters
    ----------
    op : str, OpOverload or CustomOpDef
        The operator, or its name.
    backward : Callable
        ``backward(ctx, *gradients)`` returns a gradient, or None, for each parameter that is given by position.
    setup_context : Callable, optional
        ``setup_context(ctx, inputs, output)`` keeps what ``backward`` needs; it has the argument
        ``keyword_only_inputs`` too, where the schema has such.
    lib : Library, optional
        Accepted for compatibility.

    Raises
    ------
    RuntimeError
        If there is no such operator, or it writes to its arguments.
    """
    operator = _operator(op)
    if any(each.mutated for each in operator._schema.arguments):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator!s} with schema {operator._schema}. Please "
            "create a functional operator and register an autograd formula for that."
        )
    operator._backward = backward
    operator._setup_context = setup_context


def register_autocast(
    op: str | OpOverload | CustomOpDef, device_type: str, cast_inputs: dtype, /, *, lib: Library | None = None
) -> None:
    """Let autocast blocks of a type of device cast an operator's floating inputs.

    Parameters
    ----------
    op : str, OpOverload or CustomOpDef
        The operator, or its name.
    device_type : str
        ``"cpu"`` or ``"cuda"``.
    cast_inputs : dtype
        To which they are cast, whatever the block's own dtype is.
    lib : Library, optional
        Accepted for compatibility.

    Raises
    ------
    ValueError
        If it is another type of device.
    """
    if device_type not in _TYPES:
        raise ValueError(f"Unknown device type: {device_type}")
    _operator(op)._autocast[device_type] = cast_inputs
