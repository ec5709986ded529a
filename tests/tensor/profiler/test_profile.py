"""``tensor.profiler``: what a profile sees, what it writes, and that it is not there when it is off."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from tensor.core import spans
from tensor.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from tests.browser import drawn, needs_browser

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.simulator_only


@pytest.fixture
def h200() -> Iterator[Any]:
    with drv.simulator.installed(model="h200") as runtime:
        yield runtime


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x: Any) -> Any:
        return self.rest(self.first(x))


def step(net: Any, optimizer: Any, x: Any, y: Any) -> None:
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.fixture
def training(h200: Any) -> Any:
    net = Net().cuda()
    optimizer = nn.optim.Adam(net.parameters())
    x = tensor.randn(64, 16, device="cuda")
    y = tensor.randint(0, 4, (64,), device="cuda")
    step(net, optimizer, x, y)
    return net, optimizer, x, y


def keys(run: Any) -> dict[str, Any]:
    return {each.key: each for each in run.key_averages()}


def test_operations_nodes_modules_and_steps_are_seen(training: Any) -> None:
    with profile() as run:
        step(*training)
    seen = keys(run)
    for name in ("aten::linear", "aten::relu", "aten::cross_entropy", "aten::backward", "AddmmBackward0"):
        assert name in seen, name
    for name in ("nn.Module: Net", "nn.Module: first", "nn.Module: rest.1", "Optimizer.step#Adam.step"):
        assert name in seen, name
    assert seen["aten::linear"].count == 2
    assert seen["AccumulateGrad"].count == 4
    assert seen["nn.Module: Net"].cpu_time_total >= seen["nn.Module: first"].cpu_time_total


def test_kernels_know_their_module_node_and_line(training: Any) -> None:
    with profile() as run:
        step(*training)
    kernels = [each for each in run.events() if each.device_type is DeviceType.CUDA]
    assert kernels
    assert all(each.line.startswith(__file__) for each in kernels)
    forward = [each for each in kernels if not each.node and "cublasLtMatmul bias" in each.name]
    assert [each.module for each in forward] == ["nn.Module: first", "nn.Module: rest.1"]
    relu = next(each for each in kernels if each.node == "ReluBackward0")
    assert relu.module == "nn.Module: rest.0"
    products = [each for each in kernels if each.node == "AddmmBackward0"]
    assert {each.module for each in products} == {"nn.Module: first", "nn.Module: rest.1"}


def test_device_time_is_that_of_the_kernels_and_says_that_it_is_modelled(training: Any) -> None:
    with profile() as run:
        step(*training)
    events = run.events()
    kernels = sum(each.time_range.elapsed_us() for each in events if each.device_type is DeviceType.CUDA)
    queued = sum(each.self_device_time_total for each in events if each.device_type is DeviceType.CPU)
    assert queued == pytest.approx(kernels)
    table = run.key_averages().table(sort_by="device_time_total", row_limit=5)
    assert "modelled on the simulated driver, not measured: NVIDIA H200" in table
    assert "Bound by" in run.key_averages().table(row_limit=-1)
    assert (
        len([line for line in table.splitlines() if line.startswith(("aten", "nn", "Optim", "Addmm"))]) <= 5
    )
    totals = [each.device_time_total for each in run.key_averages()]
    assert run.key_averages().total_average().count == sum(each.count for each in run.key_averages())
    assert max(totals) <= 2 * kernels


def test_tables_are_sorted_and_refuse_columns_that_there_are_not(training: Any) -> None:
    with profile(record_shapes=True, profile_memory=True) as run:
        step(*training)
    averages = run.key_averages(group_by_input_shape=True)
    rows = averages.table(sort_by="count", row_limit=-1).splitlines()[3:-4]
    assert len(rows) == len(averages)
    assert "Input Shapes" in averages.table()
    assert "CUDA Mem" in averages.table()
    assert averages.table(header="what it took", max_name_column_width=10).startswith("what it took")
    with pytest.raises(ValueError, match="sort_by is 'speed', expected one of cpu_time"):
        averages.table(sort_by="speed")
    linear = [each for each in averages if each.key == "aten::linear"]
    assert sorted(str(each.input_shapes) for each in linear) == [
        "[[64, 16], [32, 16], [32]]",
        "[[64, 32], [4, 32], [4]]",
    ]


def test_memory_is_told_with_the_line_that_allocated(h200: Any) -> None:
    with profile(profile_memory=True) as run:
        x = tensor.ones(1 << 16, device="cuda")
        y = x + 1
        del x
    events = run.memory_events()
    assert [each.size > 0 for each in events] == [True, True, False]
    assert all(each.line.startswith(__file__) for each in events)
    assert events[-1].total == 1 << 18
    assert events[1].total == 1 << 19
    assert y.shape == (1 << 16,)
    seen = keys(run)
    assert seen["aten::add"].device_memory_usage == 1 << 18


def test_memory_timelines(h200: Any, tmp_path: Path) -> None:
    with profile(profile_memory=True) as run:
        kept = [tensor.ones(1 << 12, device="cuda") for _ in range(3)]
    run.export_memory_timeline(str(tmp_path / "m.json"))
    run.export_memory_timeline(str(tmp_path / "m.raw.json"), device="cuda:0")
    timeline = json.loads((tmp_path / "m.json").read_text())
    assert timeline["bytes"][-1] == [3 << 14]
    assert len(json.loads((tmp_path / "m.raw.json").read_text())) == len(kept)
    with pytest.raises(ValueError, match=r"must end in \.json"):
        run.export_memory_timeline(str(tmp_path / "m.txt"))
    with profile() as other:
        pass
    with pytest.raises(ValueError, match="memory was not profiled"):
        other.export_memory_timeline(str(tmp_path / "m.json"))


@needs_browser
def test_a_browser_draws_memory_over_time(h200: Any, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    with profile(profile_memory=True) as run:
        kept = [tensor.ones(1 << 20, device="cuda") for _ in range(3)]
        del kept[0]
    page = tmp_path / "m.html"
    run.export_memory_timeline(str(page))
    document = drawn(page, tmp_path)
    assert "At the most 12.00 MiB at once" in document
    assert "main-svg" in document
    assert f"{Path(__file__).name}:" in document


def test_the_trace_links_kernels_to_the_calls_that_queued_them(training: Any, tmp_path: Path) -> None:
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as run, record_function("outer"):
        step(*training)
    run.add_metadata("model", "small")
    run.add_metadata_json("sizes", "[16, 32]")
    for name in ("trace.json", "trace.json.gz"):
        run.export_chrome_trace(str(tmp_path / name))
    text = gzip.decompress((tmp_path / "trace.json.gz").read_bytes()).decode()
    assert text == (tmp_path / "trace.json").read_text()
    trace = json.loads(text)
    assert trace["model"] == "small"
    assert trace["sizes"] == [16, 32]
    assert trace["device times"].startswith("modelled")
    events = trace["traceEvents"]
    kernels = [each for each in events if each.get("cat") == "kernel"]
    assert kernels
    for each in kernels:
        assert each["ph"] == "X"
        assert {"device", "stream", "correlation", "External id", "modelled_us"} <= each["args"].keys()
    flows = {each["id"]: each for each in events if each.get("ph") == "s"}
    ends = {each["id"]: each for each in events if each.get("ph") == "f"}
    assert flows.keys() == ends.keys()
    assert len(flows) >= len(kernels)
    for number, each in flows.items():
        assert each["ts"] <= ends[number]["ts"]
    assert any(each.get("cat") == "user_annotation" and each["name"] == "outer" for each in events)
    assert any(each["name"] == "[memory]" for each in events)
    run.export_stacks(str(tmp_path / "stacks.txt"))
    assert "test_profile.py" in (tmp_path / "stacks.txt").read_text()
    with pytest.raises(ValueError, match="metric is 'calls'"):
        run.export_stacks(str(tmp_path / "stacks.txt"), "calls")


def test_schedules() -> None:
    action = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = [action(number).name for number in range(11)]
    cycle = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    assert names == ["NONE", *cycle, *cycle, "NONE", "NONE"]
    assert schedule(wait=2, warmup=0, active=1, skip_first_wait=1)(0) is ProfilerAction.RECORD_AND_SAVE
    with pytest.raises(ValueError, match="active is 0"):
        schedule(wait=0, warmup=0, active=0)
    with pytest.raises(ValueError, match="wait is -1"):
        schedule(wait=-1, warmup=0, active=1)
    with pytest.raises(ValueError, match="steps count from 0"):
        action(-1)


def test_a_schedule_hands_out_each_cycle(h200: Any, tmp_path: Path) -> None:
    cycles: list[list[str]] = []

    def ready(run: Any) -> None:
        cycles.append(
            [each.key for each in run.events() if each.key.startswith(("ProfilerStep", "aten::add"))]
        )

    with profile(schedule=schedule(wait=1, warmup=0, active=2), on_trace_ready=ready) as run:
        x = tensor.ones(4, device="cuda")
        for number in range(6):
            assert run.step_num == number
            x + number
            run.step()
    assert cycles == [["ProfilerStep#1", "aten::add", "ProfilerStep#2", "aten::add"],
                      ["ProfilerStep#4", "aten::add", "ProfilerStep#5", "aten::add"]]  # fmt: skip
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "logs"), "me", use_gzip=True)):
        x + 1
    (file,) = (tmp_path / "logs").iterdir()
    assert file.name.startswith("me.")
    assert file.name.endswith(".pt.trace.json.gz")


def test_spans_of_users_and_of_nvtx(h200: Any) -> None:
    @record_function("decorated")
    def inner() -> int:
        return 3

    assert inner() == 3
    with profile() as run:
        assert inner() == 3
        with tensor.cuda.nvtx.range("ranged {}", 5):
            pass
    assert {"decorated", "ranged 5"} <= keys(run).keys()
    with record_function("outside"):
        pass
    assert tensor.cuda.nvtx.range_push("alone") == 0
    assert tensor.cuda.nvtx.range_pop() == 0


def test_threads_have_rows_of_their_own(h200: Any) -> None:
    x = tensor.ones(8, device="cuda")

    def work() -> None:
        with record_function("work"):
            x * 2

    with profile() as run:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    events = {each.key: each for each in run.events()}
    assert events["work"].thread == events["aten::mul"].thread != threading.get_ident()
    assert events["aten::mul"].cpu_parent is events["work"]


def test_the_host_alone_can_be_profiled() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as run:
        x = tensor.ones(8)
        (x @ x).item()
    assert {"aten::ones", "aten::matmul", "aten::item"} <= keys(run).keys()
    assert run.device_times == ""
    assert "CUDA" not in run.key_averages().table()
    assert ProfilerActivity.CPU in supported_activities()
    with pytest.raises(ValueError, match="activities is empty"):
        profile(activities=[])


def test_one_profile_at_a_time_and_all_is_put_back(h200: Any) -> None:
    before = (tensor.add, tensor.Tensor.__add__, nn.functional.relu, vars(tensor.Tensor.__mro__[1]).copy())
    with profile() as run:
        assert tensor.add is not before[0]
        with pytest.raises(RuntimeError, match="another profile runs"):
            profile().start()
        with pytest.raises(RuntimeError, match="runs already"):
            run.start()
    assert (tensor.add, tensor.Tensor.__add__, nn.functional.relu) == before[:3]
    assert vars(tensor.Tensor.__mro__[1]).copy() == before[3]
    assert spans.active is None


def functions_of(work: Any) -> set[str]:
    """The functions that run."""
    ran: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            ran.add(f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return ran


def test_without_a_profile_the_functions_run_that_ran_before(training: Any) -> None:
    def work() -> None:
        step(*training)

    for _ in range(3):
        work()
    before = functions_of(work) | functions_of(work)
    with profile():
        profiled = functions_of(work)
    assert functions_of(work) <= before
    assert not any("profiler" in each.replace(__file__, "") or "spans" in each for each in before)
    assert len(profiled - before) > 5


def test_results_are_the_same_under_a_profile(h200: Any) -> None:
    def result() -> Any:
        tensor.manual_seed(3)
        net = Net().cuda()
        optimizer = nn.optim.Adam(net.parameters())
        x, y = tensor.randn(64, 16, device="cuda"), tensor.randint(0, 4, (64,), device="cuda")
        for _ in range(2):
            step(net, optimizer, x, y)
        return [parameter.detach().cpu() for parameter in net.parameters()]

    plain = result()
    with profile(record_shapes=True, with_stack=True, profile_memory=True):
        profiled = result()
    assert all(bool((a == b).all()) for a, b in zip(plain, profiled, strict=True))
