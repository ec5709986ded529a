"""Which nodes follow each other on one stream when a graph is launched.

A node may follow on the stream of another that it depends on, however indirectly, since it has to wait for that one
anyway. So a graph takes as many streams as it has branches, and nothing is ordered that the graph does not order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Chains:
    """Assigns the nodes of a graph to chains, in an order in which each comes after its dependencies.

    Each chain has a ``lane`` (the context in which its nodes run), and nodes of other lanes do not follow in it.
    """

    def __init__(self) -> None:
        self.lanes: list[Hashable] = []
        self._lengths: list[int] = []
        #: For each node, how many nodes of each chain come before it or are it.
        self._before: list[dict[int, int]] = []
        self._chain_of: list[int] = []

    def add(self, lane: Hashable, dependencies: Sequence[int]) -> int:
        """The chain of the next node, which depends on earlier ones, given by their index in the order."""
        before: dict[int, int] = {}
        for earlier in dependencies:
            for other, count in self._before[earlier].items():
                if count > before.get(other, 0):
                    before[other] = count
        fitting = self._fitting(lane, before, dependencies)
        chain = len(self.lanes) if fitting is None else fitting
        if fitting is None:
            self.lanes.append(lane)
            self._lengths.append(0)
        self._lengths[chain] += 1
        before[chain] = self._lengths[chain]
        self._before.append(before)
        self._chain_of.append(chain)
        return chain

    def _fitting(self, lane: Hashable, before: dict[int, int], dependencies: Sequence[int]) -> int | None:
        # Right behind a dependency if that is still the last of its chain, else in a chain that has come to its end.
        candidates = [self._chain_of[earlier] for earlier in dependencies]
        for chain in (*candidates, *before):
            if before[chain] == self._lengths[chain] and self.lanes[chain] == lane:
                return chain
        return None
