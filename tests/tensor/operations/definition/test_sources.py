"""Every public function has its source, and tracebacks show the lines that ran."""

from __future__ import annotations

import inspect
import linecache
import traceback
from types import FunctionType
from typing import Any

import pytest

import nn
import tensor

NAMESPACES: dict[str, Any] = {
    "tensor": tensor,
    "tensor.Tensor": tensor.Tensor,
    "tensor.special": tensor.special,
    "tensor.linalg": tensor.linalg,
    "tensor.fft": tensor.fft,
    "nn.functional": nn.functional,
}


@pytest.mark.parametrize("space", NAMESPACES)
def test_every_public_function_has_source_and_documentation(space: str) -> None:
    missing = []
    for name, function in inspect.getmembers(NAMESPACES[space]):
        if not isinstance(function, FunctionType) or name.startswith("_"):
            continue
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):
            source = ""
        if "def " not in source or not function.__doc__:
            missing.append(name)
    assert not missing


@pytest.mark.parametrize(
    "call", ["tensor.sum('text')", "tensor.abs_('text')", "tensor.mm(tensor.ones(2), 1)"]
)
def test_tracebacks_show_the_lines_that_ran(call: str) -> None:
    with pytest.raises((TypeError, RuntimeError)) as caught:
        eval(call)
    frames = traceback.extract_tb(caught.tb)[2:]
    assert frames
    for frame in frames:
        assert linecache.getline(frame.filename, frame.lineno or 0).strip(), frame
