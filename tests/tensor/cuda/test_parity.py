"""Names, argument names and defaults are PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tensor import cuda

pytestmark = pytest.mark.parity

#: Arguments of PyTorch that have no meaning here.
LEFT_OUT = {
    "memory_snapshot": {"include_traces"},
    "graph": {"check_input_liveness", "enable_annotations"},
    "_snapshot": {"augment_with_fx_traces"},
    "_dump_snapshot": {"augment_with_fx_traces"},
    "_record_memory_history": {"compile_context", "global_record_annotations"},
    "Event": {"external"},
    "Stream": {"kwargs"},
    "ExternalStream": {"kwargs"},
}
#: What PyTorch does not have.
OWN = {"RawKernel", "enable_peer_access", "disable_peer_access"}
#: JSON instead of a pickle.
OTHER_DEFAULTS = {("_dump_snapshot", "filename")}


def arguments(function: Any) -> dict[str, Any]:
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def pairs() -> list[tuple[Any, str]]:
    # PyTorch's typed classes do not say what they take.
    classes = {name for name in cuda.__all__ if name.endswith("Tensor")}
    names = [
        (cuda, name)
        for name in cuda.__all__
        if name not in OWN | classes | {"CudaError", "OutOfMemoryError"} and callable(getattr(cuda, name))
    ]
    return names + [(cuda.memory, name) for name in cuda.memory.__all__ if name.startswith("_")]


@pytest.mark.parametrize(
    ("module", "name"), pairs(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_arguments(module: Any, name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs_module = torch.cuda if module is cuda else torch.cuda.memory
    ours, theirs = arguments(getattr(module, name)), arguments(getattr(theirs_module, name))
    for left_out in LEFT_OUT.get(name, ()):
        theirs.pop(left_out, None)
    for argument in theirs:
        if (name, argument) in OTHER_DEFAULTS:
            theirs[argument] = ours[argument]
    assert ours == theirs


@pytest.mark.parametrize("kind", ["Stream", "Event", "ExternalStream", "CUDAGraph", "MemPool"])
def test_methods(kind: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = {name for name in vars(getattr(torch.cuda, kind)) if not name.startswith("__")}
    # What its compiler asks of a graph.
    theirs -= {"get_graph_data"}
    missing = {name for name in theirs if not hasattr(getattr(cuda, kind), name)}
    assert not missing
