"""Batches divided into micro-batches, and outputs of these put together: ``torch.distributed.pipelining.microbatch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from tensor import Tensor
from tensor.core.names.absent import hints as _hints
from tensor.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Along which dimension a tensor is divided into micro-batches.

    >>> TensorChunkSpec = parallel.pipelining.microbatch.TensorChunkSpec
    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))

    Parameters
    ----------
    split_dim : int
        The dimension.
    """

    __slots__ = ("split_dim",)

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> Any:
        """Specs for positional arguments, all tensors: a tuple of :class:`TensorChunkSpec`.

        Parameters
        ----------
        chunk_dims : tuple of int
            The dimension of each.
        """
        return tuple(map(TensorChunkSpec, chunk_dims))

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> Any:
        """Specs for keyword arguments, all tensors: a dict of :class:`TensorChunkSpec`.

        Parameters
        ----------
        chunk_dims : dict of str to int
            The dimension of each.
        """
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The arguments of each of several micro-batches.

    >>> split = parallel.pipelining.microbatch.split_args_kwargs_into_chunks
    >>> split((tensor.arange(4), "mean"), {}, 2)[0]
    [(tensor([0, 1]), 'mean'), (tensor([2, 3]), 'mean')]

    Parameters
    ----------
    args, kwargs
        What a module is called with; tensors may be in tuples, lists and dicts.
    chunks : int
        How many.
    args_chunk_spec, kwargs_chunk_spec
        Of the same structure, with a :class:`TensorChunkSpec` for each tensor that is divided, and anything else for what all
        micro-batches have. By default all tensors are divided along their first dimension.

    Returns
    -------
    list of tuple, list of dict
        Views of the tensors.

    Raises
    ------
    ValueError
        If a specification has another structure, or a tensor cannot be divided into parts of one size.
    """
    named = kwargs or {}
    positional = [_split(each, chunks) for each in _with_specs("args_chunk_spec", args, args_chunk_spec)]
    by_name = [_split(each, chunks) for each in _with_specs("kwargs_chunk_spec", named, kwargs_chunk_spec)]
    args_structure, kwargs_structure = tree_flatten(args)[1], tree_flatten(named)[1]
    return (
        [tree_unflatten([each[number] for each in positional], args_structure) for number in range(chunks)],
        [tree_unflatten([each[number] for each in by_name], kwargs_structure) for number in range(chunks)],
    )


def merge_chunks(chunks: Sequence[Any], chunk_spec: Any) -> Any:
    """The outputs of micro-batches as that of the batch.

    Parameters
    ----------
    chunks : list
        The outputs, of one structure.
    chunk_spec
        Of the same structure, with a :class:`TensorChunkSpec` for each tensor to put together, and anything else for what is the
        same for all. None joins tensors along their first dimension.

    Raises
    ------
    ValueError
        If a specification has another structure, or what should be the same is not.
    """
    specs = [spec for _, spec in _with_specs("output_merge_spec", chunks[0], chunk_spec)]
    structure = tree_flatten(chunks[0])[1]
    leaves = [tree_leaves(each) for each in chunks]
    return tree_unflatten(
        [_merged(spec, parts) for spec, parts in zip(specs, zip(*leaves, strict=True), strict=True)],
        structure,
    )


def _with_specs(name: str, value: Any, spec: Any) -> list[tuple[Any, Any]]:
    leaves = tree_leaves(value)
    if spec is None:
        return [(each, TensorChunkSpec(0) if isinstance(each, Tensor) else None) for each in leaves]
    specs = tree_leaves(spec)
    if len(specs) != len(leaves):
        raise ValueError(
            f"{name} has {len(specs)} entries for {len(leaves)} values: it has the structure of what it describes, with a "
            "TensorChunkSpec for each tensor to divide and None for what all micro-batches have"
        )
    return list(zip(leaves, specs, strict=True))


def _split(described: tuple[Any, Any], chunks: int) -> Sequence[Any]:
    value, spec = described
    if not isinstance(spec, TensorChunkSpec):
        return [value] * chunks
    size = value.shape[spec.split_dim]
    if size % chunks or not size:
        raise ValueError(
            f"a tensor of shape {list(value.shape)} cannot be divided along dimension {spec.split_dim} into {chunks} "
            "micro-batches of one size, as stages expect them: pass a batch whose size is a multiple of n_microbatches"
        )
    parts: Sequence[Any] = value.tensor_split(chunks, spec.split_dim)
    return parts


def _merged(spec: Any, parts: Sequence[Any]) -> Any:
    if isinstance(spec, TensorChunkSpec):
        return tensor.cat(list(parts), spec.split_dim)
    if any(each is not parts[0] and each != parts[0] for each in parts[1:]):
        raise ValueError(f"micro-batches have different outputs that are to be the same: {list(parts)}")
    return parts[0]


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
