"""Files of ``torch.save``, read and written, without PyTorch."""

from __future__ import annotations

import fractions
import io
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nvrtc_kernels import dtypes
from tensor import Tensor
from tensor.serialization import UnpicklingError
from tests.tensor.serialization.checkpoints import KINDS, assert_same
from tests.tensor.serialization.checkpoints import numbers as elements

from .torch_files import (
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

FLOATS = struct.pack("<6f", *range(6))


def test_views_of_one_storage_share_it() -> None:
    content = (
        b"](" + view(storage(6), [2, 3], [1, 2]) + view(storage(6), [4], [1], 2) + view(storage(6), [], [], 5)
    )
    for data in (archive(content + b"e", {"0": FLOATS}), legacy(content + b"e", {"0": (6, FLOATS)})):
        whole, rest, last = loaded(data)
        assert whole.tolist() == [[0, 2, 4], [1, 3, 5]]
        assert whole.stride() == (1, 2)
        rest.zero_()
        assert whole.tolist() == [[0, 0, 0], [1, 0, 0]]
        assert last.shape == ()
        assert last.item() == 0


def test_parameters_attributes_and_gradients() -> None:
    leaf = view(storage(6), [2], [1])
    state = b"}" + text("note") + text("mine") + b"s"
    content = (
        b"]("
        + (named("torch._utils._rebuild_parameter") + leaf + b"\x89" + NO_HOOKS + b"\x87R")
        + (
            named("torch._utils._rebuild_parameter_with_state")
            + b"("
            + leaf
            + b"\x88"
            + NO_HOOKS
            + state
            + b"tR"
        )
        + view(storage(6), [2], [1], more=b"\x88" + NO_HOOKS)
        + (named("torch._tensor._rebuild_from_type_v2") + b"(")
        + (named("torch._utils._rebuild_tensor_v2") + named("torch.Tensor"))
        + (b"(" + storage(6) + number(1) + numbers([1]) * 2 + b"\x89" + NO_HOOKS + b"t" + state + b"tR")
        + b"e"
    )
    frozen, trained, leaf_, noted = loaded(archive(content, {"0": FLOATS}))
    assert [type(each) for each in (frozen, trained, leaf_, noted)] == [
        nn.Parameter,
        nn.Parameter,
        Tensor,
        Tensor,
    ]
    assert [each.requires_grad for each in (frozen, trained, leaf_, noted)] == [False, True, True, False]
    assert trained.note == noted.note == "mine"
    assert noted.tolist() == [1]


def test_containers_and_numbers() -> None:
    metadata = b"}" + text("_metadata") + b"}s"
    content = (
        b"](NK\x05"
        + number(-(2**70))
        + (b"G" + struct.pack(">d", 0.1))
        + (text("text") + encoded(b"\0\xff"))
        + (named("collections.OrderedDict") + b")R" + text("a") + b"K\1s" + metadata + b"b")
        + (named("collections.Counter") + b"}" + text("a") + b"K\2s\x85R")
        + (named("collections.defaultdict") + named("__builtin__.long") + b"\x85R" + text("a") + b"K\3s")
        + (named("torch.Size") + numbers([2, 3]) + b"\x85R")
        + (named("torch.device") + text("cuda") + b"K\1\x86R")
        + named("torch.bfloat16")
        + (named("__builtin__.set") + b"](K\1e\x85R")
        + (
            named("__builtin__.complex")
            + b"G"
            + struct.pack(">d", 1)
            + b"G"
            + struct.pack(">d", 2)
            + b"\x86R"
        )
        + b"e"
    )
    result = loaded(archive(content))
    ordered = OrderedDict(a=1)
    ordered._metadata = {}
    expected: list[Any] = [
        None,
        5,
        -(2**70),
        0.1,
        "text",
        b"\0\xff",
        ordered,
        Counter({"a": 2}),
        defaultdict(int, a=3),
    ]
    expected += [tensor.Size([2, 3]), tensor.device("cuda", 1), tensor.bfloat16, {1}, 1 + 2j]
    assert_same(result, expected)


def test_arrays_and_scalars_of_numpy() -> None:
    scalar = (
        named("numpy.core.multiarray.scalar") + numpy_dtype("i8") + encoded(struct.pack("<q", -7)) + b"\x86R"
    )
    texts = b"(" + number(3) + text("<") + b"NNN" + number(8) + number(4) + number(8) + b"t"
    content = (
        b"]("
        + array(struct.pack("<6f", *range(6)), [2, 3])
        + array(struct.pack(">2d", 1, 2), [2], "f8", ">")
        + array("abc".encode("utf-32-le") + bytes(4), [2], "U2", state=texts)
        + scalar
        + b"e"
    )
    whole, swapped, words, seven = loaded(archive(content))
    np.testing.assert_array_equal(whole, np.arange(6, dtype="f4").reshape(2, 3))
    # NumPy itself makes the byte order of what it unpickles native.
    assert swapped.dtype == np.float64
    assert swapped.tolist() == [1, 2]
    assert words.tolist() == ["ab", "c"]
    assert type(seven) is np.int64
    assert seven == -7


def test_protocols_of_other_versions() -> None:
    value = {"a": [1, 2.5, "text", b"bytes", (None, True)], "b": {1, 2}, "c": 2**40, "long": "x" * 300}
    for protocol in (2, 3, 4, 5):
        content = pickle.dumps(value, protocol)
        assert loaded(archive(content[2:-1])) == value


def test_where_storages_go(tmp_path: Path) -> None:
    drv.simulator.install(devices=2, check="race")
    content = (
        b"]("
        + view(storage(6, "a", location="cuda:1"), [6], [1])
        + view(storage(6, "b"), [2, 3], [1, 2])
        + b"e"
    )
    for data in (
        archive(content, {"a": FLOATS, "b": FLOATS}),
        legacy(content, {"b": (6, FLOATS), "a": (6, FLOATS)}),
    ):
        for location, expected in {
            None: "cuda:1 cpu",
            "cpu": "cpu cpu",
            "cuda:0": "cuda:0 cuda:0",
        }.items():
            first, second = loaded(data, map_location=location)
            assert f"{first.device} {second.device}" == expected
            assert first.tolist() == [*range(6)]
            assert second.tolist() == [[0, 2, 4], [1, 3, 5]]
        first, second = loaded(data, map_location={"cuda:1": "cuda:0"})
        assert f"{first.device} {second.device}" == "cuda:0 cpu"
        asked: list[str] = []

        def same(storage: Any, location: str, asked: list[str] = asked) -> Any:
            asked.append(location)
            return storage

        first, _ = loaded(data, map_location=same)
        assert sorted(asked) == ["cpu", "cuda:1"]
        assert first.device.type == "cpu"
    far = view(storage(6, location="cuda:7"), [6], [1])
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        loaded(archive(far, {"0": FLOATS}))
    assert loaded(archive(far, {"0": FLOATS}), map_location="cpu").device.type == "cpu"


def test_storages_are_mapped_where_they_are_aligned(tmp_path: Path) -> None:
    path = tmp_path / "it.pt"
    tensor.save({"a": tensor.arange(6.0), "none": tensor.ones(0)}, path, format="torch")
    before = path.read_bytes()
    result = tensor.load(path, mmap=True)
    assert result["none"].shape == (0,)
    base = result["a"]._host
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert type(base).__name__ in ("mmap", "memoryview")
    result["a"].zero_()
    assert path.read_bytes() == before
    path.write_bytes(legacy(view(storage(6), [6], [1]), {"0": (6, FLOATS)}))
    with pytest.raises(RuntimeError, match="mmap=True is for the ZIP archives"):
        tensor.load(path, mmap=True)


@KINDS
def test_written_and_read_again(kind: dtypes.dtype, device_name: str) -> None:
    leaf = elements(kind, 3, 4).to(device_name)
    argument = {
        "whole": leaf,
        "part": leaf[1:, ::2],
        "t": leaf.t(),
        "empty": leaf[:0],
        "one": leaf[1, 1],
        3: [leaf],
    }
    file = io.BytesIO()
    tensor.save(argument, file, format="torch")
    result = loaded(file.getvalue())
    assert_same(result, argument)
    assert [each.stride() for each in (result["part"], result["t"])] == [(4, 2), (1, 4)]
    assert result[3][0] is result["whole"]
    assert result["t"].data_ptr() == result["whole"].data_ptr()


def test_modules_and_optimizers_are_written_and_read() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = nn.optim.Adam(model.parameters())
    model(tensor.ones(2, 3)).sum().backward()
    optimizer.step()
    tagged = tensor.ones(2)
    tagged.note = [1]
    argument = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameters": list(model.parameters()),
        "tagged": tagged,
        "more": [
            nn.Buffer(tensor.ones(1), persistent=False),
            b"\0\xff",
            {1, "a"},
            1j,
            -(2**70),
            tensor.Size([1]),
        ],
        "mixed": [tagged.view(tensor.int32), tensor.device("cpu"), tensor.float16],
    }
    file = io.BytesIO()
    tensor.save(argument, file, format="torch")
    assert_same(loaded(file.getvalue()), argument)


