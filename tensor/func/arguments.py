"""Arguments of functions that are transformed: which of them are differentiated, and trees of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tensor.core.base import TensorBase
from tensor.utils._pytree import tree_leaves, tree_unflatten

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

#: Positions of arguments: one, or several.
Argnums: TypeAlias = "int | tuple[int, ...]"


def checked_argnums(argnums: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """The positions that ``argnums`` names, counted from the front.

    Raises
    ------
    RuntimeError
        If it is neither an int nor a tuple of different ones, or there is no such argument.
    """
    several = isinstance(argnums, tuple)
    positions = argnums if several else (argnums,)
    if not all(isinstance(each, int) for each in positions):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not positions:
        raise RuntimeError("argnums must be non-empty")
    for each in positions:
        if not -len(args) <= each < len(args):
            raise RuntimeError(f"Got argnum={each}, but only {len(args)} positional inputs")
    normalized = tuple([each % len(args) for each in positions])
    if len(set(normalized)) != len(normalized):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return normalized


def selected(argnums: Any, args: tuple[Any, ...]) -> Any:
    """The arguments that ``argnums`` names: one, or a tuple."""
    positions = checked_argnums(argnums, args)
    return tuple([args[each] for each in positions]) if isinstance(argnums, tuple) else args[positions[0]]


def by_selected(
    function: Callable[..., Any], argnums: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """``function`` of the arguments alone that ``argnums`` names, in their order."""
    positions = checked_argnums(argnums, args)

    def of_selected(*values: Any) -> Any:
        whole = list(args)
        for position, value in zip(positions, values, strict=True):
            whole[position] = value
        return function(*whole, **kwargs)

    return of_selected


def tensors_of(tree: Any, where: str) -> list[Tensor]:
    """The leaves of a tree, which are tensors.

    Raises
    ------
    RuntimeError
        If one is none; ``where`` says what was to give tensors.
    """
    leaves = tree_leaves(tree)
    for each in leaves:
        if not isinstance(each, TensorBase):
            raise RuntimeError(f"{where} only tensors, got unsupported type {type(each)}")
    return leaves


def with_aux(result: Any, name: str) -> tuple[Any, Any]:
    """A function's result and the auxiliary one behind it.

    Raises
    ------
    RuntimeError
        If it did not return a tuple of two.
    """
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True, got "
            f"{type(result)}"
        )
    return result


def shown(spec: Any) -> str:
    """A structure with an asterisk for each leaf."""
    return "*" if spec.is_leaf() else repr(tree_unflatten(["*"] * spec.num_leaves, spec)).replace("'*'", "*")
