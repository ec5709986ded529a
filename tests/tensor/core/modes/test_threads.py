"""``set_num_threads`` and its kin."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tensor
from drv.host import threads as host_threads
from tensor.core.modes.threads import _Interop
from tensor.utils.data import DataLoader, Dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host_threads._Chosen, "count", host_threads._Chosen.count)
    monkeypatch.setattr(host_threads, "_threads", host_threads._Threads())
    monkeypatch.setattr(_Interop, "count", None)
    yield


def test_the_number_of_threads() -> None:
    for count in (1, 3, np.int64(2)):
        tensor.set_num_threads(count)
        assert tensor.get_num_threads() == count
        assert type(tensor.get_num_threads()) is int


def test_several_operations_at_once_can_be_said_once() -> None:
    assert tensor.get_num_interop_threads() >= 1
    tensor.set_num_interop_threads(5)
    assert tensor.get_num_interop_threads() == 5
    with pytest.raises(RuntimeError, match="cannot set number of interop threads"):
        tensor.set_num_interop_threads(5)


WRONG = [
    (0, RuntimeError, "expects a positive integer"),
    (-1, RuntimeError, "expects a positive integer"),
    (True, RuntimeError, "expects an int, but got bool"),
    (1.5, RuntimeError, "expects an int, but got float"),
    ("1", RuntimeError, "expects an int, but got str"),
    (None, RuntimeError, "expects an int, but got NoneType"),
    (2**40, ValueError, "Overflow when unpacking long"),
]


@pytest.mark.parametrize(("argument", "error", "message"), WRONG)
@pytest.mark.parametrize("name", ["set_num_threads", "set_num_interop_threads"])
def test_wrong_numbers(name: str, argument: object, error: type[Exception], message: str) -> None:
    before = tensor.get_num_threads(), tensor.get_num_interop_threads()
    with pytest.raises(error, match=f"{name} .*{message}"):
        getattr(tensor, name)(argument)
    assert (tensor.get_num_threads(), tensor.get_num_interop_threads()) == before


@pytest.mark.parity
@pytest.mark.parametrize(("argument", "error", "message"), WRONG)
def test_wrong_numbers_of_pytorch(argument: object, error: type[Exception], message: str) -> None:
    import torch

    for function in (torch.set_num_threads, torch.set_num_interop_threads):
        with pytest.raises(error, match=message):
            function(argument)


def _products() -> list[bytes]:
    tensor.manual_seed(0)
    x, w = tensor.randn(600, 700), tensor.randn(650, 700)
    images, kernels = tensor.randn(8, 16, 40, 40), tensor.randn(32, 16, 3, 3)
    operations: list[Callable[[], tensor.Tensor]] = [
        lambda: x @ w.t(),
        lambda: tensor.conv2d(images, kernels),
        lambda: tensor.fft.fft(x),
    ]
    return [operation().numpy().tobytes() for operation in operations]


def test_results_do_not_depend_on_the_number() -> None:
    tensor.set_num_threads(1)
    expected = _products()
    tensor.set_num_threads(3)
    assert _products() == expected


class Threads(Dataset):
    """How many threads whoever reads it has."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return tensor.get_num_threads()


def _three(worker: int) -> None:
    tensor.set_num_threads(3)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_of_a_loader_have_one() -> None:
    tensor.set_num_threads(2)
    assert [int(x) for x in DataLoader(Threads(), None)] == [2] * 4
    assert [int(x) for x in DataLoader(Threads(), None, num_workers=2)] == [1] * 4
    assert [int(x) for x in DataLoader(Threads(), None, num_workers=2, worker_init_fn=_three)] == [3] * 4


def test_the_environment() -> None:
    code = "import tensor; print(tensor.get_num_threads())"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr
