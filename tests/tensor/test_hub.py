"""``tensor.hub`` without network: local files, earlier downloads, local repositories, and refusals."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

import pytest

import tensor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://example.org/models/net.safetensors"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file.safetensors"
    tensor.save({"weight": tensor.arange(3)}, path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = tensor.hub._folder.path
    tensor.hub.set_dir(tmp_path / "hub")
    yield tmp_path / "hub" / "checkpoints"
    tensor.hub._folder.path = before


def test_local_files(file: Path) -> None:
    for url in (str(file), file.as_uri()):
        assert tensor.hub.load_state_dict_from_url(url, progress=False)["weight"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="there is no file"):
        tensor.hub.load_state_dict_from_url(f"{file.as_uri()}x")


def test_map_location(device: object, file: Path) -> None:
    state = tensor.hub.load_state_dict_from_url(str(file), map_location="cuda")
    assert state["weight"].is_cuda


def test_earlier_downloads(file: Path, folder: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        tensor.hub.load_state_dict_from_url(URL)
    assert (
        str(caught.value)
        == f"nothing is downloaded here: fetch {URL} and put it at {folder / 'net.safetensors'}"
    )
    folder.mkdir(parents=True)
    (folder / "net.safetensors").write_bytes(file.read_bytes())
    assert tensor.hub.load_state_dict_from_url(URL)["weight"].tolist() == [0, 1, 2]
    state = tensor.hub.load_state_dict_from_url(URL, str(file.parent), file_name=file.name)
    assert state["weight"].tolist() == [0, 1, 2]


def test_hashes(file: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    right, wrong = (file.parent / f"net-{each}.safetensors" for each in (digest[:8], "0123abcd"))
    for path in (right, wrong):
        path.write_bytes(file.read_bytes())
    assert tensor.hub.load_state_dict_from_url(str(right), check_hash=True)["weight"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=f'invalid hash value .expected "0123abcd", got "{digest}"'):
        tensor.hub.load_state_dict_from_url(str(wrong), check_hash=True)
    assert tensor.hub.load_state_dict_from_url(str(wrong))["weight"].tolist() == [0, 1, 2]


def test_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert tensor.hub.get_dir() == str(tmp_path / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tensor.hub.get_dir() == str(tmp_path / "torch" / "hub")
    assert tensor.hub._get_torch_home() == str(tmp_path / "torch")


def test_local_repositories(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_hubconf.py").write_text("FACTOR = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "import neighbour_of_hubconf\n\ndef net(x, *, more=0):\n    'Three times.'\n"
        "    return neighbour_of_hubconf.FACTOR * x + more\n"
    )
    path = list(sys.path)
    try:
        assert tensor.hub.load(tmp_path, "net", 2, source="local", more=1) == 7
        assert tensor.hub.list(tmp_path) == ["net"]
        assert tensor.hub.help(tmp_path, "net") == "Three times."
        with pytest.raises(RuntimeError, match=r"Cannot find callable other in hubconf\.py"):
            tensor.hub.load(tmp_path, "other", source="local")
    finally:
        sys.modules.pop("neighbour_of_hubconf", None)
    assert sys.path == path


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(
        RuntimeError, match=r"clone https://github\.com/pytorch/vision and load it by its folder"
    ):
        tensor.hub.load("pytorch/vision:v0.10.0", "resnet18")
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        tensor.hub.list("pytorch/vision")
    with pytest.raises(ValueError, match='Unknown source: "web"'):
        tensor.hub.load(tmp_path, "net", source="web")
    with pytest.raises(FileNotFoundError, match=r"has no hubconf\.py"):
        tensor.hub.load(tmp_path, "net", source="local")
    with pytest.raises(RuntimeError, match=r"put it at /here"):
        tensor.hub.download_url_to_file(URL, "/here")
