"""Names of ``torch._dynamo.config``: settings, with PyTorch's values, which may be set and change nothing."""

from tensor.compiler.settings import patch_of

accumulated_cache_size_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
error_on_recompile = False
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False

patch = patch_of(__name__)
