"""Packages of a program that are called as ours: what each import gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.simulator_only


def run(folder: Path, code: str, *command: str, status: int = 0) -> tuple[str, str]:
    """Output and errors of a program in ``folder``, which finds ours behind its own packages."""
    (folder / "program.py").write_text(dedent(code))
    done = subprocess.run(
        [sys.executable, *command, "program.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def write(folder: Path, *files: str) -> None:
    """Modules that know whose they are."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("OWNER = 'program'\n")


def test_files_of_a_shared_folder_go_first(tmp_path: Path) -> None:
    write(tmp_path, "nn/functional.py", "nn/blocks.py", "parallel/launch.py")
    out, _ = run(
        tmp_path,
        """
        import nn, nn.functional, nn.blocks, parallel.launch
        print(nn.functional.OWNER, nn.blocks.OWNER, parallel.launch.OWNER)
        from nn import functional, Linear
        print(functional.OWNER, Linear(1, 1), "functional" in dir(nn), nn.__name__)
        import tensor
        print(tensor.nn.functional.relu(tensor.tensor([-1.0, 2.0])))
        print(nn.DataParallel, tensor.distributed.spawn)
        """,
    )
    assert out.splitlines()[:3] == [
        "program program program",
        "program Linear(in_features=1, out_features=1, bias=True) True nn",
        "tensor([0., 2.])",
    ]
    assert out.splitlines()[3].startswith("<class 'parallel.data_parallel")


def test_folders_in_folders(tmp_path: Path) -> None:
    """A folder that ours has as a package, in a shared folder; and a package there, which is the program's alone."""
    write(tmp_path, "nn/layers/mine.py", "nn/layers/linear.py", "nn/optim/__init__.py", "nn/optim/sgd.py")
    out, _ = run(
        tmp_path,
        """
        import nn.layers.mine, nn.layers.linear, nn.optim.sgd
        print(nn.layers.mine.OWNER, nn.layers.linear.OWNER, nn.optim.OWNER, nn.optim.sgd.OWNER)
        from nn.layers.activations import CELU
        from nn.layers import mine
        import tensor
        print(CELU(), mine.OWNER, tensor.nn.Linear(1, 1), tensor.optim.SGD.__name__)
        """,
    )
    assert out == (
        "program program program program\nCELU(alpha=1.0) program "
        "Linear(in_features=1, out_features=1, bias=True) SGD\n"
    )


def test_a_module_of_ours_whose_submodules_are_made(tmp_path: Path) -> None:
    """``nn.modules`` is a file that makes ``nn.modules.linear`` and others itself."""
    write(tmp_path, "nn/modules/linear.py", "nn/modules/mine.py")
    out, _ = run(
        tmp_path,
        """
        import nn.modules.linear, nn.modules.mine
        print(nn.modules.linear.OWNER, nn.modules.mine.OWNER, nn.modules.Linear.__name__)
        import tensor.as_torch
        from torch.nn.modules.linear import Linear
        print(Linear.__name__)
        """,
    )
    assert out == "program program Linear\nLinear\n"


@pytest.mark.parametrize("first", ["program", "ours"])
def test_regular_packages_and_files_are_the_programs(tmp_path: Path, first: str) -> None:
    write(tmp_path, "nn/__init__.py", "nn/layers.py", "drv/__init__.py", "tools/__init__.py")
    imports = ["import nn, drv, tools, nn.layers", "import tensor"]
    out, _ = run(
        tmp_path,
        "\n".join(imports if first == "program" else imports[::-1])
        + "\n"
        + dedent(
            """
            print(nn.OWNER, drv.OWNER, tools.OWNER, nn.layers.OWNER)
            print(tensor.nn.Linear(1, 1), tensor.nn.DataParallel.__name__, tensor.func.grad.__name__)
            """
        ),
    )
    assert out == (
        "program program program program\nLinear(in_features=1, out_features=1, bias=True) DataParallel grad\n"
    )


def test_a_program_of_pytorchs_with_every_name_of_ours(tmp_path: Path) -> None:
    write(tmp_path, "nn/__init__.py", "parallel.py", "drv/__init__.py", "tools/__init__.py", "tensor.py")
    out, _ = run(
        tmp_path,
        """
        import drv, nn, parallel, tensor, tools, torch
        print(*(module.OWNER for module in (drv, nn, parallel, tensor, tools)))
        x = torch.ones(3, device="cuda", requires_grad=True)
        torch.nn.functional.relu(x).sum().backward()
        print(x.grad, type(x.grad).__module__)
        """,
        *("-m", "graphroot", "run", "--simulate"),
    )
    assert out == "program program program program program\ntensor([1., 1., 1.], device='cuda:0') torch\n"


