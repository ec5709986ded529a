"""Files that are damaged, foreign or hostile are errors, and nothing in them is run."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import tensor
from tensor import Tensor
from tensor.serialization import header
from tensor.serialization.structure import UnreadableError

from .checkpoints import entry, file_of


class CountedKey(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_key_that_is_there_twice_is_found_in_linear_time() -> None:
    pairs = [(CountedKey(number), number) for number in range(2000)] + [(CountedKey(1999), 0)]
    CountedKey.compared = 0
    with pytest.raises(UnreadableError, match="'1999' twice"):
        header._object(pairs)
    assert CountedKey.compared < 4 * len(pairs)


class Loud:
    """Says so when it is unpickled."""

    def __reduce__(self) -> Any:
        return print, ("I was run",)


FOREIGN = {
    "empty": (b"", "ends after 0 bytes"),
    "short": (b"1234567", "ends after 7 bytes"),
    "text": (b"hello, this is no checkpoint at all", "its header would be"),
    "pickle": (pickle.dumps(Loud(), 2), "pickle can run any code"),
    "zip": (b"PK\x03\x04" + bytes(100), "a ZIP archive, as torch.save writes"),
    "long header": (struct.pack("<Q", 2**64 - 1) + b"{}", "its header would be 18446744073709551615 bytes"),
    "header of the rest": (struct.pack("<Q", 10) + b"{}", "10 bytes long, of 2 that follow"),
    "no JSON": (file_of("{"), "malformed"),
    "no object": (file_of("[]"), "no JSON object"),
    "no text": (file_of(b"\xff\xfe{}"), "header is not text"),
    "deep": (file_of("[" * 200000 + "]" * 200000), "nests too deep|malformed"),
    "NaN": (file_of('{"a": NaN}'), "NaN is no number"),
    "long number": (file_of('{"a": ' + "1" * 5000 + "}"), "malformed"),
    "twice": (file_of('{"a": ' + json.dumps(entry()) + ', "a": ' + json.dumps(entry("I32")) + "}", bytes(4)), "'a' twice"),
    "twice within": (file_of('{"a": {"dtype": "F32", "dtype": "I32", "shape": [1], "data_offsets": [0, 4]}}', bytes(4)), "twice"),
    "overlap": (file_of({"a": entry(), "b": entry()}, bytes(4)), "'b' .* overlap another one's"),
    "overlap in part": (file_of({"a": entry("F32", [2], [0, 8]), "b": entry("F32", [2], [4, 12])}, bytes(12)), "overlap"),
    "gap": (file_of({"a": entry(), "b": entry(offsets=[8, 12])}, bytes(12)), "leave a gap"),
    "cut off": (file_of({"a": entry()}, bytes(3)), "it was cut off: its tensors need 4 bytes, and 3"),
    "added to": (file_of({"a": entry()}, bytes(5)), "it was added to: its tensors need 4 bytes, and 5"),
    "wrong size": (file_of({"a": entry(shape=[2])}, bytes(4)), "does not fill its bytes"),
    "backwards": (file_of({"a": entry(shape=[0], offsets=[4, 0])}), "no range"),
    "negative": (file_of({"a": entry(shape=[-1])}, bytes(4)), "list of sizes"),
    "no sizes": (file_of({"a": entry(shape="1")}, bytes(4)), "list of sizes"),
    "true": (file_of({"a": entry(shape=[True])}, bytes(4)), "list of sizes"),
    "half": (file_of({"a": entry(shape=[0.5, 2])}, bytes(4)), "list of sizes"),
    "huge": (file_of({"a": entry(shape=[2**62, 2**62], offsets=[0, 2**126])}, bytes(4)), "list of sizes"),
    "vast": (file_of({"a": entry("U8", [2**62], [0, 2**62])}, bytes(4)), "need 4611686018427387904 bytes, and 4"),
    "huge and empty": (file_of({"a": entry(shape=[2**64, 0], offsets=[0, 0])}), "list of sizes"),
    "empty, in a space that has no end": (file_of({"a": entry(shape=[2**62, 2**62, 0], offsets=[0, 0])}), "no memory for tensor"),
    "dimensions": (file_of({"a": entry(shape=[1] * 65)}, bytes(4)), "no memory for tensor"),
    "missing": (file_of({"a": {"dtype": "F32", "shape": [1]}}), "by other things than"),
    "more": (file_of({"a": entry() | {"x": 1}}, bytes(4)), "by other things than"),
    "no entry": (file_of({"a": 1}), "by other things than"),
    "type": (file_of({"a": entry("F8_E8M0", [4])}, bytes(4)), "'F8_E8M0', which there is no tensor of"),
    "type of type": (file_of({"a": entry(["F32"])}, bytes(4)), "there is no tensor of"),
    "metadata": (file_of({"__metadata__": {"a": 1}}), "not a table of texts"),
    "metadata list": (file_of({"__metadata__": []}), "not a table of texts"),
    "no bool": (file_of({"a": entry("BOOL", [2], [0, 2])}, b"\1\2"), "neither 0 nor 1"),
    "no checksum": (file_of({"__metadata__": {"graphroot.checkpoint": "{}"}}), "not the one that was written"),
    "another key": (file_of({"__metadata__": {"graphroof": '0 {"graphroot": 1}'}}), "not the one that was written"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_and_hostile_headers(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content, message = FOREIGN[name]
    (tmp_path / "it").write_bytes(content)
    for options in ({}, {"mmap": True}):
        if name != "no bool" or not options:
            with pytest.raises(RuntimeError, match=f"cannot load '.*it': .*({message})"):
                tensor.load(tmp_path / "it", **options)
    if name != "added to":
        with pytest.raises(RuntimeError, match="cannot load 'BytesIO'"):
            tensor.load(io.BytesIO(content))
    assert capfd.readouterr().out == ""


def hostile(
    content: Any, blocks: Any = None, header: Any = None, data: bytes = b"", **document: Any
) -> bytes:
    """A file whose checksums are right and whose structure is as given."""
    from tensor.serialization.header import read_header
    from tensor.serialization.saving import checksum

    header = dict(header or {})
    text = json.dumps({"graphroot": 1, "content": content, "blocks": blocks or {}} | document)
    plain = io.BytesIO(file_of(header, data))
    shapes = read_header(plain.read, None).described()
    header["__metadata__"] = {"graphroot.checkpoint": f"{checksum(text, shapes)} {text}"}
    return file_of(header, data)


ZEROS = zlib.crc32(bytes(24))
ONE = {"header": {"a": entry("F32", [2, 3], [0, 24])}, "data": bytes(24), "blocks": {"a": {"crc32": ZEROS}}}
STRUCTURES = {
    "unknown tag": ({"run": "print(1)"}, {}, "stands for nothing"),
    "no tag": ({}, {}, "where a value should be"),
    "two tags": ({"tuple": [], "list": []}, {}, "stands for nothing"),
    "same of nothing": ([{"same": 5}], {}, "stands for nothing"),
    "same of itself": ([{"same": 0}], {}, "stands for nothing"),
    "same as text": ([[], {"same": "1"}], {}, "stands for nothing"),
    "negative same": ([[], {"same": -1}], {}, "stands for nothing"),
    "tuple of text": ({"tuple": "abc"}, {}, "stands for nothing"),
    "dict of text": ({"dict": "abc"}, {}, "as a dict"),
    "dict of triples": ({"dict": [[1, 2, 3]]}, {}, "as a dict"),
    "key twice": ({"dict": [[1, 2], [1, 3]]}, {}, "key 1 twice"),
    "keys that are equal": ({"dict": [[1, 2], [True, 3]]}, {}, "key True twice"),
    "key that is a list": ({"dict": [[[1], 2]]}, {}, r"key \[1\], which is none"),
    "factory": ({"defaultdict": {}, "factory": "eval"}, {}, "default factory 'eval'"),
    "factory list": ({"defaultdict": {}, "factory": ["list"]}, {}, "default factory"),
    "attributes of a dict": ({"dict": {}, "attributes": {"a": 1}}, {}, "whose attributes are none"),
    "attributes that are a list": ({"OrderedDict": {}, "attributes": [1]}, {}, "whose attributes are none"),
    "int": ({"int": "ten"}, {}, "no int"),
    "float": ({"float": "1.5"}, {}, "stands for nothing"),
    "complex": ({"complex": [1, None]}, {}, "no complex"),
    "complex of three": ({"complex": [1, 2, 3]}, {}, "stands for nothing"),
    "dtype": ({"dtype": "object"}, {}, "no dtype"),
    "dtype list": ({"dtype": []}, {}, "no dtype"),
    "device": ({"device": "gpu"}, {}, "no device"),
    "numpy type": ({"numpy": ["object", "00"]}, {}, "no numpy"),
    "numpy bytes": ({"numpy": ["float32", "00"]}, {}, "no numpy"),
    "numpy two": ({"numpy": ["float32", "0000000000000000"]}, {}, "no numpy"),
    "size": ({"size": [1, "a"]}, {}, "no size"),
    "slice of slices": ({"slice": [None] * 2}, {}, "stands for nothing"),
    "missing tensor": ({"tensor": "b"}, ONE, "lacks tensor 'b'"),
    "tensor of a list": ({"tensor": ["a"]}, ONE, "describes a tensor by"),
    "tensor with more": ({"tensor": "a", "run": 1}, ONE, "describes a tensor by"),
    "tensor shown by nothing": ([], ONE, "does not know tensor 'a'"),
    "tensor of no block": ({"tensor": "a"}, ONE | {"blocks": {}}, "does not know tensor 'a'"),
    "block of text": ({"tensor": "a"}, ONE | {"blocks": {"a": "x"}}, "does not know tensor 'a'"),
    "blocks": ({"tensor": "a"}, ONE | {"blocks": [1]}, "none of ours"),
    "checksum": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": 1}}}, "not those that were written"),
    "view outside": ({"tensor": "a", "shape": [7]}, ONE, "does not lie in tensor 'a' of 24 bytes"),
    "view behind": ({"tensor": "a", "shape": [2], "offset": 20}, ONE, "does not lie in"),
    "view far away": ({"tensor": "a", "shape": [2], "strides": [2**62]}, ONE, "does not lie in"),
    "view of too much": ({"tensor": "a", "shape": [2**40, 2**40], "strides": [0, 0]}, ONE, "does not lie in"),
    "view backwards": ({"tensor": "a", "shape": [2], "strides": [-1], "offset": 20}, ONE, "list of sizes"),
    "view of strides": ({"tensor": "a", "shape": [2], "strides": [1, 1]}, ONE, "does not lie in"),
    "view of bits": ({"tensor": "a", "shape": [1], "dtype": "float64", "offset": 4}, ONE, "does not lie in"),
    "view of objects": ({"tensor": "a", "shape": [1], "dtype": "object"}, ONE, "does not lie in"),
    "gradient": ({"tensor": "a", "shape": [1], "dtype": "int32", "requires_grad": True}, ONE, "cannot require a gradient"),
    "strides of a block": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "strides": [1, 1]}}}, "no order"),
    "far strides": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "strides": [2**50, 1]}}}, "no order"),
    "few strides": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "strides": [1]}}}, "no order"),
    "no pairs": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "dtype": "complex128"}}}, "does not hold"),
    "no kind": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "dtype": []}}}, "does not hold"),
    "device of a block": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "device": 1}}}, "no device"),
    "strange device": ({"tensor": "a"}, ONE | {"blocks": {"a": {"crc32": ZEROS, "device": "tpu"}}}, "not here"),
    "version": ([], {"graphroot": 2}, "of version 2, and this program reads version 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURES)
def test_hostile_structures(name: str, tmp_path: Path) -> None:
    content, options, message = STRUCTURES[name]
    (tmp_path / "it").write_bytes(hostile(content, **options))
    with pytest.raises(RuntimeError, match=message):
        tensor.load(tmp_path / "it")


def test_structures_that_nest_too_deep() -> None:
    for around in ('[%s]', '{"tuple": [%s]}', '{"dict": [[1, %s]]}', '{"dict": [[%s, 1]]}', '{"complex": [%s, 0]}',
                   '{"slice": [%s, 0, 0]}', '{"OrderedDict": {}, "attributes": {"a": %s}}'):  # fmt: skip
        for depth in (150, 20000):
            text = "1"
            head, tail = around.split("%s")
            text = head * depth + text + tail * depth
            from tensor.serialization.saving import checksum

            document = f'{{"graphroot": 1, "content": {text}, "blocks": {{}}}}'
            metadata = {"graphroot.checkpoint": f"{checksum(document, [])} {document}"}
            with pytest.raises(RuntimeError, match="deep|no complex|no slice"):
                tensor.load(io.BytesIO(file_of({"__metadata__": metadata})))


def test_attributes_of_a_file_are_data_only() -> None:
    content = {"tensor": "a", "attributes": {"__class__": 1, "shape": 2, "backward": "x"}}
    result = tensor.load(io.BytesIO(hostile(content, **ONE)))
    assert type(result) is Tensor
    assert result.shape == (2, 3)
