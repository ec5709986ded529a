"""What programs ask of ``tensor.backends`` before they choose a device or a library."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import tensor
from tests.pytorch import torch


def test_what_is_not_used_says_so() -> None:
    backends = tensor.backends
    assert not backends.mps.is_available()
    assert not backends.mps.is_built()
    assert not backends.mps.is_macos_or_newer(13, 0)
    assert not backends.openmp.is_available()
    assert not backends.opt_einsum.is_available()
    assert backends.opt_einsum.get_opt_einsum() is None
    assert not backends.mkldnn.is_available()


def test_flags_of_mkldnn_are_kept_for_readers() -> None:
    mkldnn = tensor.backends.mkldnn
    with mkldnn.flags(enabled=True, deterministic=True):
        assert mkldnn.enabled
        assert mkldnn.deterministic
    assert not mkldnn.enabled
    assert not mkldnn.deterministic


def test_cpu_capability_follows_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, name in ((["X86_V3", "X86_V4"], "AVX512"), (["AVX2"], "AVX2"), ([], "DEFAULT")):
        monkeypatch.setattr(
            np, "show_config", lambda mode, found=found: {"SIMD Extensions": {"found": found}}
        )
        assert tensor.backends.cpu.get_cpu_capability() == name


@pytest.mark.parity
def test_probes_are_pytorchs() -> None:
    if sys.platform == "linux":
        assert tensor.backends.cpu.get_cpu_capability() == torch.backends.cpu.get_cpu_capability()
    for module, names in {
        "cuda": "flash_sdp_enabled enable_flash_sdp math_sdp_enabled enable_math_sdp mem_efficient_sdp_enabled "
        "enable_mem_efficient_sdp cudnn_sdp_enabled enable_cudnn_sdp",
        "mps": "is_available is_built is_macos_or_newer",
        "opt_einsum": "is_available get_opt_einsum",
    }.items():
        for name in names.split():
            ours, theirs = (getattr(getattr(each.backends, module), name) for each in (tensor, torch))
            # Some of PyTorch's are built in and have no signature.
            if inspect.isfunction(theirs):
                assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
