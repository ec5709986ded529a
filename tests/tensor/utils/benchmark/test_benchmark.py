"""``tensor.utils.benchmark``: times of statements, their statistics, and tables of them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

import tensor
from tensor.utils import benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    import drv


class _Clock:
    """Seconds that pass with each execution of a statement."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs = 0

    def __call__(self) -> float:
        return self.now

    def run(self) -> None:
        self.runs += 1
        self.now += 0.001


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def threads() -> Iterator[int]:
    before = tensor.get_num_threads()
    yield before
    tensor.set_num_threads(before)


def _measured(times: list[float], number: int = 10, **names: object) -> benchmark.Measurement:
    task = benchmark.TaskSpec(**{"stmt": "f(x)", "setup": "pass", **names})  # type: ignore[arg-type]
    return benchmark.Measurement(number, times, task)


def test_a_block_of_executions(clock: _Clock) -> None:
    timer = benchmark.Timer("run()", timer=clock, globals={"run": clock.run}, label="runs")
    measured = timer.timeit(500)
    assert clock.runs == 505
    assert measured.number_per_run == 500
    assert measured.median == measured.mean == pytest.approx(0.001)
    assert measured.label == "runs"
    assert measured.stmt == "run()"


def test_blocks_until_the_time_is_up(clock: _Clock) -> None:
    timer = benchmark.Timer("run()", timer=clock, globals={"run": clock.run})
    seen: list[tuple[int, float]] = []
    measured = timer.blocked_autorange(callback=lambda *of: seen.append(of), min_run_time=0.25)
    assert sum(measured.raw_times) == pytest.approx(0.25, abs=measured.number_per_run * 0.001)
    assert len(seen) == len(measured.raw_times)
    assert measured.number_per_run == 1
    steady = timer.adaptive_autorange(min_run_time=0.001)
    assert len(steady.raw_times) == 4
    assert steady.iqr == pytest.approx(0)


def test_blocks_are_as_long_as_reading_the_clock_asks() -> None:
    class Slow(_Clock):
        def __call__(self) -> float:
            self.now += 0.00001
            return self.now

    clock = Slow()
    timer = benchmark.Timer("run()", timer=clock, globals={"run": clock.run})
    assert timer.blocked_autorange(min_run_time=5).number_per_run == 100


def test_names_of_statements_and_their_indentation() -> None:
    timer = benchmark.Timer(
        """
        y = tensor.ones(2)
        z = torch.add(y, scale)
        """,
        setup="scale = 2",
    )
    measured = timer.timeit(3)
    assert measured.stmt == "y = tensor.ones(2)\nz = torch.add(y, scale)"
    assert measured.title.startswith("stmt:\n  y = ")
    assert measured.task_spec.setup_str() == "setup: scale = 2"


def test_threads_while_a_statement_runs(threads: int) -> None:
    seen: list[int] = []
    benchmark.Timer(
        "seen.append(tensor.get_num_threads())", globals={"seen": seen}, num_threads=threads + 1
    ).timeit(1)
    assert set(seen) == {threads + 1}
    assert tensor.get_num_threads() == threads


