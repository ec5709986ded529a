"""What each environment variable means."""

from __future__ import annotations

from pathlib import Path

import pytest

import drv
from drv import environment


@pytest.mark.parametrize(
    ("text", "choice"),
    [("", "auto"), ("auto", "auto"), (" NVIDIA ", "nvidia"), ("simulator", "simulator")],
)
def test_driver_choice(monkeypatch: pytest.MonkeyPatch, text: str, choice: str) -> None:
    monkeypatch.setenv("GRAPHROOT_DRIVER", text)
    assert environment.driver_choice() == choice


def test_unknown_driver_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_DRIVER", "amd")
    with pytest.raises(drv.InvalidValueError, match="'amd'.*'auto', 'nvidia' or 'simulator'"):
        environment.driver_choice()


@pytest.mark.parametrize(("text", "blocking"), [("", False), ("0", False), ("1", True), ("true", True)])
def test_launch_blocking(monkeypatch: pytest.MonkeyPatch, text: str, blocking: bool) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", text)
    assert environment.launch_blocking() is blocking


def test_native_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHROOT_CPU_NATIVE", raising=False)
    assert environment.native_loops() == "auto"
    monkeypatch.setenv("GRAPHROOT_CPU_NATIVE", " Off ")
    assert environment.native_loops() == "off"
    monkeypatch.setenv("GRAPHROOT_CPU_NATIVE", "yes")
    with pytest.raises(drv.InvalidValueError, match="expected .auto., .on. or .off."):
        environment.native_loops()


@pytest.mark.parametrize("name", ["GRAPHROOT_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING"])
def test_memory_caching(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert environment.memory_caching()
    monkeypatch.setenv(name, "1")
    assert not environment.memory_caching()


def test_allocator_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.allocator_options() == {}
    monkeypatch.setenv(
        "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64, roundup_power2_divisions:[256:1,512:2]"
    )
    assert environment.allocator_options() == {
        "max_split_size_mb": "64",
        "roundup_power2_divisions": "[256:1,512:2]",
    }
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", "expandable_segments:True")
    assert environment.allocator_options() == {"expandable_segments": "True"}


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a:1,b", "'b' is not"), ("a:", "'a:' is not"), (":1", "':1' is not"), ("a:1,a:2", "'a' is given")],
)
def test_bad_allocator_options_are_quoted(monkeypatch: pytest.MonkeyPatch, text: str, quoted: str) -> None:
    monkeypatch.setenv("GRAPHROOT_CUDA_ALLOC_CONF", text)
    with pytest.raises(drv.InvalidValueError, match=quoted):
        environment.allocator_options()


def test_workspaces_of_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert environment.cublas_workspace_bytes() is None
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8")
    assert environment.cublas_workspace_bytes() == (2 * 4096 + 8 * 16) * 1024
    for text in ("4096:8", ":4096", ":a:b", ":16:8:"):
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", text)
        with pytest.raises(drv.InvalidValueError, match="expected pairs of kibibytes"):
            environment.cublas_workspace_bytes()


def test_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHROOT_CACHE_DIR", "/some/where")
    assert environment.cache_directory() == Path("/some/where")
    monkeypatch.delenv("GRAPHROOT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert environment.cache_directory() == Path("/caches/graphroot")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert environment.cache_directory() == Path("/home/someone/.cache/graphroot")
