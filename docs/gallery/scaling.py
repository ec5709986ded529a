"""A prediction of ``graphroot scale``: efficiency against devices, and a step's time by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nn
import tensor
from tools.scale.jobs import Job
from tools.scale.network import Network
from tools.scale.picture import picture
from tools.scale.prediction import Row, predict


@dataclass(frozen=True, slots=True)
class Picture:
    """What is written to the file."""

    rows: list[Row]

    def svg(self) -> str:
        """The text of the file."""
        return picture(
            self.rows, "Eight layers of 2048 x 2048, DistributedDataParallel, A100 in nodes of eight"
        )


def _model() -> Any:
    return nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8)))


def _loss(model: Any) -> Any:
    return model(tensor.ones(4096, 2048)).square().mean()


def measure() -> list[Row]:
    """Rows for one device to 32,768."""
    job = Job("layers", _model, _loss, list)
    counts = [1, 8, 64, 512, 4096, 32768]
    return predict(job, "ddp", counts, Network.parse("dgx-a100"), "a100", tensor.bfloat16)


def draw(rows: list[Row]) -> Picture:
    """The picture of what was predicted."""
    return Picture(rows)
