"""A notebook in a kernel of Jupyter's: programs that say ``import torch``, the texts of results, and bars of progress."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from ..programs import ROOT
from .installed import needs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs("nbclient", "ipykernel")

CELLS = (
    """
    import tensor.as_torch
    import torch
    from tqdm.auto import tqdm

    torch.manual_seed(0)
    torch.cuda.get_device_name()
    """,
    """
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).cuda()
    model
    """,
    """
    x = torch.arange(12.0, device="cuda").reshape(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in tqdm(range(3), "training"):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x
    """,
    # A mistake of a user's is told in the cell, and the notebook goes on.
    """
    try:
        x @ x
    except RuntimeError as error:
        print(error)
    torch.nn.Conv2D
    """,
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What the cells put out, in one session of a kernel."""
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    folder: Path = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("GRAPHROOT_DRIVER", "simulator")
        # Nothing of the user's own: settings, history, what tells of a terminal.
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name))
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(dedent(text).strip()) for text in CELLS]
        )
        client.NotebookClient(
            notebook,
            timeout=200,
            allow_errors=True,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        ).execute()
    return [[dict(each) for each in cell.outputs] for cell in notebook.cells]


def _result(outputs: list[dict[str, Any]]) -> dict[str, str]:
    (data,) = (each["data"] for each in outputs if each["output_type"] == "execute_result")
    return dict(data)


def test_torch_is_ours_in_a_kernel(outputs: list[list[dict[str, Any]]]) -> None:
    assert _result(outputs[0])["text/plain"] == "'Simulated GPU sm_90'"


def test_modules_and_tensors_are_shown_as_rich_text(outputs: list[list[dict[str, Any]]]) -> None:
    model = _result(outputs[1])
    assert model["text/html"].startswith("<details open><summary><b>Sequential</b>() · 21 parameters")
    assert model["text/plain"].startswith("Sequential(\n  (0): Linear(in_features=3")
    x = _result(outputs[2])
    assert "4 × 3" in x["text/html"]
    assert "cuda:0" in x["text/html"]
    assert x["text/plain"].startswith("tensor([[ 0.,  1.,  2.],")


def test_progress_is_shown(outputs: list[list[dict[str, Any]]]) -> None:
    said = "".join(
        each.get("text", "") + each.get("data", {}).get("text/plain", "")
        for each in outputs[2]
        if each["output_type"] != "execute_result"
    )
    assert "training" in said
    assert "3/3" in said


def test_mistakes_are_told_and_the_kernel_goes_on(outputs: list[list[dict[str, Any]]]) -> None:
    shown, failed = outputs[3]
    assert "mat1 and mat2 shapes cannot be multiplied" in shown["text"]
    assert failed["output_type"] == "error"
    assert failed["ename"] == "AttributeError"
    assert "Conv2d" in failed["evalue"]
