"""``Stateful``: what has a state that checkpoints save and restore."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object with ``state_dict()`` and ``load_state_dict()``, in place of a dict in what is saved.

    Modules and optimizers are; most programs write one that calls :func:`parallel.checkpoint.get_state_dict` and
    :func:`parallel.checkpoint.set_state_dict`.

    >>> isinstance(nn.Linear(1, 1), parallel.checkpoint.Stateful)
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """What is saved, a dict.

        :func:`parallel.checkpoint.load` calls it, too, and reads into the tensors in it.
        """
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state.

        Parameters
        ----------
        state_dict : dict
            What :meth:`state_dict` returned, with the values that were read.
        """
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
