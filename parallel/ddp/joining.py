"""Join: training with a different number of batches on each rank.

A rank without batches left stays, and takes part in the operations of the others until they have none either.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import tensor
from parallel.groups.collectives.tensor_collectives import all_reduce
from parallel.groups.process_groups import get_rank

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from parallel.groups.process_groups import ProcessGroup
    from parallel.groups.works import Work

#: Iterations of the others after which a rank without batches says that something may be wrong.
_MANY_ITERATIONS = 1000


class JoinHook:
    """What a rank without inputs left does in place of a :class:`parallel.Joinable`.

    The methods of this class do nothing: subclasses override them.
    """

    def main_hook(self) -> None:
        """Take part in the operations between ranks of one iteration of the others; called once for each of theirs."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once on every rank when no rank has inputs left.

        Does nothing by default.

        Parameters
        ----------
        is_last_joiner
            Whether this rank is one of those that had the most inputs.
        """


class JoinConfig(NamedTuple):
    """What a joinable knows of the :class:`Join` that it is in."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """Base class of what can be trained inside :class:`parallel.Join`.

    Each of its iterations calls :meth:`Join.notify_join_context` before any other operation between ranks.
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this rank does once it has no inputs left.

        Parameters
        ----------
        kwargs
            Those that :class:`Join` was given.

        Returns
        -------
        JoinHook
            Its ``main_hook`` is called in each round of the others, its ``post_hook`` at the end.
        """

    @property
    @abstractmethod
    def join_device(self) -> tensor.device:
        """The device on which the operations between ranks have their tensors."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The :class:`parallel.ProcessGroup` of the ranks that take part."""


class Join:
    """A block in which ranks may have different numbers of inputs.

    At its end a rank takes part in the operations of the others until no rank has inputs left.

    >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
    >>> with parallel.Join([model]):
    ...     for batch in tensor.randn(4 + parallel.get_rank(), 8, 3):
    ...         model(batch).sum().backward()

    Parameters
    ----------
    joinables : list of Joinable
        The objects to train, such as a :class:`parallel.DistributedDataParallel`. They share device and process group.
    enable : bool
        False makes the block do nothing, for inputs known to be even.
    throw_on_early_termination : bool
        Whether all ranks raise RuntimeError as soon as one has no inputs left.
    **kwargs
        For the joinables; ``divide_by_initial_world_size`` of DistributedDataParallel.

    Raises
    ------
    ValueError
        If there are no joinables, or they differ in device or process group.
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = list(joinables)
        self._enable = enable
        self._throw = throw_on_early_termination
        first = self._joinables[0]
        self._group, self._device = first.join_process_group, first.join_device
        for each in self._joinables[1:]:
            if each.join_process_group is not self._group:
                raise ValueError("Using join context manager with multiple process groups")
            if each.join_device != self._device:
                raise ValueError(
                    f"Using join context manager with multiple devices: {self._device} and {each.join_device}"
                )
        self._hooks = [each.join_hook(**kwargs) for each in self._joinables]
        for each in self._joinables:
            each._join_config = JoinConfig(enable, throw_on_early_termination, each is first)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._enable and type is None:
                self._stay()
        finally:
            for each in self._joinables:
                each._join_config = JoinConfig()

    def _stay(self) -> None:
        """Take part in what the others do."""
        last = True
        iterations = 0
        while self._count_others():
            if self._throw:
                all_reduce(tensor.ones(1, device=self._device), group=self._group)
                raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last = False
            iterations += 1
            if iterations == _MANY_ITERATIONS:
                warnings.warn(
                    f"Detected uneven input skew of greater than {iterations}. This means that rank "
                    f"{get_rank(self._group)} has at least {iterations} fewer inputs than other currently-active ranks. "
                    "This level of skew could lead to performance degradation during training.",
                    stacklevel=3,
                )
        for hook in self._hooks:
            hook.post_hook(last)

    def _count_others(self) -> int:
        """How many ranks have inputs left; each of them says so at the beginning of an iteration."""
        count = tensor.zeros(1, device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Tell ranks without inputs that this one begins an iteration; a joinable calls it before anything else.

        Parameters
        ----------
        joinable : Joinable
            The object that calls it.

        Returns
        -------
        Work or None
            The sum over ranks of ones, for those in an iteration, under way; None outside of :class:`Join`, and for
            all its joinables but the first.

        Raises
        ------
        RuntimeError
            With ``throw_on_early_termination``, if a rank has no inputs left.
        AssertionError
            If the constructor of ``joinable`` did not call that of :class:`Joinable`.
        """
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(
                f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor"
            )
        config = joinable._join_config
        if not (config.enable and config.is_first_joinable):
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(tensor.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            missing = tensor.zeros(1, device=device)
            all_reduce(missing, group=group)
            if missing.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
