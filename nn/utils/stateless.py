"""Calling a module with other tensors in place of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nn.module import Module
    from tensor import Tensor

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with the given tensors in place of parameters and buffers.

    Parameters
    ----------
    parameters_and_buffers
        Tensors by path, as in the module's state dict.
    args
        A tuple of arguments, or the only one.
    tie_weights
        Whether a tensor also takes the place of what is the same object under another path.
    strict
        Whether all parameters and buffers must be given.

    Raises
    ------
    RuntimeError
        If a path leads nowhere, or one is missing and ``strict``.
    ValueError
        If different tensors are given for one that is tied.
    """
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    own: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    unknown = [path for path in parameters_and_buffers if path not in own]
    missing = [path for path in own if path not in parameters_and_buffers]
    if unknown:
        raise RuntimeError(f"functional_call(): the module has no parameter or buffer {', '.join(unknown)}")
    replaced = dict(parameters_and_buffers)
    if tie_weights:
        replaced = _tied(replaced, own)
        missing = [path for path in missing if path not in replaced]
    if strict and missing:
        raise RuntimeError(f"functional_call(): missing key(s): {', '.join(missing)}")
    with _replaced(module, replaced):
        return module(*args, **(kwargs or {}))


def _tied(given: dict[str, Tensor], own: dict[str, Any]) -> dict[str, Tensor]:
    """What is given, also for the paths of the same objects."""
    by_object: dict[int, tuple[str, Tensor]] = {}
    for path, value in given.items():
        known = by_object.setdefault(id(own[path]), (path, value))
        if known[1] is not value:
            raise ValueError(
                f"functional_call() got different tensors for the keys {known[0]} and {path}, which are tied: give one, "
                "or set tie_weights=False"
            )
    return {path: by_object[id(each)][1] for path, each in own.items() if id(each) in by_object}


@contextmanager
def _replaced(module: Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    former: list[tuple[dict[str, Any], str, Any]] = []
    for path, value in tensors.items():
        where, _, name = path.rpartition(".")
        owner = module.get_submodule(where)
        table: dict[str, Any] = owner._parameters if name in owner._parameters else owner._buffers
        former.append((table, name, table[name]))
        table[name] = value
    try:
        yield
    finally:
        for table, name, value in former:
            table[name] = value
