"""Projects of users that have folders of our names."""

from __future__ import annotations

from itertools import product
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NAMES = ("tools", "nn", "parallel", "drv")
#: What a project has by a name: nothing, a folder without ``__init__.py``, or a regular package.
FORMS = ("none", "folder", "package")
#: Of each name a module that ours has not, and one that it has.
MODULES = {
    "tools": ("plots", "run"),
    "nn": ("blocks", "functional"),
    "parallel": ("pools", "comm"),
    "drv": ("motor", "memory"),
}

#: Every two forms of every two names are in one of these.
PAIRS = [
    dict(zip(NAMES, (FORMS[each] for each in row), strict=True))
    for row in (
        (0, 0, 0, 0),
        (0, 1, 1, 1),
        (0, 2, 2, 2),
        (1, 0, 1, 2),
        (1, 1, 2, 0),
        (1, 2, 0, 1),
        (2, 0, 2, 1),
        (2, 1, 0, 2),
        (2, 2, 1, 0),
    )
]  # fmt: skip


def combinations() -> Iterator[dict[str, str]]:
    """Every form of every name."""
    for forms in product(FORMS, repeat=len(NAMES)):
        yield dict(zip(NAMES, forms, strict=True))


def described(forms: Mapping[str, str]) -> str:
    """A combination as the name of a test."""
    return "-".join(f"{form}_{name}" for name, form in forms.items() if form != "none") or "none"


def write(folder: Path, forms: Mapping[str, str]) -> None:
    """Make a project: its modules, and programs that use them without (``own.py``) and with (``both.py``) graphroot."""
    imports, names = [], []
    for name, form in forms.items():
        if form == "none":
            continue
        (folder / name).mkdir()
        if form == "package":
            (folder / name / "__init__.py").write_text(f"OWNER = 'project {name}'\n")
            imports.append(f"import {name}")
            names.append(name)
        for module in MODULES[name]:
            (folder / name / f"{module}.py").write_text(f"OWNER = 'project {name}.{module}'\n")
            imports.append(f"import {name}.{module}")
            names.append(f"{name}.{module}")
    # Modules of other modules are imported in the other order by half of the projects.
    if len(names) % 2:
        imports.reverse()
    checks = "\n".join(f"assert {name}.OWNER == 'project {name}', {name}" for name in names)
    (folder / "project.py").write_text("\n".join(imports) + "\n" + checks + "\n")
    (folder / "own.py").write_text("import project\nprint('own: right')\n")
    (folder / "both.py").write_text(
        dedent("""
        import project
        import torch
        import torch.distributed, torch.optim
        import torch.nn as nn_of_torch
        import torch.nn.functional as F

        model = nn_of_torch.Sequential(nn_of_torch.Linear(4, 3), nn_of_torch.ReLU(), nn_of_torch.Linear(3, 2)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        loss = F.cross_entropy(nn_of_torch.DataParallel(model)(torch.randn(8, 4).cuda()), torch.arange(8).cuda() % 2)
        loss.backward()
        optimizer.step()
        assert torch.nn.functional.relu is F.relu and torch.nn is nn_of_torch
        """)
        + "\n".join(imports)
        + "\n"
        + checks
        + "\nprint('both: right', model[0].weight.device)\n"
    )
