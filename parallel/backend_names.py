"""``Backend``: the names of backends."""

from __future__ import annotations

from typing import ClassVar, Self


class Backend(str):
    """Name of a backend, as :func:`get_backend` gives it: ``Backend("NCCL") == Backend.NCCL == "nccl"``.

    Raises
    ------
    ValueError
        If it is not a string.
    """

    __slots__ = ()

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, MPI]

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return super().__new__(cls, name.lower())
