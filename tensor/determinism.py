"""Whether operations must give the same bits in every run."""

from __future__ import annotations


class _Determinism:
    __slots__ = ("required", "warn_only")

    def __init__(self) -> None:
        self.required = False
        self.warn_only = False


#: Of the whole process, as in PyTorch.
determinism = _Determinism()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Let sums at indices be the same in every run, at the price of sorting the indices.

    Without it the few operations that add floating-point numbers with atomics on CUDA
    (``scatter_add``, ``index_add``, ``scatter_reduce``, ``put_`` and the derivatives of reads by
    indices) may round differently from run to run. Everything else is the same in every run anyway.

    Parameters
    ----------
    warn_only
        Taken for PyTorch's sake: there is no operation without a deterministic form to warn of.
    """
    determinism.required = bool(mode)
    determinism.warn_only = bool(mode) and bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether :func:`use_deterministic_algorithms` is on."""
    return determinism.required


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was switched on with ``warn_only``."""
    return determinism.warn_only
