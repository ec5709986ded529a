"""``import torch`` is ours in the processes that a program starts, too, and however the program itself is started."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from .programs import ROOT, run, start, write

if TYPE_CHECKING:
    from pathlib import Path

CHILD = "import torch, torch.nn\nprint(torch.__version__, torch.nn.Linear(1, 1).weight.dtype)\n"
SAID = "2.13.0+graphroot.0.1.0 torch.float32\n"


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    out = run(
        tmp_path,
        f"""
        import tensor.as_torch
        import torch
        import torch.multiprocessing as mp

        def work(queue):
            import torch.nn.functional as F
            assert type(torch).__name__ == "Torch"
            queue.put((str(torch.__version__), str(F.relu(torch.ones(1)).dtype)))

        if __name__ == "__main__":
            context = mp.get_context({method!r})
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(*queue.get(timeout=60))
            process.join()
        """,
    )
    assert out == SAID


def test_a_spawned_process_of_a_program_that_does_not_say_so_itself(tmp_path: Path) -> None:
    """What is sent has to be found again before the program has imported anything."""
    module = write(
        tmp_path,
        """
        import sys
        import torch
        import torch.multiprocessing as mp

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

        def work(rank, net, x):
            sys.stdout.write(f"{rank} {torch.float32} {tuple(net.layer(x).shape)}\\n")

        def main():
            mp.spawn(work, args=(Net(), torch.ones(3, 2)), nprocs=2)
        """,
        "training.py",
    )
    out = run(
        tmp_path, "import tensor.as_torch\nimport training\nif __name__ == '__main__':\n    training.main()\n"
    )
    assert sorted(out.splitlines()) == ["0 torch.float32 (3, 1)", "1 torch.float32 (3, 1)"]
    module.write_text(module.read_text() + "\nif __name__ == '__main__':\n    main()\n")
    done = start("-m", "tools.run", "-m", "training", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(out.splitlines())


def test_other_programs_that_are_started(tmp_path: Path) -> None:
    write(tmp_path, CHILD, "other/child.py")
    out = run(
        tmp_path,
        """
        import tensor.as_torch
        import os, subprocess, sys
        del sys.modules["torch"]  # a program that does not use it itself
        # Elsewhere, and without a word of where graphroot is.
        subprocess.run([sys.executable, "child.py"], check=True, cwd="other")
        subprocess.run([sys.executable, "-m", "child"], check=True, cwd="other")
        """,
        PYTHONPATH=str(ROOT),
    )
    assert out == 2 * SAID


def test_the_search_path_of_the_user_stays(tmp_path: Path) -> None:
    write(tmp_path, "value = 3\n", "mine/my_module.py")
    code = "import my_module, os, torch; print(my_module.value, os.environ['PYTHONPATH'].count('torch_names/search'))"
    out = run(
        tmp_path,
        f"""
        import tensor.as_torch
        import tensor.torch_names.installation as installation
        import subprocess, sys
        installation.install()
        subprocess.run([sys.executable, "-c", {code!r}], check=True)
        """,
        PYTHONPATH=f"{ROOT}:{tmp_path / 'mine'}",
    )
    assert out == "3 1\n"


def test_a_child_whose_python_has_no_graphroot_says_so(tmp_path: Path) -> None:
    from tensor.torch_names.children import SEARCH_PATH

    write(tmp_path, "raise ImportError('no dtypes here')\n", "ml_dtypes.py")
    done = start("-c", "import torch", folder=tmp_path, PYTHONPATH=str(SEARCH_PATH))
    assert done.returncode == 1
    assert "this process was started by a program that runs with graphroot as torch" in done.stderr
    assert done.stderr.rstrip().endswith("cannot import graphroot: no dtypes here")


def test_data_loader_workers(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import tensor.as_torch
        import torch
        from torch.utils.data import DataLoader, Dataset, get_worker_info

        class Squares(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                import torch.nn.functional as F
                assert get_worker_info() is not None and str(torch.int64) == "torch.int64"
                return F.relu(torch.tensor(i * i))

        if __name__ == "__main__":
            for context in ("fork", "spawn"):
                loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=context)
                print(sum(batch.sum().item() for batch in loader))
        """,
    )
    assert out == "140\n140\n"


RANKS = r"""
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(2, 1))
model(torch.full((1, 2), dist.get_rank() + 1.0)).sum().backward()
sys.stdout.write(f"{dist.get_rank()} {model.module.weight.grad.tolist()}\n")
dist.destroy_process_group()
"""
RANKS_SAID = ["0 [[1.5, 1.5]]", "1 [[1.5, 1.5]]"]


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "parallel.launch", "--as-torch", "--nproc-per-node", "2", "ranks.py"),
        ("-m", "tools.run", "-m", "torch.distributed.run", "--nproc_per_node", "2", "ranks.py"),
        ("program.py",),
    ],
    ids=["launcher", "run", "within a program"],
)
def test_launched_ranks(tmp_path: Path, command: tuple[str, ...]) -> None:
    write(tmp_path, RANKS, "ranks.py")
    write(
        tmp_path,
        """
        import tensor.as_torch
        import subprocess, sys
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "ranks.py"]
        sys.exit(subprocess.run(launch).returncode)
        """,
    )
    done = start(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == RANKS_SAID


def test_without_the_option_launched_ranks_have_their_own_torch(tmp_path: Path) -> None:
    write(tmp_path, "import torch\nprint(torch.__file__)\n", "ranks.py")
    write(tmp_path, "", "torch.py")
    done = start("-m", "parallel.launch", "ranks.py", folder=tmp_path)
    assert done.stdout == f"{tmp_path / 'torch.py'}\n"


def test_pytest(tmp_path: Path) -> None:
    write(
        tmp_path,
        "import torch\n\ndef test_it():\n    assert torch.ones(2).sum() == 2\n    assert 'graphroot' in torch.__version__\n",
        "test_it.py",
    )
    done = start("-m", "tools.run", "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    write(tmp_path, "import tensor.as_torch\n", "conftest.py")
    done = start("-m", "pytest", "-q", "-p", "no:cacheprovider", ".", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="IPython is not installed")
def test_an_interactive_shell(tmp_path: Path) -> None:
    write(
        tmp_path,
        "import tensor.as_torch\nimport torch, torch.nn as nn\nprint(nn.ReLU()(torch.tensor([-1., 2.])))\n",
        "cell.ipy",
    )
    done = start(
        "-m", "IPython", "--quick", "cell.ipy", folder=tmp_path, IPYTHONDIR=str(tmp_path / "ipython")
    )
    assert done.stdout == "tensor([0., 2.])\n", done.stderr
