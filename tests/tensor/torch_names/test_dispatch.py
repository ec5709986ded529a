"""What packages read of ``torch._C``: keys and guards of a dispatcher that is not here."""

from __future__ import annotations

import tensor
from tensor.torch_names import dispatch


def test_sets_of_keys() -> None:
    key = dispatch.DispatchKey
    first, second = dispatch.DispatchKeySet(key.CPU), dispatch.DispatchKeySet(key.CUDA, key.CPU)
    both = first | second
    assert both == second
    assert both.has(key.CUDA)
    assert not (both - first).has(key.CPU)
    assert [*(both & first)] == [key.CPU]
    assert repr(both) == "DispatchKeySet(CPU, CUDA)"
    assert hash(both) == hash(second)


def test_kernels_for_autocast_are_left_out() -> None:
    x = tensor.ones(2, 2)
    keys = dispatch.DispatchKeySet(dispatch.DispatchKey.AutocastCPU, dispatch.DispatchKey.AutocastXPU)
    with tensor.autocast("cpu"):
        assert (x @ x).dtype is tensor.bfloat16
        with dispatch._ExcludeDispatchKeyGuard(keys):
            assert (x @ x).dtype is tensor.float32
        with dispatch._ExcludeDispatchKeyGuard(dispatch.DispatchKeySet(dispatch.DispatchKey.CPU)):
            assert (x @ x).dtype is tensor.bfloat16
        assert (x @ x).dtype is tensor.bfloat16
    with dispatch.DisableTorchFunctionSubclass(), dispatch.DisableTorchFunction():
        assert (x @ x).dtype is tensor.float32


def test_nothing_is_traced_or_added() -> None:
    assert dispatch._get_tracing_state() is None
    assert dispatch._get_privateuse1_backend_name() == "privateuseone"
    dispatch._log_api_usage_once("package.name")
