"""``backward`` and ``grad``: what users call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.core.plans.fills import filled

from .engine import engine
from .engine.root import GraphRoot
from .graph import GradientEdge
from .levels import entered
from .recording.node import edge_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of ``tensors`` to ``grad`` of the leaves that they were computed from.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or sequence of them
        What to differentiate.
    grad_tensors : Tensor, None or sequence of them, optional
        The gradient of each, of its shape; ``None`` stands for 1 where a tensor has one element.
    retain_graph : bool, optional
        Whether to keep what a further pass needs; by default as ``create_graph``.
    create_graph : bool
        Whether the pass is recorded, for higher derivatives.
    grad_variables
        An older name of ``grad_tensors``, which goes before it.
    inputs : Tensor, GradientEdge or sequence of them, optional
        The leaves (or other tensors) to add gradients to; all leaves by default.

    Raises
    ------
    RuntimeError
        If a tensor does not require grad, has more than one element or a complex dtype and its gradient is missing,
        or a gradient differs from its tensor in shape, device, or in being complex; if ``inputs`` is empty; if the
        graph was freed by an earlier pass; if a saved tensor was written in place since; or inside a function that is
        being transformed by ``tensor.func``.
    TypeError
        If an element of ``tensors`` or ``inputs`` is not a tensor or an edge, or a gradient is neither a tensor nor
        None.

    Examples
    --------
    >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
    >>> tensor.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    roots = _tuple(tensors)
    gradients = _tuple(grad_tensors if grad_tensors is not None else grad_variables)
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError(
                "`inputs` argument to `backward()` cannot be empty: leave it out to get the gradients of all leaves"
            )
    if entered.count:
        raise RuntimeError(
            "backward() called inside a function that is being transformed by tensor.func: call func.grad or func.vjp "
            "instead, or backward() outside"
        )
    root = _root(roots, gradients or (None,) * len(roots), create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        engine.run(root, keep_graph=keep, create_graph=create_graph)
        return
    edges = _edges(inputs)
    for argument in inputs:
        # What has no place to accumulate in keeps its gradient itself.
        if isinstance(argument, TensorBase) and not argument.is_leaf:
            argument.retain_grad()
    engine.run(root, keep_graph=keep, create_graph=create_graph, captures=edges)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, which are added to no ``grad``.

    Parameters
    ----------
    outputs, inputs : Tensor, GradientEdge or sequence of them
        What to differentiate, and with respect to what.
    grad_outputs : Tensor, None or sequence of them, optional
        The gradient of each output, of its shape; ``None`` stands for 1 where an output has one element.
    retain_graph : bool, optional
        Whether to keep what a further pass needs; by default as ``create_graph``.
    create_graph : bool
        Whether the pass is recorded, for higher derivatives.
    only_inputs : bool
        True; accepted for compatibility.
    allow_unused : bool, optional
        Whether an input that no output depends on gets ``None`` instead of an error.
    is_grads_batched : bool
        False; accepted for compatibility.
    materialize_grads : bool
        Whether such an input gets zeros instead.

    Returns
    -------
    tuple
        One gradient for each input, of its shape.

    Raises
    ------
    RuntimeError
        As :func:`backward`, or if an input does not require grad, or is unused and ``allow_unused`` is not set.
    TypeError
        As :func:`backward`.
    ValueError
        If ``only_inputs`` is False, ``is_grads_batched`` True, or ``allow_unused=False`` comes with
        ``materialize_grads=True``.

    Examples
    --------
    >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
    >>> tensor.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    roots, leaves = _tuple(outputs), _tuple(inputs)
    if not only_inputs:
        raise ValueError("only_inputs argument is deprecated: use backward() to accumulate gradients")
    if is_grads_batched:
        raise ValueError("is_grads_batched=True is not supported: call grad() for each gradient")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    edges = _edges(leaves)
    root = _root(roots, _tuple(grad_outputs) or (None,) * len(roots), create_graph)
    for node, number in edges:
        if node.derived.get(number):
            _check_whole(root, node, number)
    keep = create_graph if retain_graph is None else retain_graph
    result = engine.run(root, keep_graph=keep, create_graph=create_graph, captures=edges, accumulates=False)
    if materialize_grads:
        return tuple(
            _zeros(node.layouts[number]) if gradient is None else gradient
            for (node, number), gradient in zip(edges, result, strict=True)
        )
    if not allow_unused and any(gradient is None for gradient in result):
        position = next(i for i, gradient in enumerate(result) if gradient is None)
        raise RuntimeError(
            f"The differentiated Tensor at index {position} of inputs appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior, or materialize_grads=True for zeros."
        )
    return tuple(result)


def _tuple(argument: Any) -> tuple[Any, ...]:
    if argument is None:
        return ()
    one = isinstance(argument, (TensorBase, GradientEdge)) or not isinstance(argument, Iterable)
    return (argument,) if one else tuple(argument)


def _edge(value: Any, position: int, argument: str) -> Any:
    """Edge of a tensor, or that is given itself; ``None`` where there is none."""
    if isinstance(value, GradientEdge):
        return value.node, value.output_nr
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"element {position} of {argument} must be a Tensor or a GradientEdge, got {type(value).__name__}"
        )
    return edge_of(value)


def _zeros(layout: Layout) -> Tensor:
    return filled(layout.as_contiguous(), 0)


def _edges(inputs: Sequence[Any]) -> list[Any]:
    edges = []
    for position, argument in enumerate(inputs):
        edge = _edge(argument, position, "inputs")
        if edge is None:
            raise RuntimeError(
                f"One of the differentiated Tensors does not require grad: element {position} of inputs. Call "
                "requires_grad_() on it before it is used"
            )
        edges.append(edge)
    return edges


def _check_whole(root: GraphRoot, node: Any, number: int) -> None:
    """Raise RuntimeError if output ``number`` of ``node`` would get a part of its gradient only."""
    parts = node.derived[number]
    edges = list(root.edges)
    seen: set[Any] = set()
    while edges:
        each, output = edges.pop()
        if each is node and output in parts:
            raise node.partial()
        if each not in seen:
            seen.add(each)
            edges += [edge for edge in each.next if edge is not None]


def _root(tensors: Sequence[Any], gradients: Sequence[Any], create_graph: bool) -> GraphRoot:
    """Checked start of a pass: an initial gradient for every tensor."""
    if len(tensors) != len(gradients):
        _check_kinds(gradients)
        raise RuntimeError(
            f"got {len(tensors)} tensors and {len(gradients)} gradients: pass one gradient, or None, for each tensor"
        )
    edges, values = [], []
    for position, (tensor, gradient) in enumerate(zip(tensors, gradients, strict=True)):
        edge = _edge(tensor, position, "tensors")
        if edge is None:
            raise RuntimeError(_no_graph(tensor._layout.dtype, position))
        edges.append(edge)
        values.append(_initial(edge[0].layouts[edge[1]], gradient, position))
    return GraphRoot(edges, values)


def _no_graph(dtype: dtype, position: int) -> str:
    text = f"element {position} of tensors does not require grad and does not have a grad_fn: "
    if not (dtype.is_floating_point or dtype.is_complex):
        return text + f"results of dtype {dtype!r} have no derivative"
    return (
        text + "it was made of nothing that requires grad, inside no_grad(), or behind a detach(). Call "
        "requires_grad_() on what gradients are wanted for, and compute it where gradients are recorded"
    )


def _check_kinds(gradients: Sequence[Any]) -> None:
    for gradient in gradients:
        if gradient is not None and not isinstance(gradient, TensorBase):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")


def _initial(layout: Layout, gradient: Any, position: int) -> Tensor:
    if gradient is None:
        if layout.numel != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs (element {position} has shape "
                f"{list(layout.shape)}): reduce it, as by sum() or mean(), or pass a gradient of its shape"
            )
        if layout.dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {layout.dtype!r} (element "
                f"{position}): pass its gradient, or take abs() or real"
            )
        return filled(layout.as_contiguous(), 1)
    if not isinstance(gradient, TensorBase):
        _check_kinds((gradient,))
    have = gradient._layout
    if have.shape != layout.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {list(have.shape)} and output[{position}] has a "
            f"shape of {list(layout.shape)}: pass a gradient of the output's shape."
        )
    if have.dtype.is_complex != layout.dtype.is_complex:
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{position}] has a dtype of {have.dtype!r} and output[{position}] has a dtype of "
            f"{layout.dtype!r}."
        )
    if have.device_state is not layout.device_state:
        raise RuntimeError(
            f"grad_output[{position}] is on {have.device} and output[{position}] on {layout.device}: they must be on one"
        )
    result: Tensor = gradient
    return result