def test_processes_that_such_a_program_starts(tmp_path: Path) -> None:
    write(tmp_path, "nn/__init__.py", "drv/memory.py", "tensor.py")
    out, _ = run(
        tmp_path,
        """
        import torch, torch.multiprocessing as mp, nn, drv.memory, tensor

        def work(rank, model):
            assert nn.OWNER == drv.memory.OWNER == tensor.OWNER == "program"
            print(rank, model(torch.ones(1, 2)).shape, flush=True)

        if __name__ == "__main__":
            mp.spawn(work, (torch.nn.Linear(2, 1),), nprocs=1)
            loader = torch.utils.data.DataLoader(torch.arange(4.0), 2, num_workers=1, multiprocessing_context="spawn")
            print([batch.tolist() for batch in loader])
        """,
        *("-m", "graphroot", "run"),
    )
    assert out == "0 torch.Size([1, 1])\n[[0.0, 1.0], [2.0, 3.0]]\n"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import nn\nnn.Linear(1, 1)\n", "nn"),
        ("from nn import Linear\n", "nn"),
        ("import parallel\nparallel.init_process_group()\n", "parallel"),
        ("from parallel.nowhere import x\n", "parallel"),
        ("import tensor\ntensor.ones(3)\n", "tensor"),
        ("import tensor.nowhere\n", "tensor"),
    ],
)
def test_errors_say_what_hides_ours(tmp_path: Path, code: str, name: str) -> None:
    write(tmp_path, "nn/__init__.py", "parallel/__init__.py", "tensor.py")
    _, err = run(tmp_path, code, "-m", "graphroot", "run", status=1)
    file = "tensor.py" if name == "tensor" else f"{name}/__init__.py"
    assert err.endswith(
        f"\n{name!r} is {tmp_path / file} here, which hides graphroot's package {name!r}: rename it if graphroot's was meant\n"
    )


def test_errors_of_the_program_itself_are_its_own(tmp_path: Path) -> None:
    write(tmp_path, "nn/__init__.py")
    for code in ("import json\njson.nothing\n", "import no_such_module\n", "1 / 0\n"):
        _, err = run(tmp_path, code, "-m", "graphroot", "run", status=1)
        assert "graphroot's package" not in err
    # Ours is not hidden by a folder that shares the name.
    write(tmp_path, "parallel/mine.py")
    _, err = run(tmp_path, "import parallel\nparallel.nothing\n", "-m", "graphroot", "run", status=1)
    assert "hides" not in err


def test_a_program_without_ours_is_not_slowed_down(tmp_path: Path) -> None:
    """Only what is imported is loaded, unless a name is taken by both."""
    write(tmp_path, "tools/plots.py", "tools/run.py", "drv/__init__.py")
    out, _ = run(
        tmp_path,
        """
        import sys
        import drv, tools.plots, tools.run
        print(drv.OWNER, tools.plots.OWNER, tools.run.OWNER, "numpy" in sys.modules, "tensor" in sys.modules)
        """,
    )
    assert out == "program program program False False\n"
    write(tmp_path / "other", "nn/blocks.py")
    out, _ = run(
        tmp_path / "other",
        """
        import sys
        import nn.blocks
        print(nn.blocks.OWNER, "tools" in sys.modules, "parallel" in sys.modules)
        """,
    )
    assert out == "program False False\n"


def test_paths_follow_the_search_path(tmp_path: Path) -> None:
    write(tmp_path, "library/nn/late.py")
    out, _ = run(
        tmp_path,
        """
        import pkgutil, sys
        import nn
        before = list(nn.__path__)
        sys.path.insert(0, "library")
        import nn.late
        print(nn.late.OWNER, len(before), len(nn.__path__), nn.__path__[-1] == before[0])
        print("late" in [module.name for module in pkgutil.iter_modules(nn.__path__)])
        sys.path.remove("library")
        print(list(nn.__path__) == before)
        """,
    )
    assert out == "program 1 2 True\nTrue\nTrue\n"
