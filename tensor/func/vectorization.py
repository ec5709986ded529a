"""``vmap``: a function of single samples as one of batches."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from tensor.autograd.levels import entered
from tensor.core.base import TensorBase
from tensor.operations.shapes.joining import cat
from tensor.operations.shapes.slices import tensor_split
from tensor.operations.shapes.views import expand, movedim, unsqueeze
from tensor.utils._pytree import tree_flatten, tree_unflatten

from . import rules
from .arguments import shown
from .batched import Batched, VmapLevel, batched, levels
from .dispatch import interception

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["vmap"]

#: Rules are found by name; importing them is all that is needed.
_RULES = rules


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that does for a batch what ``func`` does for a sample, all samples at once.

    Inside, tensors look like single samples. An operation that has no rule for batches is called for each sample, with a
    warning. What depends on the elements for Python (``item()``, ``if x > 0``, shapes) is an error.

    Parameters
    ----------
    func : callable
        Takes tensors, or containers of them, and returns such.
    in_dims : int, None or nested structure of them
        For each argument, or each tensor of it, the dimension that the samples lie along; ``None`` for what is the same
        for all.
    out_dims : int, None or nested structure of them
        Where that dimension is in the results.
    randomness : {"error", "different", "same"}
        Whether random functions are refused, or give samples other numbers, or the same.
    chunk_size : int, optional
        How many samples to compute at once; all by default.

    Returns
    -------
    callable
        Takes batches in the place of samples.

    Raises
    ------
    RuntimeError
        If ``randomness`` is another; when called, if ``func`` asks for what a batch cannot give.
    ValueError
        If ``chunk_size`` is not positive; when called, if ``in_dims`` or ``out_dims`` do not fit the arguments or
        results, batches differ in size, or ``func`` returns what is no tensor.

    Examples
    --------
    >>> batch, weight = tensor.ones(5, 3), tensor.tensor([1.0, 2.0, 3.0])
    >>> tensor.func.vmap(tensor.dot, in_dims=(0, None))(batch, weight)
    tensor([6., 6., 6., 6., 6.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def of_batches(*args: Any, **kwargs: Any) -> Any:
        name = getattr(func, "__name__", repr(func))
        size, flat_dims, leaves, spec = _arguments(in_dims, args, name)
        if chunk_size is None or size <= chunk_size:
            return _at_once(func, name, size, flat_dims, leaves, spec, out_dims, randomness, kwargs)
        count = -(-size // chunk_size)
        pieces = [
            [leaf] * count
            if dim is None
            else tensor_split(leaf, list(range(chunk_size, size, chunk_size)), dim)
            for leaf, dim in zip(leaves, flat_dims, strict=True)
        ]
        results = []
        for number in range(count):
            part = [each[number] for each in pieces]
            sizes = [x.shape[d] for x, d in zip(part, flat_dims, strict=True) if d is not None]
            results.append(
                _at_once(func, name, sizes[0], flat_dims, part, spec, out_dims, randomness, kwargs)
            )
        return _joined(results, out_dims, name)

    return of_batches


def _arguments(in_dims: Any, args: tuple[Any, ...], name: str) -> tuple[int, list[Any], list[Any], Any]:
    """Size of the batch, and for each leaf of the arguments its dimension; the leaves, and their structure."""
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = broadcast(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{shown(tree_flatten(in_dims)[1])} but inputs has structure {shown(spec)}."
        )
    sizes = []
    for number, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, TensorBase):
            raise ValueError(
                f"{where}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        dims[number] = dim % leaf.dim()
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError(
            f"{where}: there is nothing to map over: every in_dim is None. Name one dimension at least"
        )
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], dims, leaves, spec


def broadcast(prefix: Any, tree: Any) -> list[Any] | None:
    """For each leaf of ``tree`` the entry of ``prefix`` that stands at it or above it; ``None`` if they do not fit."""
    leaves, spec = tree_flatten(tree)
    if prefix is None or isinstance(prefix, int):
        return [prefix] * len(leaves)
    if spec.is_leaf():
        return None
    entries, own = tree_flatten(prefix, is_leaf=lambda x: x is not prefix)
    branches, other = tree_flatten(tree, is_leaf=lambda x: x is not tree)
    if (
        own.is_leaf()
        or own.type is not other.type
        or len(entries) != len(branches)
        or own.context != other.context
    ):
        return None
    result: list[Any] = []
    for entry, branch in zip(entries, branches, strict=True):
        below = broadcast(entry, branch)
        if below is None:
            return None
        result += below
    return result


def _at_once(
    func: Callable[..., Any],
    name: str,
    size: int,
    dims: list[Any],
    leaves: list[Any],
    spec: Any,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    above = levels.stack
    level = VmapLevel(len(above), size, randomness)
    if above:
        level.depth = above[-1].depth + 1
    interception.enter()
    entered.count += 1
    try:
        levels.stack = [*above, level]
        inputs = [
            leaf if dim is None else batched(movedim(leaf, dim, 0) if dim else leaf, level)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        result = func(*tree_unflatten(inputs, spec), **kwargs)
        levels.stack = above
        return _unwrapped(result, level, out_dims, name)
    finally:
        levels.stack = above
        entered.count -= 1
        interception.leave()


def _unwrapped(result: Any, level: VmapLevel, out_dims: Any, name: str) -> Any:
    leaves, spec = tree_flatten(result)
    dims = _out_dims(result, out_dims, name)
    outputs = []
    for leaf, dim in zip(leaves, dims, strict=True):
        if not isinstance(leaf, TensorBase):
            if dim is None:
                outputs.append(leaf)
                continue
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you mean to set out_dims= "
                "to None for output?"
            )
        mine = leaf if isinstance(leaf, Batched) and leaf.level is level else None
        if dim is None:
            if mine is not None:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
                )
            outputs.append(leaf)
            continue
        value = mine.value if mine is not None else expand(unsqueeze(leaf, 0), level.size, *leaf.shape)
        outputs.append(movedim(value, 0, dim) if dim else value)
    return tree_unflatten(outputs, spec)


def _out_dims(result: Any, out_dims: Any, name: str) -> list[Any]:
    dims = broadcast(out_dims, result)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and not isinstance(result, tuple):
        dims = broadcast(out_dims[0], result)
    if not all(each is None or isinstance(each, int) for each in tree_flatten(out_dims)[0]):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {shown(tree_flatten(out_dims)[1])} but outputs has structure "
            f"{shown(tree_flatten(result)[1])}."
        )
    return dims


def _joined(results: list[Any], out_dims: Any, name: str) -> Any:
    flat = [tree_flatten(each) for each in results]
    dims = _out_dims(results[0], out_dims, name)
    joined = [
        parts[0] if dim is None else cat(list(parts), dim)
        for parts, dim in zip(zip(*[leaves for leaves, _ in flat], strict=True), dims, strict=True)
    ]
    return tree_unflatten(joined, flat[0][1])
