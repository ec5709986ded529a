"""Options of saving and loading, under the names of PyTorch's planners."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


@dataclass(frozen=True, slots=True)
class DefaultSavePlanner:
    """How :func:`parallel.checkpoint.save` divides the work.

    Parameters
    ----------
    flatten_state_dict, flatten_sharded_tensors, dedup_replicated_tensors : bool, optional
        Accepted for compatibility: values in nested dicts have names of their own, and what several ranks have is written once.
    """

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    dedup_replicated_tensors: bool | None = None


@dataclass(frozen=True, slots=True)
class DefaultLoadPlanner:
    """What :func:`parallel.checkpoint.load` does about values that the checkpoint lacks.

    Parameters
    ----------
    flatten_state_dict, flatten_sharded_tensors : bool
        Accepted for compatibility.
    allow_partial_load : bool
        Whether to leave values alone that the checkpoint does not have, instead of raising an error.
    """

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    allow_partial_load: bool = False
