"""Hostile and damaged files of ``torch.save``: each is refused, nothing in it is run, in bounded time and memory."""

from __future__ import annotations

import copyreg
import io
import pickle
import random
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import tensor
from tensor.serialization import UnpicklingError

from .torch_files import (
    LEGACY_NUMBER,
    NO_HOOKS,
    archive,
    array,
    encoded,
    legacy,
    loaded,
    named,
    number,
    numbers,
    numpy_dtype,
    storage,
    text,
    view,
)

FLOATS = bytes(24)
TOUCH = text("touch was_run")
STATE = b"}" + text("a") + b"K\1s"


def called(name: str, *arguments: bytes) -> bytes:
    return named(name) + b"(" + b"".join(arguments) + b"tR"


#: What a pickle may not do. Each is put into an archive, and into a file of the older format.
PICKLES: dict[str, tuple[bytes, str]] = {
    # Calls of what harms
    "os.system": (called("os.system", TOUCH), "names os.system"),
    "posix.system": (called("posix.system", TOUCH), "names posix.system"),
    "nt.system": (called("nt.system", TOUCH), "names nt.system"),
    "subprocess": (called("subprocess.Popen", TOUCH), "names subprocess.Popen"),
    "eval": (called("builtins.eval", text("open('was_run', 'w')")), "names builtins.eval"),
    "exec": (called("__builtin__.exec", text("open('was_run', 'w')")), "names builtins.exec"),
    "open": (called("builtins.open", text("was_run"), text("w")), "names builtins.open"),
    "import": (called("builtins.__import__", text("antigravity")), "names builtins.__import__"),
    "getattr": (called("builtins.getattr", named("torch.Size"), text("__class__")), "names builtins.getattr"),
    "setattr": (called("builtins.setattr", b"]", text("a"), b"N"), "names builtins.setattr"),
    "nested attribute": (called("collections.OrderedDict.__init__.__globals__"), "names collections.OrderedDict.__init__"),
    "attribute of what is known": (b"\x80\4" + text("collections") + text("OrderedDict.fromkeys") + b"\x93)R", "fromkeys"),
    "type": (called("builtins.type", text("a"), b")", b"}"), "names builtins.type"),
    "partial": (called("functools.partial", named("torch.Size")), "names functools.partial"),
    "reduce": (called("functools.reduce", named("torch.Size"), b"]"), "names functools.reduce"),
    "attrgetter": (called("operator.attrgetter", text("a")), "names operator.attrgetter"),
    "methodcaller": (called("operator.methodcaller", text("a")), "names operator.methodcaller"),
    "itemgetter": (called("operator.itemgetter", b"K\1"), "names operator.itemgetter"),
    "copyreg": (called("copyreg._reconstructor", named("torch.Size"), named("builtins.object"), b"N"), "copyreg._reconst"),
    "copy_reg": (called("copy_reg.__newobj__", named("torch.Size")), "copy_reg.__newobj__"),
    "pickle in a pickle": (called("pickle.loads", encoded(b"N.")), "names pickle.loads"),
    "torch.load": (called("torch.load", text("a")), "names torch.load"),
    "torch.hub": (called("torch.hub.load", text("a")), "names torch.hub.load"),
    "torch.storage": (called("torch.storage._load_from_bytes", encoded(b"N.")), "_load_from_bytes"),
    "module": (named("torch.nn.modules.linear.Linear") + b")\x81}b", "names torch.nn.modules.linear.Linear.*state_dict"),
    "numpy.load": (called("numpy.load", text("a")), "names numpy.load"),
    "ctypes of numpy": (called("numpy.ctypeslib.load_library", text("a"), text("b")), "names numpy.ctypeslib"),
    "internals of numpy": (called("numpy._core._internal._ctypes", b"]", b"K\1"), "names numpy._core._internal"),
    "exec of numpy": (called("numpy.testing._private.utils.runstring", text("1"), b"}"), "numpy.testing"),
    "f2py": (called("numpy.f2py.compile", text("a")), "names numpy.f2py"),
    "webbrowser": (called("webbrowser.open", text("http://localhost")), "names webbrowser.open"),
    "pty": (called("pty.spawn", text("sh")), "names pty.spawn"),
    "runpy": (called("runpy.run_path", text("a.py")), "names runpy.run_path"),
    "timeit": (called("timeit.timeit", text("1")), "names timeit.timeit"),
    "code": (called("types.CodeType"), "names types.CodeType"),
    "our own names": (called("tensor.load", text("a")), "names tensor.load"),
    "names by the stack": (b"\x80\4" + text("os") + text("system") + b"\x93" + TOUCH + b"\x85R", "names os.system"),
    "names that are none": (b"\x80\4" + b"K\1K\2\x93", "no name of a module"),
    # Instructions that do more
    "INST": (b"(" + TOUCH + b"ios\nsystem\n", "the instruction INST"),
    "OBJ": (b"(" + named("torch.Size") + TOUCH + b"o", "the instruction OBJ"),
    "EXT1": (b"\x82\1", "the instruction EXT1"),
    "EXT2": (b"\x83\1\0", "the instruction EXT2"),
    "EXT4": (b"\x84\1\0\0\0", "the instruction EXT4"),
    "PERSID": (b"Pstorage\n", "the instruction PERSID"),
    "NEWOBJ_EX": (named("torch.Size") + b")}\x92", "the instruction NEWOBJ_EX"),
    "NEXT_BUFFER": (b"\x97", "the instruction NEXT_BUFFER"),
    "READONLY_BUFFER": (b"N\x98", "the instruction READONLY_BUFFER"),
    "text numbers": (b"I" + b"9" * 5000 + b"\n", "the instruction INT|malformed"),
    "no instruction": (b"\xff", "no instruction|malformed"),
    # Calls of what was not named, and states of what has none
    "call of a string": (text("os.system") + b")R", "calls 'os.system', which is no function"),
    "call of a dtype": (named("torch.float32") + b")R", "calls a dtype"),
    "call of a storage type": (called("torch.FloatStorage", b"K\1"), "calls a StorageType"),
    "call without a tuple": (named("torch.Size") + b"]R", "calls a Named"),
    "call of int": (called("builtins.int", text("1" * 5000)), "a type with 1 arguments"),
    "call of ndarray": (called("numpy.ndarray", numbers([10**12])), "a type with 1 arguments"),
    "new of int": (named("builtins.int") + b"K\1\x85\x81", "a type with 1 arguments"),
    "new of a string": (text("a") + b")\x81", "calls 'a', which is no function"),
    "state of a tensor": (view(storage(6), [1], [1]) + STATE + b"b", "the state of a Tensor"),
    "state of a dict": (b"}" + STATE + b"b", "the state of {}"),
    "state of a class": (named("torch.Size") + STATE + b"b", "the state of a Named"),
    "state of a function": (named("torch._utils._rebuild_tensor_v2") + STATE + b"b", "the state of a Named"),
    "state of a dtype": (named("torch.float32") + STATE + b"b", "the state of a dtype"),
    "state of a device": (called("torch.device", text("cpu")) + STATE + b"b", "the state of a device"),
    "state by a tuple": (called("collections.OrderedDict") + b"N" + STATE + b"\x86b", "the attributes of"),
    "state with numbers": (called("collections.OrderedDict") + b"}K\1K\1sb", "the attributes of"),
    "append to a dict": (b"}K\1a", "appends to {}"),
    "append to a size": (called("torch.Size", b")") + b"(K\1e", "appends to a Size"),
    "items of a list": (b"]K\0K\1s", r"sets items of \[\]"),
    "items of an odd number": (b"}(K\0u", "sets items of"),
    "items of a tensor": (view(storage(6), [1], [1]) + b"K\0K\1s", "sets items of a Tensor"),
    "add to a list": (b"](K\1\x90", "which is no set"),
    "a class as a value": (b"]" + named("torch.Size") + b"a", "holds torch.Size itself"),
    "a function": (named("torch._utils._rebuild_tensor_v2"), "holds torch._utils._rebuild_tensor_v2 itself"),
    "a storage as a value": (b"}K\1" + storage(6) + b"s", "holds a storage itself"),
    # Memory, the stack and the memo
    "empty stack": (b"a", "empty stack"),
    "no mark": (b"t", "looks for a mark"),
    "nothing at all": (b"", "empty stack"),
    "memo that is not there": (b"h\7", "refers to value 7"),
    "end of a string": (b"X\xff\xff\xff\xff", "cut off"),
    "end of a long string": (b"\x8d" + b"\xff" * 8, "cut off"),
    "end of bytes": (b"\x8e" + struct.pack("<Q", 2**62), "cut off"),
    "end of an integer": (b"\x8b\xff\xff\xff\x7f", "cut off"),
    "frame": (b"\x95" + struct.pack("<Q", 2**62), "cut off"),
    "name without an end": (b"c" + b"a" * 5000, "has no end|cut off"),
    "no text": (b"X\2\0\0\0\xff\xfe", "no text|cut off"),
    "protocol": (b"\x80\x63N", "of protocol 99"),
    "deep lists": (b"]" * 20_000 + b"a" * 19_999, "nest deeper"),
    "deep tuples": (b"K\1" + b"\x85" * 20_000, "nest deeper"),
    "deep dicts": (b"}" + b"K\1}" * 5_000 + b"s" * 5_000, "nest deeper"),
    "deep key": (b"}K\1" + b"\x85" * 5_000 + b"K\1s", "which is none"),
    "key of many": (b"}" + b")2\x86" * 1 + b"2\x86" * 60 + b"K\1s", "which is none"),
    "list as a key": (b"}]K\1s", "the key"),
    "huge integer as a key": (b"}" + number(2**100) + b"K\1s", "the key"),
    "complex number as a key": (b"}" + called("builtins.complex", b"G" + bytes(8), b"G" + bytes(8)) + b"K\1s", "the key"),
    "deep element of a set": (called("builtins.set", b"]K\1" + b"\x85" * 5000 + b"a"), "which is none"),
    "copies of a string": (
        b"](" + named("_codecs.encode") + b"q\0" + text("a" * 200_000) + text("latin1") + b"\x86q\1R" + b"h\0h\1R" * 1000 + b"e",
        "copied more often",
    ),
    "copies of a list": (
        b"](" + named("builtins.set") + b"q\0](" + b"K\1" * 100_000 + b"e\x85q\1R" + b"h\0h\1R" * 200 + b"e",
        "copied more often",
    ),
    "bytes of a size": (called("builtins.bytes", number(2**40)), "does not take"),
    "offset of what is empty": (view(storage(6), [0], [1], 2**60), "does not lie in its storage"),
    "bytearray of a size": (called("builtins.bytearray", number(2**40)), "makes a bytearray of"),
    "set of a range": (called("builtins.set", called("builtins.range", b"K\0", number(2**40), b"K\1")), "makes a set of"),
    "bytes of other encodings": (called("_codecs.encode", text("a" * 100), text("idna")), "encodes 'aaa"),
    "bytes that are none": (called("_codecs.encode", text("\u20ac"), text("latin1")), "bytes that are none"),
    "encoding by code": (called("_codecs.encode", text("a"), text("zlib")), "encodes 'a' as 'zlib'"),
    "range without steps": (called("builtins.range", b"K\0", b"K\1", b"K\0"), "a range of"),
    "defaultdict of code": (called("collections.defaultdict", named("torch.device")), "which is code"),
    "counter of a number": (called("collections.Counter", b"K\5"), "makes a dict of 5"),
    "size of strings": (called("torch.Size", b"]" + text("a") + b"a"), "a size of"),
    "device": (called("torch.device", text("no such")), "a device that is not known"),
    "sparse": (called("torch.serialization._get_layout", text("torch.sparse_coo")), "sparse tensors are not read"),
    "dtype that is not here": (named("torch.quint4x2"), "names torch.quint4x2"),
    # Tensors
    "outside of the storage": (view(storage(6), [7], [1]), "does not lie in its storage of 24 bytes"),
    "offset outside": (view(storage(6), [1], [1], 6), "does not lie in its storage"),
    "strides outside": (view(storage(6), [2], [6]), "does not lie in its storage"),
    "negative offset": (view(storage(6), [1], [1], -1), "which there is not"),
    "negative stride": (view(storage(6), [2], [-1], 3), "which there is not"),
    "negative size": (view(storage(6), [-2, -3], [1, 1]), "which there is not"),
    "offset of 64 bits": (view(storage(6), [1], [1], 2**62), "does not lie in its storage"),
    "more than 64 bits": (view(storage(6), [2**62, 4], [0, 0]), "which there is not"),
    "overflow": (view(storage(6), [2**40, 2**40], [2**40, 2**40]), "which there is not"),
    "stride of 2**64": (view(storage(6), [2], [2**64]), "which there is not"),
    "dimensions": (view(storage(6), [1] * 65, [1] * 65), "which there is not"),
    "strides of other dimensions": (view(storage(6), [1, 1], [1]), "which there is not"),
    "requires_grad": (view(storage(6), [1], [1], more=b"K\1" + NO_HOOKS), "requires_grad is 1"),
    "hooks": (view(storage(6), [1], [1], more=b"\x89" + NO_HOOKS + b"K\1K\2s"), "hooks, which are code"),
    "metadata": (view(storage(6), [1], [1], more=b"\x89" + NO_HOOKS + STATE), "a tensor with"),
    "conjugate of what repeats": (
        view(storage(6), [2**40], [0], more=b"\x89" + NO_HOOKS + b"}" + text("conj") + b"\x88s"),
        "copied more often",
    ),
    "tensor of no storage": (view(b"K\1", [1], [1]), "which is no storage"),
    "tensor of too few": (called("torch._utils._rebuild_tensor_v2", storage(6)), "does not take"),
    "parameter of no tensor": (called("torch._utils._rebuild_parameter", b"K\1", b"\x88", NO_HOOKS), "a parameter of 1"),
    "tensor by a class": (
        called("torch._tensor._rebuild_from_type_v2", named("torch.Size"), named("torch.Tensor"), b")", b"N"),
        "a tensor$",
    ),
    "class that is none of tensors": (
        called("torch._tensor._rebuild_from_type_v2", named("torch._utils._rebuild_tensor_v2"), named("torch.Size"))[:-2]
        + (b"(" + storage(6) + number(0) + numbers([1]) * 2 + b"\x89" + NO_HOOKS + b"tNtR"),
        "no class of tensors",
    ),
    # Storages
    "too many elements": (view(storage(7), [1], [1]), "24 bytes, and should have 28"),
    "too few elements": (view(storage(5), [1], [1]), "24 bytes, and should have 20"),
    "negative elements": (view(storage(-1), [1], [1]), "which is no storage"),
    "vast storage": (view(storage(2**61), [1], [1]), "24 bytes, and should have"),
    "no such storage": (view(storage(6, "1"), [1], [1]), "lacks the storage '1'|'0', which its pickle"),
    "storage outside of the archive": (view(storage(6, "../../etc/passwd"), [1], [1]), "lacks the storage|'0', which its"),
    "storage of two sizes": (b"](" + view(storage(6), [1], [1]) + view(storage(12), [1], [1]) + b"e", "and also 48"),
    "persistent module": (b"(" + text("module") + named("torch.Size") + text("a") + text("b") + b"tQ", "no storage"),
    "persistent number": (b"K\1Q", "refers to 1, which is no storage"),
    "no storage type": (storage(6, kind="torch.Size"), "which is no storage"),
    "storage on no device": (view(storage(6, location="nowhere"), [1], [1]), "belong on nowhere"),
    "view of a storage": (view(storage(6, more=numbers([1, 2, 3])), [1], [1]), "before version 0.4"),
    "bools": (view(storage(24, kind="torch.BoolStorage"), [1], [1]), "neither 0 nor 1"),
    # NumPy
    "array of objects": (array(b"", [0], "O"), "NumPy's type 'O'"),
    "array of records": (array(b"", [0], "V8"), "NumPy's type 'V8'"),
    "array of a list": (called("numpy.dtype", b"]"), "NumPy's type"),
    "array of too many": (array(bytes(8), [3]), "that its bytes do not fill"),
    "array of no end": (array(b"", [2**40, 2**40, 0]), "that its bytes do not fill"),
    "array of negative size": (array(bytes(8), [-2]), "that its bytes do not fill"),
    "array of dimensions": (array(bytes(4), [1] * 65), "that its bytes do not fill"),
    "array of bools": (array(b"\2", [1], "b1", "|"), "neither 0 nor 1"),
    "array described twice": (array(bytes(4), [1]) + b"N\x85b", "after it was made"),
    "dtype described twice": (numpy_dtype() + b"N\x85b", "after it was made"),
    "dtype with fields": (
        numpy_dtype(state=b"(" + number(3) + text("<") + b"N" + b"}" * 2 + number(-1) * 2 + number(0) + b"t"),
        "describes NumPy's type",
    ),
    "dtype of objects by flags": (
        numpy_dtype(state=b"(" + number(3) + text("|") + b"NNN" + number(8) * 2 + number(63) + b"t"),
        "describes NumPy's type",
    ),
    "array before it is described": (
        called("numpy._core.multiarray._reconstruct", named("numpy.ndarray"), numbers([10**12]), encoded(b"b")),
        "makes an array of shape",
    ),
    "array of a class": (
        called("numpy._core.multiarray._reconstruct", named("torch.Size"), numbers([0]), encoded(b"b")),
        "makes an array of",
    ),
    "scalar of other bytes": (called("numpy._core.multiarray.scalar", numpy_dtype(), encoded(b"a")), "NumPy scalar"),
}  # fmt: skip


