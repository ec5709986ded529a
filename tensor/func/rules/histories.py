"""Differentiation inside ``vmap`` by functions of autograd, and functions with derivatives of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.differentiation import grad as gradients_of
from tensor.core.base import TensorBase
from tensor.func.batched import batched, dressed, spread, stripped
from tensor.func.dispatch import rule

if TYPE_CHECKING:
    from tensor.func.dispatch import Call


@rule("differentiation.grad")
def grad(call: Call) -> Any:
    """Each sample's gradients, by tensors that have a batch."""
    outputs, inputs = _several(call["outputs"]), _several(call["inputs"])
    grad_outputs = call.get("grad_outputs")
    starts = [None] * len(outputs) if grad_outputs is None else _several(grad_outputs)
    roots, wholes = [], []
    for output, start in zip(outputs, starts, strict=True):
        value, present = stripped(output)
        roots.append(value)
        if start is None:
            if output.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            wholes.append(value.new_ones(value.shape))
        else:
            own, have = stripped(start)
            if len(have) > len(present):
                raise RuntimeError(
                    "vmap: gradients are batched, and what they are gradients of is not: use func.vjp, whose function can be "
                    "mapped over"
                )
            wholes.append(spread(own, have, present))
    leaves = [stripped(each) for each in inputs]
    present = max((stripped(output)[1] for output in outputs), key=len)
    if any(len(have) < len(present) for _, have in leaves):
        raise RuntimeError(
            "vmap: autograd.grad() by a tensor that is the same for all samples would add up their gradients: use func.grad, "
            "which gives one for each"
        )
    grads = gradients_of(
        roots,
        [value for value, _ in leaves],
        wholes,
        **{
            name: value
            for name, value in call.arguments.items()
            if name not in ("outputs", "inputs", "grad_outputs")
        },
    )
    return tuple(
        [None if each is None else dressed(each, have) for each, (_, have) in zip(grads, leaves, strict=True)]
    )


@rule("tensor.detach tensor.detach_")
def detach(call: Call) -> Any:
    """Without a history."""
    input = next(iter(call.arguments.values()))
    return getattr(input, call.operation.name)()


def _several(argument: Any) -> list[Any]:
    return [argument] if isinstance(argument, TensorBase) else list(argument)


class _Info:
    """What the ``vmap`` of a Function is told of the batch."""

    __slots__ = ("batch_size", "randomness")

    def __init__(self, batch_size: int, randomness: str) -> None:
        self.batch_size = batch_size
        self.randomness = randomness


@rule("function.apply")
def apply(call: Call) -> Any:
    """A Function: by its own ``vmap``, or for each sample if ``generate_vmap_rule`` is set."""
    cls, args = call["cls"], call["args"]
    own = getattr(cls, "vmap", None)
    if getattr(cls, "generate_vmap_rule", False):
        if own is not None:
            raise RuntimeError(
                f"{cls.__name__} has both generate_vmap_rule=True and a vmap staticmethod: only one of them can be"
            )
        return call.loop()
    if own is None:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the "
            "vmap staticmethod or set generate_vmap_rule=True."
        )
    dims = tuple([0 if call.is_batched(each) else None for each in args])
    result = own(_Info(call.size, call.level.randomness), dims, *call.values(args))
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {cls.__name__} to return a tuple (outputs, out_dims)"
        )
    outputs, out_dims = result
    if isinstance(outputs, tuple):
        each_dim = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
        return tuple([_placed(call, x, dim) for x, dim in zip(outputs, each_dim, strict=True)])
    return _placed(call, outputs, out_dims)


def _placed(call: Call, output: Any, dim: int | None) -> Any:
    if dim is None or not isinstance(output, TensorBase):
        return output
    return batched(output.movedim(dim, 0) if dim else output, call.level)
