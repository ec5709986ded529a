"""``Function``: operations with derivatives that users write."""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from tensor.core.base import TensorBase, view_of
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.names.absent import hints as _hints
from tensor.core.plans.fills import filled

from .recording import saved
from .recording.inplace import attach_in_place, check_in_place, save_written
from .recording.node import Node, place_in_graph, track_view
from .recording.recorder import BackwardFormula, Derivative
from .recording.state import new_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What ``forward`` and ``backward`` of a :class:`Function` share: the first argument of both.

    Attributes may be set freely on it; they are found on the node, ``grad_fn`` of the outputs, too.
    """

    #: For each argument of ``forward`` whether its gradient is wanted.
    needs_input_grad: tuple[bool, ...]
    #: Whether ``backward`` gets zeros in place of ``None`` for outputs that no gradient has reached.
    materialize_grads: bool = True
    to_save: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    #: The node, which refers to this object; ``None`` where nothing was recorded.
    _node: weakref.ref[FunctionNode] | None = None

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What :meth:`save_for_backward` was given.

        Raises
        ------
        RuntimeError
            If it was freed, or a tensor was written in place since.
        """
        node = None if self._node is None else self._node()
        return self.to_save if node is None else node.saved_tensors

    def __getattr__(self, name: str) -> Any:
        if name in _OF_NODE:
            node = None if self._node is None else self._node()
            if node is not None:
                return getattr(node, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs of ``forward`` (or ``None``) for ``backward``, as ``saved_tensors``.

        Tensors in between are better recomputed, or outputs too: as an attribute they would escape the check
        that nothing was written in place, and may be part of a cycle that only the garbage collector frees.

        Raises
        ------
        TypeError
            If an argument is neither a tensor nor ``None``.
        """
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, TensorBase):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}: keep it as an attribute of ctx"
                )
        self.to_save = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs ``forward`` has written in place. All of them must be outputs too.

        :meth:`Function.apply` checks that, and raises RuntimeError otherwise.
        """
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no derivative; ``backward`` still takes a gradient for each of them.

        Parameters
        ----------
        *args : Tensor
            Outputs of ``forward``, such as indices. They do not require a gradient then.
        """
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether ``backward`` gets zeros or ``None`` for outputs that no gradient has reached.

        Zeros (``value=True``) are the default.
        """
        self.materialize_grads = bool(value)


#: What the context shows of its node.
_OF_NODE = frozenset({"name", "next_functions", "metadata", "register_hook", "register_prehook"})


class FunctionNode(Node):
    """The node of a user's function.

    It is a class of its own because it runs users' code: on the streams of all devices of its inputs and outputs,
    with checks of what that code returns; and it shows the context's attributes as its own.

    Attributes
    ----------
    ctx : FunctionCtx
        What the Function's methods share.
    function : type
        The Function.
    outputs : tuple of Layout or None
        Layouts of the outputs, ``None`` for those that are no tensors.
    takes_tensor : tuple of bool
        For each argument of ``forward`` whether it is a tensor.
    used_streams : tuple of Stream
        One for each device of the inputs and outputs.
    """

    __slots__ = ("ctx", "function", "outputs", "takes_tensor", "used_streams")

    ctx: FunctionCtx
    function: type[Function]
    outputs: tuple[Layout | None, ...]
    takes_tensor: tuple[bool, ...]
    used_streams: tuple[Stream, ...]

    def name(self) -> str:
        """Name as PyTorch shows it: the Function's, and ``Backward``."""
        return type(self).__name__

    __repr__ = object.__repr__

    def streams(self) -> tuple[Stream, ...]:
        """One for each device of the inputs and outputs."""
        return self.used_streams

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """See :attr:`FunctionCtx.saved_tensors`."""
        if self.saved is None:
            raise saved.freed(self)
        return tuple([saved.restore(entry, self) for entry in self.saved])

    def __getattr__(self, name: str) -> Any:
        if name != "ctx":
            return getattr(self.ctx, name)
        raise AttributeError(name)

    def backward(self, *grads: Tensor | None) -> Any:
        """Gradients of all arguments of ``forward``, as the Function's ``backward`` gives them."""
        arguments: tuple[Any, ...] = grads
        if self.ctx.materialize_grads:
            arguments = tuple(
                filled(layout.as_contiguous(), 0) if grad is None and layout is not None else grad
                for grad, layout in zip(grads, self.outputs, strict=True)
            )
        results = _derivative_of(self.function)(self.ctx, *arguments)
        return self._checked(results if isinstance(results, tuple) else (results,))

    def _checked(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        expected = len(self.next)
        if len(results) > expected and all(each is None for each in results[expected:]):
            results = results[:expected]
        if len(results) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {expected}, got "
                f"{len(results)}): backward() gives one for each argument of forward(), or None"
            )
        for position, (result, is_tensor) in enumerate(zip(results, self.takes_tensor, strict=True)):
            if result is None:
                continue
            if not isinstance(result, TensorBase):
                raise TypeError(
                    f"function {self.name()} returned a gradient of type {type(result).__name__} at position "
                    f"{position + 1}, expected a Tensor or None"
                )
            if not is_tensor:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {position + 1}, "
                    "but the corresponding forward input was not a Variable: return None for it"
                )
        return results


