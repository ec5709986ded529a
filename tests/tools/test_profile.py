"""``python -m tools.profile``: what it writes, its exit statuses, and the report in a real browser."""

from __future__ import annotations

import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest

import drv
from drv.simulator.timing.advice import METRICS
from tests.browser import drawn, needs_browser
from tools.profile.command_line import main
from tools.profile.kernels import TOTALS
from tools.profile.limits import Limit

from .running import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .running import Bench

pytestmark = pytest.mark.simulator_only

SCRIPT = """\
import sys
import tensor
import nn

net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).cuda()
x = tensor.randn(256, 64, device="cuda")
loss = net(x).square().mean()
loss.backward()
strided = tensor.randn(256, 1536, device="cuda").t().contiguous()
print("loss", loss.item() > 0)
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


@pytest.fixture(autouse=True)
def _no_driver_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRAPHROOT_DRIVER", "")
    monkeypatch.setenv("GRAPHROOT_SIMULATOR", "")
    drv.reset()
    yield
    drv.reset()


def test_it_reports_and_ends_with_the_scripts_status(bench: Bench, capsys: Any) -> None:
    script = bench.write(SCRIPT)
    assert main(["--model", "h200", str(script), "7"]) == 7
    out, err = capsys.readouterr()
    assert out == "loss True\n"
    assert "aten::linear" in err
    assert "modelled on the simulated driver, not measured: NVIDIA H200" in err
    assert "ended with status 7" in err


def test_json_has_every_metric_by_kernel(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    script = bench.write(SCRIPT)
    target = tmp_path / "out.json"
    assert main(["--simulate", "model=a100", "--json", str(target), str(script)]) == 0
    document = json.loads(target.read_text())
    assert document["device_times"].endswith("NVIDIA A100-SXM4-80GB")
    kernels = {each["name"]: each for each in document["kernels"]}
    assert any(name.startswith("copy_tiled") for name in kernels), list(kernels)
    copy = next(each for name, each in kernels.items() if name.startswith("copy_tiled"))
    for name in (
        "load_sectors_per_request", "store_sectors_per_request", "sectors_over_needed", "shared_conflict_ways",
        "active_lanes", "occupancy", "registers", "shared_memory", "spills", "bound", "modelled_us", "launches",
    ):  # fmt: skip
        assert name in copy, name
    assert copy["line"].startswith(str(script))
    assert copy["advice"]
    forward = [each for each in document["kernels"] if each["module"] == "nn.Module: 1" and not each["node"]]
    assert len(forward) == 1
    backward = [each for each in document["kernels"] if each["node"] == "GeluBackward0"]
    assert [each["module"] for each in backward] == ["nn.Module: 1"]
    assert document["totals"]["launches"] == sum(each["launches"] for each in document["kernels"])
    assert document["status"] == 0


@pytest.mark.parametrize(
    ("limit", "status", "words"),
    [
        ("modelled_us>1000", 0, ""),
        ("modelled_us>0", 86, "over 'modelled_us>0'"),
        ("gelu*:launches>=1", 86, "gelu"),
        ("gelu*:launches>1", 0, ""),
        ("all:launches>3", 86, "all: launches is"),
        ("all:launches>1e6", 0, ""),
        ("registers<1", 0, ""),
        ("bound==nonsense", 0, ""),
    ],
)
def test_limits_make_it_a_check(bench: Bench, capsys: Any, limit: str, status: int, words: str) -> None:
    script = bench.write(SCRIPT)
    assert main(["--model", "h200", "--fail-over", limit, str(script)]) == status
    assert words in capsys.readouterr().err


def test_what_a_limit_may_not_be() -> None:
    for text, words in (
        ("speed>2", "no metric 'speed'"),
        ("modelled_us", "expected METRIC>NUMBER"),
        ("modelled_us>fast", "'fast' is no number"),
        ("all:registers>2", "no metric 'registers'"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            Limit.parse(text, ["modelled_us", "registers"], ["launches"])


def test_wrong_command_lines(bench: Bench, capsys: Any) -> None:
    assert main(["--model", "h200", str(bench.folder / "missing.py")]) == 2
    assert "can't open file" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["--fail-over", "speed>2", "script.py"])
    assert end.value.code == 2
    assert "no metric 'speed'" in capsys.readouterr().err


def test_a_script_without_a_gpu_is_told_so(bench: Bench, capsys: Any) -> None:
    script = bench.write("import tensor\nprint(float(tensor.ones(3).sum()))\n")
    assert main([str(script)]) == 0
    err = capsys.readouterr().err
    assert "used no GPU" in err
    assert "aten::sum" in err


def test_a_script_may_choose_its_own_driver(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    script = bench.write(
        """\
        import drv, tensor

        with drv.simulator.installed(model="t4"):
            x = tensor.ones(1000, device="cuda") + 1
            tensor.cuda.synchronize()
        """
    )
    target = tmp_path / "out.json"
    assert main(["--json", str(target), str(script)]) == 0
    document = json.loads(target.read_text())
    assert document["device_times"].endswith("Tesla T4")
    assert document["totals"]["launches"] >= 2


def test_a_sample_is_enough_for_times(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    script = bench.write(
        """\
        import tensor

        x = tensor.empty(1 << 24, device="cuda")
        y = x * 2 + x
        tensor.cuda.synchronize()
        """
    )
    target = tmp_path / "out.json"
    assert main(["--simulate=model=h200,memory=1GiB", "--sample", "--json", str(target), str(script)]) == 0
    kernels = json.loads(target.read_text())["kernels"]
    assert all(each["sampled"] < 0.1 for each in kernels)
    assert all(each["moved_over_distinct"] == pytest.approx(1, rel=0.1) for each in kernels)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_that_it_starts_have_rows(bench: Bench, tmp_path: Path, capfd: Any, method: str) -> None:
    target = tmp_path / "out.json"
    script = bench.write(
        f"""\
        import multiprocessing as mp

        def work(rank):
            import tensor
            x = tensor.ones(1 << 12, device="cuda")
            assert (x + rank).sum().item() == (1 << 12) * (1 + rank)

        if __name__ == "__main__":
            context = mp.get_context("{method}")
            processes = [context.Process(target=work, args=(rank,), name=f"worker {{rank}}") for rank in range(2)]
            for each in processes:
                each.start()
            for each in processes:
                each.join()
                assert each.exitcode == 0
        """
    )
    assert main(["--model", "h200", "--json", str(target), str(script)]) == 0
    processes = {each["process"]: each for each in json.loads(target.read_text())["processes"]}
    assert sorted(processes) == ["worker 0", "worker 1"]
    assert {kernel["name"] for kernel in processes["worker 1"]["kernels"]} >= {"fill_narrow", "add_narrow"}
    for each in processes.values():
        assert each["launches"] >= 3
        assert each["device_us"] > 0
        assert "NVIDIA H200" in each["device_times"]
    err = capfd.readouterr().err
    assert "profile:   worker 0: " in err
    assert "the script used no GPU" not in err


@pytest.fixture
def report(bench: Bench, tmp_path: Path, capsys: Any) -> Path:
    pytest.importorskip("plotly")
    page, trace, snapshot = tmp_path / "r.html", tmp_path / "t.json", tmp_path / "s.pickle"
    files = ["--html", str(page), "--trace", str(trace), "--memory-snapshot", str(snapshot)]
    assert main(["--model", "h200", *files, str(bench.write(SCRIPT))]) == 0
    assert json.loads(trace.read_text())["traceEvents"]
    memory = pickle.loads(snapshot.read_bytes())
    assert memory.keys() >= {"segments", "device_traces"}
    assert any(each["action"] == "alloc" for each in memory["device_traces"][0])
    return page


def test_the_report_needs_no_network(report: Path) -> None:
    text = report.read_text()
    code = text[: text.index('id="plotly"')] + text[text.rindex("</script>") - 20_000 :]
    assert not re.search(r"""(src|href)\s*=\s*["']https?:""", code)
    assert "<link" not in code
    assert len(text) < 4 << 20


@needs_browser
def test_a_browser_draws_the_report_without_errors(report: Path, tmp_path: Path) -> None:
    document = drawn(report, tmp_path)
    for picture in ("timeline", "roofline", "memory"):
        part = document[document.index(f'id="{picture}"') :]
        assert "main-svg" in part[: part.index("</section>")], picture
    assert document.count("<tr>") > 10


def test_the_guide_has_every_metric_with_its_unit() -> None:
    guide = (ROOT / "docs" / "profiling.md").read_text(encoding="utf-8")
    for name, (unit, meaning) in (METRICS | TOTALS).items():
        assert f"| `{name}` | {unit} | {meaning} |" in guide, name