def test_the_same_values_give_the_same_aligned_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tensor.save(
            {"a": tensor.arange(5), "b": tensor.ones(3), "c": {"y", "x"}}, tmp_path / name, format="torch"
        )
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    data = (tmp_path / "one").read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as written:
        assert written.testzip() is None
        for entry in written.infolist():
            name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
            assert (entry.header_offset + 30 + name + extra) % 64 == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": np.float32(1)}, r"checkpoint\['a'\]: it is a numpy.float32, which torch.load.*save it.item"),
        ([np.ones(1)], r"checkpoint\[0\]: it is a numpy.ndarray.*from_numpy"),
        ([defaultdict(int)], r"checkpoint\[0\]: it is a collections.defaultdict.*dict"),
        ([nn.Linear(1, 1)], r"save its state_dict"),
        ([len], "nothing that would have to be run"),
        ([2**3000], "a number of 376 bytes"),
        ({"k": {tensor.ones(1)}}, "a tensor in a set or a key"),
        ({tensor.ones(1): 1}, "a tensor as a key"),
    ],
)
def test_what_torch_load_does_not_read_is_not_written(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        tensor.save(value, tmp_path / "it", format="torch")
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ValueError, match="part of itself"):
        tensor.save(ring, tmp_path / "it", format="torch")
    with pytest.raises(ValueError, match="'safetensors' or 'torch', not 'zip'"):
        tensor.save(1, tmp_path / "it", format="zip")
    assert not list(tmp_path.iterdir())


