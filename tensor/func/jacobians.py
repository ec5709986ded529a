"""``jacrev``, ``jacfwd`` and ``hessian``: whole Jacobians of functions."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from tensor.operations.creation.factories import zeros
from tensor.operations.shapes.joining import stack
from tensor.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from .arguments import Argnums, by_selected, selected
from .transforms import Linearization

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tensor.methods.tensor import Tensor

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that computes the Jacobian of ``func``, by a backward pass for each element of its outputs.

    Parameters
    ----------
    func : callable
        Takes tensors, or containers of them, and returns such.
    argnums : int or tuple of int
        Which positional arguments to differentiate by.
    has_aux : bool
        Whether ``func`` returns a tuple of what is differentiated and other tensors.
    chunk_size : int, optional
        Has no effect: rows are computed one after the other.

    Returns
    -------
    callable
        Takes what ``func`` takes. For each tensor of the output, and for that each tensor of the argument, it
        returns the derivatives, with the shape of the output followed by that of the input; with ``has_aux`` a tuple of
        that and the other tensors.

    Raises
    ------
    ValueError
        If ``chunk_size`` is not positive; when called, if what is differentiated by is no tensor.
    RuntimeError
        When called: if ``func`` returns what is no tensor, or ``argnums`` name no argument.

    Examples
    --------
    >>> tensor.func.jacrev(lambda x: x * x)(tensor.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        at, several = _linearized(func, argnums, args, kwargs, "vjp(f, *primals)", has_aux)
        outputs = at.outputs
        zero = [x.new_zeros(x.shape) for x in outputs]
        result = []
        for position, output in enumerate(outputs):
            rows = []
            for unit in _units(output):
                cotangents: list[Any] = list(zero)
                cotangents[position] = unit
                rows.append(at.pullback(cotangents, retain_graph=True))
            inputs = selected(argnums, args)
            by = inputs if several else (inputs,)
            whole = (
                tree_map(lambda x, *_: x, by) if not rows else tree_map(lambda *parts: stack(parts, 0), *rows)
            )
            shaped = tree_map(
                lambda rows_of_one, x, output=output: (
                    rows_of_one.reshape((*output.shape, *x.shape))
                    if output.numel()
                    else x.new_zeros((*output.shape, *x.shape))
                ),
                whole,
                by,
            )
            result.append(shaped if several else shaped[0])
        jacobians = tree_unflatten(result, at.output_spec)
        return (jacobians, at.aux) if has_aux else jacobians

    return jacobian


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that computes the Jacobian of ``func``, column by column: faster than :func:`jacrev` where there are
    fewer inputs than outputs.

    Parameters
    ----------
    func, argnums, has_aux, chunk_size
        See :func:`jacrev`.
    randomness : str
        Has no effect: ``func`` is evaluated once, so all columns see the same random numbers.

    Returns
    -------
    callable
        As that of :func:`jacrev`.

    Raises
    ------
    ValueError, RuntimeError
        As :func:`jacrev`.

    Examples
    --------
    >>> tensor.func.jacfwd(lambda x: x * x)(tensor.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacfwd: `chunk_size` should be greater than 0.")

    @wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        at, several = _linearized(func, argnums, args, kwargs, "jvp(f, primals, tangents)", has_aux)
        by = selected(argnums, args)
        inputs, spec = tree_flatten(by if several else (by,))
        push = at.pushforward()
        outputs = at.outputs
        blocks: list[list[Tensor]] = [[] for _ in outputs]
        for position, x in enumerate(inputs):
            columns: list[list[Tensor]] = [[] for _ in outputs]
            for unit in _units(x):
                tangents: list[Any] = [None] * len(inputs)
                tangents[position] = unit
                for mine, tangent in zip(columns, tree_leaves(push(tangents)), strict=True):
                    mine.append(tangent)
            for block, mine, output in zip(blocks, columns, outputs, strict=True):
                shape = (*output.shape, *x.shape)
                block.append(stack(mine, -1).reshape(shape) if mine else output.new_zeros(shape))
        result = [tree_unflatten(block, spec) for block in blocks]
        jacobians = tree_unflatten([each if several else each[0] for each in result], at.output_spec)
        return (jacobians, at.aux) if has_aux else jacobians

    return jacobian


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that computes the Hessian of ``func``: the Jacobian of its Jacobian.

    Parameters
    ----------
    func, argnums
        See :func:`jacrev`.

    Returns
    -------
    callable
        Takes what ``func`` takes.

    Raises
    ------
    RuntimeError, ValueError
        As :func:`jacrev`.

    Examples
    --------
    >>> tensor.func.hessian(lambda x: (x**3).sum())(tensor.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    # A tangent takes two backward passes here, so reverse mode over reverse mode is the cheaper one.
    return jacrev(jacrev(func, argnums), argnums)


def _linearized(
    func: Callable[..., Any],
    argnums: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    where: str,
    has_aux: bool,
) -> tuple[Linearization, bool]:
    of_selected = by_selected(func, argnums, args, kwargs)
    by = selected(argnums, args)
    several = isinstance(argnums, tuple)
    return Linearization(of_selected, by if several else (by,), where, has_aux), several


def _units(like: Tensor) -> Iterator[Tensor]:
    """Each vector of a basis, in the shape of a tensor."""
    count = like.numel()
    for position in range(count):
        unit = zeros(count, dtype=like.dtype, device=like.device)
        unit[position].fill_(1)
        yield unit.reshape(like.shape)
