"""Tensors with PyTorch semantics on CUDA devices."""

from math import e, inf, nan, pi

from graphroot.coexistence import share as _share
from graphroot.importing import without_collections as _without_collections

# These import most of the others.
with _without_collections():
    from nvrtc_kernels.dtypes import (
        bfloat16,
        complex64,
        complex128,
        dtype,
        float8_e4m3fn,
        float8_e5m2,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from nvrtc_kernels.dtypes import bool_ as bool

    from .methods.tensor import Tensor  # isort: skip - the class comes first, the families need it
    from .methods import sparse_tensor as _sparse_tensor  # isort: skip  # noqa: F401 - the class of sparse tensors
    from . import (
        accelerator,
        amp,
        autograd,
        backends,
        cpu,
        cuda,
        fft,
        jit,
        linalg,
        signal,
        sparse,
        special,
        utils,
        version,
    )
from . import random as random  # as the next ones: namespaces that a star import leaves out
from . import return_types as return_types
from . import serialization as serialization
from . import types as types
from .accelerator.devices import get_device_module
from .amp import GradScaler
from .amp.autocast_mode import (
    autocast,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    set_autocast_gpu_dtype,
)
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from .core.devices.device import device
from .core.dtypes.default import get_default_dtype, set_default_dtype
from .core.dtypes.limits import finfo, iinfo
from .core.memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .core.modes.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from .core.modes.precision import get_float32_matmul_precision, set_float32_matmul_precision
from .core.modes.threads import (
    get_num_interop_threads,
    get_num_threads,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
)
from .core.names.absent import lazily as _lazily
from .core.size import Size
from .core.sparse import sparse_coo, sparse_csc, sparse_csr
from .core.symbolic_numbers import (
    SymBool,
    SymFloat,
    SymInt,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
    sym_sum,
)
from .core.typed_storage import (
    BFloat16Storage,
    BoolStorage,
    ByteStorage,
    CharStorage,
    ComplexDoubleStorage,
    ComplexFloatStorage,
    DoubleStorage,
    FloatStorage,
    HalfStorage,
    IntStorage,
    LongStorage,
    ShortStorage,
    TypedStorage,
    UntypedStorage,
)
from .cuda import CudaError as AcceleratorError
from .cuda import Event, OutOfMemoryError, Stream
from .methods.functions import _assert as _assert
from .methods.functions import adjoint, as_strided_, detach, detach_
from .methods.printing import set_printoptions
from .operations.creation.typed_tensors import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    set_default_tensor_type,
)
from .operations.definition.catalogue import bind as _bind
from .operations.definition.catalogue import published as _published
from .operations.random.generator import Generator, initial_seed, manual_seed, seed
from .operations.random.generator import cpu_generator as default_generator
from .operations.random.state import get_rng_state, set_rng_state
from .version import __version__ as __version__

half, double, cfloat, cdouble = float16, float64, complex64, complex128
short, long = int16, int64
float, int = float32, int32
newaxis = None
_bind("tensor", globals())
__all__ = [
    "AcceleratorError",
    "SymBool",
    "SymFloat",
    "SymInt",
    "cpu",
    "get_device_module",
    "layout",
    "set_anomaly_enabled",
    "set_flush_denormal",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "jit",
    "compiler",
    "compile",
    "accelerator",
    "version",
    "is_anomaly_enabled",
    "is_anomaly_check_nan_enabled",
    "default_generator",
    "Stream",
    "OutOfMemoryError",
    "GradScaler",
    "Event",
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
    "TypedStorage",
    "UntypedStorage",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Size",
    "Tensor",
    "adjoint",
    "amp",
    "are_deterministic_algorithms_enabled",
    "as_strided_",
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "autograd",
    "backends",
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "channels_last",
    "channels_last_3d",
    "clear_autocast_cache",
    "complex64",
    "complex128",
    "contiguous_format",
    "cuda",
    "detach",
    "detach_",
    "device",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "fft",
    "finfo",
    "float",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_rng_state",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "linalg",
    "load",
    "long",
    "manual_seed",
    "memory_format",
    "nan",
    "newaxis",
    "no_grad",
    "pi",
    "preserve_format",
    "save",
    "seed",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "signal",
    "sparse",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "special",
    "strided",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "use_deterministic_algorithms",
    "utils",
    *(name for name in _published("tensor") if not name.startswith("_")),
]

# What stands in higher layers, which import downward only, and what many programs do without: found when it is used.
_LAZY = {
    "_dynamo": "tensor.compiler.dynamo",
    "_inductor": "tensor.compiler.inductor",
    "ao": "nn.ao",
    "compile": "tensor.compiler:compile",
    "compiler": "tensor.compiler",
    "distributed": "parallel",
    "distributions": "tensor.distributions",
    "func": "tensor.func",
    "hub": "tensor.hub",
    "library": "tensor.library",
    "load": "tensor.serialization:load",
    "ops": "tensor.ops",
    "fx": "nn.fx",
    "multiprocessing": "parallel.multiprocessing",
    "nn": "nn",
    "onnx": "tensor.onnx",
    "optim": "nn.optim",
    "overrides": "tensor.overrides",
    "DisableTorchFunction": "tensor.methods.overriding.protocol:DisableTorchFunction",
    "DisableTorchFunctionSubclass": "tensor.methods.overriding.protocol:DisableTorchFunctionSubclass",
    "profiler": "tensor.profiler",
    "save": "tensor.serialization:save",
    "testing": "tensor.testing",
    "adaptive_avg_pool1d": "nn.functional:adaptive_avg_pool1d",
    "adaptive_max_pool1d": "nn.functional:adaptive_max_pool1d_with_indices",
    "avg_pool1d": "nn.functional:avg_pool1d",
    "bilinear": "nn.functional:bilinear",
    "channel_shuffle": "nn.functional:channel_shuffle",
    "max_pool1d": "nn.functional:max_pool1d",
    "max_pool1d_with_indices": "nn.functional:max_pool1d_with_indices",
    "max_pool2d": "nn.functional:max_pool2d",
    "max_pool3d": "nn.functional:max_pool3d",
    "pixel_shuffle": "nn.functional:pixel_shuffle",
    "pixel_unshuffle": "nn.functional:pixel_unshuffle",
    "rrelu": "nn.functional:rrelu",
    "rrelu_": "nn.functional:rrelu_",
    "vmap": "tensor.func:vmap",
}


def __getattr__(name: str) -> object:
    return _lazily(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


_share(__name__)
