"""What bounds a kernel and what would help, in words; and the figures by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drv.simulator.checks.observation import Access

from .figures import SECTOR, WARP

if TYPE_CHECKING:
    from .kernel_time import KernelTime
    from .metering.counts import SiteCounts

#: The project's own kernels are named from here on.
_ROOT = str(Path(__file__).resolve().parents[3]) + os.sep
#: Every figure of a kernel: its unit and what it is. Reports, JSON and documentation have these names.
METRICS: dict[str, tuple[str, str]] = {
    "modelled_us": ("us", "modelled time of a launch on the device"),
    "bound": ("name", "the limit that takes longest"),
    "load_sectors_per_request": (
        "sectors",
        "sectors of 32 bytes that a warp's load of global memory asks for",
    ),
    "store_sectors_per_request": ("sectors", "the same for stores"),
    "sectors_over_needed": (
        "ratio",
        "sectors asked for over those that the distinct bytes of each request need",
    ),
    "moved_over_distinct": ("ratio", "bytes of DRAM moved over distinct bytes read and written"),
    "distinct_bytes_read": ("bytes", "bytes of global memory that the launch reads, each counted once"),
    "distinct_bytes_written": ("bytes", "the same for writes"),
    "dram_bytes": ("bytes", "bytes that DRAM moves, read and written"),
    "l2_bytes": ("bytes", "bytes between the level-2 cache and the multiprocessors"),
    "l1_hit_rate": ("share", "sectors loaded that level 1 had"),
    "l2_hit_rate": ("share", "sectors loaded from level 2 that it had"),
    "shared_conflict_ways": ("ways", "clocks of shared memory over those without bank conflicts"),
    "active_lanes": ("lanes", "lanes of a warp that are on, of 32, over all instructions"),
    "occupancy": ("share", "resident warps over those that a multiprocessor can hold"),
    "occupancy_limit": ("name", "what limits occupancy"),
    "blocks_per_multiprocessor": ("blocks", "thread blocks that a multiprocessor holds at once"),
    "waves": ("waves", "blocks of the grid over those that the device holds at once"),
    "registers": ("registers", "per thread"),
    "shared_memory": ("bytes", "per block, static and dynamic"),
    "spills": ("instructions", "loads and stores of local memory in the code"),
    "instructions": ("instructions", "warp instructions of the launch"),
    "barriers": ("warps", "warps that passed a barrier of their block"),
    "flops": ("operations", "floating point operations, matrix instructions included"),
    "bytes_in_flight": ("bytes", "bytes that the device has on their way on average at the modelled time"),
    "sampled": ("share", "thread blocks that were metered, of the grid"),
    "sample_error": ("share", "two standard errors of the instructions per block, over the sample"),
    "regular": ("share", "accesses whose address follows from the block's index, where the grid was sampled"),
    "repeated": ("share", "instructions of metered blocks counted as those of the loop's iteration before"),
}


def metrics(time: KernelTime) -> dict[str, Any]:
    """The figures of a launch by their names in :data:`METRICS`, and ``limits_us``, the time of each limit."""
    counts, shape = time.counts, time.shape
    loads = _of(time, Access.READ)
    stores = _of(time, Access.WRITE)
    every = [*loads, *stores, *_of(time, Access.ATOMIC)]
    shared = [each for each in counts.sites if each.space == "shared"]
    warps = sum(each.warps * len(each.block.instructions) for each in counts.runs)
    lanes = sum(each.lanes * len(each.block.instructions) for each in counts.runs)
    distinct = counts.distinct_read + counts.distinct_written
    scale = counts.scale
    return {
        "modelled_us": time.seconds * 1e6,
        "bound": time.bound,
        "load_sectors_per_request": _ratio(loads, "sectors", "requests"),
        "store_sectors_per_request": _ratio(stores, "sectors", "requests"),
        "sectors_over_needed": _ratio(every, "sectors", "needed", 1.0),
        "moved_over_distinct": time.dram_bytes / distinct if distinct else 0.0,
        "distinct_bytes_read": counts.distinct_read,
        "distinct_bytes_written": counts.distinct_written,
        "dram_bytes": time.dram_bytes,
        "l2_bytes": time.l2_bytes,
        "l1_hit_rate": time.level1_hits,
        "l2_hit_rate": time.level2_hits,
        "shared_conflict_ways": _ratio(shared, "wavefronts", "ideal_wavefronts", 1.0),
        "active_lanes": lanes / warps if warps else float(WARP),
        "occupancy": shape.occupancy.share,
        "occupancy_limit": shape.occupancy.limit,
        "blocks_per_multiprocessor": shape.occupancy.blocks,
        "waves": time.waves,
        "registers": shape.registers,
        "shared_memory": shape.shared,
        "spills": shape.spills,
        "instructions": time.instructions,
        "barriers": counts.barriers * scale,
        "flops": time.flops,
        "bytes_in_flight": time.dram_bytes / time.seconds * time.figures.dram_latency / time.figures.clock,
        "sampled": counts.metered / counts.blocks if counts.blocks else 1.0,
        "sample_error": counts.error,
        "regular": counts.regular,
        "repeated": counts.repeated,
        "limits_us": {name: seconds * 1e6 for name, seconds in time.limits.items()},
    }


def advice(time: KernelTime) -> list[str]:
    """Sentences: what bounds the kernel, and what would help, with the line where there is one; the weightiest first."""
    sentences = [_bound(time)]
    sentences += _accesses(time)
    sentences += _conflicts(time)
    sentences += _threads(time)
    return list(dict.fromkeys(sentences))


def location(each: SiteCounts) -> str:
    """Where an instruction is: the CUDA source's line, or the PTX's."""
    source = each.site.source
    if source is None:
        return f"PTX line {each.site.ptx_line}"
    return f"{source[0].removeprefix(_ROOT)}:{source[1]}"


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _of(time: KernelTime, kind: Access) -> list[SiteCounts]:
    return [each for each in time.counts.sites if each.space == "global" and each.kind is kind]


def _ratio(sites: list[SiteCounts], over: str, under: str, otherwise: float = 0.0) -> float:
    total = sum(getattr(each, under) for each in sites)
    return sum(getattr(each, over) for each in sites) / total if total else otherwise


def _share(time: KernelTime, name: str) -> str:
    rate = {
        "DRAM": time.dram_bytes / time.seconds,
        "L2": time.l2_bytes / time.seconds,
    }[name]
    return f"{rate / 1e9:,.0f} GB/s"


def _bound(time: KernelTime) -> str:
    name, figures, shape = time.bound, time.figures, time.shape
    us = time.limits.get(name, 0.0) * 1e6
    if name == "launch":
        return "too little work: starting the kernel takes longer than running it; do more in one launch, or use a graph"
    if name == "DRAM":
        reach = time.dram_bytes / time.seconds / figures.dram_bandwidth
        return (
            f"bound by DRAM: {time.dram_bytes / 1e6:,.1f} MB take {us:,.1f} us, {_share(time, 'DRAM')}, {reach:.0%} of "
            "the published rate; only fewer bytes make it quicker"
        )
    if name == "L2":
        return (
            f"bound by the level-2 cache: {time.l2_bytes / 1e6:,.1f} MB pass between it and the multiprocessors in "
            f"{us:,.1f} us; reuse in registers or shared memory would save them"
        )
    if name == "latency":
        text = (
            f"bound by latency: {shape.occupancy.share:.0%} occupancy "
            f"({shape.occupancy.blocks} blocks of {shape.warps} warps, limited by {shape.occupancy.limit}) and "
            f"{time.waves:.2f} waves do not hide {time.warp_clocks:,.0f} clocks of each warp"
        )
        if time.waves < 1:
            return f"{text}; the grid does not fill the device: more blocks, or more work a thread at once"
        return f"{text}; more independent loads a thread, or more resident warps, would help"
    if name == "atomics":
        hottest = time.counts.hottest
        return (
            f"bound by atomics: {hottest:,.0f} of them name one address; combine within a warp or block first, and "
            "keep private copies in shared memory"
        )
    if name == "issue":
        return (
            f"bound by issue: {time.instructions:,.0f} warp instructions take {us:,.1f} us of the schedulers; fewer "
            "instructions an element (wider accesses, less index arithmetic) would help"
        )
    if name == "shared memory":
        return f"bound by shared memory, which is busy for {us:,.1f} us; more reuse in registers would help"
    if name == "L1":
        return f"bound by level 1, which looks up lines for {us:,.1f} us; requests of fewer lines would help"
    pipe = name.removesuffix(" pipe")
    count = time.tensor if pipe == "tensor" else time.pipes.get(pipe, 0.0)
    what = "multiply-adds" if pipe == "tensor" else "warp instructions"
    return f"bound by the {pipe} pipe: {count:,.0f} {what} take {us:,.1f} us"


def _accesses(time: KernelTime) -> list[str]:
    wasteful = []
    for kind, verb in ((Access.READ, "reads"), (Access.WRITE, "writes")):
        for each in _of(time, kind):
            if each.needed and each.sectors > 1.2 * each.needed:
                wasted = (each.sectors - each.needed) * time.counts.scale * SECTOR
                over = each.sectors / each.needed
                stride = "" if each.stride is None else f" at stride {abs(each.stride)}"
                text = (
                    f"{verb} {_bytes(each.width)} a thread{stride}: {over:.2g} times the sectors needed ({location(each)}); "
                    "neighbouring threads should access neighbouring addresses"
                )
                wasteful.append((wasted, text))
            elif each.width < 16 and time.bound in ("issue", "latency", "L1") and each.needed:
                text = (
                    f"{verb} {_bytes(each.width)} a thread ({location(each)}): accesses of 16 bytes would take fewer "
                    "instructions and have more bytes in flight"
                )
                wasteful.append((0.0, text))
    wasteful.sort(key=lambda item: -item[0])
    return [text for _, text in wasteful[:4]]


def _conflicts(time: KernelTime) -> list[str]:
    crowded = []
    for each in time.counts.sites:
        if each.space != "shared" or not each.ideal_wavefronts:
            continue
        ways = each.wavefronts / each.ideal_wavefronts
        if ways > 1.2:
            lost = each.wavefronts - each.ideal_wavefronts
            text = (
                f"{each.kind.value}s of shared memory meet in {ways:.2g} turns of the same bank ({location(each)}); "
                "pad rows by a word, or exchange bits of the index"
            )
            crowded.append((lost, text))
    crowded.sort(key=lambda item: -item[0])
    return [text for _, text in crowded[:3]]


def _threads(time: KernelTime) -> list[str]:
    sentences = []
    figures = metrics(time)
    if figures["active_lanes"] < 24:
        sentences.append(
            f"{figures['active_lanes']:.0f} of 32 lanes are on: threads of a warp take different branches, or blocks "
            "are no multiple of 32 threads"
        )
    shape = time.shape
    if shape.spills:
        sentences.append(
            f"{shape.spills} instructions move registers to local memory and back: fewer live values, or "
            "__launch_bounds__, would help"
        )
    whole, fraction = divmod(time.waves, 1)
    if 1 <= whole <= 4 and 0 < fraction < 0.4:
        sentences.append(
            f"{time.waves:.2f} waves: the last one fills {fraction:.0%} of the device; blocks of another size, or a number "
            "of blocks that the device holds, would help"
        )
    return sentences
