"""Policies of which modules are wrapped: names of ``torch.distributed.fsdp.wrap``.

>>> policy = parallel.fsdp.wrap.ModuleWrapPolicy({nn.Linear})
"""

from parallel.sharding.wrapping import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
)

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]
