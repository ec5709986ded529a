"""PyTorch's own samples of operations, for every operation that is here under the same name.

Each is called in both libraries with the same arguments; results, and gradients in double precision, must be the same.
What differs on purpose is listed in ``deviations.py``, what is not there in ``absent.py``.
"""

from __future__ import annotations

import importlib
import random
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from tests.pytorch import torch
from tests.thinning import thinned

from .absent import ABSENT
from .comparison import differences
from .conversion import operation
from .deviations import DEVIATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.parity

DTYPES = ("float64", "float32", "bfloat16", "complex128", "complex64", "int64", "bool")
#: Dtypes whose gradients are compared: only rounding in double precision is small against every mistake.
_WITH_GRADIENTS = ("float64", "complex128")
#: Without ``--nightly``, at most so many samples of these and of other dtypes.
_MOST, _MOST_OF_OTHERS = 12, 4
_LOOKED_AT = 200
#: How many differences are shown.
_SHOWN = 20


def _operations() -> list[Any]:
    importlib.import_module("torch.testing._internal.common_methods_invocations")
    # For every list of samples PyTorch looks on the stack for a method of a unittest, and so through all modules that are
    # imported: that took nine tenths of the time of these tests.
    for module in (torch.testing._internal.common_utils, torch.testing._internal.opinfo.core):
        module.extract_test_fn = lambda: None
    # The import has forbidden programs of this process to set flags, which tests of other directories do.
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
    operations: list[Any] = torch.testing._internal.common_methods_invocations.op_db
    return operations


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "info" in metafunc.fixturenames:
        # Without the option the tests are left out, and PyTorch need not be there.
        is_run = metafunc.config.getoption("--parity")
        infos = [each for each in _operations() if operation(each) is not None] if is_run else []
        if metafunc.function is test_on_a_device:
            # Pointwise operations have kernels of one form, and are computed on a device in tests of their own.
            rows = [info for info in infos if isinstance(info, _pointwise())]
            nightly = {info.full_name for number, info in enumerate(rows) if number % 4}
            infos = thinned(infos, lambda info: info.full_name not in nightly, lambda info: info.full_name)
            metafunc.parametrize("info", infos)
        else:
            metafunc.parametrize("info", infos, ids=lambda info: info.full_name)


def _pointwise() -> tuple[type, ...]:
    core = importlib.import_module("torch.testing._internal.opinfo.core")
    return core.UnaryUfuncInfo, core.BinaryUfuncInfo


def _samples(info: Any, dtype: str) -> Iterator[Any]:
    """Samples of an operation, the same in every run."""
    element_dtype = getattr(torch, dtype)
    if element_dtype not in info.supported_dtypes("cpu"):
        return
    with_gradients = (
        dtype in _WITH_GRADIENTS
        and info.supports_autograd
        and element_dtype in info.supported_backward_dtypes("cpu")
    )
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    yield from info.sample_inputs("cpu", element_dtype, requires_grad=with_gradients)


def _thinned(samples: Iterator[Any], dtype: str) -> list[tuple[int, Any]]:
    """Numbers and samples, evenly spread over the first of them: some operations have thousands."""
    numbered = list(enumerate(islice(samples, _LOOKED_AT)))
    most = _MOST if dtype in _WITH_GRADIENTS else _MOST_OF_OTHERS
    return numbered[:: max(1, -(-len(numbered) // most))]


def test_on_the_cpu(info: Any, pytestconfig: pytest.Config) -> None:
    nightly = pytestconfig.getoption("--nightly")
    function = operation(info)
    assert function is not None
    rows = [row for row in DEVIATIONS if info.full_name in row.operations]
    stale = {row.reason for row in rows if not row.is_by_chance}
    problems = []
    for dtype in DTYPES:
        samples = _samples(info, dtype)
        for number, sample in enumerate(samples) if nightly else _thinned(samples, dtype):
            text = sample.summary()
            for problem in differences(info, function, sample, f"{info.full_name} {dtype} {number}"):
                row = next((row for row in rows if row.allows(problem, dtype)), None)
                if row is None:
                    problems.append(f"{dtype}, sample {number}: {problem}\n    {text}")
                else:
                    stale.discard(row.reason)
    assert not problems, f"{len(problems)} differences:\n" + "\n".join(problems[:_SHOWN])
    assert not (stale and nightly), (
        f"no longer deviates as {stale} says: take {info.full_name} out of the row"
    )


def test_on_a_device(info: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # PyTorch, on the CPU, has no TF32.
    monkeypatch.setattr(tensor.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(tensor.backends.cudnn, "allow_tf32", False)
    function = operation(info)
    assert function is not None
    rows = [row for row in DEVIATIONS if info.full_name in row.operations]
    drv.simulator.install(check="race")
    sample = next(_samples(info, "float32"), None)
    if sample is None:
        pytest.skip("PyTorch does not take float32")
    text = sample.summary()
    problems = [
        problem
        for problem in differences(info, function, sample, info.full_name, "cuda")
        if not any(row.allows(problem, "float32") for row in rows)
    ]
    assert not problems, "\n".join([*problems, text])


def test_names_that_are_absent() -> None:
    """What PyTorch has samples of and this library has not: a new operation leaves the list, and is tested."""
    absent = {each.name for each in _operations() if operation(each) is None}
    assert absent == {name for names in ABSENT.values() for name in names}


def test_deviations_are_of_operations() -> None:
    known = {each.full_name for each in _operations() if operation(each) is not None}
    assert {name for row in DEVIATIONS for name in row.operations} <= known
