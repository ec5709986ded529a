"""What becomes of an operation on batched tensors: a rule, the operations that it is made of, or a loop.

1. A :mod:`rule <.rules>` of the operation computes the whole batch at once.
2. Without one its own code runs on the batched tensors: what is made of other operations needs no rule.
3. What asks for memory on the way is called for each sample, with a warning that says so.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.operations.definition.exchanged_code import VMAP, Operation
from tensor.operations.pointwise_operation import IN_PLACE
from tensor.operations.shapes.joining import stack
from tensor.operations.shapes.slices import select
from tensor.operations.shapes.views import expand, unsqueeze

from .batched import Batched, BatchingError, VmapLevel, batched, levels, mapped
from .interception import Interception

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

#: What computes a batch: by an operation's name, or by the last part of its module's name too.
Rule = "Callable[[Call], Any]"
RULES: dict[str, Any] = {}
#: Rules of operations that draw random numbers, asked also where no operand is batched.
RANDOM: dict[str, Any] = {}
#: Operations in place whose own code calls another one that has a rule.
_THROUGH = frozenset(
    (
        "dropout_",
        "alpha_dropout_",
        "feature_dropout_",
        "feature_alpha_dropout_",
        "rrelu_",
        "squeeze_",
        "unsqueeze_",
    )
)


def rule(
    names: str, table: dict[str, Any] = RULES
) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Let a function be the rule of the operations of these names."""

    def define(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        for name in names.split():
            table[name] = function
        return function

    return define


class Call:
    """An operation that is called under a level, and its arguments by name."""

    __slots__ = ("arguments", "level", "operation")

    def __init__(self, operation: Operation, level: VmapLevel, arguments: dict[str, Any]) -> None:
        self.operation = operation
        self.level = level
        self.arguments = arguments

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.level.size

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The argument of a name, or what it is where it was left out."""
        return self.arguments.get(name, default)

    def is_batched(self, value: Any) -> bool:
        """Whether ``value`` has a batch of this level."""
        return isinstance(value, Batched) and value.level is self.level

    def value(self, value: Any) -> Any:
        """All samples of a batched tensor; anything else as it is."""
        return value.value if isinstance(value, Batched) and value.level is self.level else value

    def values(self, tree: Any) -> Any:
        """:meth:`value` of all tensors in lists and tuples."""
        return mapped(self.value, tree)

    def full(self, tensor: Any) -> Any:
        """All samples, of a tensor that is the same for all too."""
        if self.is_batched(tensor):
            return tensor.value
        return expand(unsqueeze(tensor, 0), self.size, *tensor.shape)

    def aligned(self, tensor: Any, rank: int) -> Any:
        """All samples of ``rank`` dimensions each, as broadcasting has it; a tensor of no batch as it is."""
        if not self.is_batched(tensor):
            return tensor
        value = tensor.value
        missing = rank - tensor.dim()
        return value.reshape((value.shape[0], *[1] * missing, *value.shape[1:])) if missing > 0 else value

    def wrap(self, tree: Any) -> Any:
        """Results of which each tensor has the batch in front."""
        level = self.level
        return mapped(lambda x: batched(x, level), tree)

    def run(self, **changes: Any) -> Any:
        """Call the operation on all samples, with some arguments replaced; the results have the batch in front."""
        arguments = {name: self.values(each) for name, each in self.arguments.items()}
        return self.wrap(self.operation.call(arguments | changes))

    def loop(self) -> Any:
        """Call the operation for each sample, and stack the results."""
        if not self.size:
            raise RuntimeError(
                f"vmap: {self.operation.name}() is called for each sample, which is not possible with an empty batch"
            )
        rows = []
        for number in range(self.size):

            def sample(x: Any, number: int = number) -> Any:
                return select(x.value, 0, number) if self.is_batched(x) else x

            rows.append(
                self.operation.call({name: mapped(sample, each) for name, each in self.arguments.items()})
            )
        first = next(iter(self.arguments.values()), None)
        if self.operation.name.endswith("_") or self.get("out") is IN_PLACE:
            return first
        return self._stacked(rows)

    def _stacked(self, rows: list[Any]) -> Any:
        first = rows[0]
        if isinstance(first, TensorBase):
            return batched(stack(rows, 0), self.level)
        if isinstance(first, (tuple, list)):
            entries = [self._stacked(list(each)) for each in zip(*rows, strict=True)]
            if hasattr(first, "_fields"):
                return type(first)(*entries)
            return type(first)(entries)
        if all(each == first for each in rows):
            return first
        raise RuntimeError(
            f"vmap: {self.operation.name}() gave {first!r} for one sample and another value for the next: what is no tensor "
            "must not depend on the sample. Rewrite it with tensors, such as tensor.where"
        )


def _top(args: tuple[Any, ...], kwargs: dict[str, Any]) -> VmapLevel | None:
    """The innermost level among the arguments."""
    innermost: VmapLevel | None = None
    for each in (*args, *kwargs.values()) if kwargs else args:
        cls = type(each)
        if cls is Batched:
            if innermost is None or each.level.depth > innermost.depth:
                innermost = each.level
        elif cls is tuple or cls is list:
            below = _top(tuple(each), {})
            if below is not None and (innermost is None or below.depth > innermost.depth):
                innermost = below
    return innermost


class _lowered:  # noqa: N801 - read as a word: ``with _lowered(level):``
    """What a rule computes is below its level: random functions there do not ask the level again."""

    __slots__ = ("_before", "_level")

    def __init__(self, level: VmapLevel) -> None:
        self._level = level

    def __enter__(self) -> None:
        self._before = levels.stack
        levels.stack = [each for each in self._before if each.depth < self._level.depth]

    def __exit__(self, *exception: object) -> None:
        levels.stack = self._before


def dispatch(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operation whose arguments may be batched."""
    level = _top(args, kwargs)
    name, key = operation.name, operation.key
    random = RANDOM.get(operation.path) or RANDOM.get(key) or RANDOM.get(name)
    if random is not None and levels.stack:
        innermost = levels.stack[-1]
        level = innermost if level is None or innermost.depth > level.depth else level
    if level is None or name in _THROUGH:
        return operation.original(*args, **kwargs)
    call = Call(operation, level, operation.arguments(args, kwargs))
    batching_rule = random or RULES.get(key) or RULES.get(name)
    out = call.get("out")
    if out is not None and out is not IN_PLACE and name not in ("out", "sort", "topk"):
        raise RuntimeError(
            f"vmap: {name}() with out=... is not supported: it would write all samples to one tensor. Use the result"
        )
    with _lowered(level):
        if (name.endswith("_") or out is IN_PLACE) and random is None:
            _check_in_place(call)
        if batching_rule is not None:
            result = batching_rule(call)
            if result is not NotImplemented:
                return result
    if not name.endswith("_") and out is not IN_PLACE and batching_rule is None:
        try:
            return operation.original(*args, **kwargs)
        except BatchingError:
            pass
    warnings.warn(
        f"There is a performance drop because there is no batching rule for {name}(): it is called for each sample",
        stacklevel=3,
    )
    with _lowered(level):
        return call.loop()


def _check_in_place(call: Call) -> None:
    names = call.operation.names
    if not names or names[0] == "self" or not call.arguments:
        return
    target = call.arguments.get(names[0])
    if isinstance(target, TensorBase) and not call.is_batched(target):
        raise BatchingError(
            f"vmap: inplace arithmetic(self, *extra_args) is not possible: {call.operation.name}() would write a tensor that "
            "is the same for all samples, with operands that differ between them. Use the out-of-place operation, or make "
            "the tensor of a batched one, as by zeros_like()"
        )


interception = Interception(VMAP, dispatch)


def promoted(call: Call, operands: list[Any]) -> list[Any]:
    """Operands aligned for broadcasting, of dtypes that promote as those of single samples do."""
    tensors = [x for x in operands if isinstance(x, TensorBase)]
    rank = max((x.dim() for x in tensors), default=0)
    result = []
    for x in operands:
        if not isinstance(x, TensorBase):
            result.append(x)
            continue
        value = call.aligned(x, rank)
        if call.is_batched(x) and not x.dim() and rank:
            value = _of_dimensions(value, [each for each in tensors if each.dim()])
        result.append(value)
    return result


def _of_dimensions(value: Tensor, others: list[Any]) -> Tensor:
    """A batch of 0-dim samples, which do not decide about a dtype beside samples that have dimensions."""
    best = max(others, key=lambda x: x._layout.dtype.category)._layout.dtype
    if value._layout.dtype != best and value._layout.dtype.category <= best.category:
        return value.to(best)
    return value
