"""What plans of kernels are: what is launched, and the scratch memory that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from drv import bind, prepare

from .kernel_cache import KernelCache
from .program import library_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device, Function


#: Dynamic shared memory that a kernel has without asking.
_SHARED_BYTES = 48 << 10


class Plan(NamedTuple):
    """What launches the kernels of a computation.

    Attributes
    ----------
    run : callable
        ``run(stream_handle, scratch_address, *addresses)``, addresses as the function that made the plan
        says. Queues kernels and returns.
    scratch_bytes : int
        Bytes of device memory that ``scratch_address`` must have, aligned to 16. Their contents matter
        neither before nor after.
    """

    run: Callable[..., None]
    scratch_bytes: int = 0


def _nothing(*_: Any) -> None:
    """Nothing to compute: no launch."""


#: The plan of a computation without elements.
NOTHING = Plan(_nothing)


def launcher(
    device: Device,
    file: str,
    source: str,
    name: str,
    codes: Sequence[str | int],
    shared: int = 0,
    *,
    one_architecture: bool = False,
    cooperative: bool = False,
) -> Callable[..., None]:
    """What launches the kernel ``name`` of ``source``, as :func:`drv.prepare` makes it.

    ``file`` is what reports call the source; kernels of one source are compiled together. ``shared`` is how many bytes
    of dynamic shared memory launches may ask for, where these are more than every device has. ``one_architecture``
    says that the source uses what only the device's own architecture has, ``cooperative`` that blocks wait for one
    another.
    """

    def prepared() -> Callable[..., None]:
        function = _function(device, file, source, name, one_architecture)
        if shared > _SHARED_BYTES:
            function.max_dynamic_shared_bytes = shared
        return prepare(function, codes, cooperative=cooperative)

    return device.runtime.cache((file, device.ordinal, source, name), prepared)


def bound(
    device: Device,
    file: str,
    source: str,
    name: str,
    codes: Sequence[str | int],
    grid: int | tuple[int, int],
    threads: int,
    *first: Any,
    shared: int = 0,
) -> Callable[..., None]:
    """What launches a kernel whose grid, block and first arguments never change, as :func:`drv.bind` makes it.

    ``shared`` are bytes of dynamic shared memory.
    """
    width, height = (grid, 1) if isinstance(grid, int) else grid
    function = device.runtime.cache(
        ("function", file, device.ordinal, source, name), lambda: _function(device, file, source, name)
    )
    if shared > _SHARED_BYTES:
        function.max_dynamic_shared_bytes = shared
    return bind(function, codes, (width, height, 1), (threads, 1, 1), *first, shared=shared)


def _function(device: Device, file: str, source: str, name: str, one_architecture: bool = False) -> Function:
    program = library_program(source, file, one_architecture=one_architecture)
    return KernelCache.of(device.runtime).function(program, name, device)


def includes(header: str) -> str:
    """Lines that include the conversions of elements, and ``header``."""
    return f'#include "elements.cuh"\n#include "{header}"\n\n'
