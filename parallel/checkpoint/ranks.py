"""``Ranks``: steps that all ranks of a group do together, and that fail on all if they fail on one."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING, Any

from parallel.groups.collectives.object_collectives import gather_object, scatter_object_list
from parallel.groups.process_groups import checked_group, get_world_size, is_initialized, job
from parallel.groups.setup import new_group

from .exceptions import CheckpointException

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.groups.process_groups import Group, ProcessGroup

    from .exceptions import Failure

#: Description of groups for what is saved while training goes on.
_DESCRIPTION = "checkpoints"


class Ranks:
    """The ranks that save or load together, of which the first one coordinates.

    Parameters
    ----------
    group
        Their process group; None for this process alone.
    """

    def __init__(self, group: ProcessGroup | None) -> None:
        self.group = group
        self.rank = 0 if group is None else group.rank()
        self.size = 1 if group is None else group.size()

    @classmethod
    def of(cls, group: Group, *, alone: bool) -> Ranks:
        """Those of a group, by default of all ranks; only this one if ``alone``, or where there is no job."""
        return cls(None if alone or not is_initialized() else checked_group(group))

    def apart(self) -> Ranks:
        """The same ranks, with a group of their own, whose operations need not take turns with others. All call it."""
        if self.group is None:
            return self
        for each in job.require().groups:
            if each.group_desc == _DESCRIPTION and each.ranks == self.group.ranks:
                return Ranks(each)
        # On hosts, which takes no turns with what GPUs compute; where that takes no ranks but these.
        of_all = self.size == get_world_size()
        on_hosts = self.group.store is not None and (of_all or "gloo" in self.group.backend_names.values())
        result: Any = new_group(
            self.group.ranks,
            self.group.timeout,
            "gloo" if on_hosts else None,
            use_local_synchronization=not of_all,
            group_desc=_DESCRIPTION,
            sort_ranks=False,
        )
        return Ranks(result)

    def step(self, name: str, local: Callable[[], Any], combine: Callable[[list[Any]], list[Any]]) -> Any:
        """Get this rank's item of what ``combine`` makes on the first rank from what ``local`` returns on each.

        Parameters
        ----------
        name
            Of the step, for messages.

        Raises
        ------
        CheckpointException
            On all ranks, if ``local`` raises on one, or ``combine`` does.
        """
        outcome = _tried(local)
        outcomes = self._gather(outcome)
        answers: list[Any] | None = None
        if outcomes is not None:
            failures = {rank: failure for rank, (_, failure) in enumerate(outcomes) if failure is not None}
            if not failures:
                results, failure = _tried(lambda: combine([result for result, _ in outcomes]))
                failures = {} if failure is None else {0: failure}
            answers = [(None, failures)] * self.size if failures else [(each, {}) for each in results]
        result, failures = self._scatter(answers)
        if failures:
            raise CheckpointException(name, failures)
        return result

    def _gather(self, outcome: Any) -> list[Any] | None:
        if self.group is None:
            return [outcome]
        outcomes: list[Any] | None = [None] * self.size if self.rank == 0 else None
        gather_object(outcome, outcomes, group=self.group, group_dst=0)
        return outcomes

    def _scatter(self, answers: list[Any] | None) -> Any:
        if self.group is None:
            assert answers is not None
            return answers[0]
        output: list[Any] = [None]
        scatter_object_list(output, answers, group=self.group, group_src=0)
        return output[0]


def _tried(function: Callable[[], Any]) -> tuple[Any, Failure | None]:
    try:
        return function(), None
    except Exception as error:
        return None, failure_of(error)


def failure_of(error: Exception) -> Failure:
    """An error with where it was raised, as it is told to other ranks."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in frames:
        # From Python 3.13 on it holds code, which cannot be pickled.
        if hasattr(frame, "_code"):
            frame._code = None
    return _portable(error), frames


def _portable(error: Exception) -> Exception:
    """``error``, or one that says the same and can be sent to other ranks."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
