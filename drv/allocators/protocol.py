"""What every allocator does, so that they stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .history import Frames

#: Largest size that is worth asking a driver for; PyTorch draws the line at the same place.
LARGEST_REQUEST = 1 << 60
#: What a private pool goes by; (0, 0) is none.
PoolIdentifier = tuple[int, int]


class Block(Protocol):
    """A range of memory that an allocator handed out; its holder frees it once.

    Attributes
    ----------
    address : int
        First address, a multiple of at least 256 for device memory.
    size : int
        Bytes that belong to the block, at least ``requested``.
    requested : int
        Bytes that were asked for.
    """

    address: int
    size: int
    requested: int

    @property
    def stream(self) -> int:
        """Handle, as an int, of the stream that the block was allocated for."""


B = TypeVar("B", bound=Block)


class Allocator(Protocol[B]):
    """Gives out memory for work on streams, and takes it back.

    Streams are the integer values of their handles. Within one allocator a stream always goes by the
    same number, and is not destroyed while blocks that were allocated for it or used on it exist. All
    methods may be called from any thread, and ``free`` also from finalizers.
    """

    def allocate(self, size: int, stream: int) -> B:
        """``size`` bytes for work on ``stream``, contents undefined.

        Nothing is waited for. A size of 0 gives a block at address 0.

        Raises
        ------
        OutOfMemoryError
            If there is no such range, also after cached memory was given back.
        InvalidValueError
            If ``size`` is negative.
        """

    def free(self, block: B) -> None:
        """Take ``block`` back. Work that its own stream has queued on it may still be running.

        Raises
        ------
        InvalidValueError
            If it was freed before.
        """

    def record_stream(self, block: B, stream: int, device: int | None = None) -> None:
        """Note that ``stream`` (of ``device``, by default the allocator's) uses ``block``.

        Once freed, the block is not handed out again before all work is done that ``stream`` has
        queued at the moment of freeing.
        """

    def empty_cache(self) -> None:
        """Give memory that no block occupies back to the driver; it may wait for work that still uses some.

        Raises
        ------
        CudaError
            If work that it waits for has failed.
        """

    def statistics(self) -> Mapping[str, int]:
        """Counters under PyTorch's names, such as ``"allocated_bytes.all.current"``: counts, or sizes in bytes.

        ``current``, ``peak``, ``allocated`` (the sum of what came) and ``freed`` (the sum of what went) of each.
        """

    def snapshot(self) -> list[dict[str, Any]]:
        """Segments and the blocks in them, as ``torch.cuda.memory_snapshot`` describes them.

        A dictionary for each segment: address, sizes in bytes, stream, and its blocks with their states, by address. It is a
        copy, which later calls do not change.
        """


class DeviceAllocator(Allocator[B], Protocol[B]):
    """An allocator of one device's memory: an :class:`Allocator` with a limit and an observer.

    The caching allocator, the guarding one and the one that asks the driver each time are such.
    """

    def set_memory_fraction(self, fraction: float) -> None:
        """Refuse to hold more than ``fraction`` (0 to 1) of the device's total memory: OutOfMemoryError beyond that.

        Raises
        ------
        InvalidValueError
            If ``fraction`` is not between 0 and 1.
        """

    def reset_peaks(self) -> None:
        """Let the peaks among the statistics (``*.peak``) start over at the current values."""

    def reset_accumulated(self) -> None:
        """Let the sums among the statistics (``*.allocated``, ``*.freed`` and event counts) start over at 0."""

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of everything from now on.

        Parameters
        ----------
        observer : Observer or None
            Takes the earlier one's role; ``None`` ends it.
        """

    def grant_access(self, device: int) -> None:
        """Let another device use this memory, that of later allocations too.

        Parameters
        ----------
        device : int
            Ordinal of a device whose access to this device as a peer was enabled: :meth:`drv.Device.enable_peer_access`.

        Raises
        ------
        CudaError
            If the driver refuses.
        """

    def begin_pool(
        self,
        identifier: PoolIdentifier,
        claims: Callable[[int], bool],
        *,
        splits: bool = True,
        lends: bool = False,
    ) -> None:
        """Send allocations into a private pool, whose memory is kept until nobody uses the pool any more.

        Parameters
        ----------
        identifier
            The pool, which is made if it is not there.
        claims : callable
            Whether an allocation that the calling thread makes for a stream, which it gets as a number, belongs there. It
            may raise to refuse the allocation, and must not allocate.
        splits : bool
            Whether segments of the pool are cut into blocks.
        lends : bool
            Whether an allocation outside may have free memory of the pool before it fails.

        Raises
        ------
        NotSupportedError
            If the allocator has no private pools.
        """

    def end_pool(self, identifier: PoolIdentifier, claims: Callable[[int], bool]) -> None:
        """End what :meth:`begin_pool` began.

        Parameters
        ----------
        identifier, claims
            As they were passed there.

        Raises
        ------
        InvalidValueError
            If that has ended.
        """

    def retain_pool(self, identifier: PoolIdentifier) -> None:
        """Keep the memory of a pool, ``identifier``, until :meth:`release_pool` is called as often.

        Raises
        ------
        NotSupportedError
            If the allocator has no private pools.
        """

    def release_pool(self, identifier: PoolIdentifier) -> None:
        """Undo :meth:`retain_pool`, also from finalizers.

        Memory of a pool, ``identifier``, that nobody keeps and no block occupies goes back like other memory that is cached.

        Raises
        ------
        InvalidValueError
            If nobody keeps it.
        """

    def pool_users(self, identifier: PoolIdentifier) -> int:
        """How often :meth:`begin_pool` and :meth:`retain_pool` keep the pool ``identifier``.

        Returns
        -------
        int
            0 if there is no such pool, or nobody keeps it.
        """


class MemorySource(Protocol[B]):
    """What a caching allocator stands on: whole segments from the driver, or from an allocator around it.

    Sizes are in bytes. It is called inside of the caching allocator's gate.
    """

    def allocate(self, size: int, stream: int) -> B:
        """``size`` bytes for work on ``stream``, an address of a stream.

        Raises
        ------
        OutOfMemoryError
            If the device has no such segment left; the caching allocator then frees what it holds and asks again.
        """

    def free(self, block: B) -> None:
        """Take ``block`` back.

        The caller has made sure that no work uses it any more.
        """

    def memory_info(self) -> tuple[int, int]:
        """Free and total memory of the device, in bytes, as the driver counts it.

        What other processes hold is not free, nor is what this one's allocators cache.
        """

    def process_use(self) -> int | None:
        """Bytes of the device's memory that this process holds, ``None`` where the driver does not tell.

        For the message of an OutOfMemoryError: it raises nothing.
        """


class Observer(Protocol):
    """Told of everything that an allocator does; its frames travel with the blocks.

    ``action`` is one of ``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``,
    ``segment_free``, ``segment_map``, ``segment_unmap``, ``oom`` (``address`` is then the device's free
    memory) and ``snapshot``.
    """

    def frames_for_allocation(self) -> Frames | None:
        """Python stack of an allocation in progress, or ``None`` when stacks of allocations are not recorded.

        It is what :meth:`record` gets for the action, and what a snapshot shows.
        """

    def frames_for_free(self) -> Frames | None:
        """Python stack of a free, or ``None`` when stacks of frees are not recorded.

        It is what :meth:`record` gets for the action, and what a snapshot shows.
        """

    def record(self, action: str, address: int, size: int, stream: int, frames: Frames | None) -> None:
        """Note that something happened to a range of memory.

        Parameters
        ----------
        action : str
            See :class:`Observer`.
        address, size : int
            First address, and bytes.
        stream : int
            Handle of the stream that the range is for.
        frames
            The Python stack of it, or ``None`` where stacks are not recorded.
        """
