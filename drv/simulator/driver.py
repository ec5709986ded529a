"""The simulated driver: the calls of ``cuda.bindings.driver``, with no GPU."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.documentation import driver_function_link

from .api.checkpoints import CheckpointCalls
from .api.coredumps import CoredumpCalls
from .api.device import DeviceCalls
from .api.entry_points import EntryPointCalls
from .api.graph.capture import CaptureCalls
from .api.graph.executables import ExecutableCalls
from .api.graph.memory import GraphMemoryCalls
from .api.graph.structure import StructureCalls
from .api.graph.user_objects import UserObjectCalls
from .api.green_contexts import GreenContextCalls
from .api.interop.external import ExternalCalls
from .api.interop.fabric import FabricCalls
from .api.interop.graphics import GraphicsCalls
from .api.legacy_launch import LegacyLaunchCalls
from .api.logs import LogCalls
from .api.memory.copy_batches import CopyBatchCalls
from .api.memory.managed import ManagedCalls
from .api.memory.memory import MemoryCalls
from .api.memory.pointer import PointerCalls
from .api.memory.shared_pools import SharedPoolCalls
from .api.memory.sharing import SharingCalls
from .api.memory.virtual_memory import VirtualMemoryCalls
from .api.modules.linker import LinkerCalls
from .api.stream_attributes import StreamAttributeCalls
from .api.tensor_maps import TensorMapCalls
from .api.texture_references import TextureReferenceCalls
from .unexecuted import UNEXECUTED, unexecuted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .options import Options

#: Functions whose documentation names the size of a value among the results, which they do not return.
_SIZE_NOT_RETURNED = frozenset(
    f"cuCoredump{verb}Attribute{scope}" for verb in ("Get", "Set") for scope in ("", "Global")
)


class SimulatedDriver(
    DeviceCalls,
    GreenContextCalls,
    StreamAttributeCalls,
    CaptureCalls,
    StructureCalls,
    ExecutableCalls,
    GraphMemoryCalls,
    UserObjectCalls,
    LegacyLaunchCalls,
    LinkerCalls,
    CopyBatchCalls,
    TextureReferenceCalls,
    MemoryCalls,
    ManagedCalls,
    SharedPoolCalls,
    SharingCalls,
    VirtualMemoryCalls,
    PointerCalls,
    TensorMapCalls,
    EntryPointCalls,
    LogCalls,
    CoredumpCalls,
    CheckpointCalls,
    GraphicsCalls,
    ExternalCalls,
    FabricCalls,
):
    """Stands where the module ``cuda.bindings.driver`` does.

    Its methods have the names, parameters and ``(CUresult, ...)`` results of that module's functions and use its
    enums and handle types; a function that is not simulated answers ``CUDA_ERROR_NOT_SUPPORTED``. Beyond CUDA's there
    are ``findings``, ``faults``, ``inject``, ``fault_report``, ``host_access``, ``guard_memory``, ``poison`` and
    ``library_call``.
    """

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        if options.native == "on":
            # Where it is only used if it is there, nobody has to wait for it before.
            from .execution.native import require

            require()
        self.inject.on_lose_device = self._lose_device
        #: Functions that were called and are not here, and where they are documented.
        self.missing: dict[str, str] = {}
        if not self.execute:
            self.__dict__.update({name: unexecuted(self, name) for name in UNEXECUTED})

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        real = getattr(cuda, name, None) if name.startswith("cu") else None
        if real is None:
            raise AttributeError(f"the simulated driver has no attribute {name!r}")
        answer = (CUresult.CUDA_ERROR_NOT_SUPPORTED, *[None] * _result_count(real))

        def unsupported(*args: Any, **keywords: Any) -> tuple[Any, ...]:
            self._say_missing(name)
            return answer

        unsupported.__name__ = name
        # It may take the place of the bindings' function, and be asked what that returns.
        unsupported.__doc__ = real.__doc__
        return unsupported

    def _say_missing(self, name: str) -> None:
        """Tell, once, that the function ``name`` was called, which is not here."""
        self.log.failed(name, CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if name not in self.missing:
            link = self.missing[name] = driver_function_link(name)
            warnings.warn(
                f"the simulated driver has no {name}, and answers CUDA_ERROR_NOT_SUPPORTED; it is documented at {link}",
                stacklevel=3,
            )


def _result_count(function: Any) -> int:
    """How many results a function of the bindings has beside its status, from its documentation."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    if "Returns" not in lines:
        return 0
    count = -1
    for line in lines[lines.index("Returns") + 2 :]:
        if line in ("See Also", "Notes"):
            break
        if line and not line.startswith(" "):
            count += 1
    return max(count - (function.__name__ in _SIZE_NOT_RETURNED), 0)
