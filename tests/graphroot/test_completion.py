"""Completion of the command in shells: the code for each, and what bash makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphroot.command import main
from tools.run.arguments import simulator_completions

ROOT = Path(__file__).resolve().parents[2]
#: The words of a line, without those that only ``COMP_WORDBREAKS`` would separate.
ASK = """
eval "$(graphroot completion bash)"
COMP_LINE="$1"; COMP_POINT=${#1}; COMP_TYPE=9
read -ra COMP_WORDS <<< "$1"
[[ "$1" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete graphroot "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command in it, whether it is installed or not."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "graphroot"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from graphroot.command import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return folder


def complete(command: Path, folder: Path, line: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", line],
        cwd=folder,
        env=os.environ | {"PATH": f"{command}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [word.strip() for word in done.stdout.splitlines() if word.strip()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("graphroot me", ["memcheck"]),
        ("graphroot run --simu", ["--simulate"]),
        ("graphroot run tr", ["train.py"]),
        ("graphroot run --memcheck tr", ["train.py"]),
        ("graphroot run train.py --", []),
        ("graphroot memcheck --schedule l", ["lazy"]),
        ("graphroot run --simulate sched", ["schedule=eager", "schedule=lazy", "schedule=random"]),
        ("graphroot bench dis", ["dispatch"]),
        ("graphroot launch --nproc", ["--nproc-per-node"]),
        ("graphroot completion f", ["fish"]),
    ],
)
def test_bash(command: Path, tmp_path: Path, line: str, words: list[str]) -> None:
    (tmp_path / "train.py").write_text("")
    assert complete(command, tmp_path, line) == words


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_code(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    code = capsys.readouterr().out
    assert "graphroot" in code
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    load = "autoload -Uz compinit && compinit -u -D\n" if shell == "zsh" else ""
    done = subprocess.run(
        [program, "-c", load + code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_options_of_the_simulator() -> None:
    assert simulator_completions("")[0] == "devices="
    assert "schedule=lazy" in simulator_completions("sch")
    assert "devices=2,check=race" in simulator_completions("devices=2,ch")
    assert not [each for each in simulator_completions("devices=2,") if each.count("devices") > 1]
