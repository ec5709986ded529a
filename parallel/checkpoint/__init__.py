"""Checkpoints that all ranks write and read at once: the names of ``torch.distributed.checkpoint``.

A checkpoint is a folder. Each rank writes the parts of tensors that it holds to a safetensors file, and the first one writes
what is where, to a file ``.metadata``, which makes the checkpoint whole. Any number of ranks reads it.

>>> import tempfile
>>> model = nn.Linear(3, 2)
>>> folder = tempfile.mkdtemp()
>>> _ = parallel.checkpoint.save({"model": model.state_dict(), "step": 7}, checkpoint_id=folder)
>>> state = {"model": nn.Linear(3, 2).state_dict(), "step": 0}
>>> parallel.checkpoint.load(state, checkpoint_id=folder)
>>> state["step"], state["model"]["bias"].equal(model.bias)
(7, True)
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import default_planner, filesystem, metadata, state_dict, stateful
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .exceptions import CheckpointException
from .filesystem import FileSystemReader, FileSystemWriter
from .loading import load
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .saving import async_save, save
from .state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from .stateful import Stateful

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "StateDictOptions",
    "Stateful",
    "TensorStorageMetadata",
    "async_save",
    "default_planner",
    "filesystem",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "load",
    "metadata",
    "save",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
    "state_dict",
    "stateful",
]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
