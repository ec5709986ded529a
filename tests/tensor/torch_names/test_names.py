"""``import torch`` gives our modules, by every path, and nothing of PyTorch itself."""

from __future__ import annotations

import builtins
import json
from typing import TYPE_CHECKING

import pytest

from tensor.torch_names.module_names import PARTS

from .programs import run

if TYPE_CHECKING:
    from pathlib import Path

#: Modules of PyTorch and ours, which are the same objects.
SAME = {
    "torch._dynamo": "tensor.compiler.dynamo",
    "torch._dynamo.config": "tensor.compiler.dynamo.config",
    "torch._dynamo.utils": "tensor.compiler.dynamo.utils",
    "torch._inductor.config": "tensor.compiler.inductor.config",
    "torch.accelerator": "tensor.accelerator",
    "torch.accelerator.memory": "tensor.accelerator.memory",
    "torch.amp": "tensor.amp",
    "torch.ao.quantization": "nn.ao.quantization",
    "torch.autograd": "tensor.autograd",
    "torch.autograd.functional": "tensor.autograd.functional",
    "torch.autograd.profiler": "tensor.profiler.autograd_profiler",
    "torch.autograd.profiler_util": "tensor.profiler.events",
    "torch.backends.cudnn": "tensor.backends.cudnn",
    "torch.cuda": "tensor.cuda",
    "torch.cuda.amp": "tensor.cuda.amp",
    "torch.cuda.comm": "parallel.comm",
    "torch.distributed": "parallel",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks": "parallel.ddp_comm_hooks.default_hooks",
    "torch.distributed.launch": "parallel.launch",
    "torch.distributed.run": "parallel.launch",
    "torch.distributions": "tensor.distributions",
    "torch.distributions.constraints": "tensor.distributions.constraints",
    "torch.func": "tensor.func",
    "torch.fx": "nn.fx",
    "torch.fx.graph_module": "nn.fx.graph_module",
    "torch.hub": "tensor.hub",
    "torch.jit": "tensor.jit",
    "torch.jit.annotations": "tensor.jit.annotations",
    "torch.library": "tensor.library",
    "torch.multiprocessing": "parallel.multiprocessing",
    "torch.multiprocessing.pool": "parallel.multiprocessing.pool",
    "torch.multiprocessing.reductions": "parallel.multiprocessing.reductions",
    "torch.nn": "nn",
    "torch.nn.attention.bias": "nn.attention.bias",
    "torch.nn.attention.flex_attention": "nn.attention.flex_attention",
    "torch.nn.attention.varlen": "nn.attention.varlen",
    "torch.nn.functional": "nn.functional",
    "torch.nn.init": "nn.init",
    "torch.nn.modules": "nn.modules",
    "torch.nn.modules.batchnorm": "nn.modules.batchnorm",
    "torch.nn.modules.module": "nn.modules.module",
    "torch.nn.parallel": "nn.parallel",
    "torch.nn.parallel.comm": "parallel.comm",
    "torch.nn.utils.parametrizations": "nn.utils.parametrizations",
    "torch.nn.utils.rnn": "nn.utils.rnn",
    "torch.onnx": "tensor.onnx",
    "torch.onnx.operators": "tensor.onnx.operators",
    "torch.onnx.symbolic_helper": "tensor.onnx.symbolic_helper",
    "torch.onnx.utils": "tensor.onnx.utils",
    "torch.ops": "tensor.ops",
    "torch.optim": "nn.optim",
    "torch.optim.adam": "nn.optim.adam",
    "torch.optim.lr_scheduler": "nn.optim.lr_scheduler",
    "torch.testing": "tensor.testing",
    "torch.utils._pytree": "tensor.utils._pytree",
    "torch.utils.checkpoint": "tensor.utils.checkpoint",
    "torch.utils.data": "tensor.utils.data",
    "torch.utils.data.distributed": "tensor.utils.data.distributed",
    "torch.utils.module_tracker": "nn.utils.module_tracker",
    "torch.utils.tensorboard": "tensor.utils.tensorboard",
}


def test_modules_are_the_same_objects(tmp_path: Path) -> None:
    run(
        tmp_path,
        f"""
        import tensor.as_torch
        from importlib import import_module
        import sys

        for theirs, ours in {SAME!r}.items():
            spec = import_module(ours).__spec__
            module = import_module(theirs)
            assert module is import_module(ours) is sys.modules[theirs], theirs
            assert module.__spec__ is spec, theirs
            assert eval(theirs) is module if "torch" in globals() else True
            import torch
        import nn, tensor
        assert torch.Tensor is tensor.Tensor and torch.nn.Module is nn.Module
        assert isinstance(torch.ones(1), torch.Tensor) and isinstance(torch.nn.ReLU(), nn.Module)
        assert issubclass(torch.FloatTensor, object) and isinstance(torch.ones(1), torch.FloatTensor)
        loaded = [name for name in sys.modules if name == "torch._C" or name.startswith("torch._functorch")]
        assert not loaded
        """,
    )