def _derivative_of(function: type[Function]) -> Callable[..., Any]:
    backward, vjp = function.backward, function.vjp
    if vjp is Function.vjp:
        return backward
    if backward is not Function.backward:
        raise RuntimeError(
            f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: {function.__name__} has "
            "both. You should only implement one of them."
        )
    return vjp


class Function:
    """An operation with a derivative of one's own.

    Derive a class with the static methods ``forward(ctx, *args)`` and ``backward(ctx, *grad_outputs)``, or with
    ``forward(*args)``, ``setup_context(ctx, inputs, output)`` and ``backward``, and call it by ``apply``.
    ``backward`` gives a gradient, or ``None``, for each argument of ``forward``. To construct an object of the class
    raises RuntimeError.

    Examples
    --------
    >>> class Exp(tensor.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = tensor.tensor([0.0, 1.0], requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1.0000, 2.7183])
    """

    _ctx_class: ClassVar[type[FunctionCtx]] = FunctionCtx
    _node_class: ClassVar[type[FunctionNode]] = FunctionNode

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = f"{cls.__name__}Backward"
        cls._ctx_class = type(name, (FunctionCtx,), {})
        cls._node_class = type(name, (FunctionNode,), {"__slots__": ()})

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so you "
            f"should invoke them on the class itself: {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: tensors and anything else, one or a tuple.

        Its first argument is the context ``ctx``, a :class:`FunctionCtx`, unless the class defines
        :meth:`setup_context`. Nothing that it calls is recorded. Subclasses define it; here NotImplementedError is
        raised.
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep on ``ctx`` what ``backward`` needs, for a ``forward`` that takes no ``ctx``.

        ``inputs`` is the tuple of its arguments, ``output`` what it returned. Subclasses may define it; here
        NotImplementedError is raised.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments of ``forward`` from ``grad_outputs``, those of its outputs.

        ``ctx`` is what ``forward`` got. A gradient has the shape of its argument; ``None`` stands for none.
        Subclasses define it; here NotImplementedError is raised.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for :meth:`backward`, of which a class defines one. Here NotImplementedError is raised.

        ``ctx`` and ``grad_outputs`` are as for :meth:`backward`.
        """
        raise NotImplementedError("vjp is not implemented.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward`` with the arguments, and record it where one of them requires grad.

        Returns
        -------
        Tensor or tuple
            What ``forward`` returned. An input that it returned unchanged becomes a view.

        Raises
        ------
        RuntimeError
            If a tensor was marked dirty that is not both an input and an output of ``forward``; if a leaf that
            requires grad, or a view of one, was; or if a view was and there are several outputs.
        TypeError
            If ``forward`` has keyword-only parameters that are passed.
        """
        ctx = cls._ctx_class()
        separate = cls.setup_context is not Function.setup_context
        if separate or kwargs:
            args = _bound(cls.forward, (args if separate else (ctx, *args)), kwargs)
            if not separate:
                args = args[1:]
        ctx.needs_input_grad = tuple([isinstance(x, TensorBase) and x.requires_grad for x in args])
        with unrecorded():
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        outputs = output if isinstance(output, tuple) else (output,)
        finished = _recorded(cls, ctx, args, outputs, modes.recording and any(ctx.needs_input_grad))
        return finished if isinstance(output, tuple) else finished[0]


def _bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments in the order of the function's parameters, with defaults."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"apply() cannot pass the keyword-only arguments {sorted(bound.kwargs)} of {function.__qualname__}: only "
            "arguments that can be given by position get gradients"
        )
    return bound.args


def _recorded(
    function: type[Function],
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
    records: bool,
) -> tuple[Any, ...]:
    """Outputs of ``forward``, with a node that made them."""
    _check_marks(function.__name__, ctx, args, outputs, records)
    # What is no tensor has no gradient.
    plain = {id(x) for x in ctx.non_differentiable}
    results: list[Any] = []
    shown: list[bool] = []
    for output in outputs:
        is_tensor = isinstance(output, TensorBase)
        has_gradient = is_tensor and records and id(output) not in plain and _can_have_gradient(output)
        if is_tensor and (_is_among(output, results) or _is_returned_input(output, args, ctx)):
            # Its history is its own: the caller gets a view.
            view = view_of(output._storage, output._layout, output._offset)
            if has_gradient:
                view._base = output if output._base is None else output._base
            results.append(view)
        else:
            results.append(output)
        shown.append(has_gradient)
    if records and any(shown):
        node = function._node_class.__new__(function._node_class)
        node.function, node.ctx = function, ctx
        node.takes_tensor = tuple([isinstance(x, TensorBase) for x in args])
        _place(node, args, results, shown)
        _save(node, outputs, results, shown)
        ctx._node = weakref.ref(node)
        ctx.to_save = ()
    # The tensors that were saved are not kept twice, and others not at all.
    ctx.dirty_tensors = ctx.non_differentiable = ()
    return tuple(results)


