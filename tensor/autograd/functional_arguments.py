"""What goes into the functions of :mod:`.functional`, and what comes out: checks, and PyTorch's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What the tensors are called that a user's function gives.
OUTPUTS = "outputs of the user-provided function"
_LOOSE = "This is not allowed in strict mode"
INDEPENDENT = "The output of the user-provided function is independent of input {}."


# What goes in


def tensors(given: Any, what: str, name: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether several were given, and the tuple of them."""
    several = isinstance(given, tuple)
    found = given if several else (given,)
    for position, each in enumerate(found):
        if not isinstance(each, TensorBase):
            where = f"value at index {position}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {where} has type "
                f"{type(each)}."
            )
    return several, found


def prepared(given: Sequence[Any], create_graph: bool, *, wanted: bool = True) -> tuple[Any, ...]:
    """Tensors of our own, so that nothing is accumulated in the caller's."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(wanted) for x in given
    )


def checked_vector(
    v: Any, like: Sequence[Any], several: bool, name: str, unless: str, create_graph: bool
) -> tuple[Any, ...]:
    """The checked vector, shaped as ``like``."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {unless}.")
        return (None,)
    _, found = tensors(v, "v", name)
    if len(found) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(found)}.")
        raise RuntimeError(f"The given v should contain a single Tensor, got {len(found)}.")
    for position, (each, wanted) in enumerate(zip(found, like, strict=True)):
        if each.shape != wanted.shape:
            entry = f"Entry {position} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {wanted.shape} but got {each.shape}.")
    return prepared(found, create_graph, wanted=False)


def single_output(output: Any, name: str, strict: bool) -> Any:
    """The only output, with one element."""
    many, outputs = tensors(output, OUTPUTS, name)
    check_outputs(outputs, strict)
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, its shape is "
            f"{list(outputs[0].shape)}"
        )
    return outputs[0]


# What comes out


def check_outputs(outputs: Sequence[Any], strict: bool) -> None:
    for position, output in enumerate(outputs if strict else ()):
        if not output.requires_grad:
            raise RuntimeError(
                f"Output {position} of the user-provided function does not require gradients. The outputs must be "
                "computed in a differentiable manner from the input when running in strict mode."
            )


def check_gradients(found: Sequence[Any], strict: bool, missing: str, constant: str) -> None:
    for position, each in enumerate(found if strict else ()):
        if each is None:
            raise RuntimeError(f"{missing.format(position)} {_LOOSE}.")
        if not each.requires_grad:
            raise RuntimeError(f"{constant.format(position)} {_LOOSE}.")


def fill_in(
    found: Sequence[Any],
    like: Sequence[Any],
    strict: bool,
    create_graph: bool,
    missing: str,
    kind: str,
) -> tuple[Any, ...]:
    """Zeros for ``None``; both that and what cannot be differentiated further is an error in strict mode."""
    result = []
    for position, (each, x) in enumerate(zip(found, like, strict=True)):
        if strict and each is None:
            raise RuntimeError(f"{missing.format(position)} {_LOOSE}.")
        if strict and create_graph and not each.requires_grad:
            raise RuntimeError(
                f"The {kind} of the user-provided function is independent of input {position}. {_LOOSE} when "
                "create_graph=True."
            )
        result.append(x.new_zeros(x.shape) if each is None else each)
    return tuple(result)


def results(found: Sequence[Any], several: bool, create_graph: bool) -> Any:
    kept = tuple(found) if create_graph else tuple(x.detach() for x in found)
    return kept if several else kept[0]
