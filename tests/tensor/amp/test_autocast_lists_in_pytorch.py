"""The table of what operations give inside of autocast is PyTorch's, for both types of devices."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from .expressions import DIFFERENT, EXPECTED, operands, results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.parity


@pytest.fixture
def fake_cuda() -> Iterator[Any]:
    """PyTorch's tensors without elements, which count as being on a CUDA device; autocast is on."""
    torch = pytest.importorskip("torch")
    fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        warnings.simplefilter("ignore")
        yield torch
    logging.disable(logging.NOTSET)


def _assert_as_in_pytorch(torch: Any, device: str, make: Callable[..., Any], run: Callable[..., Any]) -> None:
    output = {which: operands(torch, device, which, make) for which in ("single", "half", "both")}
    wrong = {}
    for call, expected in EXPECTED.items():
        if (call, device) in DIFFERENT:
            continue
        result = results(call, torch, torch.nn.functional, output, run)
        # Where PyTorch gives an error, there need not be one here; and tensors without elements are checked less.
        known = zip(result, expected[device == "cpu"], strict=True)
        if any(a not in ("-", b) and not (device == "cuda" and b == "-") for a, b in known):
            wrong[call] = f"{result} in PyTorch, {expected[device == 'cpu']} in the table"
    assert not wrong


def test_table_of_cuda_is_pytorchs(fake_cuda: Any) -> None:
    torch = fake_cuda

    def run(call: str, names: dict[str, Any]) -> Any:
        torch.set_autocast_enabled("cuda", True)
        try:
            return eval(call, names)
        finally:
            torch.set_autocast_enabled("cuda", False)

    _assert_as_in_pytorch(
        torch, "cuda", lambda array, kind: torch.empty(array.shape, dtype=kind, device="cuda"), run
    )


def test_table_of_the_cpu_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")

    def run(call: str, names: dict[str, Any]) -> Any:
        with warnings.catch_warnings(), torch.autocast("cpu"):
            warnings.simplefilter("ignore")
            return eval(call, names)

    _assert_as_in_pytorch(torch, "cpu", lambda array, kind: torch.from_numpy(array).to(kind), run)
