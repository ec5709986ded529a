"""Views to make of a tensor: names of methods and arguments, good and bad, and what they mean in NumPy."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tensor
from nvrtc_kernels import dtypes

#: The name of a method or property of both libraries, and its arguments.
Step = tuple[str, tuple[Any, ...]]

SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 3, 4]), max_size=4).map(tuple)

_SMALL = st.integers(-4, 4)
_BOUNDS = st.none() | st.integers(-6, 6)
_SLICES = st.builds(slice, _BOUNDS, _BOUNDS, st.none() | st.integers(-1, 3))
_KINDS = ("uint8", "int16", "int32", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")

#: Steps with several results.
MANY = {"split", "chunk", "tensor_split", "unbind"}
_PROPERTIES = ("T", "mT", "real", "imag")


@cache
def steps(shape: tuple[int, ...]) -> st.SearchStrategy[Step]:
    """Steps from a tensor of ``shape``."""
    rank = len(shape)
    dim = st.integers(-rank - 1, rank) if rank else st.integers(-2, 1)
    good = st.integers(-rank, rank - 1) if rank else st.just(0)
    dims = st.permutations(range(rank)).map(tuple)
    count = prod(shape)
    sizes = st.sampled_from([
        (count,), (-1,), (1, count), (count, 1), (2, -1), (-1, 3), (2, -1, 1), (4, -1), (), (0, 3), (6, 2),
        (-1, -1), (-2, 3), tuple(reversed(shape)), shape,
    ])  # fmt: skip
    stretched = st.tuples(
        *(st.sampled_from([-1, size, 3 if size == 1 else size]) for size in shape)
    ) | st.just((2, *shape))
    wild = st.lists(st.integers(-2, 4), max_size=5).map(tuple)
    lists = st.lists(st.integers(-1, 3), max_size=3)

    def step(name: str, *args: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
        return st.tuples(st.just(name), st.tuples(*args))

    return st.one_of(
        step("transpose", dim, good),
        step("swapaxes", good, dim),
        step("t"),
        step("T") if rank == 2 else step("mT") if rank else step("t"),
        step("permute", dims),
        step("permute", st.lists(dim, max_size=rank + 1).map(tuple)),
        step("movedim", dim, good),
        step("movedim", dims, dims),
        step("movedim", st.tuples(dim, good), st.tuples(good, dim)),
        step("squeeze"),
        step("squeeze", dim),
        step("squeeze", st.tuples(good, dim)),
        step("unsqueeze", st.integers(-rank - 2, rank + 1)),
        step("expand", stretched),
        step("expand", wild),
        step("broadcast_to", stretched),
        step("view", sizes),
        step("view", st.sampled_from(_KINDS).map(dtypes.dtype_named)),
        step("reshape", sizes),
        step("flatten", dim, dim),
        step("ravel"),
        step("unflatten", dim, st.sampled_from([(2, -1), (1, -1), (2, 2), (), (-1,), (3, 0)])),
        step("select", dim, _SMALL),
        step("narrow", good, _SMALL, st.integers(-1, 4)),
        step("__getitem__", _SLICES),
        step("unfold", dim, st.integers(-1, 4), st.integers(-1, 3)),
        step("diagonal", _SMALL, dim, good),
        step("split", st.integers(-1, 4), dim),
        step("split", lists, good),
        step("chunk", _SMALL, dim),
        step("tensor_split", _SMALL, dim),
        step("tensor_split", st.lists(st.integers(-5, 6), max_size=3).map(tuple), good),
        step("unbind", dim),
        step("as_strided", lists.map(tuple), lists.map(tuple), st.integers(-1, 5) | st.none()),
        step("real"),
        step("imag"),
    )  # fmt: skip


def make(given: Any, name: str, args: tuple[Any, ...]) -> list[Any]:
    """The results of a step, by either library."""
    if name in _PROPERTIES:
        return [getattr(given, name)]
    if not isinstance(given, tensor.Tensor):
        import torch

        args = tuple(getattr(torch, arg.name) if isinstance(arg, dtypes.dtype) else arg for arg in args)
    result = getattr(given, name)(*args)
    return list(result) if name in MANY else [result]


def make_in_numpy(array: Any, name: str, args: tuple[Any, ...]) -> list[Any] | None:
    """The results of a step that succeeds, by NumPy's means alone; ``None`` where it has none for it."""
    rank = array.ndim
    if not rank and name in {"transpose", "swapaxes", "movedim", "unfold", "diagonal", "flatten"}:
        return None
    match name:
        case "transpose" | "swapaxes":
            return [array.swapaxes(*args)]
        case "t" | "T":
            return [array.T]
        case "mT":
            return [array.mT]
        case "real" | "imag":
            return [getattr(array, name)]
        case "permute":
            return [array.transpose(args[0])]
        case "movedim":
            return [np.moveaxis(array, *args)]
        case "squeeze":
            dims = range(rank) if not args else args[0] if isinstance(args[0], tuple) else args
            return [array.squeeze(tuple(dim for dim in dims if rank and array.shape[dim] == 1))]
        case "unsqueeze":
            return [np.expand_dims(array, args[0])]
        case "expand" | "broadcast_to":
            lead = len(args[0]) - rank
            expected = [array.shape[axis - lead] if size == -1 else size for axis, size in enumerate(args[0])]
            return [np.broadcast_to(array, expected)]
        case "view" | "reshape" if not isinstance(args[0], dtypes.dtype):
            return [array.reshape(args[0])]
        case "ravel":
            return [array.reshape(-1)]
        case "flatten":
            first, last = (dim % rank for dim in args)
            merged = prod(array.shape[first : last + 1])
            return [array.reshape((*array.shape[:first], merged, *array.shape[last + 1 :]))]
        case "select" | "narrow" | "__getitem__":
            return [array[_key(array.shape, name, args)]]
        case "diagonal":
            return [array.diagonal(*args)]
        case "split" if array.shape[args[1]] and args[0] != []:
            sizes, axis = args
            if isinstance(sizes, int):
                return np.split(array, range(sizes, array.shape[axis], sizes), axis)
            return np.split(array, np.cumsum(sizes)[:-1], axis)
        case "tensor_split":
            return np.array_split(array, args[0], args[1])
        case "unbind":
            # With an ellipsis NumPy gives arrays where it would give numbers.
            return [np.moveaxis(array, args[0], 0)[at, ...] for at in range(array.shape[args[0]])]
    return None


def _key(shape: tuple[int, ...], name: str, args: tuple[Any, ...]) -> Any:
    if name == "__getitem__":
        return args[0]
    axis = args[0] % len(shape)
    if name == "select":
        return (slice(None),) * axis + (args[1], ...)
    start = args[1] + (shape[axis] if args[1] < 0 else 0)
    return (slice(None),) * axis + (slice(start, start + args[2]),)
