"""Random functions: an error, other numbers for every sample, or the same for all, as ``randomness`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.func.batched import mapped
from tensor.func.dispatch import RANDOM, rule
from tensor.operations.creation.like import ones_like
from tensor.operations.shapes.slices import select

from .dimensions import numbers

if TYPE_CHECKING:
    from tensor.func.dispatch import Call


def draws_for_each(call: Call) -> bool:
    """Whether samples get numbers of their own.

    Raises
    ------
    RuntimeError
        If the level allows no random functions.
    """
    if call.level.randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    return call.level.randomness == "different"


def _any_batched(call: Call) -> bool:
    is_batched = []
    mapped(lambda x: is_batched.append(call.is_batched(x)), list(call.arguments.values()))
    return any(is_batched)


def _plain(call: Call) -> Any:
    """As outside of vmap, for all samples."""
    return call.operation.call(call.arguments)


@rule("creation.rand creation.randn", RANDOM)
def of_size(call: Call) -> Any:
    """Numbers for a size."""
    if not draws_for_each(call):
        return _plain(call)
    size = numbers(call.get("sizes", ()), call.get("size"))
    return call.run(sizes=(), size=(call.size, *size))


@rule("creation.randint", RANDOM)
def randint(call: Call) -> Any:
    """Integers for a size."""
    if not draws_for_each(call):
        return _plain(call)
    arguments = list(call.get("arguments", ()))
    if call.get("size") is not None:
        return call.run(size=(call.size, *call["size"]))
    return call.run(arguments=(*arguments[:-1], (call.size, *arguments[-1])))


@rule("rand_like randn_like randint_like", RANDOM)
def like(call: Call) -> Any:
    """Numbers like a sample."""
    different = draws_for_each(call)
    input = call["input"]
    if different:
        return call.run(input=call.full(input))
    if not call.is_batched(input):
        return _plain(call)
    return call.operation.call(call.arguments | {"input": select(input.value, 0, 0)})


@rule("dropout.drop", RANDOM)
def drop(call: Call) -> Any:
    """Elements, or channels, left out."""
    input, features = call["input"], call.get("features", False)
    here = call.is_batched(input)
    if call["p"] == 0 or not call["train"]:
        # Whatever is wrong about the arguments is said.
        _plain_of_sample(call)
        return input
    different = draws_for_each(call)
    if not here:
        if different and call.get("inplace", False):
            raise _in_place_refused()
        if not different:
            return _plain(call)
    elif not different:
        if call.get("alpha", False):
            return _same(call)
        mask = call.operation.call(
            call.arguments | {"input": ones_like(select(input.value, 0, 0).detach()), "inplace": False}
        )
        if call.get("inplace", False):
            input.value.mul_(mask)
            return input
        return call.wrap(input.value * mask)
    value = call.full(input)
    merged = value.flatten(0, 1) if features and input.dim() > 1 else value
    result = call.operation.call(call.arguments | {"input": merged})
    return input if call.get("inplace", False) else call.wrap(result.reshape(value.shape))


def _plain_of_sample(call: Call) -> None:
    if call.size:
        value = call["input"]
        call.operation.call(
            call.arguments | {"input": select(value.value, 0, 0) if call.is_batched(value) else value}
        )


@rule("sampling.bernoulli", RANDOM)
def bernoulli(call: Call) -> Any:
    """Zeros and ones."""
    if not draws_for_each(call):
        return _same(call) if _any_batched(call) else _plain(call)
    input = call.full(call["input"])
    if call.is_batched(call.get("p")):
        return NotImplemented
    return call.run(input=input)


@rule(
    "randperm multinomial poisson binomial sampling.normal fractional_max_pool2d fractional_max_pool3d rrelu",
    RANDOM,
)
def each(call: Call) -> Any:
    """Drawn for each sample."""
    name = call.operation.name
    if name == "rrelu" and not call.get("training", False):
        return call.run() if call.is_batched(call["input"]) else _plain(call)
    if not draws_for_each(call):
        return _same(call) if _any_batched(call) else _plain(call)
    return call.loop()


def _same(call: Call) -> Any:
    raise RuntimeError(
        f"vmap: Currently, same randomness with batched input isn't supported for {call.operation.name}(): use "
        "randomness='different', or draw outside of vmap"
    )


@rule("uniform_ normal_ log_normal_ exponential_ cauchy_ geometric_ random_ bernoulli_", RANDOM)
def fill(call: Call) -> Any:
    """Random numbers in place."""
    different = draws_for_each(call)
    input = call["input"]
    if not call.is_batched(input):
        if different:
            raise _in_place_refused()
        return _plain(call)
    others = [x for name, x in call.arguments.items() if name != "input" and isinstance(x, TensorBase)]
    if others:
        return call.loop() if different else _same(call)
    if different:
        call.run()
    else:
        one = select(input.value, 0, 0).clone()
        input.value.copy_(call.operation.call(call.arguments | {"input": one}))
    return input


def _in_place_refused() -> RuntimeError:
    return RuntimeError(
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If "
        "this is necessary for your usage, please use an out-of-place operation, or make the tensor batched"
    )
