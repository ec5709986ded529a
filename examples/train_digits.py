"""Train a small convolutional network to read handwritten digits.

The digits are the 1797 pictures of 8 x 8 points that come with scikit-learn (the test set of the UCI Optical Recognition
of Handwritten Digits). The script is what one writes for PyTorch, apart from the lines that import: batches from a
DataLoader with pinned memory, mixed precision if asked for, and checkpoints from which training goes on as if it had
never stopped.

    python examples/train_digits.py                                          # on the GPU if there is one, else the CPU
    python examples/train_digits.py --checkpoint digits.safetensors          # saved after each epoch;
    python examples/train_digits.py --checkpoint digits.safetensors --resume # stop it and go on
    python examples/train_digits.py --simulate                               # some steps on a simulated GPU

Needs scikit-learn, matplotlib and tqdm: pip install 'graphroot[examples]'.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import drv
import nn
import nn.functional as F
import tensor
from nn import optim
from tensor.utils.data import DataLoader, Subset, TensorDataset


class Net(nn.Module):
    """Two convolutions and two linear layers: (N, 1, 8, 8) to the scores of ten digits, (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64 * 4 * 4, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        """Scores of the digits."""
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout1(x.flatten(1))
        x = self.dropout2(F.relu(self.fc1(x)))
        return self.fc2(x)


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Pictures and labels, a fifth of them to test with."""
    pictures, labels = load_digits(return_X_y=True)
    splits = train_test_split(pictures, labels, test_size=0.2, stratify=labels, random_state=0)
    x_train, x_test = (
        tensor.tensor(each, dtype=tensor.float32).view(-1, 1, 8, 8) / 16 for each in splits[:2]
    )
    y_train, y_test = (tensor.tensor(each) for each in splits[2:])
    return TensorDataset(x_train, y_train), TensorDataset(x_test, y_test)


def train(args, model, device, loader, optimizer, scheduler, scaler, epoch) -> list[float]:
    """One epoch. Returns the losses of its steps."""
    model.train()
    losses = []
    for x, y in tqdm(loader, f"epoch {epoch}", unit="batch", leave=False, disable=None):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        # The digits of a batch move by a point at most in either direction.
        row, column = tensor.randint(0, 3, (2,)).tolist()
        x = F.pad(x, (1, 1, 1, 1))[:, :, row : row + 8, column : column + 8]
        optimizer.zero_grad()
        with tensor.autocast(device.type, enabled=args.amp):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(loss.detach())
        if len(losses) == args.steps:
            break
    # Nothing waited for the device until here.
    return tensor.stack(losses).tolist()


@tensor.no_grad()
def test(model, device, loader) -> float:
    """Part of the test pictures that are read correctly."""
    model.eval()
    correct = sum((model(x.to(device)).argmax(1) == y.to(device)).sum() for x, y in loader)
    return correct.item() / len(loader.dataset)


def draw(path: Path, losses: list[list[float]], accuracies: list[float]) -> None:
    """Write the curves of loss and accuracy as a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    steps = [loss for epoch in losses for loss in epoch]
    ends = [len(epoch) * (number + 1) for number, epoch in enumerate(losses)]
    left.semilogy(range(1, len(steps) + 1), steps, linewidth=0.5, alpha=0.5, label="each step")
    left.semilogy(ends, [sum(epoch) / len(epoch) for epoch in losses], "o-", label="mean of an epoch")
    left.set(xlabel="step", ylabel="cross entropy", title="Training loss")
    left.legend()
    right.plot(range(1, len(accuracies) + 1), [100 * each for each in accuracies], "o-")
    right.set(xlabel="epoch", ylabel="%", title=f"Test accuracy: {accuracies[-1]:.2%} at the end")
    right.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", help="cpu, cuda or cuda:1 (default: the GPU when there is one)")
    parser.add_argument(
        "--simulate", action="store_true", help="simulate a GPU, look for races, and test on few pictures"
    )
    parser.add_argument("--epochs", type=int, help="default: 15; simulated, 1")
    parser.add_argument("--steps", type=int, help="at most so many in an epoch (default: all; simulated, 3)")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=4e-3, help="highest learning rate")
    parser.add_argument("--amp", action="store_true", help="compute in half precision where that is safe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="file to save to after each epoch")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--stop-after", type=int, help="stop after this epoch, as if interrupted")
    parser.add_argument("--plot", type=Path, default=Path("digits.png"))
    args = parser.parse_args()
    if args.resume and args.checkpoint is None:
        parser.error("--resume needs --checkpoint FILE")
    if args.simulate:
        drv.simulator.install(check="race")
        args.epochs, args.steps = args.epochs or 1, args.steps or 3
    args.epochs = args.epochs or 15
    args.device = args.device or ("cuda" if tensor.cuda.is_available() else "cpu")
    return args


def main() -> None:
    """Train, test after each epoch, and draw what happened."""
    args = arguments()
    device = tensor.device(args.device)
    tensor.manual_seed(args.seed)
    train_set, test_set = digits()
    if args.simulate:
        test_set = Subset(test_set, range(min(40, len(test_set))))
    order = tensor.Generator().manual_seed(args.seed)
    pinned = device.type == "cuda"
    loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=order, pin_memory=pinned)
    test_loader = DataLoader(test_set, 500, pin_memory=pinned)

    model = Net().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=args.lr)
    total_steps = args.epochs * min(len(loader), args.steps or len(loader))
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps)
    scaler = tensor.amp.GradScaler(device.type, enabled=args.amp and pinned)
    losses, accuracies = [], []

    if args.resume:
        state = tensor.load(args.checkpoint, map_location=device)
        for name, part in (
            ("model", model),
            ("optimizer", optimizer),
            ("scheduler", scheduler),
            ("scaler", scaler),
        ):
            part.load_state_dict(state[name])
        order.set_state(state["order"].cpu())
        tensor.set_rng_state(state["cpu"].cpu())
        if pinned:
            tensor.cuda.set_rng_state(state["cuda"].cpu(), device)
        losses, accuracies = state["losses"], state["accuracies"]

    for epoch in range(len(losses) + 1, (args.stop_after or args.epochs) + 1):
        start = time.perf_counter()
        losses.append(train(args, model, device, loader, optimizer, scheduler, scaler, epoch))
        seconds = time.perf_counter() - start
        accuracies.append(test(model, device, test_loader))
        count = min(len(train_set), args.batch_size * len(losses[-1]))
        print(
            f"epoch {epoch:2}: loss {sum(losses[-1]) / len(losses[-1]):.4f}, test accuracy {accuracies[-1]:.2%}, "
            f"{count / seconds:.0f} images/s on {device}"
        )
        if args.checkpoint is not None:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(),
                "order": order.get_state(),
                "cpu": tensor.get_rng_state(),
                "cuda": tensor.cuda.get_rng_state(device) if pinned else None,
                "losses": losses,
                "accuracies": accuracies,
            }
            tensor.save(state, args.checkpoint)
    draw(args.plot, losses, accuracies)
    print(f"curves written to {args.plot}")


if __name__ == "__main__":
    main()
