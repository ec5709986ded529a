"""Pictures: several predictions have the same scales, and points of more than 100 % lie inside the axes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tools.scale.picture import picture, pictures
from tools.scale.prediction import Row

pytestmark = pytest.mark.simulator_only


def _row(devices: int, step_ms: float, efficiency: float) -> Row:
    return Row(devices, step_ms, 1, efficiency, step_ms / 2, step_ms / 4, step_ms / 4, step_ms, 1, True)


def _numbers(text: str, shape: str, attribute: str) -> list[float]:
    root = ElementTree.fromstring(text)
    return [float(each.get(attribute, "")) for each in root.iter() if each.tag.endswith(f"}}{shape}")]


def test_points_are_where_the_lines_of_their_share_are() -> None:
    text = picture([_row(1, 4.0, 1.0), _row(8, 4.0, 0.5)], "one")
    lines = sorted(set(_numbers(text, "line", "y1")), reverse=True)
    # Of 0, 25, 50, 75 and 100 %.
    assert _numbers(text, "circle", "cy") == pytest.approx([lines[4], lines[2]], abs=0.1)


def test_more_than_100_percent() -> None:
    text = picture([_row(1, 4.0, 1.0), _row(8, 3.2, 1.25)], "one")
    lines = sorted(set(_numbers(text, "line", "y1")), reverse=True)
    assert "125 %" in text
    assert _numbers(text, "circle", "cy")[1] == pytest.approx(min(lines), abs=0.1)


def test_several_have_the_same_scale() -> None:
    fast, slow = [_row(1, 2.0, 1.0)], [_row(1, 8.0, 1.0)]
    text = pictures({"fast": fast, "slow": slow})
    heights = _numbers(text, "rect", "height")
    # Three parts, then the legend, of each.
    assert heights[6] == pytest.approx(4 * heights[0], rel=0.01)
    assert text.count("<polyline") == 2 and "fast; slow" in text
