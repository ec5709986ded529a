"""What PyTorch has under ``torch.utils``."""

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import lazily as _lazily

from . import checkpoint, deterministic, dlpack, hooks

__all__ = ["checkpoint", "data", "deterministic", "dlpack", "hooks"]

# What many programs do without, loaded when it is used.
_LAZY = {
    "_pytree": "tensor.utils._pytree",
    "benchmark": "tensor.utils.benchmark",
    "data": "tensor.utils.data",
    "model_zoo": "tensor.utils.model_zoo",
    "module_tracker": "nn.utils.module_tracker",
    "tensorboard": "tensor.utils.tensorboard",
}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        return _lazily(__name__, name, _LAZY)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
