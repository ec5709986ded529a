"""The gallery's pictures: each is there, on its page and in the table of programs, and what is drawn is what was seen."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from docs.gallery import losses, memory, overlap, pictures, race, streams
from docs.gallery.chart import Axes, ticks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gallery.md"
SVG = "{http://www.w3.org/2000/svg}"


def elements(drawing: Any, name: str) -> list[Any]:
    return list(ElementTree.fromstring(drawing.svg()).iter(f"{SVG}{name}"))


def words(drawing: Any) -> str:
    return "\n".join("".join(each.itertext()) for each in elements(drawing, "text"))


def test_each_picture_is_on_the_page_and_has_a_program() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert (
        sorted(shown) == sorted(pictures.PICTURES) == sorted(each.name for each in pictures.FOLDER.iterdir())
    )
    for path in pictures.FOLDER.iterdir():
        start = path.read_bytes()[:3]
        assert start == (b"<sv" if path.suffix == ".svg" else b"\xff\xd8\xff")


def test_losses_are_lines_and_dots() -> None:
    seen = {
        device: {name: [2.0, 1.5, 1.0][:count] for name in losses.OPTIMIZERS}
        for device, count in (("cpu", 3), ("cuda", 2))
    }
    drawing = losses.draw(seen)
    assert all(name in words(drawing) for name in losses.OPTIMIZERS)
    # Two steps of each optimizer on the simulated GPU, and the legend's.
    assert len(elements(drawing, "circle")) == 2 * len(losses.OPTIMIZERS) + 1


def test_memory_is_areas_of_lines_the_lasting_ones_below() -> None:
    seen = {"lines": ["activations()", "model()"], "bytes": [[0, 1024], [3072, 1024], [0, 1024]]}
    drawing = memory.draw(seen)
    below, above = (
        [tuple(map(float, point.split(","))) for point in each.get("points").split()]
        for each in elements(drawing, "polygon")
    )
    assert max(y for _, y in below) > max(y for _, y in above[: len(above) // 2])
    assert words(drawing).index("model()") < words(drawing).index("activations()")


def test_the_report_of_a_race_is_drawn_line_by_line() -> None:
    report = race.measure()
    assert report[0].startswith("race: nothing orders kernel 'sum'")
    assert sum("examples/find_a_race.py" in line for line in report) == 3
    drawn = words(race.draw(report)).split()
    assert {word for line in report for word in line.split()} <= set(drawn)


def test_a_bucket_reaches_from_its_copy_to_its_copy_back() -> None:
    names = ["gemm", "copy to pinned host memory", "gemm", "copy from pinned host memory", "sgd"]
    seen = [
        {"name": name, "stream": 3, "part": part}
        for name, part in zip(names, ["forward", *["backward"] * 3, "update"], strict=True)
    ]
    drawing = overlap.draw(seen)
    step = 640 / 5
    widths = [float(each.get("width")) for each in elements(drawing, "rect")]
    assert any(width == pytest.approx(2.86 * step, abs=0.1) for width in widths)
    assert words(drawing).count("bucket") == 1


def test_streams_have_rows_and_waits() -> None:
    copy, product = (
        {"name": name, "stream": stream, "start": k, "end": k + 1.0}
        for k, (name, stream) in enumerate((("copy", "copies"), ("product", "compute")))
    )
    drawing = streams.draw(
        {"one stream": [copy | {"stream": "compute"}, product], "two streams": [copy, product]}
    )
    assert words(drawing).count("compute") == 2
    assert "two streams: 2.0 ms" in words(drawing)
    # The head of the arrow from the copy to the product.
    assert len(elements(drawing, "polygon")) == 1


def test_axes_put_round_values_where_they_belong() -> None:
    assert ticks(0, 2.4) == pytest.approx([0, 0.5, 1, 1.5, 2])
    assert ticks(0, 120) == pytest.approx([0, 50, 100])
    axes = Axes(None, 10, 20, 100, 50, (0, 10), (0, 5))  # type: ignore[arg-type]
    assert (axes.at(0, 0), axes.at(10, 5)) == ((10, 70), (110, 20))


@pytest.mark.nightly
@pytest.mark.parametrize("module", [losses, memory, overlap, streams], ids=lambda each: each.__name__)
def test_programs_run(module: Any) -> None:
    assert module.draw(module.measure()).svg().startswith("<svg")
