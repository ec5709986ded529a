"""Names that are found when they are used, and errors for those that are not there."""

from __future__ import annotations

import functools
import inspect
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Self

import pytest

import nn
import parallel
import tensor
from tensor.core.names import absent as absent_names
from tensor.core.names.absent import _WORDS
from tensor.core.names.left_out import LEFT_OUT
from tests.pytorch import torch

if TYPE_CHECKING:
    from collections.abc import Callable


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
        (tensor, "export", "left out"),
        (tensor.cuda, "device_cout", "did you mean 'device_count'?"),
        (tensor.accelerator, "Graph", "planned"),
        (tensor.utils, "cpp_extension", "cuda.RawKernel"),
        (tensor.autograd.profiler, "emit_nvtx", "cuda.nvtx.range"),
        (tensor.backends, "quantized", "left out"),
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


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        (nn.init, "xavier_unifrom_", "xavier_uniform_"),
        (nn.utils, "clip_grad_norms_", "clip_grad_norm_"),
        (nn.utils.rnn, "pad_sequences", "pad_sequence"),
        (nn.optim.lr_scheduler, "StepLr", "StepLR"),
        (nn.attention, "sdpa_kernels", "sdpa_kernel"),
        (tensor.linalg, "Norm", "norm"),
        (tensor.fft, "rfft_2", "rfft2"),
        (tensor.special, "Gammaln", "gammaln"),
        (tensor.signal.windows, "hanning", None),
        (tensor.distributions, "normal", "Normal"),
        (tensor.jit, "scripts", "script"),
        (tensor.hub, "load_state_dict_from_ulr", "load_state_dict_from_url"),
        (tensor.testing, "assertclose", "assert_close"),
        (tensor.serialization, "safe_global", "safe_globals"),
        (tensor.amp, "AutoCast", "autocast"),
        (tensor.cuda.amp, "gradscaler", "GradScaler"),
        (tensor.cuda.memory, "empty_caches", "empty_cache"),
        (tensor.autograd.functional, "Jacobian", "jacobian"),
        (tensor.accelerator, "device_cout", "device_count"),
        (tensor.compiler, "disabled", "disable"),
        (tensor.random, "fork_rngs", "fork_rng"),
        (tensor.utils.data, "Dataloader", "DataLoader"),
        (tensor.utils.checkpoint, "checkpoint_seqential", "checkpoint_sequential"),
        (tensor.return_types, "topks", "topk"),
        (tensor.cpu, "syncronize", "synchronize"),
        (nn.parallel, "distributed_data_parallel", "DistributedDataParallel"),
        (parallel.comm, "reduceadd", "reduce_add"),
    ],
)
def test_hints_in_all_namespaces(module: object, name: str, meant: str | None) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    hint = f": did you mean {meant!r}?" if meant else ""
    assert str(caught.value) == f"module {module.__name__!r} has no attribute {name!r}{hint}"  # type: ignore[attr-defined]


def test_a_property_that_fails_keeps_its_own_words() -> None:
    class Marked(tensor.Tensor):
        @property
        def mark(self) -> str:
            raise AttributeError("there is no mark yet")

    with pytest.raises(AttributeError, match="there is no mark yet"):
        tensor.zeros(2).as_subclass(Marked).mark  # noqa: B018 - the access is what raises
    with pytest.raises(AttributeError, match="Can't get __cuda_array_interface__ on non-CUDA tensor"):
        tensor.zeros(2).__cuda_array_interface__  # noqa: B018 - the access is what raises


def test_hints_of_modules_name_their_parameters() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(2, 3)

    with pytest.raises(AttributeError) as caught:
        Net().encodr  # noqa: B018 - the access is what raises
    assert str(caught.value) == "'Net' object has no attribute 'encodr': did you mean 'encoder'?"
    with pytest.raises(AttributeError, match="left out: such devices are not supported"):
        Net().xpu()
    with pytest.raises(AttributeError) as caught:
        Net().nothing_like_it  # noqa: B018 - the access is what raises
    assert str(caught.value) == "'Net' object has no attribute 'nothing_like_it'"


def test_errors_are_copied_with_their_hint() -> None:
    with pytest.raises(AttributeError) as caught:
        nn.Linear(1, 1).wieght  # noqa: B018 - the access is what raises
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is AttributeError
    assert str(copied) == str(caught.value)


def test_python_hints_at_nearly_right_names_of_tensors() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tensor; tensor.ones(2).reshap"],
        capture_output=True,
        text=True,
        check=False,
    )
    expected = "AttributeError: 'Tensor' object has no attribute 'reshap'. Did you mean: 'reshape'?"
    assert done.stderr.splitlines()[-1] == expected
    # A class with one reads every attribute three times as slowly.
    assert not hasattr(tensor.Tensor, "__getattr__")
    assert not hasattr(nn.Parameter, "__getattr__")


def test_a_hint_is_looked_for_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(absent_names, "nearest_of", lambda name, public: asked.append(name))
    assert not hasattr(tensor, "zeros_lik")
    assert not hasattr(nn.Linear(1, 1), "wieght")
    assert asked == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: nn.Linear(10, 20, biases=False),
            "Linear.__init__() got an unexpected keyword argument 'biases'. Did you mean 'bias'?",
        ),
        (
            lambda: nn.Linear(10, 20, bais=False),
            "Linear.__init__() got an unexpected keyword argument 'bais'. Did you mean 'bias'?",
        ),
        (
            lambda: nn.Conv2d(1, 2, 3, paddings=1),
            "Conv2d.__init__() got an unexpected keyword argument 'paddings'. Did you mean 'padding'?",
        ),
        (
            lambda: nn.optim.Adam([nn.Parameter(tensor.zeros(1))], lr_=0.1),
            "Adam.__init__() got an unexpected keyword argument 'lr_'. Did you mean 'lr'?",
        ),
        (
            lambda: nn.Linear(10, 20, nothing_like_it=1),
            "Linear.__init__() got an unexpected keyword argument 'nothing_like_it'",
        ),
        (
            lambda: nn.Sequential(module=1),
            "Sequential.__init__() got an unexpected keyword argument 'module'",
        ),
    ],
)
def test_keywords_that_were_probably_meant(call: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == words


def test_keywords_that_a_class_takes_by_other_ways_are_left_to_it() -> None:
    class Made:
        def __new__(cls, *args: object, **kwargs: object) -> Self:
            made = super().__new__(cls)
            made.given = kwargs  # type: ignore[attr-defined]
            return made

    class Net(nn.Module, Made):
        def __init__(self, size: int, **rest: object) -> None:
            super().__init__()

    assert Net(3, sizes=4).given == {"sizes": 4}  # type: ignore[attr-defined]

    class Wrapped(nn.Module):
        @functools.wraps(nn.Linear.__init__)
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__()

    Wrapped(biases=True)


def test_signatures_are_those_of_the_constructors() -> None:
    assert list(inspect.signature(nn.Linear).parameters)[:3] == ["in_features", "out_features", "bias"]
    assert list(inspect.signature(nn.optim.Optimizer).parameters) == ["params", "defaults"]
