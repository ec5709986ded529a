"""Views, joins and rearrangements: what samples do with their dimensions, the batch does with those behind the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.func.dispatch import rule
from tensor.operations.shapes.joining import cat, stack

from .dimensions import as_rows, numbers, position, positions, shifted

if TYPE_CHECKING:
    from tensor.func.dispatch import Call

rule("transpose")(shifted("dim0", "dim1"))
rule("swapaxes")(shifted("axis0", "axis1"))
rule("movedim")(shifted("source", "destination"))
rule("select narrow narrow_copy slice_scatter select_scatter")(shifted("dim"))
rule("flip")(lambda call: _flip(call))
rule("views.real views.imag view_as_real view_as_complex")(lambda call: call.run())
rule("matrix_transpose")(lambda call: call.run() if call["input"].dim() > 1 else NotImplemented)
rule("copies.contiguous clone")(lambda call: call.run())


@rule("slices.diagonal")
def diagonal(call: Call) -> Any:
    """A diagonal of the first two dimensions, unless others are named."""
    rank = call["input"].dim()
    if rank < 2:
        return NotImplemented
    return call.run(dim1=position(call.get("dim1", 0), rank), dim2=position(call.get("dim2", 1), rank))


@rule("products.diagonal")
def matrix_diagonal(call: Call) -> Any:
    """A diagonal of the last two dimensions, unless others are named."""
    rank = call["A"].dim()
    return call.run(dim1=position(call.get("dim1", -2), rank), dim2=position(call.get("dim2", -1), rank))


@rule("split split_with_sizes unsafe_split unsafe_split_with_sizes unsafe_chunk chunk unbind split_parts")
def split(call: Call) -> Any:
    """Parts along the first dimension, unless another is named."""
    input = call.get("input", call.get("tensor"))
    if not input.dim():
        return NotImplemented
    return call.run(dim=position(call.get("dim", 0), input.dim()))


@rule("diag_embed")
def diag_embed(call: Call) -> Any:
    """Diagonals of matrices, whose dimensions are counted in the result."""
    rank = call["input"].dim() + 1
    return call.run(dim1=position(call.get("dim1", -2), rank), dim2=position(call.get("dim2", -1), rank))


def _flip(call: Call) -> Any:
    rank = call["input"].dim()
    if not rank:
        return NotImplemented
    dims = positions(numbers(call.get("axes", ()), call.get("dims")), rank)
    return call.run(axes=(), dims=dims)


@rule("unsqueeze")
def unsqueeze(call: Call) -> Any:
    """A dimension more."""
    return call.run(dim=position(call["dim"], call["input"].dim() + 1))


@rule("squeeze")
def squeeze(call: Call) -> Any:
    """Without dimensions of one element, the batch excepted."""
    input, dim = call["input"], call.get("dim")
    if not input.dim():
        return call.wrap(input.value)
    if dim is None:
        dims = tuple([number + 1 for number, size in enumerate(input.shape) if size == 1])
    else:
        dims = positions(dim, input.dim())
    return call.run(dim=dims)


@rule("permute")
def permute(call: Call) -> Any:
    """Dimensions in another order, the batch staying in front."""
    rank = call["input"].dim()
    order = numbers(call.get("order", ()), call.get("dims"))
    if len(order) != rank:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(order)}"
        )
    return call.run(order=(), dims=(0, *positions(order, rank)))


@rule("views.t reverse_dimensions")
def reverse(call: Call) -> Any:
    """Dimensions in reverse order."""
    input = call["input"]
    value = input.value
    if call.operation.name == "t" and input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return call.wrap(value.permute(0, *range(input.dim(), 0, -1)))


@rule("reshape reshape_as ravel flatten unflatten view view_as")
def reshape(call: Call) -> Any:
    """Another shape of each sample."""
    input, name = call["input"], call.operation.name
    value, size = input.value, call.size
    if name == "ravel":
        return call.wrap(value.reshape(size, input.numel()))
    if name == "flatten":
        if not input.dim():
            return call.wrap(value.reshape(size, 1))
        start, end = call.get("start_dim", 0), call.get("end_dim", -1)
        return call.wrap(value.flatten(position(start, input.dim()), position(end, input.dim())))
    if name == "unflatten":
        return call.run(dim=position(call["dim"], input.dim()))
    if name.endswith("_as"):
        shape = tuple(call["other"].shape)
        return call.wrap(value.reshape(size, *shape) if name[0] == "r" else value.view(size, *shape))
    if name == "reshape":
        shape = _inferred(numbers(call.get("sizes", ()), call.get("shape")), input)
        return call.wrap(value.reshape(size, *shape))
    shape = numbers(call.get("shape", ()), call.get("size"))
    if call.get("dtype") is not None or (shape and not hasattr(shape[0], "__index__")):
        return call.run() if input.dim() else NotImplemented
    return call.wrap(value.view(size, *_inferred(shape, input)))


def _inferred(shape: tuple[Any, ...], input: Any) -> tuple[Any, ...]:
    """With the size that is left open worked out of one sample, as a batch may be empty."""
    if shape.count(-1) != 1:
        return shape
    known = 1
    for each in shape:
        known *= 1 if each == -1 else each
    if not known or input.numel() % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {input.numel()}")
    return tuple([input.numel() // known if each == -1 else each for each in shape])


@rule("expand expand_as broadcast_to")
def expand(call: Call) -> Any:
    """Samples broadcast to a shape."""
    input = call["input"]
    if call.operation.name == "expand_as":
        shape = tuple(call["other"].shape)
    else:
        shape = numbers(call.get("sizes", ()), call.get("size"))
    value = call.aligned(input, len(shape)) if call.is_batched(input) else call.full(input)
    if len(shape) < input.dim():
        raise RuntimeError(
            f"expand({input.dim()}-dim tensor, size={list(shape)}): the number of sizes provided ({len(shape)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({input.dim()})"
        )
    return call.wrap(value.expand(call.size, *shape))


@rule("joining.repeat tile")
def repeat(call: Call) -> Any:
    """Samples side by side."""
    input = call["input"]
    counts = numbers(call.get("counts", ()), call.get("repeats", call.get("dims")))
    if call.operation.name == "tile" and len(counts) < input.dim():
        counts = (*[1] * (input.dim() - len(counts)), *counts)
    return call.wrap(call.aligned(input, len(counts)).repeat(1, *counts))


@rule("joining.cat joining.stack")
def join(call: Call) -> Any:
    """Tensors behind each other, or along a new dimension."""
    tensors = list(call["tensors"])
    is_stack = call.operation.name == "stack"
    if not is_stack:
        # Empty vectors take no part, whatever the others' dimensions are.
        not_empty = [x for x in tensors if tuple(x.shape) != (0,)]
        tensors = not_empty if any(call.is_batched(x) for x in not_empty) else tensors
    rank = tensors[0].dim() + is_stack
    if not is_stack and not all(x.dim() for x in tensors):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    dim = position(call.get("dim", 0), rank)
    return call.wrap((stack if is_stack else cat)([call.full(x) for x in tensors], dim))


@rule("slices.unfold")
def windows(call: Call) -> Any:
    """Windows along a dimension."""
    if not call["input"].dim():
        return NotImplemented
    return call.run(dimension=position(call["dimension"], call["input"].dim()))


@rule("roll")
def roll(call: Call) -> Any:
    """Elements moved along dimensions, or along all of them as one."""
    input, dims = call["input"], call.get("dims")
    if dims is None or dims == () or not input.dim():
        value = input.value
        return call.wrap(as_rows(value).roll(call["shifts"], 1).reshape(value.shape))
    return call.run(dims=positions(dims, input.dim()))


@rule("rot90")
def rot90(call: Call) -> Any:
    """Quarter turns."""
    return call.run(dims=positions(tuple(call.get("dims", (0, 1))), call["input"].dim()))


@rule("tril triu tril_ triu_")
def triangle(call: Call) -> Any:
    """Triangles of the last two dimensions."""
    if call["input"].dim() < 2:
        return NotImplemented
    result = call.run()
    return call["input"] if call.operation.name.endswith("_") else result


@rule("diagonals.diag")
def diag(call: Call) -> Any:
    """A diagonal, or a matrix with one."""
    input, offset = call["input"], call.get("diagonal", 0)
    if input.dim() == 1:
        return call.wrap(input.value.diag_embed(offset))
    if input.dim() == 2:
        return call.wrap(input.value.diagonal(offset, 1, 2))
    return NotImplemented


@rule("broadcast_tensors")
def broadcast_tensors(call: Call) -> Any:
    """All samples of one shape."""
    tensors = numbers(call["tensors"], None)
    rank = max(x.dim() for x in tensors)
    values = [call.aligned(x, rank) if call.is_batched(x) else call.full(x) for x in tensors]
    values = [
        x if x.dim() == rank + 1 else x.reshape(call.size, *[1] * (rank + 1 - x.dim()), *x.shape[1:])
        for x in values
    ]
    return call.wrap(call.operation.call({"tensors": tuple(values)}))


@rule("repeat_interleave")
def repeat_interleave(call: Call) -> Any:
    """Elements repeated equally often."""
    input, repeats, dim = call["input"], call.get("repeats"), call.get("dim")
    if repeats is None or call.is_batched(repeats) or not call.is_batched(input):
        return NotImplemented
    if isinstance(repeats, TensorBase) and repeats.numel() > 1 and dim is None:
        return NotImplemented
    if dim is None:
        return call.run(input=as_rows(input.value), dim=1)
    return call.run(dim=position(dim, input.dim()))
