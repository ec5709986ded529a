"""How far the counts of a launch have come, so that what was done in between can be compared, and counted once more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .counts import BlockRuns, SiteCounts

#: What an instruction on shared memory counts.
_FIELDS = ("requests", "lanes", "wavefronts", "ideal_wavefronts", "words")


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of basic blocks (warps, lanes), of instructions on shared memory, and of barriers.

    Those of instructions on global memory are not among them, since these depend on their addresses.
    """

    runs: dict[int, tuple[int, ...]]
    sites: dict[Any, tuple[int, ...]]
    barriers: int

    @classmethod
    def of(cls, runs: Mapping[int, BlockRuns], sites: Mapping[Any, SiteCounts], barriers: int) -> Tally:
        """The counts as they are."""
        return cls(
            {number: (each.warps, each.lanes) for number, each in runs.items()},
            {
                key: (each.requests, each.lanes, each.wavefronts, each.ideal_wavefronts, each.words)
                for key, each in sites.items()
                if each.space == "shared"
            },
            barriers,
        )

    def since(self, before: Tally) -> Tally:
        """What was counted since."""
        return Tally(
            _difference(self.runs, before.runs),
            _difference(self.sites, before.sites),
            self.barriers - before.barriers,
        )

    def add_to(self, runs: Mapping[int, BlockRuns], sites: Mapping[Any, SiteCounts], times: int) -> None:
        """Count it so many times more, but for the barriers."""
        for number, (warps, lanes) in self.runs.items():
            runs[number].warps += warps * times
            runs[number].lanes += lanes * times
        for key, counted in self.sites.items():
            for name, count in zip(_FIELDS, counted, strict=True):
                setattr(sites[key], name, getattr(sites[key], name) + count * times)


def _difference(after: Mapping[Any, tuple[int, ...]], before: Mapping[Any, tuple[int, ...]]) -> Any:
    """What has changed, and by how much."""
    result = {}
    for key, numbers in after.items():
        earlier = before.get(key)
        if numbers != earlier:
            result[key] = (
                numbers if earlier is None else tuple(x - y for x, y in zip(numbers, earlier, strict=True))
            )
    return result
