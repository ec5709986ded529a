"""Names of ``torch._inductor.config``: settings, with PyTorch's values, which may be set and change nothing."""

from types import SimpleNamespace

from tensor.compiler.settings import patch_of

coordinate_descent_tuning = False
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
fx_graph_cache = True
max_autotune = False
shape_padding = True
triton = SimpleNamespace(cudagraphs=False, unique_kernel_names=True)
use_mixed_mm = True

patch = patch_of(__name__)
