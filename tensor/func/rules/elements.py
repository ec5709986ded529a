"""Pointwise operations: operands are aligned, so that broadcasting pairs the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.func.batched import BatchingError
from tensor.func.dispatch import RULES, promoted, rule
from tensor.operations.definition import catalogue
from tensor.operations.pointwise_operation import IN_PLACE

if TYPE_CHECKING:
    from tensor.func.dispatch import Call

#: Modules of operations whose tensors are all paired element by element.
_MODULES = ("tensor.operations.pointwise.", "tensor.operations.special.")
#: What is there and is not pointwise, or has rules of its own.
_OTHERS = {"glu", "prelu", "where", "frexp"}
_FURTHER = "masked_fill masked_fill_ copy_ relu_ leaky_relu_ elu_ selu_ celu_ hardtanh_ threshold_ lerp zero_ complex"


def pointwise(call: Call) -> Any:
    """All tensors aligned with each other; in place too, where the first one is written."""
    names = list(call.arguments)
    values = list(call.arguments.values())
    flat = promoted(call, values)
    if call.operation.name.endswith("_") or call.get("out") is IN_PLACE:
        target = call.arguments[names[0]]
        ranks = [x.dim() for x in values if hasattr(x, "dim")]
        if max(ranks) > target.dim():
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape of {max(ranks)} dimensions"
            )
        call.operation.call(dict(zip(names, [call.value(target), *flat[1:]], strict=True)))
        return target
    return call.wrap(call.operation.call(dict(zip(names, flat, strict=True))))


def _register() -> None:
    for namespace in ("tensor", "Tensor", "special", "nn.functional"):
        for function in catalogue.published(namespace).values():
            inner: Any = function
            while hasattr(inner, "__wrapped__"):
                inner = inner.__wrapped__
            if inner.__module__.startswith(_MODULES) and inner.__name__ not in _OTHERS:
                RULES[f"{inner.__module__.rpartition('.')[2]}.{inner.__name__}"] = pointwise


_register()
rule(_FURTHER)(pointwise)


@rule("fill fill_")
def fill(call: Call) -> Any:
    """One number, or a number for each sample."""
    input, value = call["input"], call["value"]
    if not call.is_batched(value):
        result = call.run()
        return input if call.operation.name == "fill_" else result
    if value.dim():
        return NotImplemented
    numbers = call.aligned(value, input.dim())
    if call.operation.name == "fill_":
        input.value.copy_(numbers)
        return input
    return call.wrap(numbers.to(input.device, input.dtype).expand(call.size, *input.shape).clone())


@rule("where")
def where(call: Call) -> Any:
    """``where`` with two branches."""
    if call.get("input") is None and call.get("other") is None:
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over where() of a "
            "condition alone"
        )
    return pointwise(call)


@rule("prelu")
def prelu(call: Call) -> Any:
    """With a slope for all channels, or one for each."""
    input, weight = call["input"], call["weight"]
    value, slopes = call.full(input), call.value(weight)
    if call.is_batched(weight) or weight.numel() > 1:
        shape = [1] * input.dim()
        if weight.numel() > 1:
            shape[1 if input.dim() > 1 else 0] = weight.numel()
        slopes = slopes.reshape((-1, *shape) if call.is_batched(weight) else (1, *shape))
    return call.wrap(value.clamp(min=0) + slopes * value.clamp(max=0))


@rule("pointwise_operation.unary pointwise_operation.binary pointwise_operation.__call__")
def row(call: Call) -> Any:
    """A row of the tables of pointwise operations."""
    operands = [call[name] for name in ("a", "b") if name in call.arguments] or list(call.get("operands", ()))
    return call.wrap(call["self"](*promoted(call, operands)))


@rule("pointwise_operation.in_place")
def row_in_place(call: Call) -> Any:
    """A row, in place."""
    return _written(call, list(call["operands"]))


@rule("pointwise_operation.out")
def row_out(call: Call) -> Any:
    """A row, with ``out``."""
    operands, out = list(call["operands"]), call["out"]
    if out is None:
        return call.wrap(call["self"](*promoted(call, operands)))
    if out is IN_PLACE:
        return _written(call, operands)
    raise RuntimeError(
        f"vmap: {call['self'].name}() with out=... is not supported: it would write all samples to one tensor. Use the result"
    )


def _written(call: Call, operands: list[Any]) -> Any:
    target = operands[0]
    if not call.is_batched(target):
        raise BatchingError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible: the tensor written is the same for all samples, "
            "and its operands are not. Use the out-of-place operation"
        )
    if max(x.dim() for x in operands if hasattr(x, "dim")) > target.dim():
        raise RuntimeError(f"output with shape {list(target.shape)} doesn't match the broadcast shape")
    flat = promoted(call, operands)
    call["self"].in_place(target.value, *flat[1:])
    return target
