"""``CheckpointException``: the errors of all ranks, on all ranks."""

from __future__ import annotations

import traceback

__all__ = ["CheckpointException"]

#: An error, and where it was raised.
Failure = tuple[BaseException, traceback.StackSummary]


class CheckpointException(BaseException):
    """Saving or loading failed on a rank. All ranks raise it; as in PyTorch, it is no ``Exception``.

    Parameters
    ----------
    msg : str
        What failed.
    failures : dict of int to tuple
        By ranks, the errors, each with its traceback, a ``traceback.StackSummary``.
    """

    def __init__(self, msg: str, failures: dict[int, Failure]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Failure]:
        """By ranks, the errors.

        A dict of int to pairs of an exception and a ``traceback.StackSummary``.
        """
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{list(self._failures)}: {self.args[0]}\n"]
        for rank, (error, frames) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            lines.extend(traceback.format_list(frames))
            lines.extend(traceback.format_exception_only(type(error), error))
        return "".join(lines)
