"""Indexing: by numbers and slices behind the batch, by index tensors with the samples' numbers beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase
from tensor.func.batched import BatchingError
from tensor.func.dispatch import rule
from tensor.operations.creation.construction import as_tensor
from tensor.operations.creation.ranges import arange
from tensor.operations.shapes.views import movedim

from .dimensions import shifted

if TYPE_CHECKING:
    from tensor.func.dispatch import Call

_ALL = slice(None)


@rule("subscripts.get")
def get(call: Call) -> Any:
    """``input[key]``."""
    input, key = call["input"], call["key"]
    basic, tensors = _parted(input, key)
    value = call.value(input)
    here = call.is_batched(input)
    part = value[(_ALL, *basic)] if here else value[tuple(basic)]
    if not tensors:
        return call.wrap(part)
    return call.wrap(_advanced(call, part, here, tensors))


def _parted(input: Any, key: Any) -> tuple[list[Any], dict[int, Any]]:
    """A key of numbers, slices and None alone, and the index tensors by the dimension of its result."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [_index_tensor(each, input) for each in keys]
    taken = sum(each is not None and each is not Ellipsis for each in keys)
    if taken > input.dim():
        raise IndexError(f"too many indices for tensor of dimension {input.dim()}")
    rest = [_ALL] * (input.dim() - taken)
    at = next((number for number, each in enumerate(keys) if each is Ellipsis), len(keys))
    keys = [*keys[:at], *rest, *keys[at + 1 :]]
    basic, tensors, dim = [], {}, 0
    for each in keys:
        if isinstance(each, TensorBase):
            basic.append(_ALL)
            tensors[dim] = each
        else:
            basic.append(each)
        dim += not hasattr(each, "__index__") or isinstance(each, TensorBase)
    return basic, tensors


def _index_tensor(key: Any, input: Any) -> Any:
    if isinstance(key, (list, np.ndarray)):
        key = as_tensor(key, device=input.device)
    if isinstance(key, TensorBase) and str(key.dtype).endswith(("bool", "uint8")):
        raise RuntimeError(
            "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
            "with a boolean mask. Use tensor.where, or masked_fill"
        )
    if isinstance(key, (bool, np.bool_)):
        raise BatchingError("vmap: a bool as index")
    return key


def _advanced(call: Call, part: Any, here: bool, tensors: dict[int, Any]) -> Any:
    """Elements that index tensors choose, with the batch in front."""
    rank = max(each.dim() for each in tensors.values())
    dims = sorted(tensors)
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    before = dims[0] if adjacent else 0
    batched_index = any(call.is_batched(each) for each in tensors.values())
    values = {dim: call.aligned(each, rank) for dim, each in tensors.items()}
    total = part.dim()
    key: list[Any] = [_ALL] * total
    for dim, each in values.items():
        key[dim + here] = each
    if not here:
        # The samples differ by their index alone.
        chosen = part[tuple(key)]
        return movedim(chosen, before, 0) if before else chosen
    if not batched_index:
        chosen = part[tuple(key)]
        # Index tensors that are apart put their dimensions in front of the batch.
        return chosen if adjacent else movedim(chosen, rank, 0)
    numbers = arange(call.size, device=part.device).reshape(-1, *[1] * rank)
    key[0] = numbers
    chosen = part[tuple(key)]
    if adjacent and before:
        # The batch and the chosen dimensions came to the front; these belong behind those before them.
        return movedim(chosen, tuple(range(1, 1 + rank)), tuple(range(1 + before, 1 + before + rank)))
    return chosen


@rule("subscripts.put")
def put(call: Call) -> Any:
    """``input[key] = value``."""
    input, key, value = call["input"], call["key"], call["value"]
    if not call.is_batched(input):
        raise BatchingError(
            "vmap: a tensor that is the same for all samples cannot be written with what differs between them: index_put, "
            "scatter and where make a new one"
        )
    if isinstance(value, TensorBase) and not call.is_batched(value) and value.dim() == 0:
        pass
    basic, tensors = _parted(input, key)
    if tensors:
        _put_each(call)
        return None
    target = call.wrap(input.value[(_ALL, *basic)])
    if isinstance(value, TensorBase):
        while value.dim() > target.dim() and value.shape[0] == 1:
            value = value[0]
        target.copy_(value)
    else:
        target.value.copy_(as_tensor(value, dtype=input.dtype, device=input.device))
    return None


