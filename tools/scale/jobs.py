"""What is trained: a model with a loss for a rank's batch, by a name and sizes or from a script."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensor
from nn import functional
from tools.bench.training_models import GPT

from .language_models import GPTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn import Module

    from .language_models import Sizes


@dataclass(frozen=True, slots=True)
class Job:
    """A training.

    Attributes
    ----------
    name : str
        What it is called.
    model : callable
        Makes the module; its tensors come to be on the current default device.
    loss : callable
        ``loss(model)``, a scalar, of the model and a batch of this rank's.
    layers : callable
        ``layers(model)``: the modules that are gathered by themselves where the model is divided.
    flops : float
        Floating point operations of a step, forward and backward, on each rank; 0 where nobody has counted them.
    """

    name: str
    model: Callable[[], Module]
    loss: Callable[[Any], Any]
    layers: Callable[[Any], list[Any]]
    flops: float = 0.0


def job_of(text: str) -> Job:
    """The training that ``--model`` names: a language model with sizes behind it (``gpt2,batch=16``), or a script.

    A script defines ``model()``, ``loss(model)``, and may define ``layers(model)``.

    Raises
    ------
    ValueError
        If there is none of that name, or a script does not define what it should.
    """
    name, *changes = text.split(",")
    if name in GPTS:
        return _gpt(text, GPTS[name].changed(changes))
    path = Path(text)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"there is no model {text!r}: expected one of {', '.join(GPTS)}, with sizes behind it as in gpt2,batch=16, or a script"
        )
    defined = runpy.run_path(text, run_name="scale")
    missing = [each for each in ("model", "loss") if not callable(defined.get(each))]
    if missing:
        raise ValueError(
            f"{text} does not define {' and '.join(missing)}: a script has model(), and loss(model) of a rank's batch"
        )
    return Job(path.stem, defined["model"], defined["loss"], defined.get("layers", _no_layers))


def _gpt(text: str, sizes: Sizes) -> Job:
    def model() -> Any:
        return GPT(
            sizes.layers,
            sizes.width,
            sizes.heads,
            sizes.length,
            sizes.vocabulary,
            dropout=0.0,
            checkpointed=bool(sizes.checkpointed),
        )

    def loss(module: Any) -> Any:
        tokens = tensor.zeros(sizes.batch, sizes.length, dtype=tensor.int64)
        return functional.cross_entropy(module(tokens).flatten(0, 1), tokens.flatten())

    return Job(text, model, loss, lambda module: list(module.blocks), sizes.flops())


def _no_layers(module: Any) -> list[Any]:
    return []
