"""The command line of scale."""

from __future__ import annotations

import argparse

from drv.simulator.device_models import MODELS

from .language_models import GPTS
from .network import NETWORKS

_DESCRIPTION = """\
Predict a step of training on many devices: its time, what of it is communication that nothing hides, the memory of a rank, and the
efficiency. The real step of one rank runs on a simulated device; kernels take what the model of time says, and collectives what
the described network does.
"""
_MODEL = f"{', '.join(GPTS)}, with sizes behind it (gpt2,batch=16), or a script that defines model() and loss(model)"
_NETWORK = f"{', '.join(NETWORKS)}, with figures behind it (dgx-a100,rail=12.5e9)"

#: ``ddp``: every rank has all. ``fully_shard``: a part of it, of all ranks. ``hybrid``: a part, of the ranks of a node.
STRATEGIES = ("ddp", "fully_shard", "hybrid")
#: What is computed in.
DTYPES = ("bfloat16", "float16", "float32")


def parser(prog: str) -> argparse.ArgumentParser:
    """The options of the command that is called ``prog``."""
    result = argparse.ArgumentParser(prog=prog, description=_DESCRIPTION)
    result.add_argument(
        "--devices", default="1,8,64,512", help="numbers of devices, with commas (%(default)s)"
    )
    result.add_argument("--model", default="gpt2", help=f"{_MODEL} (%(default)s)")
    result.add_argument(
        "--strategy",
        default="ddp",
        choices=STRATEGIES,
        help="what ranks have: all, a part, or a part inside each node (%(default)s)",
    )
    result.add_argument("--network", default="dgx-h100", help=f"{_NETWORK} (%(default)s)")
    result.add_argument(
        "--gpu",
        default="h100",
        choices=tuple(MODELS),
        help="what each device is (%(default)s)",
    )
    result.add_argument(
        "--dtype",
        default="bfloat16",
        choices=DTYPES,
        help="what is computed in (%(default)s)",
    )
    result.add_argument("--json", action="store_true", help="rows as JSON, for programs")
    result.add_argument("--plot", metavar="FILE", help="write a picture, as SVG")
    return result