@pytest.fixture
def nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fails if a file was made, a process started, or a copyreg entry added; and says how much memory was taken."""
    monkeypatch.chdir(tmp_path)
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **options: started.append(arguments))
    before = set(sys.modules), dict(copyreg.dispatch_table)
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not started
    assert not list(tmp_path.iterdir())
    assert {"antigravity", "webbrowser", "pty", "runpy"}.isdisjoint(set(sys.modules) - before[0])
    assert copyreg.dispatch_table == before[1]
    assert peak < 100_000_000


@pytest.mark.parametrize("name", PICKLES)
@pytest.mark.usefixtures("nothing_is_run")
def test_hostile_pickles(name: str) -> None:
    content, message = PICKLES[name]
    data = b"\2" * 24 if name == "bools" else FLOATS
    for weights_only in (True, False):
        with pytest.raises(RuntimeError, match=f"(?s)({message})"):
            loaded(archive(content, {"0": data}), weights_only=weights_only)
    with pytest.raises(RuntimeError, match="cannot load|belong on nowhere"):
        loaded(legacy(content, {"0": (6, data)}))


def test_refusals_are_those_of_pickle() -> None:
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False too"):
        loaded(archive(called("a.b")))
    assert issubclass(UnpicklingError, RuntimeError)


def test_no_one_allows_what_runs_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.chdir(tmp_path)
    for function, name in ((os.system, f"{os.system.__module__}.system"), (eval, "builtins.eval")):
        with (
            tensor.serialization.safe_globals([function]),
            pytest.raises(UnpicklingError, match="which no file may call"),
        ):
            loaded(archive(called(name, TOUCH)))
    assert not list(tmp_path.iterdir())


# Archives

GOOD = archive(view(storage(6), [6], [1]), {"0": FLOATS})


def _twice() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as output, pytest.warns(UserWarning, match="Duplicate"):
        output.writestr("archive/data.pkl", b"\x80\2N.")
        output.writestr("archive/data/0", b"a")
        output.writestr("archive/data/0", b"b")
    return file.getvalue()


def _moved(size: int) -> bytes:
    """An archive whose two storages are the same bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as output:
        output.writestr("archive/data.pkl", b"\x80\2N.")
        output.writestr("archive/data/0", bytes(size))
        output.writestr("archive/data/1", bytes(size))
    data = bytearray(file.getvalue())
    first, second = data.find(b"PK\1\2"), data.rfind(b"PK\1\2")
    between = data.find(b"PK\1\2", first + 1)
    data[second + 42 : second + 46] = data[between + 42 : between + 46]
    return bytes(data)