def test_importing_every_path_replaces_no_name(tmp_path: Path) -> None:
    """``torch.multiprocessing.spawn`` is a module for an import, and a function of ``torch.multiprocessing``."""
    run(
        tmp_path,
        f"""
        import tensor.as_torch
        from importlib import import_module
        from types import ModuleType

        paths = [*{[*SAME]!r}, *{[*PARTS]!r}, "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm",
                 "torch.autograd.gradcheck"]
        for path in paths:
            parent, _, child = path.rpartition(".")
            before = getattr(import_module(parent), child, None)
            module = import_module(path)
            assert isinstance(module, ModuleType), path
            after = getattr(import_module(parent), child)
            assert after is before or before is None or isinstance(before, ModuleType), path
            if module.__name__ == path:
                dir(module)
        from torch.distributions.normal import Normal
        from torch.multiprocessing.spawn import start_processes
        from torch.nn.parallel.data_parallel import DataParallel
        from torch.optim.adamw import AdamW, adamw
        from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
        from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
        from torch.multiprocessing.spawn import SpawnContext
        from torch.profiler.profiler import profile, schedule, tensorboard_trace_handler
        import torch
        assert torch.optim.AdamW is AdamW and torch.distributions.Normal is Normal
        assert torch.nn.parallel.data_parallel.__name__ == "data_parallel"
        """,
    )


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    run(tmp_path, "import doctest, tensor.as_torch as module; assert doctest.testmod(module) == (0, 3)")


def test_texts_are_pytorchs(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import tensor.as_torch
        import torch

        print(torch.float32, torch.Size([2, 3]), torch.channels_last, torch.strided)
        print(torch.ones(2, dtype=torch.float64), torch.ones(1).type(), torch.FloatTensor, torch.Tensor)
        print(torch.typename(torch.ones(1).int()), torch.ones(1).storage().type(), torch.device("cuda", 1))
        print(str(torch.max(torch.ones(1, 1), 0)).splitlines()[0], repr(torch.ones(1).to(torch.half)))
        print(getattr(torch, str(torch.bfloat16).split(".")[1]) is torch.bfloat16, torch.Tensor.__module__)
        """,
    )
    assert out.splitlines() == [
        "torch.float32 torch.Size([2, 3]) torch.channels_last torch.strided",
        "tensor([1., 1.], dtype=torch.float64) torch.FloatTensor <class 'torch.FloatTensor'> <class 'torch.Tensor'>",
        "torch.IntTensor torch.FloatStorage cuda:1",
        "torch.return_types.max( tensor([1.], dtype=torch.float16)",
        "True torch",
    ]


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        (
            "torch.export",
            AttributeError,
            "module 'torch' has no attribute 'export': left out: there is no graph",
        ),
        (
            "import torch.export",
            ModuleNotFoundError,
            "'torch.export' in graphroot: left out: there is no graph",
        ),
        ("from torch import export", ImportError, "'torch.export' in graphroot: left out: there is no graph"),
        (
            "torch.nn.Conv2D",
            AttributeError,
            "module 'torch.nn' has no attribute 'Conv2D': did you mean 'Conv2d'?",
        ),
        (
            "from torch.nn import Conv2D",
            ImportError,
            "'torch.nn.Conv2D' in graphroot: did you mean 'Conv2d'?",
        ),
        ("from torch.utils import cpp_extension", ImportError, "left out: nothing is built"),
        (
            "import torch.distributed.elastic",
            ImportError,
            "planned; until then start ranks with graphroot launch",
        ),
        ("torch.symeig", AttributeError, "use torch.linalg.eigh"),
        ("torch.core", AttributeError, "module 'torch' has no attribute 'core'"),
        ("import torch.core", ImportError, "'torch.core'"),
        ("import torch.nn.layers.linear", ImportError, "'torch.nn.layers"),
        ("import torch.nn.functional.linear.bias", ImportError, "'torch.nn.functional.linear"),
        ("torch.version.nothing", AttributeError, "nothing"),
        ("torch.__wrapped__", AttributeError, "module 'torch' has no attribute '__wrapped__'"),
    ],
)
def test_what_is_not_there(
    statement: str, error: type[Exception], words: str, absent: dict[str, str]
) -> None:
    name, _, text = absent[statement].partition(": ")
    assert issubclass(getattr(builtins, name), error)
    assert words in text


@pytest.fixture(scope="module")
def absent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each of the statements raises, in one process."""
    marks = [mark for mark in test_what_is_not_there.pytestmark if mark.name == "parametrize"]
    statements = [row[0] for row in marks[0].args[1]]
    out = run(
        tmp_path_factory.mktemp("absent"),
        f"""
        import json
        import tensor.as_torch
        import torch

        said = {{}}
        for statement in {statements!r}:
            try:
                exec(statement)
            except Exception as error:
                said[statement] = f"{{type(error).__name__}}: {{error}}"
        assert not hasattr(torch, "export") and not hasattr(torch, "methods") and "core" not in dir(torch)
        print(json.dumps(said))
        """,
    )
    return json.loads(out)  # type: ignore[no-any-return]
