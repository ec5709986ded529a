"""Checkpoint files: :func:`save` and :func:`load`.

A checkpoint is a safetensors file. Its tensors have the names of their paths (``model.conv.weight``), so that any
program that reads safetensors finds them; how they nest, and all that is no tensor, is JSON in the file's metadata.
Nothing in a file is ever run. Files of ``torch.save`` are read, too, and written if asked for.

==================  ====================================================================
``structure``       nested values as JSON, and back
``blocks``          what is stored of tensors that share memory or lie unusually in it
``header``          the header of a safetensors file, read without trust
``sources``         bytes of a file in order, or its pages
``writing``         files that are replaced whole or not at all
``classes``         the tensor classes that come back as such, which other layers announce
``locations``       where tensors go
``torch_format``    files of ``torch.save``
``saving``          ``save``
``loading``         ``load``
==================  ====================================================================
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import lazily as _lazily

from .classes import keep_class

if TYPE_CHECKING:
    from .loading import load
    from .saving import save
    from .torch_format.errors import UnpicklingError
    from .torch_format.safe_globals import (
        add_safe_globals,
        clear_safe_globals,
        get_safe_globals,
        safe_globals,
    )

__all__ = [
    "UnpicklingError",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "keep_class",
    "load",
    "safe_globals",
    "save",
]

# Read and written by programs that have a file: found when it is used.
_GLOBALS = "tensor.serialization.torch_format.safe_globals"
_LAZY = {
    "UnpicklingError": "tensor.serialization.torch_format.errors:UnpicklingError",
    "add_safe_globals": f"{_GLOBALS}:add_safe_globals",
    "clear_safe_globals": f"{_GLOBALS}:clear_safe_globals",
    "get_safe_globals": f"{_GLOBALS}:get_safe_globals",
    "load": "tensor.serialization.loading:load",
    "safe_globals": f"{_GLOBALS}:safe_globals",
    "save": "tensor.serialization.saving:save",
}

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> object:
        return _lazily(__name__, name, _LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
