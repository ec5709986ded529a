"""Functions that the device runtime provides to kernels: ``printf``, ``assert``, ``malloc``, conditions of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .formatting import format_text
from .heap import DeviceHeap
from .reports import position

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .lanes import Lanes
    from .translation.code import Site

    Array = NDArray[Any]

#: Longest string that a kernel may print.
_LONGEST = 1 << 16
#: Failed assertions that are printed one by one.
_ASSERTIONS = 32


def run(name: str, lanes: Lanes, arguments: list[Array], site: Site) -> Array | None:
    """Call system function ``name``; ``arguments`` are parameter bytes ``(lanes, size)``. Returns the result's bytes."""
    if name == "vprintf":
        return _print(lanes, arguments, site)
    if name == "malloc":
        heap = DeviceHeap.of(lanes.launch.memory, lanes.launch.device)
        addresses = [heap.allocate(size) for size in _value(lanes, arguments[0]).tolist()]
        return np.array(addresses, np.uint64).view(np.uint8).reshape(-1, 8)
    if name == "free":
        heap = DeviceHeap.of(lanes.launch.memory, lanes.launch.device)
        for lane, address in enumerate(_value(lanes, arguments[0]).tolist()):
            if not heap.free(address):
                raise lanes.launch.reports.bad_free(lanes, site, lane, address)
        return None
    if name == "cudaGraphSetConditional":
        _set_condition(lanes, arguments, site)
        return None
    if name == "__assertfail":
        _assert(lanes, arguments, site)
    raise lanes.launch.reports.no_function(lanes, site, name)


def _value(lanes: Lanes, matrix: Array) -> Array:
    dtype = np.uint64 if matrix.shape[1] == 8 else np.uint32
    return lanes.broadcast(lanes.field(matrix, 0, dtype))


def _text(lanes: Lanes, site: Site, lane: int, address: int) -> str:
    """The string that ends with a zero byte at ``address``."""
    data = bytearray()
    one = lanes.subset(np.array([lane]))
    while len(data) < _LONGEST:
        byte = int(one.load_generic(site, np.array([address + len(data)], np.uint64), 0, np.uint8, 1, 1)[0])
        if byte == 0:
            break
        data.append(byte)
    return data.decode(errors="replace")


def _print(lanes: Lanes, arguments: list[Array], site: Site) -> Array:
    patterns = _value(lanes, arguments[0])
    buffers = _value(lanes, arguments[1])
    texts: dict[int, str] = {}
    taken = np.zeros(lanes.n, np.int32)
    for lane in range(lanes.n):
        address, buffer = int(patterns[lane]), int(buffers[lane])
        if address == 0:
            taken[lane] = -1
            continue
        if address not in texts:
            texts[address] = _text(lanes, site, lane, address)
        data = b""
        if buffer:
            one = lanes.subset(np.array([lane]))
            data = one.readable_bytes(
                site, buffer, 8 * (texts[address].count("%") + texts[address].count("*"))
            )

        def text_at(start: int, lane: int = lane) -> str:
            return _text(lanes, site, lane, start)

        text, taken[lane] = format_text(texts[address], data, text_at)
        lanes.launch.printf(text)
    return taken.view(np.uint8).reshape(-1, 4)


def _set_condition(lanes: Lanes, arguments: list[Array], site: Site) -> None:
    """Give conditions of graphs their values: each lane one, the last one stays."""
    handles, values = (_value(lanes, each).tolist() for each in arguments)
    for lane, (handle, value) in enumerate(zip(handles, values, strict=True)):
        if not lanes.launch.set_condition(handle, value):
            raise lanes.launch.reports.no_condition(lanes, site, lane, handle)


def _assert(lanes: Lanes, arguments: list[Array], site: Site) -> None:
    message, file, line, function = (_value(lanes, each) for each in arguments[:4])
    text = ""
    for lane in range(min(lanes.n, _ASSERTIONS)):
        block = position(int(lanes.block[lane]), lanes.launch.grid)
        thread = position(int(lanes.thread[lane]), lanes.launch.block)
        said = [_text(lanes, site, lane, int(each[lane])) for each in (file, function, message)]
        failed = (
            (
                f"{said[0]}:{int(line[lane])}: {said[1]}: block: {list(block)}, thread: {list(thread)} "
                f"Assertion `{said[2]}` failed."
            )
            .replace(", ", ",")
            .replace(",thread", ", thread")
        )
        text += failed + "\n"
    lanes.launch.printf(text)
    raise lanes.launch.reports.assertion(text.rstrip())
