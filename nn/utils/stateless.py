"""Calling a module with other tensors in place of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints

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
    """Call ``module(*args, **kwargs)`` with other tensors as its parameters and buffers.

    Parameters
    ----------
    module : Module
        It is restored when the call returns or raises.
    parameters_and_buffers : mapping
        Tensors by path.
    args : tuple or Any
        Positional arguments, or the only one.
    kwargs : dict, optional
        Keyword arguments.
    tie_weights : bool
        Whether a tensor also replaces parameters that are the same object under another path.
    strict : bool
        Whether all parameters and buffers must be replaced.

    Raises
    ------
    RuntimeError
        If a path is unknown, or, if ``strict``, missing.
    ValueError
        If different tensors are passed for tied parameters.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> parameters = {"weight": tensor.tensor([[1.0, 10.0]]), "bias": tensor.tensor([100.0])}
    >>> nn.utils.stateless.functional_call(model, parameters, (tensor.tensor([1.0, 2.0]),))
    tensor([121.])
    """
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    members: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    members.update(module.named_buffers(remove_duplicate=False))
    unknown = [path for path in parameters_and_buffers if path not in members]
    missing = [path for path in members if path not in parameters_and_buffers]
    if unknown:
        raise RuntimeError(f"functional_call(): the module has no parameter or buffer {', '.join(unknown)}")
    replaced = dict(parameters_and_buffers)
    if tie_weights:
        replaced = _tied(replaced, members)
        missing = [path for path in missing if path not in replaced]
    if strict and missing:
        raise RuntimeError(f"functional_call(): missing key(s): {', '.join(missing)}")
    with _replaced(module, replaced):
        return module(*args, **(kwargs or {}))


def _tied(tensors: dict[str, Tensor], members: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors for all paths, those of tied members included."""
    by_object: dict[int, tuple[str, Tensor]] = {}
    for path, value in tensors.items():
        first = by_object.setdefault(id(members[path]), (path, value))
        if first[1] is not value:
            raise ValueError(
                f"functional_call() got different tensors for the keys {first[0]} and {path}, which are tied: give one, "
                "or set tie_weights=False"
            )
    return {path: by_object[id(each)][1] for path, each in members.items() if id(each) in by_object}


@contextmanager
def _replaced(module: Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    originals: list[tuple[dict[str, Any], str, Any]] = []
    for path, value in tensors.items():
        owner_path, _, name = path.rpartition(".")
        owner = module.get_submodule(owner_path)
        table: dict[str, Any] = owner._parameters if name in owner._parameters else owner._buffers
        originals.append((table, name, table[name]))
        table[name] = value
    try:
        yield
    finally:
        for table, name, value in originals:
            table[name] = value


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
