"""``graphroot run``: programs run as ``python`` runs them, on a simulated GPU if asked, and races are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import drv
from tools.run.command_line import main

from .running import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .running import Bench

pytestmark = pytest.mark.simulator_only

#: What both programs begin with: a copy that the stream of ``copies`` does while the host goes on.
COPY = """\
import tensor

copies = tensor.cuda.Stream()
host = tensor.arange(4096.0).pin_memory()
with tensor.cuda.stream(copies):
    x = host.to("cuda", non_blocking=True)
"""
RACE = COPY + "y = x * 2\nprint('done')\n"
ORDERED = COPY + (
    "tensor.cuda.current_stream().wait_stream(copies)\n"
    "x.record_stream(tensor.cuda.current_stream())\n"
    "y = x * 2\nprint('done', y.sum().item())\n"
)
SHOW = (
    "import sys\nprint(sys.argv, __name__, __file__, sys.path[0], __spec__ and __spec__.name, __package__)\n"
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command sets variables for the processes that a program starts."""
    for name in ("GRAPHROOT_DRIVER", "GRAPHROOT_SIMULATOR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    drv.reset()
    yield
    drv.reset()


def _run(*arguments: str) -> int:
    return main(["--no-as-torch", *arguments])


def _start(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_a_race_is_told_with_the_users_lines(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    script = bench.write(RACE)
    assert _run("--simulate", str(script)) == 86
    out, err = capsys.readouterr()
    assert out == "done\n"
    assert "graphroot: [1] race: let default stream wait for stream " in err
    assert " before script.py:7\n  nothing orders kernel" in err
    copy, kernel = 'File "script.py", line 6, in <module>', 'File "script.py", line 7, in <module>'
    assert (
        err.index("first: copy of 16384 bytes")
        < err.index("created at script.py:3, by")
        < err.index(copy)
        < err.index("then: kernel")
        < err.index(kernel)
        < err.index("at nvrtc_kernels/cuda")
    )
    assert "y = x * 2" in err
    assert "Say tensor.cuda.default_stream().wait_stream(s) before script.py:7" in err
    assert err.endswith(
        f"graphroot: 1 error in how {script} uses streams and memory; --memcheck looks for more\n"
    )


def test_what_was_looked_for_is_told_in_a_line(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    script = bench.write(ORDERED)
    for options, said in (
        ("--simulate", "ran on a simulated GPU; no race between its streams was found"),
        ("--simulate=devices=2", "ran on 2 simulated GPUs; no race between its streams was found"),
        ("--simulate=check=on", "ran on a simulated GPU; races were not looked for (check=on)"),
    ):
        assert _run(options, str(script)) == 0
        assert capsys.readouterr() == ("done 16773120.0\n", f"graphroot: {script} {said}\n")
        drv.reset()
        os.environ.pop("GRAPHROOT_SIMULATOR")
    script = bench.write("import tensor\n")
    assert _run("--simulate", str(script)) == 0
    assert capsys.readouterr().err == f"graphroot: {script} used no GPU\n"
    # Nothing is said where no GPU was asked for.
    assert _run(str(script)) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_what_is_queued_at_the_end_is_run_and_looked_at(
    bench: Bench, capsys: pytest.CaptureFixture[str], schedule: str
) -> None:
    assert _run(f"--simulate=schedule={schedule}", str(bench.write(RACE))) == 86
    assert "[1] race" in capsys.readouterr().err
    drv.reset()
    assert _run(f"--simulate=schedule={schedule}", str(bench.write(ORDERED))) == 0


def test_every_race_is_told_once(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake that is repeated is one finding; those of a program that fails are told, too."""
    text = RACE + "for _ in range(3):\n    y = x + 1\nz = x - 3\nraise SystemExit(4)\n"
    assert _run("--simulate", str(bench.write(text))) == 86
    err = capsys.readouterr().err
    # Those that one wait would end are one report.
    assert err.count("] race: ") == 1
    assert "The same wait is missing for 2 more:\n    kernel" in err
    assert " reads at script.py:10 (3 times)\n" in err
    assert " reads at script.py:11\n" in err
    assert "graphroot: 3 errors" in err


def test_options_of_the_simulated_gpus(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    script = bench.write(
        "import tensor\nprint(tensor.cuda.device_count(), tensor.cuda.mem_get_info()[1] >> 20)\n"
    )
    assert _run("--simulate", "devices=3,memory=512MiB", str(script)) == 0
    assert capsys.readouterr().out == "3 512\n"


def test_memcheck_comes_with_it(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    script = bench.write("import tensor\nx = tensor.empty(4, device='cuda')\nprint((x + 1).shape)\n")
    assert _run("--simulate", str(script)) == 0
    drv.reset()
    assert _run("--memcheck", "--simulate", str(script)) == 86
    assert "memcheck: [1]" in capsys.readouterr().err


def test_without_a_simulated_gpu_there_is_none(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    script = bench.write(
        "import os\nprint(os.environ.get('GRAPHROOT_DRIVER'), os.environ.get('GRAPHROOT_SIMULATOR'))\n"
    )
    assert _run(str(script)) == 0
    assert capsys.readouterr().out == "None None\n"


@pytest.mark.parametrize("how", ["file", "folder", "module", "package"])
def test_programs_see_what_python_shows_them(bench: Bench, how: str) -> None:
    bench.write(SHOW, "script.py")
    (bench.folder / "package").mkdir()
    bench.write("", "package/__init__.py")
    bench.write(SHOW, "package/__main__.py")
    target = {
        "file": ["script.py"],
        "folder": ["package"],
        "module": ["-m", "script"],
        "package": ["-m", "package"],
    }[how]
    arguments = [*target, "-x", "--simulate", "--help"]
    ours, theirs = (
        _start(*start, *arguments, folder=bench.folder)
        for start in (("-m", "tools.run", "--no-as-torch"), ())
    )
    # Python leaves the name of a folder and its place in the search path as they were given.
    said, expected = (text.stdout.replace(str(bench.folder) + "/", "") for text in (ours, theirs))
    if how == "folder":
        said, expected = (text.replace(f"{bench.folder}/package", "package") for text in (said, expected))
        expected = expected.replace("__main__ ''", "None None").replace(" __main__ \n", " None None\n")
    assert said == expected, ours.stderr
    assert ours.returncode == theirs.returncode == 0


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys\nsys.exit(3)\n", 3),
        ("import sys\nsys.exit('words')\n", 1),
        ("raise SystemExit\n", 0),
        ("def f():\n    1 / 0\nf()\n", 1),
        ("x = (\n", 1),
        ("import missing_module\n", 1),
        ("import atexit\natexit.register(print, 'end')\nprint('program')\n", 0),
        ("import threading\nthreading.Timer(0.1, print, ['thread']).start()\nprint('program')\n", 0),
    ],
)
def test_ends_are_pythons(bench: Bench, text: str, status: int) -> None:
    bench.write(text)
    ours, theirs = (
        _start(*start, "script.py", folder=bench.folder)
        for start in (("-m", "tools.run", "--no-as-torch"), ())
    )
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout) == (status, theirs.stdout)
    # Python names the script in tracebacks as it was given.
    assert ours.stderr.replace(f"{bench.folder}/", "") == theirs.stderr.replace(f"{bench.folder}/", "")


def test_interrupts(bench: Bench) -> None:
    bench.write(
        "import time\ntry:\n    print('ready', flush=True); time.sleep(60)\nfinally:\n    print('cleaned up')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "tools.run", "--no-as-torch", "--simulate", "script.py"],
        cwd=bench.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell inherit that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "cleaned up\n")
    assert err.endswith("KeyboardInterrupt\ngraphroot: script.py used no GPU\n")
    assert "line 3, in <module>" in err
    assert "tools/run" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--simulate=devices=x", "script.py"], "--simulate: simulator option devices='x'"),
        (["--nothing", "script.py"], "unrecognized arguments: --nothing"),
        ([], "expected a script to run"),
        (["-m"], "expected a script to run"),
        (["nowhere.py"], "trial: can't open file 'nowhere.py': [Errno 2] No such file or directory"),
        (["-m", "nowhere"], "trial: No module named 'nowhere' can be run"),
    ],
)
def test_wrong_command_lines(
    bench: Bench, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    try:
        status: object = main(["--no-as-torch", *arguments], prog="trial")
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert words in capsys.readouterr().err


def test_the_name_of_the_command_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"], prog="graphroot run")
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: graphroot run [options] (script.py | -m module) [arguments]")
    for option in ("--simulate", "--memcheck", "--no-as-torch", "-m"):
        assert option in out


def test_programs_that_say_torch(bench: Bench) -> None:
    bench.write(RACE.replace("tensor", "torch"))
    done = _start("-m", "tools.run", "--simulate", "script.py", folder=bench.folder)
    assert done.returncode == 86
    assert "line 7, in <module>\n        y = x * 2" in done.stderr
    done = _start("-m", "tools.run", "--simulate", "--memcheck", "script.py", folder=bench.folder)
    assert done.returncode == 86
    assert "memcheck: [1] race" in done.stderr