# What the user allows


class Config:
    def __init__(self, size: int = 0) -> None:
        self.size = size


class Slotted:
    __slots__ = ("size",)


def test_classes_that_are_allowed() -> None:
    pickled = pickle.dumps([fractions.Fraction(1, 3), Config(5)], 2)[2:-1]
    with pytest.raises(
        UnpicklingError, match=r"names fractions.Fraction.*add_safe_globals\(\[fractions.Fraction\]\)"
    ):
        loaded(archive(pickled))
    with tensor.serialization.safe_globals([fractions.Fraction, Config]):
        third, config = loaded(archive(pickled))
        assert third == fractions.Fraction(1, 3)
        assert type(config) is Config
        assert config.size == 5
    assert tensor.serialization.get_safe_globals() == []
    with pytest.raises(UnpicklingError, match="names fractions.Fraction"):
        loaded(archive(pickled), weights_only=False)
    foreign = named("their.module.Settings") + b")\x81}" + text("size") + b"K\7sb"
    tensor.serialization.add_safe_globals([(Config, "their.module.Settings")])
    try:
        assert loaded(archive(foreign)).size == 7
        assert tensor.serialization.get_safe_globals() == [(Config, "their.module.Settings")]
    finally:
        tensor.serialization.clear_safe_globals()
    with pytest.raises(UnpicklingError, match=r"their\.module\.Settings"):
        loaded(archive(foreign))
    with tensor.serialization.safe_globals([Slotted]):
        slotted = Slotted()
        slotted.size = 4
        assert loaded(archive(pickle.dumps(slotted, 2)[2:-1])).size == 4
    for wrong in (["os.system"], [(Config, "a", "b")], [(Config, 1)]):
        with pytest.raises(TypeError, match="add_safe_globals"):
            tensor.serialization.add_safe_globals(wrong)


def test_files_that_cannot_seek() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._file = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self._file.readinto(buffer)

    with pytest.raises(RuntimeError, match="read it into an io.BytesIO first"):
        tensor.load(Pipe(archive(b"N")))
    file = io.BytesIO()
    tensor.save({"a": tensor.arange(3)}, file)
    assert tensor.load(Pipe(file.getvalue()))["a"].tolist() == [0, 1, 2]