def _put_each(call: Call) -> None:
    input, key, value = call["input"], call["key"], call["value"]

    def sample(x: Any, number: int) -> Any:
        return x.value[number] if call.is_batched(x) else x

    for number in range(call.size):
        keys = (
            tuple([sample(each, number) for each in key]) if isinstance(key, tuple) else sample(key, number)
        )
        input.value[number][keys] = sample(value, number)


rule("gather.gather scatter.scatter scatter.scatter_add scatter_reduce.scatter_reduce")(shifted("dim"))
rule("scatter.scatter_ scatter.scatter_add_ scatter_reduce.scatter_reduce_")(lambda call: _in_place(call))


def _in_place(call: Call) -> Any:
    shifted("dim")(call)
    return call["input"]


@rule("take_along_dim")
def take_along_dim(call: Call) -> Any:
    """Along one dimension, or all of them as one."""
    if call.get("dim") is None or call["input"].dim() != call["indices"].dim():
        return NotImplemented
    return shifted("dim")(call)


@rule("gather.index_select")
def index_select(call: Call) -> Any:
    """Slices of one dimension."""
    input, dim, index = call["input"], call["dim"], call["index"]
    if not input.dim() or index.dim() != 1:
        return NotImplemented
    return input[(*[_ALL] * (dim % input.dim()), index)] if call.is_batched(input) else _chosen(call)


def _chosen(call: Call) -> Any:
    input, dim = call["input"], call["dim"] % call["input"].dim()
    chosen = input[(*[_ALL] * dim, call["index"].value)]
    return call.wrap(movedim(chosen, dim, 0))


@rule("scatter.index_add scatter.index_copy scatter.index_fill")
def by_index(call: Call) -> Any:
    """Slices written, at the same positions of all samples."""
    if call.is_batched(call["index"]) or not call["input"].dim():
        return NotImplemented
    index = call["index"]
    arguments = dict(call.arguments)
    rank = call["input"].dim()
    arguments["input"] = call.full(call["input"])
    arguments["dim"] = call["dim"] % rank + 1
    arguments["index"] = index.reshape(-1)
    if "source" in arguments:
        if call["source"].dim() != rank:
            return NotImplemented
        arguments["source"] = call.full(call["source"])
    elif isinstance(arguments.get("value"), TensorBase):
        return NotImplemented
    return call.wrap(call.operation.call(arguments))


@rule("embedding.embedding")
def embedding(call: Call) -> Any:
    """Rows of a table for all samples, or of one for each."""
    indices = call["indices"] if "indices" in call.arguments else call["input"]
    weight = call["weight"]
    if call.get("max_norm") is not None:
        return NotImplemented
    if not call.is_batched(weight):
        return call.run()
    padding = call.get("padding_idx")
    if padding is not None and padding >= 0:
        return NotImplemented
    rows, width = weight.shape
    offsets = arange(call.size, device=indices.device).reshape(-1, *[1] * indices.dim()) * rows
    name = "indices" if "indices" in call.arguments else "input"
    positions = call.full(indices) + offsets
    return call.wrap(
        call.operation.call(call.arguments | {name: positions, "weight": weight.value.reshape(-1, width)})
    )


@rule("one_hot")
def one_hot(call: Call) -> Any:
    """With a number of classes that does not depend on the elements."""
    if call.get("num_classes", -1) < 0:
        return NotImplemented
    return call.run()


@rule("index_put_")
def index_put_(call: Call) -> Any:
    """Written for each sample."""
    return NotImplemented


rule("isin")(lambda call: call.run() if not call.is_batched(call["test_elements"]) else NotImplemented)
rule("bucketize")(lambda call: call.run() if not call.is_batched(call["boundaries"]) else NotImplemented)
