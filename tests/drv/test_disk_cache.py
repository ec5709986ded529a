"""Compiled kernels on disk: damage, full disks, crashed writers."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drv.disk_cache import DiskCache

KEY = "0" * 64


def _path(cache: DiskCache) -> Path:
    (path,) = cache.directory.glob("*.kernel")
    return path


def test_round_trip(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "a" / "b")
    assert cache.load(KEY) is None
    cache.store(KEY, b"payload")
    assert cache.load(KEY) == b"payload"
    assert DiskCache(tmp_path / "a" / "b").load(KEY) == b"payload"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [KEY + ".kernel"]


def test_the_directory_is_its_users_alone(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "a" / "b")
    cache.store(KEY, b"payload")
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert _path(cache).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_a_miss_and_replaced(tmp_path: Path, mode: int) -> None:
    cache = DiskCache(tmp_path)
    cache.store(KEY, b"payload")
    _path(cache).chmod(mode)
    assert cache.load(KEY) is None
    cache.store(KEY, b"again")
    assert cache.load(KEY) == b"again"


def test_a_file_of_another_user_is_a_miss_and_of_root_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path)
    cache.store(KEY, b"payload")
    owner = _path(cache).stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.load(KEY) == (b"payload" if owner == 0 else None)
    if os.getuid() == 0:
        os.chown(_path(cache), 12345, -1)
        assert cache.load(KEY) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_damage_of_any_byte_is_a_miss_and_the_file_is_replaced(tmp_path: Path, data: st.DataObject) -> None:
    cache = DiskCache(tmp_path)
    cache.store(KEY, b"some payload")
    content = bytearray(_path(cache).read_bytes())
    if data.draw(st.booleans(), label="truncate"):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    _path(cache).write_bytes(content)
    assert cache.load(KEY) is None
    cache.store(KEY, b"again")
    assert cache.load(KEY) == b"again"


def test_another_entrys_file_is_a_miss(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.store(KEY, b"payload")
    _path(cache).rename(tmp_path / ("1" * 64 + ".kernel"))
    assert cache.load("1" * 64) is None


def test_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=10_000)
    keys = [str(number) * 64 for number in range(6)]
    for age, key in enumerate(keys[:5]):
        cache.store(key, bytes(1800))
        past = time.time() - 100 + age
        os.utime(tmp_path / f"{key}.kernel", (past, past))
    assert cache.load(keys[0]) is not None
    cache.store(keys[5], bytes(1800))
    present = [key for key in keys if cache.load(key) is not None]
    assert keys[0] in present, "it was just used"
    assert keys[5] in present, "it was just stored"
    assert keys[1] not in present
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000


def test_not_every_store_looks_at_all_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looks.append(path), scandir(path))[1])
    cache = DiskCache(tmp_path, limit=1_000_000)
    for number in range(800):
        cache.store(f"{number:064}", bytes(2_000))
    assert len(looks) < 80
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_100_000


def test_what_a_crashed_writer_left_goes_after_a_while(tmp_path: Path) -> None:
    old, fresh = tmp_path / "a.unfinished", tmp_path / "b.unfinished"
    old.write_bytes(b"x")
    fresh.write_bytes(b"x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    DiskCache(tmp_path).store(KEY, b"payload")
    assert not old.exists()
    assert fresh.exists()


def test_a_directory_that_cannot_be_written_warns_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file" / "kernels")
    with pytest.warns(RuntimeWarning, match="GRAPHROOT_CACHE_DIR"):
        cache.store(KEY, b"payload")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store(KEY, b"payload")
        assert cache.load(KEY) is None


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.warns(RuntimeWarning, match="No space left"):
        DiskCache(tmp_path).store(KEY, b"payload")
    assert list(tmp_path.iterdir()) == []
