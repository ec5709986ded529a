"""What ``torch.__version__`` says, and how it compares."""

from __future__ import annotations

import operator
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

import tensor
from tensor.torch_names.finder import TorchFinder
from tensor.torch_names.versions import FOLLOWED, TORCH_VERSION, TorchVersion
from tests.pytorch import torch

from .programs import run

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [
    "1.9", "1.10.0", "2", "2.0", "2.13", "2.13.0", "2.13.1", "2.13.0a0", "2.13.0.dev20260101", "2.13.0rc1",
    "2.13.0+cpu", "2.13.0+cu130", "2.13.0+5", "2.13.0.post1", "3.0", "v2.13", "nonsense", "",
]  # fmt: skip
OTHERS: list[Any] = [*TEXTS, (2, 0), (2, 13), (2, 13, 0), (2, 14), (3,), [2, 13], (2, 13, "0rc1")]


def test_the_version_is_that_of_pytorch_and_names_graphroot() -> None:
    assert f"{FOLLOWED}+graphroot.{tensor.__version__}" == TORCH_VERSION
    assert isinstance(TORCH_VERSION, str)
    assert TORCH_VERSION.split("+")[0] == FOLLOWED == "2.13.0"
    assert TORCH_VERSION >= "2.13" > "1.9"
    assert TORCH_VERSION > (2, 0)
    assert not TORCH_VERSION < "2.9.1"
    assert TORCH_VERSION < "2.13.1"
    assert TorchVersion("1.10.0") > "1.9"


def test_the_installation_says_the_same() -> None:
    (found,) = TorchFinder().find_distributions(metadata.DistributionFinder.Context(name="torch"))
    assert found.version == TORCH_VERSION
    assert found.metadata["Name"] == "torch"
    assert not list(TorchFinder().find_distributions(metadata.DistributionFinder.Context(name="torchvision")))


def test_in_a_program(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import tensor.as_torch
        import tensor, torch
        from importlib import metadata
        from torch.torch_version import TorchVersion

        assert torch.__version__ is torch.version.__version__ and isinstance(torch.__version__, TorchVersion)
        assert torch.version.cuda == tensor.version.cuda
        assert metadata.version("torch") == torch.__version__ != tensor.__version__
        major, minor = (int(part) for part in torch.__version__.split(".")[:2])
        print(major, minor, torch.__version__)
        """,
    )
    assert out == f"2 13 {TORCH_VERSION}\n"


@pytest.mark.parity
@pytest.mark.parametrize("text", TEXTS)
def test_comparisons_are_pytorchs(text: str) -> None:
    """But for ``!=``, by which PyTorch's versions compare as text, so that 2.13 both is and is not 2.13.0."""
    theirs = torch.torch_version.TorchVersion(text)
    for other in OTHERS:
        for compare in (operator.lt, operator.le, operator.eq, operator.ge, operator.gt):
            try:
                expected = compare(theirs, other)
            except TypeError:
                with pytest.raises(TypeError):
                    compare(TorchVersion(text), other)
            else:
                assert compare(TorchVersion(text), other) is expected, (text, compare, other)
        assert (TorchVersion(text) != other) is not (TorchVersion(text) == other)


@pytest.mark.parity
def test_the_version_is_that_of_the_installed_pytorch() -> None:
    assert torch.version.__version__.split("+")[0] == FOLLOWED
