"""Train a small GPT whose parameters, gradients and states are divided among processes, and go on with another number of them.

`fully_shard` leaves each process a part of every parameter, and gathers those of a layer while the one before it computes. The
checkpoint is written by all processes at once while training goes on, and any number of them reads it. All see the same
batches, however many they are, so that the losses are those of one process.

    graphroot launch --nproc-per-node 4 examples/train_sharded.py --checkpoint gpt           # a GPU for each, or the CPU
    graphroot launch --nproc-per-node 2 examples/train_sharded.py --checkpoint gpt --resume  # stop it and go on with two
    graphroot launch --nproc-per-node 4 examples/train_sharded.py --simulate --checkpoint gpt  # a simulated GPU for each
    graphroot launch --nproc-per-node 4 --max-restarts 3 examples/train_sharded.py --checkpoint gpt --resume  # by itself
    mpiexec -n 4 python examples/train_sharded.py --checkpoint gpt --backend mpi             # on the machines that MPI has
    srun -N 2 -n 16 python examples/train_sharded.py --checkpoint gpt                        # on those of Slurm

It learns from a text file, by default this project's README. Needs tqdm: pip install 'graphroot[examples]'.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from tqdm import tqdm

import drv
import nn
import nn.functional as F
import parallel
import tensor
from nn import optim
from parallel import checkpoint, fully_shard

ROOT = Path(__file__).resolve().parents[1]


class Block(nn.Module):
    """Causal self-attention and a network of two layers, each added to its input: (N, L, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Every position looks at itself and at those before it."""
        count, length, width = x.shape
        heads = self.attend(self.norm1(x)).view(count, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(count, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Numbers of characters, (N, L), to the scores of the characters that follow each of them, (N, L, characters)."""

    def __init__(self, characters: int, args: argparse.Namespace) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, args.width)
        self.positions = nn.Embedding(args.context, args.width)
        self.blocks = nn.Sequential(*(Block(args.width, args.heads) for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, characters, bias=False)
        self.head.weight = self.characters.weight
        # The same in all processes.
        generator = tensor.Generator().manual_seed(args.seed)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02, generator=generator)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Scores of the next characters."""
        positions = tensor.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.characters(x) + self.positions(positions))))


class Training:
    """Model, optimizer and number of steps: what a checkpoint has."""

    def __init__(self, characters: int, args: argparse.Namespace, device: tensor.device) -> None:
        mesh = parallel.init_device_mesh(device.type, (parallel.get_world_size(),))
        self.model = GPT(characters, args)
        self.weights = sum(each.numel() for each in self.model.parameters())
        # Each block's parameters are gathered together, and what remains with the model.
        for block in self.model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.here = sum(each.to_local().numel() for each in self.model.parameters())
        self.optimizer = optim.AdamW(self.model.parameters(), lr=args.lr)
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        """What is saved, by the names of parameters."""
        model, optimizer = checkpoint.get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what was saved."""
        checkpoint.set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optimizer"],
        )
        self.step = state_dict["step"]


def batch(data: tensor.Tensor, step: int, args: argparse.Namespace) -> tuple[tensor.Tensor, tensor.Tensor]:
    """Draw this process's share of the batch of a step: pieces of the text, and the same one character further on."""
    generator = tensor.Generator().manual_seed(args.seed + step)
    starts = tensor.randint(0, len(data) - args.context, (args.batch_size, 1), generator=generator)
    starts = starts[parallel.get_rank() :: parallel.get_world_size()].to(data.device)
    positions = starts + tensor.arange(args.context, device=data.device)
    return data[positions], data[positions + 1]


def train(args: argparse.Namespace, device: tensor.device) -> list[float]:
    """Train, and save now and then. Returns the loss of each step, the mean over all processes."""
    rank, size = parallel.get_rank(), parallel.get_world_size()
    text = args.text.read_text(encoding="utf-8")
    characters = sorted(set(text))
    number = {each: index for index, each in enumerate(characters)}
    data = tensor.tensor([number[each] for each in text], device=device)
    training = Training(len(characters), args, device)
    if args.resume and args.checkpoint.exists():
        checkpoint.load({"training": training}, checkpoint_id=args.checkpoint)
    if rank == 0:
        print(f"{training.weights} weights, of which each of {size} processes has {training.here}")
    losses: list[float] = []
    saving = None
    steps = range(training.step, args.steps)
    # One bar, and none where nobody looks on.
    for step in tqdm(steps, "steps", unit="step", leave=False, disable=True if rank else None):
        x, y = batch(data, step, args)
        loss = F.cross_entropy(training.model(x).flatten(0, 1), y.flatten())
        training.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        training.optimizer.step()
        training.step += 1
        mean = loss.detach()
        parallel.all_reduce(mean)
        losses.append(mean.item() / size)
        last = training.step == args.steps
        if args.checkpoint and (last or training.step % args.save_every == 0):
            # What the next steps change is copied before this returns.
            saving = checkpoint.async_save({"training": training}, checkpoint_id=args.checkpoint)
        if rank == 0 and (last or training.step % args.save_every == 0):
            tqdm.write(f"step {training.step:4}: loss {losses[-1]:.4f}")
    if saving is not None:
        saving.result()
    return losses


def set_up(args: argparse.Namespace) -> tensor.device:
    """Join the other processes, which the launcher has told of each other. Returns this one's device."""
    local_rank = parallel.get_node_local_rank(0)
    if args.simulate:
        drv.simulator.install(check="race")
    devices = tensor.cuda.device_count()
    if args.cpu or not devices:
        parallel.init_process_group(args.backend or "gloo")
        return tensor.device("cpu")
    # NCCL wants a GPU for each process; gloo also serves simulated ones, and several processes on one GPU. mpiexec does not
    # set this variable, and is taken to have started a process for each GPU.
    own = not args.simulate and devices >= int(os.environ.get("LOCAL_WORLD_SIZE", devices))
    parallel.init_process_group(args.backend or ("nccl" if own else "gloo"))
    tensor.cuda.set_device(local_rank % devices)
    return tensor.device("cuda", local_rank % devices)


def arguments(command: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, default=ROOT / "README.md", help="file to learn from")
    parser.add_argument("--cpu", action="store_true", help="use no GPUs")
    parser.add_argument(
        "--backend", choices=("gloo", "nccl", "mpi"), help="what carries tensors; default: nccl or gloo"
    )
    parser.add_argument("--simulate", action="store_true", help="simulate a GPU for each, and look for races")
    parser.add_argument("--steps", type=int, help="default: 300; simulated, 2")
    parser.add_argument("--batch-size", type=int, help="of all together; default: 32; simulated, 8")
    parser.add_argument("--context", type=int, help="characters it looks back at; default: 64; simulated, 16")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="folder to save to")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    args = parser.parse_args(command)
    args.steps = args.steps or (2 if args.simulate else 300)
    args.batch_size = args.batch_size or (8 if args.simulate else 32)
    args.context = args.context or (16 if args.simulate else 64)
    if args.resume and args.checkpoint is None:
        parser.error("--resume goes on from what --checkpoint names: pass both")
    return args


def main() -> None:
    """Train as one of the processes."""
    args = arguments()
    train(args, set_up(args))
    parallel.destroy_process_group()


if __name__ == "__main__":
    main()
