"""What the namespace can do: ``__array_namespace_info__``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor import cuda
from tensor.core.devices.device import device as _device
from tensor.core.dtypes.default import get_default_dtype
from tensor.operations.creation.factories import get_default_device

from .dtypes import KINDS, STORED

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype as _dtype


class NamespaceInfo:
    """Devices, dtypes and limits of the namespace.

    >>> info = tensor.zeros(1).__array_namespace__().__array_namespace_info__()
    >>> info.capabilities()["data-dependent shapes"], [*info.dtypes(kind="real floating")]
    (True, ['float32', 'float64'])
    """

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are.

        ``"boolean indexing"`` and ``"data-dependent shapes"`` are True, ``"max dimensions"`` is 64.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> _device:
        """Where arrays are made that do not say where.

        See :func:`tensor.get_default_device`.
        """
        return get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, _dtype]:
        """The dtypes of arrays that do not say theirs, by kind; the same on every ``device``."""
        real = get_default_dtype()
        return {
            "real floating": real,
            "complex floating": dtypes.complex128 if real is dtypes.float64 else dtypes.complex64,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def devices(self) -> list[_device]:
        """The CPU, and each CUDA device.

        Those that are visible to the process.
        """
        return [_device("cpu"), *(_device("cuda", index) for index in range(cuda.device_count()))]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, _dtype]:
        """The standard's dtypes that there are, by name, of a ``kind`` as for ``isdtype``; the same on every ``device``.

        Raises
        ------
        ValueError
            If there is no such kind.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        unknown = [each for each in kinds if each not in KINDS]
        if unknown:
            raise ValueError(f"dtypes(): kind is {unknown[0]!r}, expected one of {', '.join(KINDS)}")
        return {each.name: each for name in kinds for each in KINDS[name] if each not in STORED}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """What the namespace can do.

    See :class:`NamespaceInfo`.
    """
    return NamespaceInfo()
