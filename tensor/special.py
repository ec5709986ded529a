"""Special functions by the names that SciPy has for them, as in ``torch.special``.

Missing are Airy's function and derivatives of Bessel functions other than the modified ones of the first kind.
"""

from typing import TYPE_CHECKING

from tensor.operations import families as _families  # noqa: F401 - which publish what is found here

from .core.names.absent import hints as _hints
from .operations.definition.catalogue import bind as _bind
from .operations.definition.catalogue import published as _published

__all__ = [*_published("special")]
_bind("special", globals())

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