def _is_among(tensor: Any, others: Iterable[Any]) -> bool:
    return any(tensor is each for each in others)


def _is_returned_input(output: Any, args: tuple[Any, ...], ctx: FunctionCtx) -> bool:
    return _is_among(output, args) and not _is_among(output, ctx.dirty_tensors)


def _check_marks(
    name: str, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...], records: bool
) -> None:
    for tensor in ctx.dirty_tensors:
        if not _is_among(tensor, args):
            raise RuntimeError(f"mark_dirty() of {name} was given a tensor that is no input of forward")
        if not _is_among(tensor, outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                f"are modified inplace must all be outputs of the Function ({name})."
            )
        if records:
            check_in_place(tensor)
            if tensor._base is not None and len(outputs) > 1:
                raise RuntimeError(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function "
                    f"cannot return more than one Tensor ({name} returned {len(outputs)})."
                )


def _can_have_gradient(output: Any) -> bool:
    dtype = output._layout.dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


def _place(node: FunctionNode, args: tuple[Any, ...], results: Sequence[Any], shown: Sequence[bool]) -> None:
    """Put the node into the graph, and let its outputs know it."""
    place_in_graph(node, args, [x for x in results if isinstance(x, TensorBase)])
    node.saved = ()
    node.outputs = tuple([x._layout if isinstance(x, TensorBase) else None for x in results])
    node.layouts = node.outputs  # type: ignore[assignment]
    node.used_streams = _streams((*results, *args))
    node.stream = node.used_streams[0] if node.used_streams else None
    for number, (result, has_gradient) in enumerate(zip(results, shown, strict=True)):
        if not has_gradient:
            continue
        if _is_among(result, node.ctx.dirty_tensors):
            attach_in_place(node, args, result, number, placed=True)
            continue
        state = result._autograd = new_state(requires_grad=True, edge=(node, number))
        if result._base is not None:
            state.origin = "function"
            track_view(result)


def _streams(tensors: Iterable[Any]) -> tuple[Stream, ...]:
    """Current streams of the devices that tensors are on, those of the first ones first."""
    states = {x._layout.device_state: None for x in tensors if isinstance(x, TensorBase)}
    return tuple([device_state.local.stream for device_state in states if device_state.is_cuda])


def _save(node: FunctionNode, outputs: Sequence[Any], results: Sequence[Any], shown: Sequence[bool]) -> None:
    """Keep what ``save_for_backward`` was given; outputs without a reference to the node itself."""
    entries: list[Any] = []
    for tensor in node.ctx.to_save:
        number = next((i for i, x in enumerate(outputs) if x is tensor and shown[i]), None)
        if tensor is None or number is None or results[number] is not tensor:
            entries.append(saved.save(tensor))
        else:
            entry = saved.save_output(tensor, number)
            written = _is_among(tensor, node.ctx.dirty_tensors)
            entries.append(save_written(entry, tensor) if written else entry)
    node.saved = tuple(entries)


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a ``backward``, ``fn``, that uses more than differentiable operations.

    Its results have no derivative: a second derivative through it raises RuntimeError, where without the decorator it
    might be silently wrong.
    """

    @functools.wraps(fn)
    def backward(ctx: Any, *args: Any) -> Any:
        with unrecorded():
            results = fn(ctx, *args)
        inputs = [x for x in args if isinstance(x, TensorBase) and x.requires_grad]
        if not modes.recording or not inputs:
            return results
        if not isinstance(results, tuple):
            return _refusing(results, inputs)
        return tuple(_refusing(each, inputs) for each in results)

    return backward


def _refusing(result: Any, inputs: Sequence[Any]) -> Any:
    """``result`` with a history that cannot be differentiated."""
    if not isinstance(result, TensorBase) or not _can_have_gradient(result):
        return result
    output = view_of(result._storage, result._layout, result._offset)
    _REFUSING.record((output,), inputs)
    return output


def _refuse(*_: Any) -> Any:
    """In place of the derivative of what has none."""
    raise RuntimeError(
        "trying to differentiate twice a function that was marked with @once_differentiable: write its backward "
        "with differentiable operations, and leave the decorator out"
    )


_REFUSING = BackwardFormula("Error", "", joint=Derivative(_refuse, needs=""))

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
