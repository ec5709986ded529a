"""``Stream``: a queue of work on a CUDA device, as the users of ``tensor.cuda`` see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import drv

    from .places import CudaPlace


class Stream:
    """A queue of work. (This file is completed by the CUDA face; here is what every launch needs.)

    Attributes
    ----------
    cuda_stream : int
        Value of the driver's handle; blocks of memory belong to streams by this number.
    handle
        The driver's handle, for launches.
    """

    __slots__ = ("__weakref__", "cuda_stream", "handle", "native", "place")

    place: CudaPlace
    native: drv.Stream
    cuda_stream: int
    handle: Any

    @classmethod
    def of(cls, place: CudaPlace, native: drv.Stream) -> Stream:
        """The stream of ``place`` that ``native`` is."""
        self = object.__new__(cls)
        self.place = place
        self.native = native
        self.handle = native.handle
        self.cuda_stream = int(native.handle)
        return self
