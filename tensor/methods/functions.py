"""Methods that are functions of :mod:`tensor` too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from tensor.operations.definition.call_forms import completed

from .tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

_F = TypeVar("_F", bound="Callable[..., Any]")


def _function(method: _F) -> _F:
    """A method as a function, whose error says if its first argument is no tensor."""
    own = cast("FunctionType", method)
    return cast("_F", completed(own, "tensor", own.__name__, aliases=False))


adjoint, as_strided_ = _function(Tensor.adjoint), _function(Tensor.as_strided_)
detach, detach_ = _function(Tensor.detach), _function(Tensor.detach_)


def _assert(condition: Any, message: Any) -> None:
    """``assert condition, message`` as a function, which also takes a tensor of one element.

    Raises
    ------
    AssertionError
        If ``condition`` does not hold.
    RuntimeError
        If ``condition`` is a tensor of several elements.
    """
    assert condition, message
