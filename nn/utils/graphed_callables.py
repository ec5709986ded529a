"""Parts of a program as CUDA graphs: functions and modules whose forward and backward are replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import tensor
from nn.module import Module
from tensor import Tensor
from tensor.autograd import Function
from tensor.autograd.function import once_differentiable
from tensor.cuda import CUDAGraph, Stream, graph, graph_pool_handle, synchronize
from tensor.utils._pytree import tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.cuda.memory_pools import Pool


@overload
def make_graphed_callables(
    callables: Callable[..., Any],
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Callable[..., Any]: ...
@overload
def make_graphed_callables(
    callables: tuple[Callable[..., Any], ...],
    sample_args: tuple[tuple[Any, ...], ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> tuple[Callable[..., Any], ...]: ...


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Functions and modules that replay a CUDA graph forward, and another one backward, with autograd around them.

    Parameters
    ----------
    callables : callable or module, or tuple of them
        What is captured; several in the order in which the program calls them, each once in a pass. A module is changed in
        place: called in the mode (training or not) that it is in now it replays, in the other one it runs as it did.
    sample_args : tuple, or tuple of tuples
        Arguments of each: tensors, in containers too. Arguments of later calls have the same shapes, dtypes and devices,
        and require grad where these do.
    num_warmup_iters : int
        How often each runs, forward and backward, before it is captured.
    allow_unused_input : bool
        Whether arguments and parameters may have no influence on the result.
    pool
        See :meth:`CUDAGraph.capture_begin`. By default all graphs share one of their own.

    Returns
    -------
    The callables that replay; the modules themselves. What they return is overwritten by the next call.

    Raises
    ------
    RuntimeError
        If autocast keeps converted parameters from one call to another (``cache_enabled``), or a module has hooks or a
        buffer that requires grad: neither would be there at a replay.
    TypeError
        If an argument is not a tensor.
    CaptureError
        If something in a callable cannot be captured.

    Examples
    --------
    >>> _ = drv.simulator.install()
    >>> layer = nn.Linear(4, 2).cuda()
    >>> layer = tensor.cuda.make_graphed_callables(layer, (tensor.zeros(3, 4, device="cuda"),))
    >>> layer(tensor.ones(3, 4, device="cuda")).sum().backward()
    >>> layer.weight.grad.shape
    tensor.Size([2, 4])
    """
    if tensor.is_autocast_enabled("cuda") and tensor.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables under autocast wants cache_enabled=False: parameters that were converted before a graph "
            "was captured would stay as they were then"
        )
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise RuntimeError(
            f"make_graphed_callables: {len(callables)} callables and sample_args for {len(sample_args)}; give one tuple "
            "of arguments for each"
        )
    for each in callables:
        if isinstance(each, Module):
            _check_module(each)
    parts = [_Part(each, args) for each, args in zip(callables, sample_args, strict=True)]
    # Not the default stream: leaves are first used there, and gradients accumulated on the stream of that use.
    synchronize()
    side = Stream()
    with side:
        for part in parts:
            for _ in range(num_warmup_iters):
                part.differentiate(part.outputs_of_a_call(), allow_unused_input)
    synchronize()
    shared = graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(shared)
    for part in reversed(parts):
        part.capture_backward(shared, allow_unused_input)
    results = [_graphed(part) for part in parts]
    return results[0] if single else tuple(results)


