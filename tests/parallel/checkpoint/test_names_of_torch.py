"""Functions and classes of checkpoints take PyTorch's arguments, by its names, in its order."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from parallel import checkpoint
from tests.pytorch import torch

pytestmark = pytest.mark.parity


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *[
            ("checkpoint", each)
            for each in ("save", "load", "async_save", "FileSystemWriter", "FileSystemReader")
        ],
        *[("state_dict", each) for each in checkpoint.state_dict.__all__],
        *[("checkpoint", each) for each in ("DefaultSavePlanner", "DefaultLoadPlanner")],
    ],
)
def test_arguments_are_those_of_torch(module: str, name: str) -> None:
    ours = inspect.signature(getattr(checkpoint, name)).parameters
    package: Any = importlib.import_module(f"{torch.distributed.__name__}.checkpoint")
    importlib.import_module(f"{package.__name__}.state_dict")
    theirs = inspect.signature(
        getattr(package.state_dict if module == "state_dict" else package, name)
    ).parameters
    expected = {key: each for key, each in theirs.items() if not key.startswith("_")}
    public = {key: each for key, each in ours.items() if key in expected}
    assert list(public) == [key for key in expected if key in ours]
    # Private ones, formats of other programs, and what planners of PyTorch alone know.
    left_out = {"serialization_format", "dedup_save_to_lowest_rank", "enable_plan_caching"}
    assert set(expected) - set(ours) <= left_out
    for key, each in public.items():
        assert each.kind is expected[key].kind, key
        if key != "async_checkpointer_type":
            assert each.default == expected[key].default, key
