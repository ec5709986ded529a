"""The command: what it runs and how, what it ends with, what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import drv
from tests.tools.running import ROOT, Bench, lines
from tools.memcheck.checking import main
from tools.memcheck.options import parse

pytestmark = pytest.mark.simulator_only


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no data')", 1, "no data\n"),
        ("raise SystemExit(256 + 3)", 3, ""),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_status_of_the_script_is_kept_when_nothing_is_found(
    bench: Bench, ending: str, status: int, said: str
) -> None:
    run = bench.check(f"import sys\nimport tensor\ntensor.ones(3, device='cuda')\n{ending}\n")
    assert run.status == status
    assert said in run.err
    assert run.err.endswith(f"memcheck: {bench.folder / 'script.py'} ended with status {status}; 0 errors\n")


def test_modules_that_are_imported_while_those_of_the_script_are_looked_for(tmp_path: Path) -> None:
    """As ``sysconfig`` imports the data of its platform when it is first asked, here where nothing else had asked."""
    (tmp_path / "script.py").write_text(
        "import sys, sysconfig\nfor name in list(sys.modules):\n"
        "    if name.startswith('_sysconfigdata'):\n        del sys.modules[name]\n"
        "sysconfig._CONFIG_VARS = None\nif hasattr(sysconfig, '_CONFIG_VARS_INITIALIZED'):\n"
        "    sysconfig._CONFIG_VARS_INITIALIZED = False\n"
        "import colorsys\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-m", "tools.memcheck", "script.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "dictionary changed size" not in run.stderr


def test_traceback_of_the_script_has_no_frames_of_the_tool(bench: Bench) -> None:
    run = bench.check("def halve(x):\n    return x / 0\n\nhalve(1)\n")
    assert run.status == 1
    head, _, summary = run.err.partition("memcheck:")
    path = bench.folder / "script.py"
    assert head.startswith(f'Traceback (most recent call last):\n  File "{path}", line 4, in <module>\n')
    assert head.endswith("ZeroDivisionError: division by zero\n")
    assert head.count("File ") == 2
    assert summary.strip().endswith("it used no GPU; 0 errors")
    assert "it used no GPU (--simulate gives it one); 0 errors" in bench.check("", simulate=None).err


def test_syntax_error(bench: Bench) -> None:
    run = bench.check("x = = 1\n")
    assert run.status == 1
    assert run.err.lstrip().startswith("File ")
    assert "SyntaxError" in run.err


def test_hook_of_the_script_for_exceptions_is_called(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    run = bench.check("import sys\nsys.excepthook = lambda kind, *_: print(kind.__name__)\n1 / 0\n")
    assert (run.status, run.out) == (1, "ZeroDivisionError\n")


def test_arguments_path_and_name_are_those_of_python(bench: Bench) -> None:
    bench.write("WORD = 'found'\n", "beside_the_script.py")
    text = """
        import sys
        import beside_the_script
        print(sys.argv[1:], sys.path[0], __name__, __file__, beside_the_script.WORD)
        print(sys.modules["__main__"].__dict__ is globals())
    """
    run = bench.check(text, "--max-reports", "3", arguments=("--simulate", "-m", "x", "--json"))
    folder = bench.folder
    assert run.out.splitlines() == [
        f"['--simulate', '-m', 'x', '--json'] {folder} __main__ {folder / 'script.py'} found",
        "True",
    ]


def test_state_of_the_process_is_put_back(bench: Bench) -> None:
    before = dict(os.environ), sys.argv[:], sys.path[:], sys.modules["__main__"]
    bench.check("import os, sys\nos.environ['NEW'] = '1'\nsys.path.insert(0, 'x')\nsys.argv.append('y')\n")
    assert before == (dict(os.environ), sys.argv, sys.path, sys.modules["__main__"])


def test_module(bench: Bench) -> None:
    package = bench.folder / "tool_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import __name__ as name\nprint(name, sys.argv, __package__)\nsys.exit(4)\n",
        encoding="utf-8",
    )
    run = bench.run(["--simulate"], ["-m", "tool_of_mine", "--flag", "value"])
    assert run.status == 4
    assert run.out == f"tool_of_mine ['{package / '__main__.py'}', '--flag', 'value'] tool_of_mine\n"


@pytest.mark.parametrize("target", [["missing.py"], ["-m", "missing_module"], ["-m", "json"]])
def test_what_cannot_be_run(bench: Bench, target: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(target) == 2
    assert capsys.readouterr().err.startswith("memcheck: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--simulate"],
        ["--unknown", "a.py"],
        ["--red-zone", "many", "a.py"],
        ["--error-exitcode", "300", "a.py"],
        ["--simulate", "colour=red", "a.py"],
        ["--sanitizer", "--simulate", "a.py"],
    ],
)
def test_wrong_command_lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 2
    assert "usage: python -m tools.memcheck" in capsys.readouterr().err


def test_options() -> None:
    result = parse(
        [
            "--simulate",
            "devices=2,seed=3",
            "--schedule",
            "lazy",
            "--no-leak-check",
            "--red-zone",
            "4k",
            "--quarantine",
            "1MiB",
            "--max-reports",
            "9",
            "--error-exitcode",
            "3",
            "a.py",
            "--schedule",
            "eager",
        ]
    )
    assert result.target == ("a.py", "--schedule", "eager")
    assert (result.simulate, result.schedule, result.leak_check) == ("devices=2,seed=3", "lazy", False)
    assert (result.red_zone, result.quarantine) == (4096, 1 << 20)
    assert (result.max_reports, result.error_exitcode) == (9, 3)
    assert parse(["--simulate", "a.py", "x=1"]).simulate == ""
    assert parse(["--simulate", "-m", "module", "-x"]).target == ("module", "-x")


def test_exit_status_and_reports_in_full_can_be_chosen(bench: Bench) -> None:
    calls = "\n".join(f"call({size})" for size in range(1, 6))
    text = f"import drv\ndrv.Device(0).make_current()\ncall = drv.runtime().driver.cuMemAlloc\n{calls}\n"
    run = bench.check(text, "--error-exitcode", "9", "--max-reports", "2")
    assert run.status == 9
    assert run.err.count("leak:") == 2
    assert "3 more are not shown" in run.err
    assert len(run.findings) == 5
    assert run.err.endswith("; 5 errors\n")


def test_document(bench: Bench) -> None:
    run = bench.check("import tensor\nx = tensor.empty(2, device='cuda')\ny = x + 1\nraise SystemExit(5)\n")
    document = run.document
    assert {key: document[key] for key in document if key not in ("command", "findings")} == {
        "tool": "memcheck",
        "version": 1,
        "drivers": ["simulator"],
        "script_status": 5,
        "status": 86,
        "errors": 1,
    }
    assert document["command"] == [str(bench.folder / "script.py")]
    assert run.only.keys() >= {
        "kind", "message", "to_do", "count", "processes", "accesses", "memory", "ranges", "advice",
    }  # fmt: skip
    assert run.only["accesses"][0].keys() == {
        "operation",
        "action",
        "stream",
        "thread",
        "source",
        "instruction",
        "stack",
        "stream_created",
    }
    frame = run.only["memory"]["allocated"][0]
    assert frame == {
        "file": str(bench.folder / "script.py"),
        "line": 2,
        "function": "<module>",
        "text": "x = tensor.empty(2, device='cuda')",
    }


def test_exit_handlers_and_threads_end_before_the_script_is_forgotten(bench: Bench) -> None:
    run = bench.check("""
        import atexit
        import threading
        import time
        import tensor

        table = tensor.ones(3, device="cuda")

        def late():
            time.sleep(0.1)
            print("thread", table.sum().item())

        threading.Thread(target=late).start()
        atexit.register(print, "first registered, last called")
        atexit.register(lambda: print("exit", table.sum().item()))
        atexit.register(lambda: 1 / 0)
    """)
    assert run.out.splitlines() == ["thread 3.0", "exit 3.0", "first registered, last called"]
    assert "ZeroDivisionError" in run.err
    assert run.status == 0


def test_schedule_of_the_command_line_wins(bench: Bench) -> None:
    text = """
        import drv
        made = drv.simulator.install(schedule="eager", check="on", devices=2)
        print(made.driver.options.schedule, made.driver.options.check, made.driver.options.devices)
    """
    assert bench.check(text, "--schedule", "lazy", simulate=None).out == "lazy full 2\n"
    assert bench.check(text, simulate=None).out == "eager full 2\n"


def test_caching_is_off_and_launches_do_not_block_on_the_simulated_driver(bench: Bench) -> None:
    run = bench.check("""
        import drv
        import tensor
        from drv import environment
        from drv.allocators import StreamOrderedMemory, device_allocator

        runtime = drv.runtime()
        print(environment.memory_caching(), runtime.launch_blocking)
        print(type(device_allocator(runtime, 0)) is StreamOrderedMemory)
        x = tensor.ones(5, device="cuda")
        print(tensor.cuda.memory_reserved(), tensor.empty(3, device="cuda", dtype=tensor.half).view(tensor.int16).shape)
    """)
    assert run.out.splitlines() == ["False False", "True", "512 torch.Size([3])".replace("torch", "tensor")]


def test_options_that_the_script_sets_for_the_caching_allocator_change_nothing(bench: Bench) -> None:
    run = bench.check("""
        import os
        os.environ["GRAPHROOT_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        os.environ["GRAPHROOT_NO_CUDA_MEMORY_CACHING"] = "0"
        import tensor
        from drv.allocators import StreamOrderedMemory
        from tensor.core.devices.state import cuda_state
        print(isinstance(cuda_state(0).allocator, StreamOrderedMemory))
    """)
    assert run.out == "True\n"


def test_sanitizer_that_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert main(["--sanitizer", "script.py"]) == 2
    assert "compute-sanitizer, which is not on the search path" in capsys.readouterr().err


def test_sanitizer_is_run_with_the_script(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = bench.folder / "compute-sanitizer"
    program.write_text(
        '#!/bin/sh\necho "$@" $GRAPHROOT_DRIVER $CUDA_LAUNCH_BLOCKING\nexit 41\n', encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bench.folder}{os.pathsep}{os.environ['PATH']}")
    assert main(["--sanitizer", "--error-exitcode", "41", "script.py", "--epochs", "2"]) == 41
    said = capfd.readouterr().out
    assert said.split() == (
        f"--tool memcheck --error-exitcode 41 --leak-check full {sys.executable} script.py --epochs 2 nvidia 1".split()
    )


def test_as_a_command_where_the_project_is_not_installed(bench: Bench) -> None:
    bench.write("import tensor\nx = tensor.empty(2, device='cuda')\nprint((x + 1).tolist())\n")
    done = subprocess.run(
        [sys.executable, "-m", "tools.memcheck", "--simulate", str(bench.folder / "script.py")],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (86, "[nan, nan]\n")
    assert "uninitialized read" in done.stderr
    assert "runpy" not in done.stderr
    assert done.stderr.endswith(" 1 error\n")


def test_stack_ends_at_the_script(bench: Bench) -> None:
    result = bench.check(
        "import tensor\ndef make():\n    return tensor.empty(2, device='cuda')\ny = make() + 1\n"
    ).only
    assert lines(result["memory"]["allocated"]) == ["return tensor.empty(2, device='cuda')", "y = make() + 1"]


def test_stack_shows_nothing_of_python_itself(bench: Bench) -> None:
    result = bench.check("""
        import threading
        import tensor
        made = []
        def make():
            made.append(tensor.empty(2, device="cuda"))
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        y = made.pop() + 1
    """).only
    assert lines(result["memory"]["allocated"]) == ['made.append(tensor.empty(2, device="cuda"))']


def test_copy_beyond_an_allocation_is_refused(bench: Bench) -> None:
    run = bench.check("""
        import drv
        import numpy as np
        memory = drv.DeviceMemory(8)
        try:
            drv.copy_to_device(memory.address, np.zeros(9, np.uint8))
        except drv.InvalidValueError:
            print("refused")
    """)
    assert (run.status, run.out) == (0, "refused\n")


def test_no_driver_is_used_by_a_script_that_uses_none(bench: Bench) -> None:
    run = bench.check("print('plain')\n", simulate=None)
    assert (run.status, run.out, drv.is_initialized()) == (0, "plain\n", False)
