"""A generator and a discriminator that train against each other, in the style of PyTorch's DCGAN."""

import os

import torch
import torch.nn as nn
import torch.optim as optim
import torch.utils.data

device = torch.device(os.environ.get("DEVICE", "cpu"))
nz, ngf, ndf, nc = 6, 4, 4, 1


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        wave = torch.sin(torch.arange(m.weight.numel(), dtype=torch.float64) * 1.7)
        m.weight.data.copy_(0.2 * wave.reshape(m.weight.shape))
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.ones_(m.weight)
        torch.nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


torch.manual_seed(2)
netG, netD = Generator().to(device), Discriminator().to(device)
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
batch = 4
real_label, fake_label = 1.0, 0.0
optimizerD = optim.Adam(netD.parameters(), lr=0.01, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.01, betas=(0.5, 0.999))
ramp = torch.linspace(-1, 1, 16)
real = (ramp.view(1, 1, 16, 1) * ramp).expand(batch, nc, 16, 16).contiguous().to(device)
for step in range(3):
    # Real images, then images of the generator.
    netD.zero_grad()
    label = torch.full((batch,), real_label, dtype=real.dtype, device=device)
    errD_real = criterion(netD(real), label)
    errD_real.backward()
    angles = torch.arange(batch * nz, dtype=torch.float64) * (step + 1)
    noise = torch.cos(angles).float().reshape(batch, nz, 1, 1).to(device)
    fake = netG(noise)
    label.fill_(fake_label)
    errD_fake = criterion(netD(fake.detach()), label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()
    netG.zero_grad()
    label.fill_(real_label)
    errG = criterion(netD(fake), label)
    errG.backward()
    optimizerG.step()
    assert errG.item() > 0
    print(f"loss {errD.item():.6f}")
