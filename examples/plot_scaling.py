"""How training a GPT would scale to many GPUs, predicted and drawn on a machine without one.

One rank's real step runs on a simulated GPU as the first of so many ranks, with kernels that take what the model of time says and
collectives what the described network does. It does so twice: replicated by `DistributedDataParallel`, and divided among the
ranks by `fully_shard`. A table of each is printed, and the picture of both is an SVG that every browser shows.

    python examples/plot_scaling.py                                             # 1 to 64 H100
    python examples/plot_scaling.py --gpu v100 --network dgx-1                  # machines of 2017
    python examples/plot_scaling.py --layers 12 --width 768 --heads 12          # larger, and some minutes

The more devices there are the longer gradients are on their way, while the backward pass that hides them takes as long as before.
So small a model is soon waiting for the network; `--width 1024` scales further.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import tensor
from drv.simulator.device_models import MODELS
from tools.scale.command_line import table
from tools.scale.jobs import job_of
from tools.scale.network import NETWORKS, Network
from tools.scale.picture import pictures
from tools.scale.prediction import predict

STRATEGIES = "ddp", "fully_shard"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--devices", type=int, nargs="+", default=[1, 8, 16, 32, 64], help="how many (1 8 16 32 64)"
    )
    parser.add_argument("--gpu", choices=list(MODELS), default="h100", help="what each device is (h100)")
    parser.add_argument(
        "--network", choices=list(NETWORKS), default="dgx-h100", help="what connects them (dgx-h100)"
    )
    parser.add_argument("--layers", type=int, default=2, help="blocks (2)")
    parser.add_argument("--width", type=int, default=256, help="elements of a token (256)")
    parser.add_argument("--heads", type=int, default=4, help="heads of attention (4)")
    parser.add_argument("--length", type=int, default=256, help="tokens of a sequence (256)")
    parser.add_argument("--batch-size", type=int, default=8, help="sequences of a device (8)")
    parser.add_argument("--output", type=Path, default=Path("scaling.svg"), help="the picture (scaling.svg)")
    return parser.parse_args()


def main() -> None:
    """Predict, print and draw."""
    args = arguments()
    job = job_of(
        f"gpt2,layers={args.layers},width={args.width},heads={args.heads},length={args.length},"
        f"batch={args.batch_size},vocabulary=1024"
    )
    network = Network.parse(args.network)
    predictions = {}
    for strategy in STRATEGIES:
        rows = predict(job, strategy, args.devices, network, args.gpu, tensor.bfloat16)
        print(f"{strategy}:\n{table(job, rows)}\n")
        title = f"GPT, {args.layers} blocks of width {args.width}, {strategy}, {args.gpu}, {network.name}"
        predictions[title] = rows
    args.output.write_text(pictures(predictions), encoding="utf-8")
    print(f"drawn as {args.output}")


if __name__ == "__main__":
    main()