class _Part:
    """A callable, what it is called with, and its graphs."""

    def __init__(self, function: Any, arguments: Any) -> None:
        self.function = function
        self.arguments = arguments
        self.leaves, self.structure = tree_flatten(arguments)
        for each in self.leaves:
            if not isinstance(each, Tensor):
                raise TypeError(
                    f"make_graphed_callables: sample_args must contain only Tensors, got {type(each).__name__}: what is "
                    "no tensor would be the same at every replay; make it a part of the callable"
                )
        self.parameters = tuple(function.parameters()) if isinstance(function, Module) else ()
        #: Tensors that the forward graph reads: arguments, and parameters.
        self.inputs: tuple[Any, ...] = (*self.leaves, *self.parameters)
        self.differentiated = [number for number, each in enumerate(self.inputs) if each.requires_grad]
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.outputs: tuple[Any, ...] = ()
        self.output_structure: Any = None
        self.grad_outputs: list[Any] = []
        self.grad_inputs: list[Any] = []

    def outputs_of_a_call(self) -> list[Any]:
        """Tensors that the callable returns."""
        leaves, self.output_structure = tree_flatten(self.function(*self.arguments))
        for each in leaves:
            if not isinstance(each, Tensor):
                raise TypeError(
                    f"make_graphed_callables: {self.function!r} returned {type(each).__name__}: a replay gives tensors only"
                )
        return leaves

    def differentiate(
        self, outputs: Sequence[Any], allow_unused: bool, grad_outputs: Sequence[Any] | None = None
    ) -> list[Any]:
        """Gradients of the inputs that require grad, by number."""
        differentiable = [each for each in outputs if each.requires_grad]
        if not differentiable or not self.differentiated:
            return []
        if grad_outputs is None:
            grad_outputs = [tensor.empty_like(each).zero_() for each in differentiable]
        return list(
            tensor.autograd.grad(
                differentiable,
                [self.inputs[number] for number in self.differentiated],
                grad_outputs,
                allow_unused=allow_unused,
            )
        )

    def capture_forward(self, pool: Pool) -> None:
        """Capture the call."""
        with graph(self.forward, pool=pool):
            outputs = self.outputs_of_a_call()
        self.outputs = tuple(outputs)

    def capture_backward(self, pool: Pool, allow_unused: bool) -> None:
        """Capture the gradients of the call."""
        self.grad_outputs = [tensor.empty_like(each) if each.requires_grad else None for each in self.outputs]
        grad_outputs = [each for each in self.grad_outputs if each is not None]
        grads: list[Any] = []
        if grad_outputs and self.differentiated:
            with graph(self.backward, pool=pool):
                grads = self.differentiate(self.outputs, allow_unused, grad_outputs)
        self.grad_inputs = [None] * len(self.inputs)
        for number, each in zip(self.differentiated, grads, strict=False):
            self.grad_inputs[number] = each
        # What autograd has recorded while the graphs were captured is of no use any more.
        self.outputs = tuple(each.detach() for each in self.outputs)

    def replay(self, *arguments: Any) -> Any:
        """What the graphed callable does."""
        leaves, structure = tree_flatten(arguments)
        if structure != self.structure:
            raise TypeError(
                f"a graphed callable is called as it was captured: expected {len(self.leaves)} tensors in the same "
                f"containers, got {len(leaves)}"
            )
        results = _Replay.apply(self, *leaves, *self.parameters)
        return tree_unflatten(list(results), self.output_structure)


class _Replay(Function):
    """A replay of the forward graph, whose derivative is one of the backward graph."""

    @staticmethod
    def forward(ctx: Any, part: _Part, *inputs: Any) -> tuple[Tensor, ...]:
        """Copy the arguments to where the graph reads them, and replay."""
        ctx.part = part
        for static, each in zip(part.leaves, inputs, strict=False):
            if static.shape != each.shape or static.device != each.device or static.dtype is not each.dtype:
                raise RuntimeError(
                    f"a graphed callable was captured with a tensor of shape {list(static.shape)}, {static.dtype!r} on "
                    f"{static.device}, and called with one of shape {list(each.shape)}, {each.dtype!r} on {each.device}: "
                    "a graph works on what it was captured with; make another one for other arguments"
                )
            if static.data_ptr() != each.data_ptr():
                static.detach().copy_(each)
        part.forward.replay()
        ctx.mark_non_differentiable(
            *(each for each, grad in zip(part.outputs, part.grad_outputs, strict=True) if grad is None)
        )
        return tuple(each.detach() for each in part.outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Copy the gradients to where the graph reads them, and replay."""
        part: _Part = ctx.part
        for static, each in zip(part.grad_outputs, grads, strict=True):
            if static is not None:
                if each is None:
                    static.zero_()
                elif static.data_ptr() != each.data_ptr():
                    static.copy_(each)
        if any(each is not None for each in part.grad_inputs):
            part.backward.replay()
        return (None, *(None if each is None else each.detach() for each in part.grad_inputs))


def _graphed(part: _Part) -> Any:
    function: Any = part.function
    if not isinstance(function, Module):
        return part.replay
    was_training, plain = function.training, function.forward

    def forward(*arguments: Any) -> Any:
        return part.replay(*arguments) if function.training is was_training else plain(*arguments)

    # As an attribute of this module; the class's method stays.
    vars(function)["forward"] = forward
    return function


def _check_module(module: Module) -> None:
    if (
        module._backward_hooks
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_pre_hooks
    ):
        raise RuntimeError(
            "make_graphed_callables: a module must not have hooks yet, which would run once and not at each replay; "
            "register them on the result"
        )
    if any(each.requires_grad for each in module.buffers()):
        raise RuntimeError(
            "make_graphed_callables: of a module only parameters may be trainable; a buffer has requires_grad=True"
        )
