"""Driver-level runtime: devices, streams, memory, modules and library bindings.

Importing it loads no driver; the first use chooses one, as ``GRAPHROOT_DRIVER`` says.
"""

from graphroot.coexistence import share as _share

from . import simulator
from .compiler import CompiledProgram, compile_program
from .copies import (
    copy_2d,
    copy_on_device,
    copy_peer,
    copy_to_device,
    copy_to_host,
    host_access,
    memset,
    memset_2d,
)
from .current import current_device, runtime
from .device import Device, DeviceProperties, MemoryInfo
from .errors import (
    CaptureError,
    CompileError,
    CudaError,
    DataRaceError,
    DeviceAssertError,
    DeviceFaultError,
    DeviceLostError,
    DroppedRuntimeError,
    FindingError,
    ForkError,
    FreedInUseError,
    GraphUpdateError,
    HostCallbackError,
    IllegalAddressError,
    IllegalInstructionError,
    InvalidHandleError,
    InvalidValueError,
    LaunchError,
    LaunchResourcesError,
    LibraryNotInstalledError,
    MisalignedAddressError,
    ModuleLoadError,
    NoDeviceError,
    NoDriverError,
    NotFoundError,
    NotPermittedError,
    NotSupportedError,
    OutOfMemoryError,
    OverwriteError,
    PeerAccessError,
    UninitializedReadError,
)
from .event import Event
from .graphs import Capture, Condition, ExecutableGraph, Graph, GraphNode, capture
from .launch import Launcher, bind, launch, prepare
from .memory import DeviceMemory, PinnedMemory, RegisteredMemory
from .module import Function, Module, Parameter
from .runtime import Runtime
from .selection import device_count, is_available, is_initialized, reset
from .stream import Stream
from .tensor_map import TensorMap

__all__ = [
    "Capture",
    "CaptureError",
    "CompileError",
    "CompiledProgram",
    "Condition",
    "CudaError",
    "DataRaceError",
    "Device",
    "DeviceAssertError",
    "DeviceFaultError",
    "DeviceLostError",
    "DeviceMemory",
    "DeviceProperties",
    "DroppedRuntimeError",
    "Event",
    "ExecutableGraph",
    "FindingError",
    "ForkError",
    "FreedInUseError",
    "Function",
    "Graph",
    "GraphNode",
    "GraphUpdateError",
    "HostCallbackError",
    "IllegalAddressError",
    "IllegalInstructionError",
    "InvalidHandleError",
    "InvalidValueError",
    "LaunchError",
    "LaunchResourcesError",
    "Launcher",
    "LibraryNotInstalledError",
    "MemoryInfo",
    "MisalignedAddressError",
    "Module",
    "ModuleLoadError",
    "NoDeviceError",
    "NoDriverError",
    "NotFoundError",
    "NotPermittedError",
    "NotSupportedError",
    "OutOfMemoryError",
    "OverwriteError",
    "Parameter",
    "PeerAccessError",
    "PinnedMemory",
    "RegisteredMemory",
    "Runtime",
    "Stream",
    "TensorMap",
    "UninitializedReadError",
    "bind",
    "capture",
    "compile_program",
    "copy_2d",
    "copy_on_device",
    "copy_peer",
    "copy_to_device",
    "copy_to_host",
    "current_device",
    "device_count",
    "host_access",
    "is_available",
    "is_initialized",
    "launch",
    "memset",
    "memset_2d",
    "prepare",
    "reset",
    "runtime",
    "simulator",
]

_share(__name__)
