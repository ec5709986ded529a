"""Special registers: the expression that reads each, over the lanes ``X``, and its NumPy type."""

from __future__ import annotations

from drv.simulator.ptx.shared_memory import RESERVED_BYTES


def _table() -> dict[str, tuple[str, str]]:
    table = {}
    for axis, letter in enumerate("xyz"):
        table[f"%tid.{letter}"] = f"X.constant('thread_index', {axis})", "uint32"
        table[f"%ctaid.{letter}"] = f"X.constant('block_index', {axis})", "uint32"
        table[f"%ntid.{letter}"] = f"X.launch.block_size[{axis}]", "uint32"
        table[f"%nctaid.{letter}"] = f"X.launch.grid_size[{axis}]", "uint32"
        table[f"%clusterid.{letter}"] = f"X.constant('cluster_index', {axis})", "uint32"
        table[f"%nclusterid.{letter}"] = (
            f"X.launch.number(X.launch.grid[{axis}] // X.launch.cluster[{axis}])",
            "uint32",
        )
        table[f"%cluster_ctaid.{letter}"] = f"X.constant('block_in_cluster', {axis})", "uint32"
        table[f"%cluster_nctaid.{letter}"] = f"X.launch.number(X.launch.cluster[{axis}])", "uint32"
    table |= {
        "%laneid": ("X.constant('lane')", "uint32"),
        "%warpid": ("X.constant('warp')", "uint32"),
        "%nwarpid": ("X.launch.number(X.launch.warps)", "uint32"),
        "%smid": ("X.constant('multiprocessor')", "uint32"),
        "%nsmid": ("X.launch.number(X.launch.multiprocessors)", "uint32"),
        "%gridid": ("X.launch.wide_number(X.launch.grid_id)", "uint64"),
        "%clock": ("X.launch.clock()", "uint32"),
        "%clock_hi": ("X.launch.clock_high()", "uint32"),
        "%clock64": ("X.launch.clock64()", "uint64"),
        "%globaltimer": ("X.launch.timer()", "uint64"),
        "%globaltimer_lo": ("X.launch.timer_low()", "uint32"),
        "%globaltimer_hi": ("X.launch.timer_high()", "uint32"),
        "%dynamic_smem_size": ("X.launch.number(X.launch.dynamic_shared)", "uint32"),
        "%total_smem_size": ("X.launch.number(X.launch.shared_bytes)", "uint32"),
        "%aggr_smem_size": ("X.launch.number(X.launch.shared_bytes)", "uint32"),
        "%cluster_ctarank": ("X.constant('cluster_rank')", "uint32"),
        "%cluster_nctarank": ("X.launch.number(X.launch.cluster_blocks)", "uint32"),
        "%is_explicit_cluster": ("X.launch.explicit_cluster", "bool"),
    }
    # Others are the driver's business; 1 and 2 lead cooperative groups to the barrier of the grid.
    for number in range(32):
        table[f"%envreg{number}"] = "X.launch.number(0)", "uint32"
    table["%envreg1"] = "X.launch.number(X.launch.grid_workspace() >> 32)", "uint32"
    table["%envreg2"] = "X.launch.number(X.launch.grid_workspace() & 0xFFFFFFFF)", "uint32"
    # Cooperative groups keep the barriers of tiles wider than a warp in reserved shared memory.
    for number in range(2):
        table[f"%reserved_smem_offset_{number}"] = (
            f"X.launch.number({RESERVED_BYTES // 2 * number})",
            "uint32",
        )
    table["%reserved_smem_offset_begin"] = "X.launch.number(0)", "uint32"
    for name in ("end", "cap"):
        table[f"%reserved_smem_offset_{name}"] = f"X.launch.number({RESERVED_BYTES})", "uint32"
    for relation in ("eq", "le", "lt", "ge", "gt"):
        table[f"%lanemask_{relation}"] = f"X.constant('lanes_{relation}')", "uint32"
    return table


SPECIAL_REGISTERS = _table()
