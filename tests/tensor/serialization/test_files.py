"""Where checkpoints are written to, and what happens to the file that was there."""

from __future__ import annotations

import gc
import io
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensor

from .checkpoints import assert_same


def test_paths_and_file_objects(tmp_path: Path) -> None:
    argument = {"a": tensor.arange(3), "b": 1}
    for path in (tmp_path / "x", str(tmp_path / "ü.st"), os.fsencode(tmp_path / "z")):
        if isinstance(path, bytes):
            with pytest.raises(TypeError, match="must be a path or a file opened for writing, not bytes"):
                tensor.save(argument, path)
            continue
        tensor.save(argument, path)
        assert_same(tensor.load(path), argument)
        assert_same(tensor.load(path, mmap=True), argument)
    with (tmp_path / "three").open("wb") as file:
        for number in range(3):
            tensor.save({"number": number, "t": tensor.full((number,), number)}, file)
    with (tmp_path / "three").open("rb") as file:
        for number in range(3):
            assert_same(tensor.load(file), {"number": number, "t": tensor.full((number,), number)})
    with pytest.raises(TypeError, match="opened for reading, not int"):
        tensor.load(3)
    with pytest.raises(FileNotFoundError):
        tensor.load(tmp_path / "none")
    with pytest.raises(RuntimeError, match="takes the path of a file"):
        tensor.load(io.BytesIO(), mmap=True)


def test_files_that_are_opened_as_text_or_take_little_at_a_time(tmp_path: Path) -> None:
    with (
        (tmp_path / "it").open("w") as file,
        pytest.raises(TypeError, match="opened as text, open it with mode 'wb'"),
    ):
        tensor.save({}, file)
    tensor.save([1], tmp_path / "it")
    with (
        (tmp_path / "it").open() as file,
        pytest.raises(TypeError, match="opened as text, open it with mode 'rb'"),
    ):
        tensor.load(file)

    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(data[:100])

    slow = Slow()
    tensor.save({"a": tensor.arange(1000)}, slow)
    slow.seek(0)
    assert_same(tensor.load(slow), {"a": tensor.arange(1000)})


def test_a_pipe_that_cannot_tell_its_size(tmp_path: Path) -> None:
    argument = {"a": tensor.arange(100000), "empty": tensor.empty(0)}
    file = io.BytesIO()
    tensor.save(argument, file)
    code = f"import sys; sys.stdout.buffer.write(open({str(tmp_path / 'it')!r}, 'rb').read())"
    (tmp_path / "it").write_bytes(file.getvalue())
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert_same(tensor.load(process.stdout), argument)

    class OnlyRead:
        def __init__(self, content: bytes) -> None:
            self._file = io.BytesIO(content)

        def read(self, count: int) -> bytes:
            return self._file.read(min(count, 1000))

    assert_same(tensor.load(OnlyRead(file.getvalue())), argument)
    with pytest.raises(RuntimeError, match="it was cut off: it ends within tensor 'a'"):
        tensor.load(OnlyRead(file.getvalue()[:-1]))


def test_mapped_files_are_read_when_used_and_not_changed(tmp_path: Path) -> None:
    argument = {
        "a": tensor.arange(6.0).reshape(2, 3).t(),
        "b": tensor.arange(1 << 16),
        "c": tensor.empty(0, 2),
    }
    tensor.save(argument, tmp_path / "it")
    result = tensor.load(tmp_path / "it", mmap=True)
    assert_same(result, argument)
    result["b"] += 1
    assert_same(tensor.load(tmp_path / "it"), argument)
    assert result["b"][0] == 1
    # The new file does not disturb tensors that show the old one.
    tensor.save({}, tmp_path / "it")
    gc.collect()
    assert result["b"].sum() == argument["b"].sum() + (1 << 16)


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it"
    tensor.save({"a": 1}, path)
    with pytest.raises(TypeError):
        tensor.save({"a": object()}, path)
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:

            def fail(*arguments: Any) -> None:
                raise OSError("no space left on the device")

            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="no space left"):
                tensor.save({"a": tensor.ones(3)}, path)
    assert tensor.load(path) == {"a": 1}
    with pytest.raises(FileNotFoundError):
        tensor.save({}, tmp_path / "no" / "it")
    with pytest.raises(OSError):
        tensor.save({}, tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_links_and_special_files(tmp_path: Path) -> None:
    path, link = tmp_path / "it", tmp_path / "link"
    old = os.umask(0o027)
    try:
        tensor.save(1, path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to("it")
    tensor.save(2, link)
    assert link.is_symlink()
    assert tensor.load(path) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    tensor.save(3, os.devnull)
    assert not stat.S_ISREG(Path(os.devnull).stat().st_mode)


def test_the_same_checkpoint_is_the_same_file() -> None:
    def saved() -> bytes:
        file = io.BytesIO()
        tensor.save({"b": tensor.arange(3), "a": [tensor.ones(2), {1: 2.5}]}, file)
        return file.getvalue()

    assert len({saved() for _ in range(5)}) == 1
