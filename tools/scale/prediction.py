"""How long a step takes on so many devices, and what of it: the real step of one rank, on a simulated device and a described network.

The model, the optimizer and ``parallel``'s own DistributedDataParallel or fully_shard run as they do anywhere, as the first of so many
ranks. Kernels take what the model of time says, collectives what the network does, and each waits for what the code has it wait for.
"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import drv
import nn
import parallel
import tensor
from drv.simulator.device_models import MODELS
from drv.simulator.timing.recorder import recording
from drv.simulator.timing.repeats import Repeats
from nn.utils.skipping import without_initialization

from .collectives import ModelledNccl
from .host_memory import check_available
from .network import Layout
from .options import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from drv.simulator.timing.records import TimedOperation

    from .jobs import Job
    from .network import Network

#: GiB of a simulated device, as many as it can have: what does not fit a real one is told rather than raised.
_MEMORY = 4096
#: Steps until buckets and the order of gathering are what they stay.
_STEPS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """What a step is predicted to be on so many devices.

    Attributes
    ----------
    devices : int
        How many there are.
    step_ms : float
        Milliseconds of a step.
    memory_bytes : int
        What a rank allocates at most.
    efficiency : float
        How long a step takes of one device that communicates with nobody, over ``step_ms``.
    compute_ms : float
        Of the step, while kernels and copies run.
    exposed_ms : float
        While there are collectives alone.
    idle_ms : float
        While there is neither.
    communication_ms : float
        Of collectives together, whatever runs meanwhile.
    communication_bytes : int
        Of the tensors that these are about.
    fits : bool
        Whether the device that is stood for has as much memory.
    """

    devices: int
    step_ms: float
    memory_bytes: int
    efficiency: float
    compute_ms: float
    exposed_ms: float
    idle_ms: float
    communication_ms: float
    communication_bytes: int
    fits: bool


def predict(
    job: Job, strategy: str, counts: Sequence[int], network: Network, gpu: str, dtype: tensor.dtype | None
) -> list[Row]:
    """A row for each number of devices.

    Parameters
    ----------
    job : Job
        What is trained.
    strategy : str
        One of :data:`~tools.scale.options.STRATEGIES`.
    counts : sequence of int
        Numbers of devices; of more than a node as many as fill nodes.
    network : Network
        What connects them.
    gpu : str
        What each is, such as ``"a100"``.
    dtype : tensor.dtype, optional
        In which the model computes; None for float32.

    Raises
    ------
    ValueError
        For an unknown strategy or device, and a number of devices that does not fill nodes; if a rank, or one device that
        has the whole model, would take more than 4096 GiB.
    MemoryError
        If this machine has less than 4 GiB available.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"there is no strategy {strategy!r}: expected {', '.join(STRATEGIES)}")
    if gpu not in MODELS:
        raise ValueError(f"there is no device {gpu!r}: expected {', '.join(MODELS)}")
    for count in counts:
        if count < 1 or (count > network.devices and count % network.devices):
            raise ValueError(
                f"{count} devices are no whole number of nodes of {network.devices}, as {network.name} has them"
            )
    check_available()
    with drv.simulator.installed(model=gpu, memory=f"{_MEMORY}GiB"):
        memory = MODELS[gpu].memory
        repeats = Repeats()
        alone = _step(job, strategy, 1, network, dtype, repeats)
        rows = []
        for count in counts:
            step = alone if count == 1 else _step(job, strategy, count, network, dtype, repeats)
            rows.append(step.row(alone.seconds, memory))
    return rows


def _step(
    job: Job, strategy: str, count: int, network: Network, dtype: tensor.dtype | None, repeats: Repeats
) -> _Step:
    try:
        return _Step(job, strategy, count, network, dtype, repeats)
    except drv.OutOfMemoryError:
        holder = (
            "one device with the whole model, to compare with," if count == 1 else f"each of {count} devices"
        )
        raise ValueError(
            f"{job.name}: {holder} would take more than {_MEMORY} GiB, the most that a simulated device has; predict a model "
            "with fewer layers"
        ) from None


