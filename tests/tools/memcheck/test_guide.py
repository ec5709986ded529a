"""The scripts of docs/memcheck.md, of docs/races-in-kernels.md and of the README give the reports that are printed there."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.tools.running import ROOT, Bench

pytestmark = pytest.mark.simulator_only

PAIR = re.compile(r"```py\n# (\S+)\n(.*?)```\n+```\n\$ (.*?)\n(.*?)```", re.DOTALL)
PAIRS = [
    pytest.param(*result, id=f"{name}-{result[0]}")
    for name in ("docs/memcheck.md", "docs/races-in-kernels.md", "README.md")
    for result in PAIR.findall((ROOT / name).read_text(encoding="utf-8"))
]


def test_there_are_examples() -> None:
    assert len(PAIRS) >= 5


@pytest.mark.parametrize(("name", "text", "command", "report"), PAIRS)
def test_report(bench: Bench, name: str, text: str, command: str, report: str) -> None:
    bench.write(f"# {name}\n{text}", name)
    start = "graphroot memcheck "
    assert command.startswith(start)
    assert command.endswith(name)
    options = shlex.split(command.removeprefix(start).removesuffix(name))
    run = bench.run(options, [name])
    assert run.err == report


def test_what_the_guide_says_helps_against_the_race(bench: Bench) -> None:
    (text,) = (result.values[1] for result in PAIRS if result.values[0] == "prefetch.py")
    last = "    y = x * 2\n"
    assert str(text).endswith(last)
    wait = "    tensor.cuda.current_stream().wait_stream(copies)\n"
    keep = "    x.record_stream(tensor.cuda.current_stream())\n"
    run = bench.check(str(text).removesuffix(last) + wait + last + keep)
    assert (run.status, run.findings) == (0, []), run.err


def test_the_barrier_that_the_guide_adds_ends_the_race_within_a_kernel(bench: Bench) -> None:
    (text,) = (result.values[1] for result in PAIRS if result.values[0] == "row_sums.py")
    read = "                total += part[w];\n"
    assert str(text).count(read) == 1
    run = bench.check(str(text).replace(read, read + "            __syncthreads();\n"))
    assert (run.status, run.findings) == (0, []), run.err
