"""What is trained: a model with a loss for a rank's batch, by a name and sizes or from a script."""

from __future__ import annotations

import runpy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensor
from nn import functional
from tools.bench.training_models import GPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn import Module


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


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Of a language model, and of the batch of a rank."""

    layers: int
    width: int
    heads: int
    length: int
    vocabulary: int
    #: Sequences of a batch.
    batch: int
    checkpointed: int = 0

    def flops(self) -> float:
        """By D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021, equation 3.

        It counts forward, backward, and the second forward pass of checkpointed blocks.
        """
        passes = 96 if self.checkpointed else 72
        terms = 1 + self.length / (6 * self.width) + self.vocabulary / (16 * self.layers * self.width)
        return passes * self.batch * self.length * self.layers * self.width**2 * terms


#: GPT-2 (Radford et al. 2019), the smallest, and the first three models of Narayanan et al. 2021, table 1.
GPTS = {
    "gpt-tiny": _Sizes(2, 128, 2, 128, 512, 2),
    "gpt2": _Sizes(12, 768, 12, 1024, 50304, 8),
    "gpt-1.7b": _Sizes(24, 2304, 24, 2048, 51200, 16, 1),
}


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
        return _gpt(text, _changed(GPTS[name], changes))
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


def _changed(sizes: _Sizes, changes: list[str]) -> _Sizes:
    values: dict[str, int] = {}
    names = [each.name for each in fields(_Sizes)]
    for each in changes:
        key, _, value = each.partition("=")
        if key not in names or not value.isdigit():
            raise ValueError(
                f"{each!r} is no size of a model: expected one of {', '.join(names)}, and a number"
            )
        values[key] = int(value)
    return replace(sizes, **values)


def _gpt(text: str, sizes: _Sizes) -> Job:
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
