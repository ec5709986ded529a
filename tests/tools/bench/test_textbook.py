"""The model's order and ratios of textbook series are the published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import drv
from drv.simulator.timing.machine_code.assembling import available
from tests.thinning import thinned
from tools.bench.textbook import SERIES, modelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.bench.textbook import Series

pytestmark = [
    pytest.mark.simulator_only,
    pytest.mark.skipif(not available(), reason="nvJitLink is not installed (extra profile)"),
]
#: Series of which a kernel runs for several seconds.
LONG = ("products",)


@pytest.fixture(autouse=True)
def _no_driver_left() -> Iterator[None]:
    drv.reset()
    yield
    drv.reset()


def compare(series: Series) -> None:
    first = before = published = 0.0
    for number, (step, operation) in enumerate(modelled(series)):
        seconds = operation.seconds
        first = first or seconds
        ratio = seconds / first
        if step.published is not None and series.within:
            off = max(ratio / step.published, step.published / ratio)
            assert off <= series.within, f"{step.label}: modelled {ratio:.3g}, published {step.published:.3g}"
        if number and step.published is not None and published:
            # What is published to be quicker, or slower, is so; two percent are no difference.
            if step.published < 0.98 * published:
                assert seconds <= before * 1.1, step.label
            elif step.published > 1.02 * published and series.within:
                assert seconds >= before * 0.98, step.label
        elif number:
            assert seconds != first, step.label
        before, published = seconds, step.published or 0.0


@pytest.mark.parametrize(
    "series", thinned(SERIES, lambda series: series.name not in LONG, lambda series: series.name)
)
def test_order_and_ratios_are_the_published_ones(series: Series) -> None:
    compare(series)


def test_what_is_said_of_a_transpose_names_the_lines() -> None:
    (series,) = [each for each in SERIES if each.name == "transposes"]
    said = {step.kernel: operation for step, operation in modelled(series)}
    naive = said["naive"].advice
    assert any(
        "writes 4 bytes a thread" in each and "8 times the sectors needed (textbook.cu:" in each
        for each in naive
    )
    assert any("32 turns of the same bank (textbook.cu:" in each for each in said["coalesced"].advice)
    assert said["padded"].bound == "DRAM"
    assert len({step.kernel for each in SERIES for step in each.steps}) >= 25
