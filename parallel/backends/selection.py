"""Which backends a process group has: their names, which of them can be used here, and how they are constructed."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, ClassVar, Self

import drv
from drv.bindings.libraries import open_library
from parallel.groups.stores.store import PrefixStore

from .gloo.connections import PeerConnections
from .gloo.transport import GlooTransport
from .host_backend import HostBackend
from .nccl.backend import NcclBackend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import tensor
    from parallel.groups.stores.store import Store

    from . import backend

#: Types of devices whose tensors each backend carries.
_CARRIES = {"gloo": ("cpu", "cuda"), "mpi": ("cpu", "cuda"), "nccl": ("cuda",)}


class Backend(str):
    """Name of a backend, as :func:`get_backend` returns it: ``Backend("NCCL") == Backend.NCCL == "nccl"``.

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


def is_gloo_available() -> bool:
    """Whether the backend ``gloo`` can be used: always True, as it is part of this package."""
    return True


def is_ucc_available() -> bool:
    """False: UCC carries no collectives here."""
    return False


def is_xccl_available() -> bool:
    """False: Intel's devices are not supported."""
    return False


def is_mpi_available() -> bool:
    """Whether mpi4py can be imported (the extra ``mpi``), which the backend ``mpi`` stands on."""
    return importlib.util.find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Whether NVIDIA's NCCL is installed (the extra ``gpu``), which the backend ``nccl`` stands on.

    That says nothing of the devices: the backend needs real GPUs too.
    """
    try:
        open_library("nccl")
    except drv.CudaError:
        return False
    return True


def is_backend_available(backend: str) -> bool:
    """Whether the backend of that name, in upper or lower case, can be used here; False for unknown names.

    >>> parallel.is_backend_available("gloo"), parallel.is_backend_available("ucc")
    (True, False)
    """
    available = {"gloo": is_gloo_available, "mpi": is_mpi_available, "nccl": is_nccl_available}.get(
        backend.lower()
    )
    return available is not None and available()


def get_default_backend_for_device(device: str | tensor.device) -> str:
    """Default backend for tensors of a device: ``"nccl"`` for CUDA devices that are real, else ``"gloo"``.

    Parameters
    ----------
    device : device or str
        Only its type counts: ``"cpu"`` or ``"cuda"``.

    Raises
    ------
    ValueError
        For another type of device.
    """
    device_type = str(device).split(":")[0]
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Default backend not registered for device : {device}: expected 'cpu' or 'cuda'")
    return "nccl" if device_type == "cuda" and _has_gpus() else "gloo"


def _has_gpus() -> bool:
    return drv.is_available() and not drv.runtime().simulated and is_nccl_available()


def backends_by_device(backend: str | None) -> dict[str, str]:
    """What ``backend`` of :func:`init_process_group` means: names of backends by types of devices.

    Raises
    ------
    TypeError, ValueError
        For what is no such text; it is quoted.
    """
    if backend is None:
        return {device_type: get_default_backend_for_device(device_type) for device_type in ("cpu", "cuda")}
    if not isinstance(backend, str):
        raise TypeError(f"backend is a string such as 'gloo', not {type(backend).__name__}")
    if ":" not in backend:
        name = _known(backend, backend)
        return dict.fromkeys(_CARRIES[name], name)
    names: dict[str, str] = {}
    for pair in backend.split(","):
        device_type, separator, backend_name = pair.strip().lower().partition(":")
        name = _known(backend_name, backend)
        if not separator or device_type not in ("cpu", "cuda") or device_type in names:
            raise ValueError(
                f"Invalid device:backend pairing {pair!r} in {backend!r}: expected each of 'cpu' and 'cuda' at most "
                "once, as in 'cpu:gloo,cuda:nccl'"
            )
        if device_type not in _CARRIES[name]:
            raise ValueError(f"backend {backend!r}: {name} does not carry tensors of the {device_type}")
        names[device_type] = name
    return names


def _known(text: str, backend: str) -> str:
    name = text.strip().lower()
    if name not in _CARRIES:
        raise ValueError(
            f"Unknown backend type {text!r} in backend={backend!r}: expected 'gloo', 'mpi', 'nccl', or backends for "
            "types of devices such as 'cpu:gloo,cuda:nccl'"
        )
    return name


def text_of(names: dict[str, str]) -> str:
    """The short form of :func:`backends_by_device`'s result."""
    different = set(names.values())
    if len(different) == 1:
        return different.pop()
    return ",".join(f"{device_type}:{name}" for device_type, name in sorted(names.items()))


class Connections:
    """What the groups of a job share: the connections to its other ranks.

    Parameters
    ----------
    store : Store or None
        Where the ranks meet; under MPI there is none.
    rank, size : int
        This rank in the job, and how many there are.
    communicator
        MPI's communicator of all ranks, under MPI.
    """

    def __init__(self, store: Store | None, rank: int, size: int, communicator: Any = None) -> None:
        self.rank = rank
        self.size = size
        self.communicator = communicator
        self._store = store
        self._connections: PeerConnections | None = None

    def connect(self, timeout: timedelta) -> None:
        """Connect with all other ranks, which do the same."""
        if self._connections is None:
            assert self._store is not None
            store = PrefixStore("mesh", self._store)
            self._connections = PeerConnections(store, self.rank, self.size, timeout.total_seconds())

    def check_connected(self, names: dict[str, str]) -> None:
        """Check that a group with these backends can be made by its members alone.

        Raises
        ------
        ValueError
            If connections with all ranks would have to be made first.
        """
        if "gloo" in names.values() and self._connections is None:
            raise ValueError(
                "new_group(backend='gloo', use_local_synchronization=True): the ranks are not connected by gloo yet. "
                "Call it on all ranks without use_local_synchronization, or initialize with 'cpu:gloo,cuda:nccl'"
            )

    def backends(
        self,
        names: dict[str, str],
        group: str,
        ranks: Sequence[int],
        store: Store | None,
        timeout: timedelta,
        device: tensor.device | None,
    ) -> dict[str, backend.Backend]:
        """The backends of a group of which this rank is a member, by types of devices.

        Raises
        ------
        RuntimeError
            If one cannot be had here; the text says why.
        """
        by_name: dict[str, backend.Backend] = {}
        for name in dict.fromkeys(names.values()):
            by_name[name] = self._backend(name, group, ranks, store, timeout, device)
        return {device_type: by_name[name] for device_type, name in names.items()}

    def _backend(
        self,
        name: str,
        group: str,
        ranks: Sequence[int],
        store: Store | None,
        timeout: timedelta,
        device: tensor.device | None,
    ) -> backend.Backend:
        if name == "gloo":
            assert self._connections is not None
            return HostBackend(GlooTransport(self._connections, group, ranks), timeout)
        if name == "nccl":
            if store is None:
                raise ValueError("the backend 'nccl' meets in a store: pass init_method= or store=")
            return NcclBackend(store, list(ranks).index(self.rank), len(ranks), device, timeout)
        # mpi4py, which these need, is an optional package.
        from .mpi.process import subgroup
        from .mpi.transport import MpiTransport

        # A communicator of its own, so that messages of one group are never taken for another's.
        return HostBackend(MpiTransport(subgroup(self.communicator, ranks, timeout)), timeout)

    def close(self) -> None:
        """Take leave of the other ranks. Idempotent."""
        if self._connections is not None:
            self._connections.close()

    def abort(self) -> None:
        """End connections at once; never blocks."""
        if self._connections is not None:
            self._connections.abort()
