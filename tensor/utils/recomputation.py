"""Tensors that a graph saves without keeping them: they are made again, all of a function at once.

While the function runs first, a place is kept for each tensor that it saves. When a backward pass asks for one
of them, the function runs again, and what it saves then is put into the places, in the same order; each is
emptied when its tensor is used. A function inside of it that is itself to run again saves its arguments, and so
these are made again too.
"""

from __future__ import annotations

import itertools
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from tensor.autograd.engine.engine import pass_number
from tensor.autograd.recording import saved
from tensor.autograd.recording.node import Node
from tensor.autograd.recording.saving import saved_tensors_hooks
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import enable_grad

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: Numbers in place of a backward pass's, for tensors that are asked for outside of one.
_outside = itertools.count(-2, -1)


class CheckpointError(RuntimeError):
    """The function of a checkpoint saved other tensors when it ran again.

    There were more or fewer, or they had other shapes, dtypes or devices. A ``RuntimeError``.
    """


class StopRunning(BaseException):
    """Leaves a function that runs again: nothing more is needed of it. Not caught by ``except Exception``."""


class _EarlyStop:
    """What :class:`set_checkpoint_early_stop` says in place of an argument; ``None`` where it says nothing."""

    value: bool | None = None


_early_stop = _EarlyStop()


class set_checkpoint_early_stop:  # noqa: N801 - PyTorch's name
    """Inside ``with``, have checkpoints leave their function as soon as all that it saved is there again, or not.

    Parameters
    ----------
    enable : bool
        Whether they do; it goes before ``early_stop`` of :func:`checkpoint`.
    """

    def __init__(self, enable: bool) -> None:
        self.enable = bool(enable)

    def __enter__(self) -> None:
        self._before = _early_stop.value
        _early_stop.value = self.enable

    def __exit__(self, *exception: object) -> None:
        _early_stop.value = self._before


class _Arguments(Node):
    """Stands for the function where its arguments are saved, and seen to be written since.

    It is never in a graph: only its name is used.
    """

    __slots__ = ()

    def name(self) -> str:
        """What errors name."""
        return "the arguments of a function under checkpoint()"


class _Slot:
    """The place of a saved tensor.

    Attributes
    ----------
    number : int
        How many tensors the function saved before.
    layout : Layout
        Of the tensor.
    stack : str
        Where it was saved, if that is wanted.
    recomputed : dict
        By the number of the backward pass: the tensor and the version it had; ``None`` once it was used.
    """

    __slots__ = ("__weakref__", "layout", "number", "recomputed", "stack")

    def __init__(self, number: int, layout: Layout, stack: str) -> None:
        self.number = number
        self.layout = layout
        self.stack = stack
        self.recomputed: dict[int, tuple[Tensor, int] | None] = {}


