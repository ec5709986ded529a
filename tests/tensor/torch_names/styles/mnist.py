"""A convolutional network for digits with arguments, a test loop and a checkpoint, in the style of PyTorch's MNIST."""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(128, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, train_loader, optimizer):
    model.train()
    total = 0.0
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"loss {total / len(train_loader):.6f}")


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    return test_loss / len(test_loader.dataset), correct


def digits(count):
    labels = torch.arange(count) % 10
    pixels = torch.arange(144, dtype=torch.float64).view(1, 1, 12, 12)
    images = torch.sin(pixels * (labels.view(-1, 1, 1, 1) + 1) / 7).float()
    return torch.utils.data.TensorDataset((images - images.mean()) / images.std(), labels)


def main():
    parser = argparse.ArgumentParser(description="Digits")
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--save-model", action="store_true", default=True)
    args = parser.parse_args([])
    torch.manual_seed(1)
    device = torch.device(os.environ.get("DEVICE", "cpu"))
    train_loader = torch.utils.data.DataLoader(digits(20), batch_size=args.batch_size)
    test_loader = torch.utils.data.DataLoader(digits(10), batch_size=args.batch_size)
    model = Net()
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (number + 1.3))
            p.copy_(0.3 * wave.reshape(p.shape))
    model = model.to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for _ in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer)
        before = test(model, device, test_loader)
        scheduler.step()
    if args.save_model:
        torch.save(model.state_dict(), "mnist_cnn.pt")
        again = Net().to(device)
        again.load_state_dict(torch.load("mnist_cnn.pt", weights_only=True, map_location=device))
        assert test(again, device, test_loader) == before


if __name__ == "__main__":
    main()
