"""The examples and the README's code, run as a newcomer runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .running import ROOT, run

pytestmark = pytest.mark.simulator_only


def test_find_a_race() -> None:
    said = run("examples/find_a_race.py", "--count", "5000")
    assert "nothing orders kernel 'sum'" in said
    assert "find_a_race.py" in said
    result, expected = re.findall(r"With the wait: ([\d.]+) .* ([\d.]+) expected", said)[0]
    assert abs(float(result) - float(expected)) < 2e-4
    assert "Device 1" in said


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_two_devices(schedule: str) -> None:
    said = run(
        "examples/two_devices.py",
        GRAPHROOT_DRIVER="simulator",
        GRAPHROOT_SIMULATOR=f"devices=2,schedule={schedule},check=race",
    )
    assert "2 device(s)" in said
    assert "pinned True" in said
    assert "cuda:1: " in said


@pytest.mark.parametrize(
    ("where", "better"),
    [
        (("--size", "96"), 3),
        # A few steps on a small picture take away a part of the noise.
        (("--simulate", "--size", "32", "--steps", "8"), 0.3),
        pytest.param(("--simulate", "--size", "64", "--steps", "25"), 3, marks=pytest.mark.nightly),
    ],
)
def test_denoise(where: tuple[str, ...], better: float, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    drawn = tmp_path / "denoised.png"
    said = run("examples/denoise.py", *where, "--output", str(drawn))
    assert ("on cuda:0" if "--simulate" in where else "on cpu") in said
    before, after = map(float, re.findall(r"PSNR before: ([\d.]+) dB, after: ([\d.]+) dB", said)[0])
    assert after > before + better
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_code_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, race, kernel, devices = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    shown = kernel.rsplit("# ", 1)[1].strip()
    assert run("-c", kernel).strip() == shown
    # The report is the one that is printed, but for where code is and how registers are numbered.
    (said,) = re.findall(r"```\n(race: .*?)```", readme, re.DOTALL)
    result = run("-c", race).replace('"<string>"', '"race.py"').replace(f"{ROOT}/", "")
    assert re.sub(r"\d+", "1", result) == re.sub(r"\d+", "1", said)
    assert run("-c", devices).strip().endswith("Size([10, 64])")
    loss, norm = run("-c", first).split(maxsplit=1)
    assert float(loss) < -4
    assert norm.startswith("tensor(") and "device='cuda:1'" in norm
    # As the text says, each of the waits is needed.
    for wait in (
        "side.wait_stream(tensor.cuda.current_stream())",
        "tensor.cuda.current_stream().wait_stream(side)",
    ):
        assert wait in first
        with pytest.raises(AssertionError, match="DataRaceError"):
            run("-c", first.replace(wait, ""))