class _Step:
    """A step on so many devices, as it was recorded."""

    def __init__(
        self,
        job: Job,
        strategy: str,
        count: int,
        network: Network,
        dtype: tensor.dtype | None,
        repeats: Repeats,
    ) -> None:
        self.count = count
        # Modules and their hooks refer to each other: what is left of another step would count as this one's memory.
        gc.collect()
        runtime = drv.runtime()
        driver: Any = runtime.driver
        with (
            _first_of(count, network),
            recording(driver, results=False, repeats=repeats, host=False) as recorder,
            tensor.device("cuda"),
        ):
            model, computing = _distributed(job, strategy, network, dtype)
            optimizer = nn.optim.AdamW(model.parameters(), lr=1e-4)
            for _ in range(_STEPS):
                tensor.cuda.synchronize()
                tensor.cuda.reset_peak_memory_stats()
                begin, first = recorder.end, len(recorder.operations)
                optimizer.zero_grad()
                with computing():
                    loss = job.loss(model)
                loss.backward()
                optimizer.step()
                del loss
            tensor.cuda.synchronize()
            self.memory = tensor.cuda.max_memory_allocated()
            operations = recorder.operations[first:]
            self.seconds = float(recorder.end - begin)
            del model, optimizer
        network_operations = [each for each in operations if each.bound == "network"]
        self.communication = float(sum(each.seconds for each in network_operations))
        self.nbytes = sum(each.nbytes for each in network_operations)
        self.compute = _covered([each for each in operations if each.bound != "network"])
        self.exposed = _covered(operations) - self.compute

    def row(self, alone: float, memory: int) -> Row:
        """What is told of it, where a step without communication takes ``alone``, and a device has so much memory."""
        return Row(
            self.count,
            self.seconds * 1e3,
            self.memory,
            alone / self.seconds,
            self.compute * 1e3,
            self.exposed * 1e3,
            (self.seconds - self.compute - self.exposed) * 1e3,
            self.communication * 1e3,
            self.nbytes,
            self.memory <= memory,
        )


@contextlib.contextmanager
def _first_of(count: int, network: Network) -> Iterator[None]:
    """A block in which this process is the first of so many ranks."""
    runtime = drv.runtime()
    runtime.cache(("library", "nccl"), lambda: ModelledNccl(runtime, network, Layout.of([0], network)))
    parallel.init_process_group("nccl", store=parallel.HashStore(), rank=0, world_size=count, device_id=0)
    try:
        _describe(parallel.group.WORLD, network)
        yield
    finally:
        parallel.destroy_process_group()


def _describe(group: Any, network: Network) -> None:
    """Have the collectives of a group take what they do between its ranks."""
    backend = group.backend_of("cuda")
    ranks = parallel.get_process_group_ranks(group)
    backend._library = ModelledNccl(drv.runtime(), network, Layout.of(ranks, network))


def _distributed(job: Job, strategy: str, network: Network, dtype: tensor.dtype | None) -> tuple[Any, Any]:
    """The model under a strategy, and what it computes in."""
    count = parallel.get_world_size()
    # Values mean nothing here, and drawing those of a large model would touch all of its memory.
    with without_initialization():
        model: Any = job.model()
    if strategy == "ddp":

        def autocast() -> Any:
            return tensor.autocast("cuda", dtype=dtype, enabled=dtype is not None)

        # Parameters are not compared: the other ranks are not there.
        return parallel.DistributedDataParallel(model, init_sync=False), autocast
    on_each = min(count, network.devices)
    shape = (count // on_each, on_each) if strategy == "hybrid" else (count,)
    mesh = parallel.init_device_mesh("cuda", shape)
    for group in mesh.get_all_groups():
        _describe(group, network)
    policy = parallel.fsdp.MixedPrecisionPolicy(param_dtype=dtype)
    for layer in job.layers(model):
        parallel.fully_shard(layer, mesh=mesh, mp_policy=policy)
    return parallel.fully_shard(model, mesh=mesh, mp_policy=policy), contextlib.nullcontext


def _covered(operations: Sequence[TimedOperation]) -> float:
    """Seconds in which at least one of ``operations`` runs."""
    total, until = 0.0, 0.0
    for start, end in sorted((each.start, each.end) for each in operations):
        total += max(float(end) - max(float(start), until), 0.0)
        until = max(until, float(end))
    return total
