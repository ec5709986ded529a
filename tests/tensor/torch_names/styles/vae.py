"""A variational autoencoder, in the style of PyTorch's example."""

import os

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

device = torch.device(os.environ.get("DEVICE", "cpu"))
torch.manual_seed(1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(36, 16)
        self.fc21 = nn.Linear(16, 4)
        self.fc22 = nn.Linear(16, 4)
        self.fc3 = nn.Linear(4, 16)
        self.fc4 = nn.Linear(16, 36)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        # As random as a test allows: the same numbers in every library.
        eps = torch.sin(torch.arange(std.numel(), device=std.device, dtype=std.dtype)).view_as(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        image = torch.zeros(1, 6, 6)
        image[0, index % 3 : index % 3 + 3, index % 4 : index % 4 + 3] = 1
        return image, index % 3


model = VAE()
for number, p in enumerate(model.parameters()):
    wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (number + 1.3))
    p.data = (0.3 * wave).reshape(p.shape).float()
model = model.to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
train_loader = torch.utils.data.DataLoader(Squares(), batch_size=4, shuffle=False)
for epoch in range(3):
    model.train()
    train_loss = 0
    for data, _ in train_loader:
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"loss {train_loss / len(train_loader.dataset):.6f}")
model.eval()
with torch.no_grad():
    sample = model.decode(torch.ones(2, 4).to(device)).cpu()
    print(f"shape {tuple(sample.view(2, 1, 6, 6).shape)}")
