"""Train a network by several processes, each with a device and a share of every batch.

`DistributedDataParallel` averages the gradients of all processes while the backward pass still runs, and `SyncBatchNorm`
normalises by the samples of all. The script is what one writes for PyTorch, apart from the lines that import. The digits
are the 1797 pictures of 8 x 8 points that come with scikit-learn.

    graphroot launch --nproc-per-node 2 examples/train_ddp.py             # a GPU for each process, or the CPU
    graphroot launch --nproc-per-node 2 examples/train_ddp.py --simulate  # some steps, on a simulated GPU each

Needs scikit-learn and tqdm: pip install 'graphroot[examples]'.
"""

from __future__ import annotations

import argparse
import os
import time

from sklearn.datasets import load_digits
from tqdm import tqdm

import drv
import nn
import nn.functional as F
import parallel
import tensor
from nn import optim
from parallel import DistributedDataParallel, DistributedSampler, SyncBatchNorm
from tensor.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    """(N, 1, 8, 8) to the scores of ten digits, (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classes = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Scores of the digits in this process's share of the batch."""
        return self.classes(self.features(x).flatten(1))


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Pictures and labels, a fifth of them to test with; the same in all processes."""
    pictures, labels = load_digits(return_X_y=True)
    x = tensor.tensor(pictures, dtype=tensor.float32).view(-1, 1, 8, 8) / 16
    return random_split(
        TensorDataset(x, tensor.tensor(labels)), [0.8, 0.2], generator=tensor.Generator().manual_seed(0)
    )


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


def train(args, model, device, loader, optimizer) -> tensor.Tensor:
    """One epoch. Returns the mean loss over all processes."""
    model.train()
    losses = []
    # One bar, and none where nobody looks on.
    hidden = True if parallel.get_rank() else None
    for x, y in tqdm(loader, "batches", unit="batch", leave=False, disable=hidden):
        loss = F.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) == args.steps:
            break
    mean = tensor.stack(losses).mean()
    parallel.all_reduce(mean)
    return mean / parallel.get_world_size()


@tensor.no_grad()
def test(model, device, loader) -> float:
    """Part of the test pictures that are read correctly; each process reads its share."""
    model.eval()
    totals = tensor.zeros(2, device=device)
    for x, y in loader:
        totals[0] += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        totals[1] += len(y)
    parallel.all_reduce(totals)
    correct, count = totals.tolist()
    return correct / count


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cpu", action="store_true", help="use no GPUs")
    parser.add_argument(
        "--backend", choices=("gloo", "nccl", "mpi"), help="what carries tensors; default: nccl or gloo"
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="simulate a GPU for each, look for races, and test on few pictures",
    )
    parser.add_argument("--epochs", type=int, help="default: 10; simulated, 1")
    parser.add_argument("--steps", type=int, help="at most so many in an epoch (default: all; simulated, 3)")
    parser.add_argument("--batch-size", type=int, help="of all together; default: 128; simulated, 32")
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    args.epochs = args.epochs or (1 if args.simulate else 10)
    args.steps = args.steps or (3 if args.simulate else None)
    args.batch_size = args.batch_size or (32 if args.simulate else 128)
    return args


def main() -> None:
    """Train, and test after each epoch."""
    args = arguments()
    device = set_up(args)
    tensor.manual_seed(0)
    rank, size = parallel.get_rank(), parallel.get_world_size()
    print(f"rank {rank} of {size} on {device}, with {parallel.get_backend()}", flush=True)
    train_set, test_set = digits()
    pinned = device.type == "cuda"
    share = args.batch_size // size
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, share, sampler=sampler, pin_memory=pinned)
    # Indices that are there twice, so that all processes have equally many, would count twice.
    test_loader = DataLoader(list(test_set)[rank : 40 if args.simulate else None : size], share)

    model = SyncBatchNorm.convert_sync_batchnorm(Net()).to(device)
    # All processes start with the parameters of rank 0.
    model = DistributedDataParallel(model, device_ids=[device] if pinned else None)
    optimizer = optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        loss = train(args, model, device, loader, optimizer).item()
        seconds = time.perf_counter() - start
        accuracy = test(model.module, device, test_loader)
        if rank == 0:
            count = args.batch_size * min(len(loader), args.steps or len(loader))
            print(
                f"epoch {epoch:2}: loss {loss:.4f}, test accuracy {accuracy:.2%}, {count / seconds:.0f} images/s"
            )
    parallel.destroy_process_group()


if __name__ == "__main__":
    main()