def test_the_clock_waits_for_the_device(device: drv.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor.ones(4, device="cuda")
    waits: list[bool] = []
    synchronize = tensor.cuda.synchronize
    monkeypatch.setattr(tensor.cuda, "synchronize", lambda: (waits.append(True), synchronize()))
    benchmark.Timer("x + x", globals={"x": x}).timeit(2)
    # Each of the blocks, the one that warms up and the measured one, begins and ends with a reading.
    assert len(waits) == 4


def test_statistics() -> None:
    measured = _measured([0.10, 0.11, 0.12, 0.13, 0.20], label="l", sub_label="s")
    assert measured.times == pytest.approx([0.010, 0.011, 0.012, 0.013, 0.020])
    assert measured.median == pytest.approx(0.012)
    assert measured.mean == pytest.approx(0.0132)
    assert measured.iqr == pytest.approx(0.002)
    assert measured.has_warnings
    assert measured.title == "l: s"
    assert measured.as_row_name == "s"
    lines = repr(measured).splitlines()
    assert lines[1:5] == [
        "l: s",
        "  Median: 12.00 ms",
        "  IQR:    2.00 ms (11.00 to 13.00)",
        "  5 measurements, 10 runs per measurement, 1 thread",
    ]
    assert "Interquartile range is 16.7%" in lines[5]
    with pytest.raises(AttributeError, match="'Measurement' object has no attribute 'medain'"):
        measured.medain  # noqa: B018 - the access is what raises


def test_measurements_are_merged_by_task_and_pickled() -> None:
    first, second, third = _measured([1.0]), _measured([4.0], number=20), _measured([1.0], env="b")
    merged = benchmark.Measurement.merge(pickle.loads(pickle.dumps([first, second, third])))
    assert [each.times for each in merged] == [[0.1, 0.2], [0.1]]


def test_units_and_digits() -> None:
    assert benchmark.select_unit(0.0012) == ("ms", 1e-3)
    assert benchmark.select_unit(5e-10)[0] == "ns"
    assert benchmark.unit_to_english("us") == "microsecond"
    assert [benchmark.trim_sigfig(x, 2) for x in (1234.5, 0.01234, 0, 99.6)] == [1200, 0.012, 0, 100]
    assert benchmark.ordered_unique([2, 1, 2]) == [2, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stmt": len}, "has to be a str"),
        ({"language": "c++"}, "statements are Python"),
        ({"global_setup": "int x;"}, "use setup"),
    ],
)
def test_what_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        benchmark.Timer(**options)  # type: ignore[arg-type]


def test_no_measurement_in_a_table() -> None:
    table = benchmark.Compare([])
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([_measured([1.0]), 3])  # type: ignore[list-item]
    assert str(table) == ""


def _tables(library: object) -> list[object]:
    module: object = library.utils.benchmark  # type: ignore[attr-defined]
    results = []
    for threads in (1, 4):
        for row, sizes in (("16x16", 1.0), ("64 x 64", 7.4)):
            for column, speed in (("ours", 1.0), ("theirs", 2.5)):
                if (threads, row, column) == (4, "16x16", "ours"):
                    continue
                task = module.TaskSpec(  # type: ignore[attr-defined]
                    "f(x)", "pass", label="products", sub_label=row, description=column, num_threads=threads
                )
                times = [sizes * speed / threads * 1e-4 * each for each in (1.0, 1.01, 1.02, 1.03, 1.3, 1.31)]
                results.append(module.Measurement(7, times, task))  # type: ignore[attr-defined]
    return results


def test_a_table() -> None:
    assert str(benchmark.Compare(_tables(tensor))).splitlines() == [
        "[----------- products -----------]",
        "               |   ours  |  theirs",
        "1 threads: -----------------------",
        "      16x16    |   14.6  |   36.6 ",
        "      64 x 64  |  108.4  |  270.9 ",
        "4 threads: -----------------------",
        "      16x16    |         |    9.2 ",
        "      64 x 64  |   27.1  |   67.7 ",
        "",
        "Times are in microseconds (us).",
    ]


def test_rows_name_environments_that_differ() -> None:
    results = [_measured([1.0], env=env, sub_label="row") for env in ("one", "another", None)]
    lines = str(benchmark.Compare(results)).splitlines()
    assert [line.split("|")[0].rstrip() for line in lines[3:6]] == [
        "  (Unspecified env)  row",
        "  (another)          row",
        "  (one)              row",
    ]


@pytest.mark.parity
@pytest.mark.parametrize("trims", [False, True])
@pytest.mark.parametrize("warns", [False, True])
@pytest.mark.parametrize("colour", [None, False, True])
def test_tables_are_pytorchs(trims: bool, warns: bool, colour: bool | None) -> None:
    import torch.utils.benchmark

    texts = []
    for library in (tensor, torch):
        table = library.utils.benchmark.Compare(_tables(library))
        if trims:
            table.trim_significant_figures()
        if warns:
            table.highlight_warnings()
        if colour is not None:
            table.colorize(rowwise=colour)
        texts.append(str(table))
    assert texts[0] == texts[1]


@pytest.mark.parity
def test_statistics_are_pytorchs() -> None:
    import torch.utils.benchmark

    for ours, theirs in zip(_tables(tensor), _tables(torch), strict=True):
        for name in ("median", "mean", "iqr"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-6), name
        for name in ("significant_figures", "title", "has_warnings", "env", "as_row_name"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert repr(ours).splitlines()[1:] == repr(theirs).splitlines()[1:]
