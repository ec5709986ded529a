"""Layers divided among ranks that pass micro-batches on: names of ``torch.distributed.pipelining``.

Each rank of a group has a stage, some of a model's layers in their order, and gets what it computes with from the rank before.
A batch goes through them in several micro-batches, so that all stages compute at once.

>>> stage = parallel.pipelining.PipelineStage(nn.Linear(4, 2), 0, 1, tensor.device("cpu"))
>>> schedule = parallel.pipelining.Schedule1F1B(stage, n_microbatches=3, loss_fn=nn.functional.mse_loss)
>>> losses = []
>>> schedule.step(tensor.ones(6, 4), target=tensor.zeros(6, 2), losses=losses).shape, len(losses)
(tensor.Size([6, 2]), 3)
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import microbatch, schedules, stage
from .schedules import Schedule1F1B, ScheduleGPipe
from .stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe", "microbatch", "schedules", "stage"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
