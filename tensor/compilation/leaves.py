"""Gradients at leaves while a function is recorded: which of them its runs have to set, and what they depend on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tensor.methods.tensor import Tensor


class Leaves:
    """What becomes of gradients at leaves while a function runs.

    Parameters
    ----------
    tensors : list of Tensor
        The tensors from outside, leaves among them.

    Attributes
    ----------
    everything : list of Tensor
        The tensors.
    set_some : bool
        Whether the function set some gradients itself.
    used : list of (int, Tensor)
        Gradients that were there before and that the function reads or writes, with the numbers of their leaves.
    """

    def __init__(self, tensors: list[Tensor]) -> None:
        self.everything = tensors
        self.set_some = False
        self.used: list[tuple[int, Tensor]] = []
        first = {id(x): index for index, x in reversed(list(enumerate(tensors)))}
        self._indices = [
            index
            for index, x in enumerate(tensors)
            if first[id(x)] == index and x.requires_grad and x.is_leaf
        ]
        self._before = self._held = self._now()
        self._by_function: set[int] = set()
        self._itself: set[int] = set()
        self._asked: set[int] = set()

    def before(self) -> list[Tensor]:
        """The gradients that were there before."""
        return [each for each in self._before.values() if each is not None]

    def use(self, x: Tensor) -> list[Tensor]:
        """Gradients that were there before and show the memory of ``x``: the function uses them from now on."""
        used = {number for number, _ in self.used}
        result = []
        for number, each in self._before.items():
            if each is not None and number not in used and each._storage is x._storage:
                self.used.append((number, each))
                result.append(each)
        return result

    def _now(self) -> dict[int, Tensor | None]:
        states = {index: self.everything[index]._autograd for index in self._indices}
        return {index: None if state is None else state.grad for index, state in states.items()}

    def ask(self, x: Tensor) -> None:
        """Note that the function depends on whether ``x`` has a gradient; what it had before it matters unless that was set."""
        self._asked |= {i for i in self._indices if self.everything[i] is x} - self._by_function

    def changed(self) -> bool:
        """Whether gradients were set since the last :meth:`settle`."""
        return any(gradient is not self._held[index] for index, gradient in self._now().items())

    def to_set(self, is_known: Callable[[Tensor], bool]) -> Iterator[tuple[int, Tensor | None]]:
        """Gradients that a run has to set, by leaf: those that were set, and those that the function itself has made."""
        for index, gradient in self._now().items():
            same = gradient is self._held[index]
            if not same or (gradient is not None and is_known(gradient)):
                yield index, gradient
            if not same:
                self.set_some = True
                self._itself |= {index} - self._by_function

    def settle(self, *, by_function: bool, cleared: Iterable[Tensor] = ()) -> None:
        """Take what is there now as known; ``by_function`` says that a function which is called in each run has set it.

        It has cleared those of ``cleared`` whether they had a gradient or not.
        """
        now = self._now()
        if by_function:
            ids = set(map(id, cleared))
            for index, x in now.items():
                if x is not self._held[index] or id(self.everything[index]) in ids:
                    self._by_function |= {index} - self._itself
        self._held = now

    def initial(self) -> list[tuple[int, bool]]:
        """See :meth:`Tape.initial_gradients`."""
        return [(index, self._before[index] is None) for index in sorted(self._itself | self._asked)]


def has_hooks(leaf: Tensor) -> bool:
    """Whether a hook is on the gradient of a leaf, or follows its accumulation; also where it is no leaf."""
    state = leaf._autograd
    return state is not None and bool(state.hooks or state.post_hooks or state.edge is not None)


@contextmanager
def cut_off(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Inside, backward passes end at ``tensors``, before their hooks: the pass that uses what is recorded goes on from there."""
    owners: list[Any] = []
    nodes: list[Any] = []
    for x in tensors:
        state: Any = x._autograd
        owners.append(state)
        if state.edge is not None:
            nodes.append(state.edge[0])
        elif state.accumulator is not None:
            # A leaf's node is there as long as something refers to it.
            owners.append(state.accumulator())
    owners = [each for each in (*owners, *nodes) if each is not None and each.hooks]
    hooks, edges = [each.hooks for each in owners], [each.next for each in nodes]
    for each in owners:
        each.hooks = None
    for each in nodes:
        each.next = (None,) * len(each.next)
    try:
        yield
    finally:
        for each, former in zip(owners, hooks, strict=True):
            each.hooks = former
        # One of several outputs among ``tensors`` is told more than once: what it had at first counts.
        for each, former in reversed([*zip(nodes, edges, strict=True)]):
            each.next = former


@contextmanager
def watched_graphs(tensors: Iterable[Tensor], follows: Callable[[], None]) -> Iterator[None]:
    """Inside, ``follows()`` is called by a backward pass that goes on from one of ``tensors`` to what it was made of."""
    handles = [
        x.grad_fn.register_prehook(lambda _: follows()) for x in tensors if x.requires_grad and not x.is_leaf
    ]
    try:
        yield
    finally:
        for each in handles:
            each.remove()
