"""Networks between devices, and how long collectives take on them: the usual sums of a latency and bytes over a rate.

Devices of a node reach each other over links, and each has a rail to the devices of the same number in other nodes. Collectives go
around rings through all devices, as many rings as there are rails, so that each node's rails carry what one ring would have to
(S. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, for the terms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Network:
    """What connects devices.

    Attributes
    ----------
    name : str
        What it is called.
    devices : int
        Of a node.
    link, rail : float
        Bytes per second in one direction, of a device inside its node, and of a device to other nodes.
    link_latency, rail_latency : float
        Seconds of a message without bytes.
    reach : float
        The share of these rates that collectives reach.
    """

    name: str
    devices: int
    link: float
    rail: float
    link_latency: float
    rail_latency: float
    reach: float

    @staticmethod
    def parse(text: str) -> Network:
        """A network by its name, with other figures behind it: ``dgx-a100,rail=12.5e9``.

        Raises
        ------
        ValueError
            If there is none of that name, or no such figure.
        """
        name, *changes = text.split(",")
        if name not in NETWORKS:
            raise ValueError(f"there is no network {name!r}: expected {', '.join(NETWORKS)}")
        figures = [each.name for each in fields(Network) if each.name != "name"]
        values: dict[str, float] = {}
        for each in changes:
            key, _, value = each.partition("=")
            key = key.replace("-", "_")
            if key not in figures:
                raise ValueError(f"a network has no {key!r}: expected {', '.join(figures)}")
            try:
                values[key] = int(value) if key == "devices" else float(value)
            except ValueError:
                raise ValueError(f"{key} of a network is a number, got {value!r}") from None
            if values[key] <= 0:
                raise ValueError(f"{key} of a network is positive, got {value}")
        return replace(NETWORKS[name], name=text, **values)  # type: ignore[arg-type]


#: NVLink 2, 3 and 4 (300, 600 and 900 GB/s in both directions), four adapters of 100 Gb/s, eight of 200 and 400 Gb/s: NVIDIA's data
#: sheets of DGX-1, DGX A100 and H100. p4d: Amazon's page of the instance, four adapters of 100 Gb/s. Reach: all-reduce of nccl-tests comes to about 235 of 300 GB/s in a
#: DGX A100 and 370 of 450 in a DGX H100; taken to be as much elsewhere. Latencies are assumptions of the size that such tests show for small messages.
NETWORKS = {
    "dgx-1": Network("dgx-1", 8, 150e9, 6.25e9, 2e-6, 6e-6, 0.8),
    "dgx-a100": Network("dgx-a100", 8, 300e9, 25e9, 2e-6, 6e-6, 0.8),
    "dgx-h100": Network("dgx-h100", 8, 450e9, 50e9, 2e-6, 5e-6, 0.8),
    "p4d": Network("p4d", 8, 300e9, 6.25e9, 2e-6, 20e-6, 0.8),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the ranks of a group are: on how many nodes, and how many on each."""

    nodes: int
    on_each: int

    @staticmethod
    def of(ranks: list[int], network: Network) -> Layout:
        """That of ranks of a job, which fill nodes one after the other.

        Raises
        ------
        ValueError
            If nodes have different numbers of them.
        """
        nodes = {rank // network.devices for rank in ranks}
        if len(ranks) % len(nodes):
            raise ValueError(
                f"{len(ranks)} ranks on {len(nodes)} nodes of {network.devices}: collectives are described for as many on each"
            )
        return Layout(len(nodes), len(ranks) // len(nodes))

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.nodes * self.on_each


def collective_seconds(operation: str, nbytes: int, layout: Layout, network: Network) -> float:
    """How long a collective takes.

    Parameters
    ----------
    operation : str
        ``all_reduce``, ``reduce_scatter``, ``all_gather``, ``broadcast``, ``reduce`` or ``send``.
    nbytes : int
        Of the whole tensor: what all ranks gather, or scatter.
    layout : Layout
        Where the ranks are.
    network : Network
        What connects them.
    """
    ranks, nodes, on_each = layout.ranks, layout.nodes, layout.on_each
    if ranks == 1:
        return 0.0
    rate = network.link if nodes == 1 else network.rail * on_each
    if on_each > 1:
        rate = min(rate, network.link)
    rate *= network.reach
    ring = (ranks - nodes) * network.link_latency + (nodes if nodes > 1 else 0) * network.rail_latency
    tree = (on_each - 1) * network.link_latency + math.ceil(math.log2(nodes)) * network.rail_latency
    share = (ranks - 1) / ranks
    if operation == "all_reduce":
        # There and back. Trees carry small tensors between nodes in fewer steps, at the same rate.
        return 2 * (min(ring, tree) + share * nbytes / rate)
    if operation in ("reduce_scatter", "all_gather"):
        return ring + share * nbytes / rate
    if operation in ("broadcast", "reduce"):
        return tree + nbytes / rate
    one = (network.rail, network.rail_latency) if nodes > 1 else (network.link, network.link_latency)
    return one[1] + nbytes / (one[0] * network.reach)
