"""Names that are found when they are used, and errors for those that are not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nn
import parallel
import tensor
from tensor.core.absent_names import _WORDS
from tensor.core.names_left_out import LEFT_OUT
from tests.pytorch import torch


def test_higher_layers_are_found_from_the_top() -> None:
    assert tensor.nn is nn
    assert tensor.optim is nn.optim
    assert tensor.distributed is parallel
    assert tensor.multiprocessing.spawn is parallel.spawn
    assert nn.DataParallel is parallel.DataParallel
    assert nn.SyncBatchNorm is parallel.SyncBatchNorm
    assert nn.parallel.DistributedDataParallel is parallel.DistributedDataParallel


def test_an_import_loads_no_higher_layer_until_it_is_used() -> None:
    code = (
        "import sys, tensor; assert not {'nn', 'parallel'} & set(sys.modules); assert 'nn' in dir(tensor); "
        "tensor.nn.Linear; assert 'parallel' not in sys.modules; "
        "from tensor import distributed; assert distributed is sys.modules['parallel']; "
        "import nn; assert 'nn' in vars(tensor) and nn.parallel.scatter is not distributed.scatter"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_lazy_name_is_there() -> None:
    for module in (tensor, nn):
        for name in module._LAZY:
            assert getattr(module, name) is not None
            assert name in dir(module)


def test_functions_of_the_top_level() -> None:
    x = tensor.rand(1, 4, 4, 4)
    assert tensor.equal(tensor.max_pool2d(x, 2), nn.functional.max_pool2d(x, 2))
    assert tensor.equal(tensor.pixel_shuffle(x, 2), nn.functional.pixel_shuffle(x, 2))


@pytest.mark.parity
def test_functions_of_the_top_level_are_pytorchs() -> None:
    x = tensor.rand(2, 4, 6)
    calls = (
        lambda m, x: m.max_pool1d(x, 2, 1),
        lambda m, x: m.max_pool1d_with_indices(x, 2)[1],
        lambda m, x: m.max_pool2d(x, 2, 1, 1),
        lambda m, x: m.max_pool3d(x[None], 2, ceil_mode=True),
        lambda m, x: m.avg_pool1d(x, 2, 1, 1, False, False),
        lambda m, x: m.adaptive_avg_pool1d(x, 3),
        lambda m, x: m.adaptive_max_pool1d(x, 3)[1],
        lambda m, x: m.pixel_shuffle(x.reshape(1, 4, 3, 4), 2),
        lambda m, x: m.pixel_unshuffle(x, 2),
        lambda m, x: m.channel_shuffle(x, 2),
        lambda m, x: m.rrelu(x - 0.5, 0.1, 0.3, False),
        lambda m, x: m.bilinear(x[0], x[0], m.ones(2, 6, 6), None),
    )
    for call in calls:
        theirs = call(torch, torch.from_numpy(x.numpy()))
        assert tuple(theirs.shape) == tuple(call(tensor, x).shape)
        assert theirs.numpy() == pytest.approx(call(tensor, x).numpy(), rel=1e-5)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (nn, "Conv2D", "module 'nn' has no attribute 'Conv2D': did you mean 'Conv2d'?"),
        (nn, "Cov2d", "did you mean 'Conv2d'?"),
        (nn, "Dataparallel", "did you mean 'DataParallel'?"),
        (tensor, "zeros_lik", "did you mean 'zeros_like'?"),
        (tensor.func, "functionalize", "left out"),
        (tensor, "fx", "left out"),
        (tensor.cuda, "device_cout", "did you mean 'device_count'?"),
        (tensor.cuda, "CUDAGraph", "planned"),
        (tensor.utils, "cpp_extension", "cuda.RawKernel"),
        (tensor.autograd, "profiler", "cuda.Event"),
        (tensor.backends, "quantized", "left out"),
        (nn.optim, "SparseAdam", "planned"),
        (parallel, "allreduce", "did you mean 'all_reduce'?"),
        (nn.functional, "crossentropy", "did you mean 'cross_entropy'?"),
        (nn.optim, "adamW", "did you mean 'AdamW'?"),
    ],
)
def test_errors_say_what_to_use(module: object, name: str, words: str) -> None:
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["nothing_like_it", "__wrapped__"])
def test_errors_without_a_hint(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(tensor, name)
    assert str(caught.value) == f"module 'tensor' has no attribute {name!r}"


def test_python_adds_no_hint_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import nn; nn.Conv2D"], capture_output=True, text=True, check=False
    )
    assert (
        done.stderr.splitlines()[-1]
        == "AttributeError: module 'nn' has no attribute 'Conv2D': did you mean 'Conv2d'?"
    )


def test_what_is_said_of_names_says_whether_they_come() -> None:
    for names in (*_WORDS.values(), *LEFT_OUT.values()):
        assert all(words.startswith(("planned", "left out")) for words in names.values())
