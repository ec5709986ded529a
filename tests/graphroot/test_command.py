"""The command ``graphroot``: its table, and what each row leads to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphroot import __version__
from graphroot.command import SUBCOMMANDS, load, main, parser_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = [row.name for row in SUBCOMMANDS]


@pytest.mark.parametrize("row", SUBCOMMANDS, ids=NAMES)
def test_rows_lead_to_functions(row: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(load(row.main))
    parser = parser_of(row)
    assert parser.prog == f"graphroot {row.name}"
    with pytest.raises(SystemExit) as end:
        main([row.name, "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert out == parser.format_help()
    assert out.startswith(f"usage: graphroot {row.name} ")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for row in SUBCOMMANDS:
        assert f"  {row.name} " in out
        assert row.summary in out
        assert len(row.summary) <= 80
    assert main([]) == 2
    assert capsys.readouterr() == ("", out)
    assert main(["help"]) == 0
    assert capsys.readouterr().out == out
    with pytest.raises(SystemExit):
        main(["help", "info"])
    assert capsys.readouterr().out.startswith("usage: graphroot info")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"graphroot {__version__} (Python {sys.version.split()[0]})\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "there is no command 'rnu': did you mean 'run'?"),
        (["nothing"], f"there is no command 'nothing'; there are {', '.join(NAMES)}"),
        (
            ["train.py", "--epochs", "3"],
            "to run a program, say `graphroot run train.py --epochs 3`",
        ),
        (["--simulate", "train.py"], "there is no command '--simulate'"),
    ],
)
def test_words_that_are_no_command(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(words) == 2
    assert f"graphroot: {said}" in capsys.readouterr().err


def test_nothing_is_loaded_for_the_help() -> None:
    code = (
        "import sys; from graphroot.command import main; main(['--help']); main(['--version'])\n"
        "print([name for name in ('drv', 'tensor', 'tools', 'numpy', 'argparse', 'argcomplete') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "module",
    [
        "tools.run",
        "tools.simulate",
        "tools.memcheck",
        "tools.profile",
        "tools.scale",
        "tools.bench",
        "tools.info",
        "tools.profile",
    ],
)
def test_modules_are_programs_of_the_same_name(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    ours = f"graphroot {module.rpartition('.')[2]}"
    row = next(row for row in SUBCOMMANDS if row.prog == ours)
    assert done.stdout.split() == parser_of(row).format_help().replace(ours, f"python -m {module}").split()
