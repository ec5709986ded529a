"""``Generator``: a seed and the number of calls served, and the default one of every device."""

from __future__ import annotations

import operator
import os
import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

import drv
from nvrtc_kernels.dtypes import uint8
from nvrtc_kernels.random import CAPTURED
from tensor.core.base import wrap
from tensor.core.devices import device as devices

from .captured import captured_draws, draws_of_thread, refuse_seeding

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from tensor.core.devices.state import DeviceState
    from tensor.methods.tensor import Tensor

#: PyTorch's seed of a generator that was given none.
DEFAULT_SEED = 67280421310721
_state = struct.Struct("<QQ")
#: Bytes of a state: seed and number of calls, little-endian.
STATE_BYTES = _state.size

#: Told of each call that is served, and of each seed or state that is set, in any thread, by
#: ``observer(generator, device_state, seed, call)``, with ``None`` for a device where the host draws or a state is set.
observers: list[Callable[[Generator, DeviceState | None, int, int], None]] = []


class Generator:
    """Source of random numbers for one device.

    Every call that draws numbers takes the next value of a counter; all its numbers follow from the seed,
    that value and the index of the element. So calls depend on nothing but their order on the host: not on
    streams, devices, launch shapes or strides. Safe to use from several threads.

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, an index, or a device object. The numbers are the same on all.

    Raises
    ------
    RuntimeError
        For a malformed device.
    """

    __slots__ = ("_calls", "_lock", "_seed", "device")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = devices.device(device)
        self._seed = DEFAULT_SEED
        self._calls = 0
        self._lock = threading.Lock()

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from ``seed``, and return the generator.

        ``seed`` lies in ``[-2**63, 2**64)``; a negative one counts from ``2**64`` down.

        >>> generator = tensor.Generator().manual_seed(-1)
        >>> generator.initial_seed() == 2**64 - 1
        True

        Raises
        ------
        ValueError
            If it lies outside.
        RuntimeError
            In a thread that captures a CUDA graph.
        """
        number = unsigned_seed(seed)
        refuse_seeding(self)
        with self._lock:
            self._seed, self._calls = number, 0
        self._moved()
        return self

    def initial_seed(self) -> int:
        """The seed that the generator started from, in ``[0, 2**64)``."""
        return self._seed

    def seed(self) -> int:
        """Start anew from a seed of the operating system's randomness, in ``[0, 2**53)``, and return it."""
        fresh = random_seed()
        self.manual_seed(fresh)
        return fresh

    def next_call(self, device_state: DeviceState | None = None) -> tuple[int, int]:
        """Seed and counter value of a call that draws numbers; no other call gets the same. The counter goes up by 1.

        Kernels compute their numbers from both (Philox), so that calls from several threads never get the same. On a
        stream that is captured into a CUDA graph, they are what kernels find both by at each replay, and the counter stays.

        Parameters
        ----------
        device_state
            Where a kernel draws; ``None`` where the host does.

        Raises
        ------
        RuntimeError
            Where a kernel draws after 2**63 calls, of which no such number is left.
        """
        if device_state is not None and device_state.is_cuda and device_state.runtime.captures:
            draws = captured_draws(self, device_state)
            if draws is not None:
                return draws.draw(device_state)
        with self._lock:
            call = self._calls
            if call >= CAPTURED and device_state is not None and device_state.is_cuda:
                raise RuntimeError(
                    f"{self!r} has served 2**63 calls or more, as a state that was set says: seed it anew"
                )
            self._calls = (call + 1) & 0xFFFFFFFFFFFFFFFF
            seed = self._seed
        for observer in observers:
            observer(self, device_state, seed, call)
        return seed, call

    def skip(self, calls: int) -> tuple[int, int]:
        """Let somebody else, such as a CUDA graph, serve the next ``calls`` calls.

        Returns
        -------
        tuple of two ints
            Seed and counter value of the first of them.
        """
        with self._lock:
            call = self._calls
            self._calls = (call + calls) & 0xFFFFFFFFFFFFFFFF
            seed = self._seed
        self._moved()
        return seed, call

    def position(self) -> tuple[int, int]:
        """Seed and number of calls served, outside of captures.

        What :meth:`next_call` would return next.
        """
        with self._lock:
            return self._seed, self._calls

    def state_bytes(self) -> builtins.bytes:
        """The state: 16 bytes, seed and number of calls served, little-endian.

        :meth:`set_state_bytes` takes them. In a thread that captures a CUDA graph they tell a moment of the capture.
        """
        draws = draws_of_thread(self)
        if draws is not None:
            return _state.pack(*draws.position())
        with self._lock:
            return _state.pack(self._seed, self._calls)

    def set_state_bytes(self, state: builtins.bytes) -> None:
        """Go on as the generator did that had this state.

        Raises
        ------
        RuntimeError
            If ``state`` is not 16 bytes long, or, in a thread that captures a CUDA graph, is none of the same capture;
            nothing changes then.
        """
        if len(state) != STATE_BYTES:
            raise RuntimeError(
                f"Expected a generator state of size {STATE_BYTES} but found the input RNG state size to be "
                f"{len(state)}"
            )
        draws = draws_of_thread(self)
        if draws is not None:
            draws.go_to(*_state.unpack(state))
            return
        with self._lock:
            self._seed, self._calls = _state.unpack(state)
        self._moved()

    def _moved(self) -> None:
        """Tell who observes draws that the next one does not follow from the last one."""
        for observer in observers:
            observer(self, None, self._seed, self._calls)

    def get_state(self) -> Tensor:
        """The state as a uint8 tensor of shape ``(16,)`` on the CPU: seed and number of calls served, little-endian.

        :meth:`set_state` takes it. The tensor is a copy: it does not change when numbers are drawn.

        Examples
        --------
        >>> generator = tensor.Generator()
        >>> state = generator.get_state()
        >>> first = tensor.rand(2, generator=generator)
        >>> _ = generator.set_state(state)
        >>> bool((tensor.rand(2, generator=generator) == first).all())
        True
        """
        return wrap(np.frombuffer(bytearray(self.state_bytes()), np.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on as the generator did whose state ``new_state`` is, of whatever device, and return this generator.

        Raises
        ------
        TypeError
            If ``new_state`` is not a uint8 tensor on the CPU.
        RuntimeError
            If it does not have 16 elements; nothing changes then.
        """
        layout = getattr(new_state, "_layout", None)
        if layout is None:
            raise TypeError(f"expected a uint8 CPU tensor as RNG state, but got {type(new_state).__name__}")
        if layout.device_state.is_cuda or layout.dtype is not uint8:
            raise TypeError(
                f"RNG state must be a uint8 tensor on the CPU, got {layout.dtype!r} on {layout.device}"
            )
        self.set_state_bytes(new_state._host.tobytes())
        return self

    def clone_state(self) -> Generator:
        """A new generator of the same device, which starts from this one's state.

        Both go on by themselves from there, with the same numbers.
        """
        other = Generator(self.device)
        other.set_state_bytes(self.state_bytes())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (str(self.device), self.state_bytes())

    def __repr__(self) -> str:
        return f"<tensor.Generator device='{self.device}' seed={self._seed} calls={self._calls}>"


def _restored(device: str, state: bytes) -> Generator:
    generator = Generator(device)
    generator.set_state_bytes(state)
    return generator


def unsigned_seed(seed: int) -> int:
    """``seed`` as 64 bits; raises as :meth:`Generator.manual_seed` does."""
    number = operator.index(seed) if not isinstance(seed, float) else int(seed)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"Overflow when unpacking long long: a seed lies in [-2**63, 2**64), got {number}")
    return number & 0xFFFFFFFFFFFFFFFF


def random_seed() -> int:
    """A seed from the operating system; below 2**53, so that every language can print it exactly."""
    return int.from_bytes(os.urandom(7), "little") >> 3


class _Defaults:
    """The CPU's generator, and the seed that generators of CUDA devices start from when they are made.

    CUDA's own hang on the runtime and go with it.
    """

    def __init__(self) -> None:
        self.cpu = Generator("cpu")
        self.cpu.seed()
        self.cuda_seed: int | None = None


_defaults = _Defaults()
#: The CPU's default generator, which ``tensor.default_generator`` is.
cpu_generator = _defaults.cpu


def default_generator(ordinal: int | None = None) -> Generator:
    """The default generator of the CPU, or of CUDA device ``ordinal``.

    Raises
    ------
    InvalidValueError
        If there is no such device.
    """
    if ordinal is None:
        return _defaults.cpu
    runtime = drv.runtime()

    def make() -> Generator:
        index = runtime.device(ordinal).ordinal
        generator = Generator(f"cuda:{index}")
        # A capture, in which it may be asked for first, forbids to seed one that is in use.
        generator._seed = random_seed() if _defaults.cuda_seed is None else _defaults.cuda_seed
        return generator

    return runtime.cache(("default generator", ordinal), make)


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices with ``seed``, and return the CPU's. Chooses no driver.

    >>> generator = tensor.manual_seed(0)
    >>> x = tensor.rand(2)
    >>> generator = tensor.manual_seed(0)
    >>> tensor.equal(tensor.rand(2), x)
    True

    Raises
    ------
    ValueError
        If ``seed`` is not in ``[-2**63, 2**64)``.
    """
    cuda_manual_seed_all(seed)
    return _defaults.cpu.manual_seed(seed)


def seed() -> int:
    """Seed the default generators of all devices from the operating system; returns the seed, in ``[0, 2**53)``."""
    fresh = random_seed()
    manual_seed(fresh)
    return fresh


def initial_seed() -> int:
    """Seed of the CPU's default generator, in ``[0, 2**64)``."""
    return _defaults.cpu.initial_seed()


def cuda_manual_seed(seed: int) -> None:
    """Seed the current device's default generator with ``seed``; before a driver is in use, those of all devices.

    Raises
    ------
    ValueError
        If ``seed`` is not in ``[-2**63, 2**64)``.
    """
    number = unsigned_seed(seed)
    if drv.is_initialized():
        default_generator(drv.current_device().ordinal).manual_seed(number)
    else:
        _defaults.cuda_seed = number


def cuda_manual_seed_all(seed: int) -> None:
    """Seed the default generators of all CUDA devices with ``seed``, also of those created later. Chooses no driver.

    Raises
    ------
    ValueError
        If ``seed`` is not in ``[-2**63, 2**64)``.
    """
    _defaults.cuda_seed = unsigned_seed(seed)
    if drv.is_initialized():
        for ordinal in range(drv.device_count()):
            default_generator(ordinal).manual_seed(_defaults.cuda_seed)
