"""Files as ``torch.save`` writes them, put together by hand: pickles instruction by instruction, and archives around them."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import tensor

NO_HOOKS = b"ccollections\nOrderedDict\n)R"
LEGACY_NUMBER = 0x1950A86A20F9469CFC6C


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    data = pickle.encode_long(value)
    return b"\x8a" + bytes((len(data),)) + data


def numbers(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def named(name: str) -> bytes:
    module, _, attribute = name.rpartition(".")
    return f"c{module}\n{attribute}\n".encode()


def storage(
    count: int, key: str = "0", kind: str = "torch.FloatStorage", location: str = "cpu", more: bytes = b""
) -> bytes:
    return b"(" + text("storage") + named(kind) + text(key) + text(location) + number(count) + more + b"tQ"


def view(
    of: bytes, shape: Sequence[int], strides: Sequence[int], offset: int = 0, more: bytes = b"\x89" + NO_HOOKS
) -> bytes:
    arguments = of + number(offset) + numbers(shape) + numbers(strides) + more
    return named("torch._utils._rebuild_tensor_v2") + b"(" + arguments + b"tR"


def array(
    data: bytes, shape: Sequence[int], code: str = "f4", order: str = "<", state: bytes | None = None
) -> bytes:
    """NumPy's array."""
    return (
        named("numpy._core.multiarray._reconstruct")
        + named("numpy.ndarray")
        + numbers([0])
        + encoded(b"b")
        + b"\x87R("
        + number(1)
        + numbers(shape)
        + numpy_dtype(code, order, state)
        + b"\x89"
        + encoded(data)
        + b"tb"
    )


def numpy_dtype(code: str = "f4", order: str = "<", state: bytes | None = None) -> bytes:
    description = b"(" + number(3) + text(order) + b"NNN" + number(-1) * 2 + number(0) + b"t"
    return (
        named("numpy.dtype")
        + text(code)
        + b"\x89\x88\x87R"
        + (description if state is None else state)
        + b"b"
    )


def encoded(data: bytes) -> bytes:
    return named("_codecs.encode") + text(data.decode("latin1")) + text("latin1") + b"\x86R"


def archive(
    content: bytes,
    storages: Mapping[str, bytes] = {},
    *,
    folder: str = "archive",
    compression: int = zipfile.ZIP_STORED,
    more: Mapping[str, bytes] = {},
) -> bytes:
    """The format since PyTorch 1.6. The pickle is begun and ended here."""
    file = io.BytesIO()
    entries = {"data.pkl": b"\x80\2" + content + b".", "byteorder": b"little"} | dict(more)
    entries |= {f"data/{key}": data for key, data in storages.items()}
    with zipfile.ZipFile(file, "w", compression) as output:
        for name, data in entries.items():
            output.writestr(f"{folder}/{name}", data)
        output.writestr(f"{folder}/version", b"3\n")
    return file.getvalue()


def legacy(content: bytes, storages: Mapping[str, tuple[int, bytes]] = {}, keys: Any = None) -> bytes:
    """The format before: of each storage, its number of elements and its bytes."""
    system = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    parts = [pickle.dumps(each, 2) for each in (LEGACY_NUMBER, 1001, system)]
    parts += [b"\x80\2" + content + b".", pickle.dumps(list(storages) if keys is None else keys, 2)]
    parts += [struct.pack("<q", count) + data for count, data in storages.values()]
    return b"".join(parts)


def loaded(data: bytes, **options: Any) -> Any:
    return tensor.load(io.BytesIO(data), **options)
