"""The command line of profile: what to run, what to write, and what must not be."""

from __future__ import annotations

import argparse
from pathlib import Path

from drv.simulator.device_models import MODELS
from tools.run.arguments import add_simulate, add_target

_DESCRIPTION = """\
Run a script and say what it does with its time: by operation and kernel, host against device. On a simulated GPU times of
devices are modelled. Options come before the script; what comes after it belongs to the script.
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The options, and what they mean, of the command that is called ``prog``."""
    result = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [options] (script.py | -m module) [arguments]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    add = result.add_argument
    add_simulate(result)
    add("--model", choices=list(MODELS), help="the GPU that a simulated one stands for; means --simulate too")
    add(
        "--sample",
        action="store_true",
        help="on a simulated GPU, run only a sample of large grids: results are void",
    )
    add("--html", type=Path, metavar="FILE", help="where to write the report with pictures")
    add("--trace", type=Path, metavar="FILE", help="where to write the trace for Chrome and Perfetto")
    add("--json", type=Path, metavar="FILE", help="where to write every metric by kernel")
    add(
        "--memory", action="store_true", help="note allocations, with their Python lines (with --html always)"
    )
    add(
        "--memory-snapshot",
        type=Path,
        metavar="FILE",
        help="where to write what PyTorch's memory viewer opens",
    )
    add("--stacks", action="store_true", help="note the Python stack of each operation")
    add(
        "--fail-over",
        action="append",
        metavar="LIMIT",
        help="exit with 86 if a figure is over: METRIC>NUMBER, KERNEL:METRIC>NUMBER or all:METRIC>NUMBER",
    )
    add("--sort-by", default="device_time_total", metavar="COLUMN", help="of the table (device_time_total)")
    add("--row-limit", type=int, default=30, metavar="N", help="rows of the table (30)")
    add("--as-torch", action="store_true", help="let `import torch` be graphroot")
    add_target(result)
    return result
