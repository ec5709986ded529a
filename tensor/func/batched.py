"""Batched tensors: what a function that ``vmap`` transforms sees in place of a batch.

A :class:`Batched` tensor describes one sample (shape, dtype, device) and holds the tensor of all samples, along whose first
dimension they lie. Under nested ``vmap`` that tensor is itself batched, at a lower level. It has no memory of its own:
operations on it are called through :mod:`.dispatch`, and what would read its memory is refused.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tensor.core import layout as layouts
from tensor.methods.overriding.protocol import disabled_torch_function
from tensor.methods.tensor import Tensor
from tensor.operations.shapes.views import expand, unsqueeze

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class BatchingError(RuntimeError):
    """An operation asked a batched tensor for its memory: it has to be called for each sample."""


class VmapLevel:
    """One ``vmap`` that runs: its depth, the size of the batch, and what random functions do."""

    __slots__ = ("depth", "randomness", "size")

    def __init__(self, depth: int, size: int, randomness: str) -> None:
        self.depth = depth
        self.size = size
        self.randomness = randomness


class _Levels(threading.local):
    """The ``vmap`` s that this thread is inside of, the outermost first."""

    def __init__(self) -> None:
        self.stack: list[VmapLevel] = []


levels = _Levels()


def _refused(what: str) -> Any:
    def get(self: Batched) -> Any:
        raise BatchingError(
            f"vmap: Cannot access {what} of a batched tensor: it stands for one sample of a batch and has no memory of its "
            "own. Compute with operations, or do this outside of vmap"
        )

    return property(get)


class Batched(Tensor):
    """One sample of a batch, as a function under ``vmap`` sees it."""

    __slots__ = ("level", "value")
    __torch_function__ = disabled_torch_function

    level: VmapLevel
    value: Tensor

    if not TYPE_CHECKING:
        _storage = _refused("the storage")
        _offset = _refused("the storage offset")
        _array = _refused("the elements")
        _base = _refused("the base")

        @property
        def _autograd(self) -> Any:
            if self.value.requires_grad:
                raise BatchingError("vmap: a batched tensor has no history of its own")
            return None

        @property
        def requires_grad(self) -> bool:
            """Whether operations on the batch are recorded."""
            return self.value.requires_grad

        @property
        def is_leaf(self) -> bool:
            """Whether no recorded operation computed the batch."""
            return self.value.is_leaf

        @property
        def grad_fn(self) -> Any:
            """The node of the recorded graph whose output the batch is."""
            return self.value.grad_fn

        @property
        def grad(self) -> Any:
            """None: a sample has no gradient of its own; use ``func.grad``."""
            return None

        @property
        def data(self) -> Tensor:
            """The sample without a history."""
            return self.detach()

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Refused: raises RuntimeError."""
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() inside of a function being transformed by vmap. This is "
            "not supported: differentiate with func.grad, or call it outside"
        )

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Refused: raises RuntimeError."""
        raise RuntimeError(
            "backward() called inside a function that is being transformed by tensor.func: call func.grad or func.vjp "
            "instead, or backward() outside"
        )

    def detach(self) -> Tensor:
        """The sample without a history."""
        return batched(self.value.detach(), self.level)

    def detach_(self) -> Tensor:
        """:meth:`detach` in place."""
        self.value = self.value.detach()
        return self

    def contiguous(self, *args: Any, **kwargs: Any) -> Tensor:
        """The sample, with its batch without gaps."""
        return batched(self.value.contiguous(), self.level)

    def _in_place(self, other: Any) -> Tensor:
        """Show what the view ``other`` shows."""
        self.value, self._layout = other.value, other._layout
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("vmap: a batched tensor cannot be pickled: return it, and pickle the result")

    def __repr__(self) -> str:
        inner = repr(self.value).replace("\n", "\n    ")
        return f"Batched(level={self.level.depth}, batch_dim=0, value=\n    {inner}\n)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _converter(name: str) -> Callable[..., Tensor]:
    def convert(self: Batched, *args: Any, **kwargs: Any) -> Tensor:
        return batched(getattr(self.value, name)(*args, **kwargs), self.level)

    return convert


for _name in [
    "bool",
    "byte",
    "char",
    "short",
    "int",
    "long",
    "half",
    "bfloat16",
    "float",
    "double",
    "cfloat",
    "cdouble",
]:
    setattr(Batched, _name, _converter(_name))

_new: Any = object.__new__


def batched(value: Tensor, level: VmapLevel) -> Batched:
    """One sample of ``value``, whose first dimension is the batch of ``level``."""
    self: Batched = _new(Batched)
    layout = value._layout
    self._layout = layouts.contiguous[tuple(layout.shape[1:]), layout.dtype, layout.device_state]
    self.level = level
    self.value = value
    return self


def stripped(tensor: Any) -> tuple[Tensor, list[VmapLevel]]:
    """The tensor of all samples of all levels, and the levels in the order of its first dimensions."""
    present = []
    while isinstance(tensor, Batched):
        present.append(tensor.level)
        tensor = tensor.value
    present.reverse()
    return tensor, present


def dressed(tensor: Tensor, of: Sequence[VmapLevel]) -> Tensor:
    """The inverse of :func:`stripped`."""
    for level in of:
        tensor = batched(tensor, level)
    return tensor


def spread(tensor: Tensor, present: Sequence[VmapLevel], over: Sequence[VmapLevel]) -> Tensor:
    """A stripped tensor of the levels ``present``, expanded to the levels ``over``, which are at least these."""
    if len(present) == len(over):
        return tensor
    depths = {level.depth for level in present}
    for position, level in enumerate(over):
        if level.depth not in depths:
            tensor = unsqueeze(tensor, position)
    rest = tensor.shape[len(over) :]
    return expand(tensor, *(level.size for level in over), *rest)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """``tree``, of lists and tuples, with ``function`` applied to its tensors."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple):
        entries = [mapped(function, each) for each in tree]
        return type(tree)(*entries) if hasattr(tree, "_fields") else tuple(entries)
    if isinstance(tree, list):
        return [mapped(function, each) for each in tree]
    return tree
