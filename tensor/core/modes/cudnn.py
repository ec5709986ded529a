"""Whether and how convolutions go through cuDNN; read at every call."""

from __future__ import annotations

from typing import NamedTuple


class Cudnn(NamedTuple):
    """What :mod:`tensor.backends.cudnn` says.

    Attributes
    ----------
    enabled : bool
        Whether cuDNN is taken where it is installed.
    benchmark : bool
        Whether its algorithms and our own kernels are timed at the first convolution of each geometry, and the quickest is taken.
    deterministic : bool
        Whether only algorithms are taken that give the same bits in every run.
    benchmark_limit : int
        How many algorithms are timed at most; 0 is all.
    """

    enabled: bool = True
    benchmark: bool = False
    deterministic: bool = False
    benchmark_limit: int = 10


class _Settings:
    """Of the process: ``cudnn`` is replaced as a whole, so that what was chosen for it is found by it."""

    __slots__ = ("cudnn",)

    def __init__(self) -> None:
        self.cudnn = Cudnn()


settings = _Settings()
