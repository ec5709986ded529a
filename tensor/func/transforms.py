"""``grad``, ``vjp``, ``jvp`` and ``linearize``: derivatives of functions, to be nested in any order."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from tensor.autograd.levels import Level, inside
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import modes
from tensor.utils._pytree import tree_flatten, tree_map_only, tree_structure, tree_unflatten

from .arguments import Argnums, by_selected, selected, shown, tensors_of, with_aux
from .variables import Pushforward, concerns_others, gradients, settled, variable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["grad", "grad_and_value", "jvp", "linearize", "vjp"]


class Linearization:
    """A function evaluated at variables of a level of its own.

    Attributes
    ----------
    output, aux
        What the function returned, as seen from outside; ``aux`` is what it returned beside it.
    """

    __slots__ = ("_inputs", "_level", "_outputs", "_primals", "aux", "output", "output_spec")

    def __init__(
        self, function: Callable[..., Any], primals: tuple[Any, ...], where: str, has_aux: bool
    ) -> None:
        self._level = level = Level()
        leaves, self._primals = tree_flatten(primals)
        for leaf in leaves:
            if not isinstance(leaf, TensorBase):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        with inside(level):
            self._inputs = [variable(leaf, level) for leaf in leaves]
            result = function(*tree_unflatten(self._inputs, self._primals))
            self.aux = None
            if has_aux:
                result, self.aux = with_aux(result, where)
                tensors_of(self.aux, f"{where}: expected the auxiliary output of f to be")
            self._outputs = tensors_of(result, f"{where}: expected f(*primals) to return")
        self.output_spec = tree_structure(result)
        self.output = self._seen(result)
        self.aux = self._seen(self.aux)

    def _seen(self, tree: Any) -> Any:
        return tree_map_only(TensorBase, lambda x: settled(x, self._level), tree)

    def _recorded(self, others: list[Any]) -> bool:
        """Whether derivatives are recorded, for an outer differentiation."""
        present = [each for each in others if each is not None]
        return modes.recording and concerns_others([*self._outputs, *present], self._level)

    @property
    def outputs(self) -> list[Any]:
        """The function's outputs, tied to the level's variables."""
        return self._outputs

    def pullback(self, cotangents: list[Any], retain_graph: bool) -> tuple[Any, ...]:
        """Gradients of the primals for those of the outputs; ``None`` stands for 1."""
        create_graph = self._recorded(cotangents)
        grads = gradients(self._outputs, self._inputs, cotangents, create_graph, retain_graph)
        return self._seen(tree_unflatten(grads, self._primals))  # type: ignore[no-any-return]

    def pushforward(self) -> Callable[[list[Any]], Any]:
        """Tangents of the outputs as a function of those of the primals."""
        jacobian = Pushforward(self._outputs, self._inputs)

        def push(tangents: list[Any]) -> Any:
            output_tangents = jacobian.tangents(tangents, create_graph=self._recorded(tangents))
            return self._seen(tree_unflatten(output_tangents, self.output_spec))

        return push


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that computes the gradient of ``func``, which returns a tensor of one element with no dimensions.

    Parameters
    ----------
    func : callable
        Takes tensors, or containers of them.
    argnums : int or tuple of int
        Which positional arguments to differentiate by.
    has_aux : bool
        Whether ``func`` returns a tuple of what is differentiated and other tensors.

    Returns
    -------
    callable
        Takes what ``func`` takes, and returns a gradient for each tensor of the argument (a tuple of them for a tuple
        of ``argnums``); with ``has_aux`` a tuple of that and the other tensors.

    Raises
    ------
    RuntimeError
        When called: if ``func`` does not return one real number as a tensor, an argument is of an integer dtype, or
        ``argnums`` name no argument.
    ValueError
        When called: if what is differentiated by is no tensor.

    Examples
    --------
    >>> from tensor.func import grad
    >>> grad(grad(tensor.sin))(tensor.tensor(0.5))
    tensor(-0.4794)
    """
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """The function that computes the gradient of ``func`` and its value.

    Parameters
    ----------
    func, argnums, has_aux
        See :func:`grad`.

    Returns
    -------
    callable
        Returns a tuple of the gradient and the value; with ``has_aux`` the value is a tuple of it and the other tensors.

    Raises
    ------
    RuntimeError, ValueError
        As :func:`grad`.

    Examples
    --------
    >>> tensor.func.grad_and_value(lambda x: (x * x).sum())(tensor.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    @wraps(func)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        def scalar(*values: Any) -> Any:
            result = of_selected(*values)
            output = with_aux(result, "grad_and_value")[0] if has_aux else result
            where = "grad_and_value(f)(*args): Expected f(*args) to return a"
            if not isinstance(output, TensorBase):
                raise RuntimeError(f"{where} Tensor, got {type(output)}")
            if output.dim():
                raise RuntimeError(
                    f"{where} scalar Tensor, got tensor with {output.dim()} dims. Maybe you wanted to use the vjp or "
                    "jacrev APIs instead?"
                )
            return result

        of_selected = by_selected(func, argnums, args, kwargs)
        by = selected(argnums, args)
        several = isinstance(argnums, tuple)
        at = Linearization(scalar, by if several else (by,), "grad_and_value(f)(*args)", has_aux)
        grads = at.pullback([None], retain_graph=False)
        value = (at.output, at.aux) if has_aux else at.output
        return grads if several else grads[0], value

    return both


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``func`` at ``primals``, and the function that multiplies vectors with its Jacobian.

    Parameters
    ----------
    func : callable
        Takes tensors, or containers of them, and returns such.
    primals
        Its arguments.
    has_aux : bool
        Whether ``func`` returns a tuple of what is differentiated and other tensors.

    Returns
    -------
    output, vjp_fn
        ``vjp_fn(cotangents)`` takes the gradient of the output, of its structure, and returns a tuple with the gradient
        of each primal. With ``has_aux`` the other tensors are a third element.

    Raises
    ------
    RuntimeError
        If ``func`` returns what is no tensor; from ``vjp_fn``, if the structure or a shape differs from the output's.
    ValueError
        If a primal is no tensor.

    Examples
    --------
    >>> output, pullback = tensor.func.vjp(lambda x: x * x, tensor.tensor([1.0, 2.0]))
    >>> pullback(tensor.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    at = Linearization(func, primals, "vjp(f, *primals)", has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        leaves, spec = tree_flatten(cotangents)
        if spec != at.output_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {shown(spec)}, primal output: {shown(at.output_spec)}"
            )
        for position, (cotangent, output) in enumerate(zip(leaves, at.outputs, strict=True)):
            if not isinstance(cotangent, TensorBase) or cotangent.shape != output.shape:
                actual = (
                    f"shape {list(cotangent.shape)}"
                    if isinstance(cotangent, TensorBase)
                    else f"type {type(cotangent).__name__}"
                )
                raise RuntimeError(
                    f"vjp_fn(): cotangent {position} must be a Tensor of the output's shape {list(output.shape)}, got "
                    f"{actual}"
                )
        return at.pullback(leaves, retain_graph)

    return (at.output, vjp_fn, at.aux) if has_aux else (at.output, vjp_fn)


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of ``func`` at ``primals``, and the product of its Jacobian with ``tangents``.

    The product is computed by two backward passes (the second differentiates the first by the gradient that it starts
    from), so it takes somewhat more than twice the time of one.

    Parameters
    ----------
    func : callable
        Takes tensors, or containers of them, and returns such.
    primals : tuple
        Its arguments.
    tangents : tuple
        Of the structure and the shapes of ``primals``.
    strict : bool
        Whether it is an error, rather than zeros, if an output does not depend on the primals.
    has_aux : bool
        Whether ``func`` returns a tuple of what is differentiated and other tensors.

    Returns
    -------
    output, tangent
        Both as ``func`` returned the output. With ``has_aux`` the other tensors are a third element.

    Raises
    ------
    RuntimeError
        If ``primals`` is no tuple or holds no tensor, ``tangents`` differs from it in structure or a shape, ``func``
        returns what is no tensor, or, if ``strict``, an output depends on no primal.

    Examples
    --------
    >>> x, direction = tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 10.0])
    >>> tensor.func.jvp(lambda x: x * x, (x,), (direction,))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    where = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{where}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    leaves, spec = tree_flatten(primals)
    directions, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            f"{where}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {shown(spec)} and tangents with "
            f"structure {shown(other)}"
        )
    if not leaves:
        raise RuntimeError(f"{where}: Expected primals to contain at least one Tensor.")
    for leaf, direction in zip(leaves, directions, strict=True):
        if not isinstance(leaf, TensorBase) or not isinstance(direction, TensorBase):
            raise RuntimeError(f"{where}: Expected primals and tangents to contain only Tensors.")
        if leaf.shape != direction.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(leaf.shape)} while the given forward gradient is of size "
                f"{list(direction.shape)}."
            )
    at = Linearization(func, primals, where, has_aux)
    if strict and not all(output.requires_grad for output in at.outputs):
        raise RuntimeError(f"{where}: Expected f to depend on primals when strict=True, an output does not.")
    tangent = at.pushforward()(directions)
    return (at.output, tangent, at.aux) if has_aux else (at.output, tangent)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``func`` at ``primals``, and the function that multiplies its Jacobian with tangents.

    Calling it is cheaper than :func:`jvp`: ``func`` and the first of two backward passes are evaluated once.

    Parameters
    ----------
    func : callable
        Takes tensors, or containers of them, and returns such.
    primals
        Its arguments.

    Returns
    -------
    output, jvp_fn
        ``jvp_fn(*tangents)`` takes tangents of the structure and the shapes of the primals.

    Raises
    ------
    RuntimeError
        If ``func`` returns what is no tensor; from ``jvp_fn``, if the structure or a shape differs from the primals'.
    ValueError
        If a primal is no tensor.

    Examples
    --------
    >>> output, push = tensor.func.linearize(lambda x: x * x, tensor.tensor([1.0, 2.0]))
    >>> push(tensor.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    at = Linearization(func, primals, "linearize(f, *primals)", False)
    leaves, spec = tree_flatten(primals)
    push = at.pushforward()

    def jvp_fn(*tangents: Any) -> Any:
        directions, other = tree_flatten(tangents)
        if other != spec:
            raise RuntimeError(
                f"Expected the tangents {shown(other)} to have the same structure as the primals {shown(spec)}"
            )
        for position, (direction, leaf) in enumerate(zip(directions, leaves, strict=True)):
            if not isinstance(direction, TensorBase) or direction.shape != leaf.shape:
                raise RuntimeError(
                    f"tangent:{position} with shape {getattr(direction, 'shape', None)} in flattened pytree doesn't "
                    f"match the shape {leaf.shape} of the corresponding primal."
                )
        return push(directions)

    return at.output, jvp_fn
