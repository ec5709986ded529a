"""What users see in ``dir(tensor)``: the public interface, and the folders below it."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from types import ModuleType

import pytest

import tensor

#: Public namespaces. A star import does not bring those of the second line, as with PyTorch.
NAMESPACES = {
    "accelerator",
    "amp",
    "autograd",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "fft",
    "jit",
    "linalg",
    "signal",
    "sparse",
    "special",
    "utils",
    "version",
}
NAMESPACES_BY_NAME_ONLY = {"hub", "onnx", "random", "return_types", "serialization", "testing", "types"}
#: What higher layers have, found when it is used.
FOUND_WHEN_USED = {name for name in tensor._LAZY if not name.startswith("_")}
#: What the public interface is made of, documented as internal.
INTERNAL = {"compilation", "core", "methods", "operations"}


def visible_names() -> set[str]:
    """Names without underscore, right after the import: a later one may bring further modules."""
    code = "import tensor; print(*(name for name in dir(tensor) if not name.startswith('_')))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_every_visible_name_is_public_or_a_known_folder() -> None:
    known = set(tensor.__all__) | NAMESPACES | NAMESPACES_BY_NAME_ONLY | FOUND_WHEN_USED | INTERNAL
    assert not visible_names() - known


def test_every_public_name_is_there() -> None:
    assert set(tensor.__all__) | NAMESPACES | NAMESPACES_BY_NAME_ONLY | FOUND_WHEN_USED <= visible_names()
    assert len(set(tensor.__all__)) == len(tensor.__all__)


def test_namespaces_that_are_imported_at_their_first_use() -> None:
    code = "import sys, tensor; n = 'tensor.distributions'; print(n in sys.modules); tensor.distributions.Normal(0, 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_name'"):
        tensor.nothing_of_the_name  # noqa: B018 - the access is what raises


def test_modules_in_the_star_import_are_namespaces() -> None:
    modules = {name for name in tensor.__all__ if isinstance(getattr(tensor, name), ModuleType)}
    assert modules <= NAMESPACES


def test_completion_sees_what_is_found_when_it_is_used() -> None:
    """A notebook and a shell complete names by ``dir``."""
    code = """
    import tensor.as_torch
    import torch

    for module, names in {
        torch: "nn optim distributed multiprocessing utils cuda fft compile func sparse onnx hub Tensor randn float32",
        torch.nn: "functional init utils parallel Module Linear DataParallel attention",
        torch.utils: "data checkpoint tensorboard benchmark",
        torch.optim: "SGD AdamW lr_scheduler swa_utils",
        torch.cuda: "Stream amp nvtx CUDAGraph is_available",
        torch.randn(2): "sum grad backward cuda numpy add_ shape",
    }.items():
        print(module if isinstance(module, torch.Tensor) else module.__name__, set(names.split()) - set(dir(module)))
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.count("set()") == 6, done.stdout