def _patched(offset: int, data: bytes, *, of: bytes = b"PK\1\2") -> bytes:
    """The good archive with other bytes in the last record that begins so."""
    result = bytearray(GOOD)
    at = result.rfind(of) + offset
    result[at : at + len(data)] = data
    return bytes(result)


ARCHIVES = {
    "cut off": (GOOD[:-30], "begins as a ZIP archive"),
    "begun": (GOOD[:40], "begins as a ZIP archive"),
    "no pickle": (archive(b"N").replace(b"data.pkl", b"data.pk_"), "has 0 pickles"),
    "compressed": (archive(b"N", {"0": bytes(1000)}, compression=zipfile.ZIP_DEFLATED), "compressed"),
    "bomb": (archive(b"N", {"0": bytes(10_000_000)}, compression=zipfile.ZIP_DEFLATED), "compressed"),
    "outside": (
        archive(b"N", more={"x/x": b""}).replace(b"archive/x/x", b"../../../xx"),
        "outside of the folder",
    ),
    "absolute": (archive(b"N", folder="/a"), "pickles data.pkl"),
    "another folder": (
        archive(b"N", more={"x": b""}).replace(b"archive/x", b"brchive/x"),
        "outside of the folder",
    ),
    "two pickles": (
        archive(b"N", more={"x": b""}).replace(b"archive/x", b"b/data.pk"),
        "outside of the folder",
    ),
    "twice": (None, "'archive/data/0' twice"),
    "the same bytes": (_moved(100), "where its directory says"),
    "larger than it is": (_patched(20, struct.pack("<2I", 2**31, 2**31)), "where its directory says"),
    "sizes that differ": (_patched(24, struct.pack("<I", 2**31)), "compressed"),
    "elsewhere": (_patched(42, struct.pack("<I", 3)), "where its directory says"),
    "encrypted": (_patched(8, b"\1\0"), "encrypted"),
    "other bytes": (GOOD.replace(FLOATS, b"\1" * 24), "not those that were written"),
    "byte order": (archive(b"N", more={"byteorder": b"big"}), "byte order b'big'"),
    "no byte order": (archive(b"N", more={"byteorder": b"x" * 1000}), "byte order"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_damaged_archives(name: str, tmp_path: Path) -> None:
    data, message = ARCHIVES[name]
    data = _twice() if data is None else data
    with pytest.raises(RuntimeError, match=f"cannot load 'BytesIO': .*({message})"):
        loaded(data)
    (tmp_path / "it").write_bytes(data)
    if name != "other bytes":
        with pytest.raises(RuntimeError, match="cannot load"):
            tensor.load(tmp_path / "it", mmap=True)


def test_checksums_that_were_not_computed() -> None:
    at = GOOD.find(b"archive/data/0")
    crc = struct.pack("<I", zlib.crc32(FLOATS))
    assert crc in GOOD[at - 30 :]
    assert loaded(GOOD.replace(crc, bytes(4)).replace(FLOATS, b"\0\0\x80\x3f" * 6)).tolist() == [1] * 6


# The format before

LEGACY = legacy(view(storage(6), [6], [1]), {"0": (6, FLOATS)})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (LEGACY[:-1], "cut off"),
        (LEGACY[:-30], "cut off"),
        (LEGACY[:60], "cut off"),
        (legacy(view(storage(6), [6], [1]), {"0": (2**60, FLOATS)}), "cut off: its storage '0'"),
        (legacy(view(storage(6), [6], [1]), {"0": (2**63 - 1, FLOATS)}), "cut off: its storage '0'"),
        (legacy(view(storage(6), [6], [1]), {"0": (5, FLOATS)}), "20 bytes, and should have 24"),
        (legacy(view(storage(6), [6], [1]), {"0": (6, FLOATS)}, ["0", "0"]), "or twice"),
        (legacy(view(storage(6), [6], [1]), {"0": (6, FLOATS)}, {}), "list of storages"),
        (legacy(view(storage(6), [6], [1]), {}), "lacks the storage '0'"),
        (pickle.dumps(LEGACY_NUMBER, 2) + pickle.dumps(7, 2), "version 7"),
        (pickle.dumps(LEGACY_NUMBER, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2), "byte order"),
        (pickle.dumps(LEGACY_NUMBER, 2), "cut off"),
    ],
)
def test_damaged_files_of_the_format_before(data: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        loaded(data)


def test_any_damage_is_an_error_or_harmless() -> None:
    """Bytes changed at random: an error of ours, or a value; never anything else."""
    content = (
        b"]("
        + view(storage(6), [2, 3], [3, 1])
        + array(bytes(8), [2])
        + called("collections.OrderedDict")
        + (text("a") + b"K\1s" + STATE + b"b")
        + called("builtins.set", b"]K\1a")
        + b"e"
    )
    generator = random.Random(0)
    for _ in range(1500):
        changed = bytearray(content)
        for _ in range(generator.randint(1, 4)):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        for data in (archive(bytes(changed), {"0": FLOATS}), legacy(bytes(changed), {"0": (6, FLOATS)})):
            try:
                loaded(data)
            except RuntimeError as error:
                assert "cannot load" in str(error) or "belong on" in str(error)
    for data in (GOOD, LEGACY):
        for length in range(0, len(data), 7):
            with pytest.raises(RuntimeError, match="cannot load"):
                loaded(data[:length])
