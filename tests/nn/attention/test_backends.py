"""``nn.attention``: the choice of a computation of attention, which changes what is said and not what is computed."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from nn.attention import SDPBackend, sdpa_kernel
from tests.pytorch import torch

_NAMES = ("flash", "mem_efficient", "math", "cudnn")


def _enabled(library: Any) -> list[bool]:
    return [getattr(library.backends.cuda, f"{name}_sdp_enabled")() for name in _NAMES]


def test_blocks_restore_what_was_allowed() -> None:
    assert _enabled(tensor) == [True, True, True, True]
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        assert _enabled(tensor) == [True, False, True, False]
        with pytest.raises(ZeroDivisionError), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            assert _enabled(tensor) == [False, True, False, False]
            _ = 1 / 0
        assert _enabled(tensor) == [True, False, True, False]
    assert _enabled(tensor) == [True, True, True, True]


def test_switches() -> None:
    for name in _NAMES:
        getattr(tensor.backends.cuda, f"enable_{name}_sdp")(False)
    try:
        assert _enabled(tensor) == [False, False, False, False]
    finally:
        for name in _NAMES:
            getattr(tensor.backends.cuda, f"enable_{name}_sdp")(True)
    assert _enabled(tensor) == [True, True, True, True]


def test_attention_is_the_same(device: object) -> None:
    q = tensor.rand(1, 2, 4, 8, device="cuda")

    @sdpa_kernel(SDPBackend.MATH)
    def attend() -> Any:
        return nn.functional.scaled_dot_product_attention(q, q, q)

    assert tensor.equal(attend(), nn.functional.scaled_dot_product_attention(q, q, q))


@pytest.mark.parametrize("backends", ["math", ["math"], 0, None])
def test_other_backends_are_refused(backends: Any) -> None:
    with pytest.raises(TypeError, match="Backend must be an instance of SDPBackend"), sdpa_kernel(backends):
        pass
    assert _enabled(tensor) == [True, True, True, True]


@pytest.mark.parity
def test_backends_are_pytorchs() -> None:
    theirs = torch.nn.attention
    assert {name: int(each) for name, each in theirs.SDPBackend.__members__.items()} == {
        name: int(each) for name, each in SDPBackend.__members__.items()
    }
    for names in (["MATH"], ["FLASH_ATTENTION", "MATH"], ["EFFICIENT_ATTENTION", "CUDNN_ATTENTION"], []):
        with (
            sdpa_kernel([SDPBackend[name] for name in names]),
            theirs.sdpa_kernel([theirs.SDPBackend.__members__[name] for name in names]),
        ):
            assert _enabled(tensor) == _enabled(torch)