class Region:
    """One call of a function whose saved tensors are made again.

    Attributes
    ----------
    complete : bool
        Whether the first run has come to its end.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        state: Callable[[], contextlib.AbstractContextManager[Any]],
        context: contextlib.AbstractContextManager[Any],
        compares: bool,
        debug: bool,
        early_stop: bool,
    ) -> None:
        self.function = function
        self.kwargs = kwargs
        self.state = state
        self.context = context
        self.compares = compares
        self.debug = debug
        self.early_stop = early_stop if _early_stop.value is None else _early_stop.value
        self.complete = False
        # Where this call is inside another such function, that one's hooks leave the arguments out.
        self.tensors = tuple([isinstance(x, TensorBase) for x in args])
        self.args = tuple([saved.save(x) for x in args])
        #: The graph holds the slots: what it has freed is not made again.
        self.slots: list[weakref.ref[_Slot]] = []

    def pack(self, tensor: Tensor) -> _Slot:
        """Keep a place for ``tensor``."""
        slot = _Slot(len(self.slots), tensor._layout, _stack() if self.debug else "")
        self.slots.append(weakref.ref(slot))
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        """The tensor of ``slot``, for which the function may have to run again.

        Raises
        ------
        CheckpointError
            If it does something else than before.
        RuntimeError
            If the tensor, or an argument of the function, was written in place after it had been saved.
        """
        number = pass_number()
        alone = number < 0
        if alone:
            number = next(_outside)
        if slot.recomputed.get(number) is None:
            self.run_again(number, slot)
        entry = slot.recomputed[number]
        assert entry is not None
        tensor, version = entry
        if tensor._storage.version != version:
            raise RuntimeError(
                f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}], saved in a function under checkpoint(), is at version "
                f"{tensor._storage.version}; expected version {version} instead"
            )
        slot.recomputed[number] = None
        if alone:
            for each in self._alive():
                each.recomputed.pop(number, None)
        return tensor

    def _alive(self) -> Iterator[_Slot]:
        for reference in self.slots:
            slot = reference()
            if slot is not None:
                yield slot

    def run_again(self, number: int, expected: _Slot) -> None:
        """Fill the slots for a backward pass; those that were emptied stay so, except for ``expected``."""
        run = _Run(self, number, expected)
        args = [
            saved.restore(entry, _Arguments.__new__(_Arguments)) if is_tensor else entry
            for entry, is_tensor in zip(self.args, self.tensors, strict=True)
        ]
        try:
            with (
                self.state(),
                self.context,
                enable_grad(),
                saved_tensors_hooks(run.pack, _as_it_is),
            ):
                self.function(*args, **self.kwargs)
        except StopRunning as stop:
            if stop.args[0] is not run:
                raise
        run.check()


class _Run:
    """One further run of a function."""

    def __init__(self, region: Region, number: int, target: _Slot) -> None:
        self.region = region
        self.number = number
        self.target = target
        self.count = 0
        self.expected = len(region.slots)
        self.differences: list[str] = []

    def pack(self, tensor: Tensor) -> Tensor:
        """Put ``tensor`` into its slot."""
        region, position = self.region, self.count
        self.count += 1
        if position < self.expected:
            slot = region.slots[position]()
            if slot is not None:
                self.fill(slot, tensor)
        if self.count == self.expected and region.early_stop:
            raise StopRunning(self)
        return tensor

    def fill(self, slot: _Slot, tensor: Tensor) -> None:
        """Put ``tensor`` into ``slot``, unless it was taken from there before."""
        if self.region.compares and not _alike(slot.layout, tensor._layout):
            self.differences.append(_difference(slot, tensor, debug=self.region.debug))
        if slot is self.target or self.number not in slot.recomputed:
            slot.recomputed[self.number] = tensor, tensor._storage.version

    def check(self) -> None:
        """Raise CheckpointError if the run was another one than the first."""
        region = self.region
        if self.differences:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the "
                "forward pass. The function must do the same when it runs again.\n"
                + "\n".join(self.differences)
            )
        if self.count < self.expected or (region.complete and self.count > self.expected):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation. "
                "The function must do the same when it runs again.\n"
                f"Number of tensors saved during forward: {self.expected}\n"
                f"Number of tensors saved during recomputation: {self.count}."
            )


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _alike(one: Layout, other: Layout) -> bool:
    return one is other or (
        one.shape == other.shape and one.dtype is other.dtype and one.device_state is other.device_state
    )


def _difference(slot: _Slot, tensor: Tensor, *, debug: bool) -> str:
    text = (
        f"tensor at position {slot.number}:\n"
        f"saved metadata: {_described(slot.layout)}\n"
        f"recomputed metadata: {_described(tensor._layout)}"
    )
    if debug:
        text += f"\nsaved at:\n{slot.stack}\nrecomputed at:\n{_stack()}"
    return text


def _described(layout: Layout) -> str:
    return f"{{'shape': {list(layout.shape)}, 'dtype': {layout.dtype!r}, 'device': {layout.device!r}}}"


def _stack() -> str:
    return "".join(traceback.format_stack()[:-2]).rstrip("\n")
