"""A job of two ranks that saves its state at each step and goes on from what is saved; as a program it is there to be killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nn
import parallel
import tensor
from parallel import checkpoint
from parallel.checkpoint.nesting import flattened
from tests.parallel.thread_ranks import run_threads

RANKS = 2


class State:
    """Model, optimizer and this rank's random numbers, as :class:`parallel.checkpoint.Stateful`."""

    def __init__(self, rank: int) -> None:
        self.model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
        with tensor.no_grad():
            for number, each in enumerate(self.model.parameters()):
                each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin())
        mesh = parallel.init_device_mesh("cpu", (RANKS,))
        for layer in (self.model[0], self.model[2], self.model):
            parallel.fully_shard(layer, mesh=mesh)
        self.optimizer = nn.optim.AdamW(self.model.parameters(), lr=0.01)
        self.generator = tensor.Generator().manual_seed(rank)
        self.rank = rank
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        weights, states = checkpoint.get_state_dict(self.model, self.optimizer)
        random = {str(self.rank): self.generator.get_state()}
        return {"model": weights, "optimizer": states, "random": random, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        checkpoint.set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optimizer"],
        )
        self.generator.set_state(state_dict["random"][str(self.rank)])
        self.step = state_dict["step"]


def train(rank: int, size: int, folder: Path | None, steps: int) -> tuple[int, dict[str, Any]]:
    """The step that this began with, and the state at the end, whole."""
    state = State(rank)
    if folder is not None and (folder / ".metadata").exists():
        checkpoint.load({"app": state}, checkpoint_id=folder)
    begin = state.step
    if rank == 0:
        print("begins", flush=True)
    while state.step < steps:
        state.optimizer.zero_grad()
        x = tensor.randn(4, 6, generator=state.generator)
        state.model(x).square().mean().backward()
        state.optimizer.step()
        state.step += 1
        if folder is not None:
            way: Any = checkpoint.save if state.step % 3 else checkpoint.async_save
            way({"app": state}, checkpoint_id=folder)
    options = checkpoint.StateDictOptions(full_state_dict=True)
    weights, states = checkpoint.get_state_dict(state.model, state.optimizer, options=options)
    return begin, {**weights, **flattened(states["state"])}


if __name__ == "__main__":
    run_threads(train, RANKS, Path(sys.argv[1]), int(sys.argv[2]))
