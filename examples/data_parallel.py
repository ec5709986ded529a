"""Train a network on all GPUs at once: each reads a part of every batch.

`DataParallel` copies the network to every device, sends each its part of the batch, and sums the gradients; the rest of
the script is that of one device. The digits are the 1797 pictures of 8 x 8 points that come with scikit-learn.

    python examples/data_parallel.py             # on all GPUs
    python examples/data_parallel.py --simulate  # some steps on two simulated GPUs

Needs scikit-learn and tqdm: pip install 'graphroot[examples]'.
"""

from __future__ import annotations

import argparse

from sklearn.datasets import load_digits
from tqdm import tqdm

import drv
import nn
import nn.functional as F
import tensor
from nn import optim
from parallel import DataParallel
from tensor.utils.data import DataLoader, Subset, TensorDataset, random_split


class Net(nn.Module):
    """(N, 1, 8, 8) to the scores of ten digits, (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classes = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Scores of the digits in the part of the batch that this device has."""
        return self.classes(self.features(x).flatten(1))


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Pictures and labels, a fifth of them to test with."""
    pictures, labels = load_digits(return_X_y=True)
    x = tensor.tensor(pictures, dtype=tensor.float32).view(-1, 1, 8, 8) / 16
    return random_split(TensorDataset(x, tensor.tensor(labels)), [0.8, 0.2])


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--simulate", action="store_true", help="simulate two GPUs, look for races, and test on few pictures"
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, help="at most so many in an epoch (default: all)")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-2)
    return parser.parse_args()


def main() -> None:
    """Train, and test after each epoch."""
    args = arguments()
    if args.simulate:
        drv.simulator.install(devices=2, check="race")
        args.epochs, args.steps, args.batch_size = 1, args.steps or 4, 32
    tensor.manual_seed(0)
    device = "cuda" if tensor.cuda.is_available() else "cpu"
    train_set, test_set = digits()
    if args.simulate:
        test_set = Subset(test_set, range(64))
    pinned = device == "cuda"
    loader = DataLoader(train_set, args.batch_size, shuffle=True, pin_memory=pinned)
    model = DataParallel(Net().to(device))
    optimizer = optim.AdamW(model.parameters(), lr=args.lr)
    print(f"parts of a batch go to {', '.join(f'cuda:{each}' for each in model.device_ids) or device}")

    for epoch in range(1, args.epochs + 1):
        model.train()
        losses = []
        for x, y in tqdm(loader, f"epoch {epoch}", unit="batch", leave=False, disable=None):
            # The pictures stay where they are: each device gets its part from there.
            loss = F.cross_entropy(model(x), y.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            if len(losses) == args.steps:
                break
        losses = tensor.stack(losses).tolist()
        model.eval()
        with tensor.no_grad():
            correct = sum(
                (model(x).argmax(1) == y.to(device)).sum() for x, y in DataLoader(test_set, args.batch_size)
            )
        print(
            f"epoch {epoch:2}: loss {losses[0]:.3f} to {losses[-1]:.3f}, test accuracy {correct.item() / len(test_set):.1%}"
        )


if __name__ == "__main__":
    main()
