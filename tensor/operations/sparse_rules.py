"""Rules: what an operation does with sparse operands, by its name.

Operations are planned for dense tensors, and planning is where a sparse operand is noticed
(:class:`tensor.core.sparse.SparseOperandError`): calls with dense ones pay nothing. The public function then comes here. A
rule has the parameters of the function whose name it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tensor.core.base import TensorBase
from tensor.core.sparse import SparseLayout, SparseOperandError
from tensor.operations.definition.exchanged_code import code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType

    from tensor.core.memory_format import layout as LayoutName
    from tensor.methods.tensor import Tensor

_F = TypeVar("_F", bound="Callable[..., Any]")

_rules: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[_F], _F]:
    """Let a function be the rule of the operations of these names."""

    def define(function: _F) -> _F:
        for name in names:
            if name in _rules:
                raise ValueError(f"{name} has a rule for sparse tensors already")
            _rules[name] = function
        return function

    return define


def rule_of(name: str) -> Callable[..., Any] | None:
    """The rule of an operation, if there is one."""
    return _rules.get(name)


def refusal(name: str, operands: Sequence[Any]) -> SparseOperandError:
    """The error of an operation that has no rule for its operands."""
    layout_names = (
        x._layout.layout_name
        for x in operands
        if isinstance(x, TensorBase) and type(x._layout) is SparseLayout
    )
    return SparseOperandError(next(layout_names), name)


def without_elements(name: str, shape: Sequence[int], layout: LayoutName, *arguments: Any) -> Tensor:
    """What a function that makes tensors gives for a sparse ``layout``: one without specified elements, if it makes zeros.

    Raises
    ------
    NotImplementedError
        If it does not.
    """
    own_rule = _rules.get(name)
    if own_rule is None:
        raise SparseOperandError(layout, name)
    return own_rule(shape, layout, *arguments)  # type: ignore[no-any-return]


def on_sparse(name: str, *operands: Any) -> Any:
    """What the operation gives for operands of which one is sparse.

    Raises
    ------
    NotImplementedError
        If the operation has no rule.
    """
    own_rule = _rules.get(name)
    if own_rule is None:
        raise refusal(name, operands) from None
    try:
        return own_rule(*operands)
    except Exception as error:
        # How the rule was come upon is of no interest.
        error.__suppress_context__ = True
        raise


def _defaults(function: FunctionType) -> dict[str, Any]:
    code, values = code_of(function), function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def answer(
    error: SparseOperandError, function: FunctionType, name: str, arguments: tuple[tuple[str, Any], ...]
) -> Any:
    """What an operation whose function gave up with ``error`` gives for its arguments, listed by name.

    Raises
    ------
    NotImplementedError
        If the operation has no rule.
    """
    # A definition may have further names; its in-place form is another operation.
    own = name if name == f"{function.__name__}_" else function.__name__
    own_rule = _rules.get(own)
    if own_rule is None:
        raise SparseOperandError(error.layout_name, name) from None
    code = code_of(function)
    places = code.co_varnames[: code.co_argcount]
    starred = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][: bool(code.co_flags & 4)]
    left_out = _defaults(function)
    present = {each: value for each, value in arguments if value is not left_out.get(each, arguments)}
    args = [present.pop(each) for each in places if each in present and (starred or each == places[0])]
    for each in starred:
        args.extend(present.pop(each, ()))
    try:
        return own_rule(*args, **present)
    except Exception as failure:
        failure.__suppress_context__ = True
        raise
