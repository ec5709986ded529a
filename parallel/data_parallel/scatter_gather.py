"""Nested arguments divided between devices, and nested results joined."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from nn.utils.rnn import PackedSequence
from parallel import comm
from tensor import Tensor
from tensor.core.arguments import dimension
from tensor.core.warning import caller_stacklevel

from .devices import destination_state

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Whether ``obj`` is of a class created by ``namedtuple`` or ``NamedTuple``."""
    return isinstance(obj, tuple) and hasattr(obj, "_fields") and hasattr(obj, "_asdict")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Divide tensors along ``dim`` between devices, and give what else there is to each of them.

    Parameters
    ----------
    inputs
        Tensors, and tuples (also with names), lists and dicts of them, to any depth.
    target_gpus
        CUDA devices.
    dim
        Dimension that is divided, into chunks of one size but the last.

    Returns
    -------
    list or tuple
        For each device what ``inputs`` is there. Where tensors have less to divide than there are devices, it is
        shorter.

    Raises
    ------
    TypeError
        For a :class:`~nn.utils.rnn.PackedSequence`, whose rows do not belong to one sequence.
    """
    if isinstance(inputs, Tensor):
        return comm.scatter(inputs, target_gpus, None, dim)
    if isinstance(inputs, PackedSequence):
        raise TypeError(
            "scatter() cannot divide a PackedSequence: pass the padded batch and the lengths, and call "
            "pack_padded_sequence() in forward and pad_packed_sequence(total_length=...) at its end"
        )
    if is_namedtuple(inputs):
        return [type(inputs)._make(each) for each in _scatter_all(inputs, target_gpus, dim)]
    if isinstance(inputs, tuple) and inputs:
        return _scatter_all(inputs, target_gpus, dim)
    if isinstance(inputs, list) and inputs:
        return [list(each) for each in _scatter_all(inputs, target_gpus, dim)]
    if isinstance(inputs, dict) and inputs:
        rows = _scatter_all(inputs.values(), target_gpus, dim)
        return [_dict_like(inputs, zip(inputs, row, strict=True)) for row in rows]
    return [inputs for _ in target_gpus]


def _scatter_all(values: Any, target_gpus: Sequence[Any], dim: int) -> list[tuple[Any, ...]]:
    # Fewer chunks of one value mean fewer devices for all.
    return list(zip(*[scatter(each, target_gpus, dim) for each in values], strict=False))


def _dict_like(model: dict[Any, Any], items: Any) -> Any:
    if isinstance(model, defaultdict):
        return defaultdict(model.default_factory, items)
    return type(model)(items)


def scatter_kwargs(
    inputs: tuple[Any, ...] | None,
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[tuple[Any, ...], ...], tuple[dict[str, Any], ...]]:
    """Divide positional and keyword arguments of a call along ``dim`` between ``target_gpus``; see :func:`scatter`.

    Returns
    -------
    tuple
        The tuples of arguments, and the dicts of keyword arguments, as many of each: one for each device that gets any.

    Raises
    ------
    TypeError
        If an argument is a :class:`~nn.utils.rnn.PackedSequence`.
    """
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    missing = len(named) - len(positional)
    positional += [()] * missing
    named += [{} for _ in range(-missing)]
    return tuple(positional), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Join what several devices have computed on one.

    Parameters
    ----------
    outputs
        For each device its output: a tensor, ``None``, or tuples (also with names), lists and dicts of these, of the
        same structure.
    target_device
        A CUDA device; ``"cpu"`` or -1 for the host.
    dim
        Dimension along which tensors are joined. Those without dimensions become a vector, with a warning.

    Raises
    ------
    ValueError
        If outputs differ in structure.
    TypeError
        For anything else among them.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        return _join(outputs, target_device, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(each.keys() != first.keys() for each in outputs):
            raise ValueError(
                "All dicts must have the same keys, but those of the devices have "
                f"{', '.join(str(list(each)) for each in outputs)}"
            )
        return _dict_like(
            first, [(key, gather([each[key] for each in outputs], target_device, dim)) for key in first]
        )
    if isinstance(first, (tuple, list)) and not isinstance(first, PackedSequence):
        if any(len(each) != len(first) for each in outputs):
            raise ValueError(
                f"gather() expects outputs of one structure, but the devices have a {type(first).__name__} of "
                f"{', '.join(str(len(each)) for each in outputs)} elements"
            )
        gathered = [gather(row, target_device, dim) for row in zip(*outputs, strict=True)]
        return type(first)._make(gathered) if is_namedtuple(first) else type(first)(gathered)  # type: ignore[union-attr]
    hint = (
        ": call pad_packed_sequence(total_length=...) in forward" if isinstance(first, PackedSequence) else ""
    )
    raise TypeError(
        "gather() expects tensors, None, and tuples, lists and dicts of them as outputs of devices, got "
        f"{type(first).__name__}{hint}"
    )


def _join(outputs: Sequence[Any], target_device: Any, dim: int) -> Tensor:
    if all(isinstance(x, Tensor) and not x.dim() for x in outputs) and dimension(dim, 1) == 0:
        warnings.warn(
            "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and "
            "return a vector.",
            stacklevel=caller_stacklevel(),
        )
        outputs = [x.unsqueeze(0) for x in outputs]
    state = destination_state(target_device)
    return comm.gather(outputs, dim, state.device)
