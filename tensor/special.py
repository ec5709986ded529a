"""Special functions by the names that SciPy has for them, as in ``torch.special``.

Missing are Airy's function and derivatives of Bessel functions other than the modified ones of the first kind.
"""

from tensor.operations import families as _families  # noqa: F401 - which publish what is found here
from tensor.operations.catalogue import bind as _bind
from tensor.operations.catalogue import published as _published

__all__ = [*_published("special")]
_bind("special", globals())
