"""A vision transformer whose patches are cut by rearranging, in the style of vit-pytorch."""

import os

import torch
from torch import nn
from torch.nn import Module, ModuleList

device = torch.device(os.environ.get("DEVICE", "cpu"))


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


class Patches(Module):
    """``b c (h p1) (w p2) -> b (h w) (p1 p2 c)``"""

    def __init__(self, height, width):
        super().__init__()
        self.p1, self.p2 = height, width

    def forward(self, img):
        b, c, hh, ww = img.shape
        h, w = hh // self.p1, ww // self.p2
        x = img.reshape(b, c, h, self.p1, w, self.p2)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(b, h * w, self.p1 * self.p2 * c)


class FeedForward(Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden_dim),
            nn.GELU(),
            nn.Dropout(0.0),
            nn.Linear(hidden_dim, dim),
        )

    def forward(self, x):
        return self.net(x)


class Attention(Module):
    def __init__(self, dim, heads, dim_head):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(0.0))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (
            t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3)
            for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        )
        attn = self.attend(torch.matmul(q, k.transpose(-1, -2)) * self.scale)
        out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.permute(0, 2, 1, 3).flatten(2))


class Transformer(Module):
    def __init__(self, dim, depth, heads, dim_head, mlp_dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.layers = ModuleList([])
        for _ in range(depth):
            self.layers.append(ModuleList([Attention(dim, heads, dim_head), FeedForward(dim, mlp_dim)]))

    def forward(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.norm(x)


class ViT(Module):
    def __init__(
        self, *, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim, channels=3, dim_head=8
    ):
        super().__init__()
        (image_height, image_width), (height, width) = pair(image_size), pair(patch_size)
        num_patches = (image_height // height) * (image_width // width)
        patch_dim = channels * height * width
        self.to_patch_embedding = nn.Sequential(
            Patches(height, width), nn.LayerNorm(patch_dim), nn.Linear(patch_dim, dim), nn.LayerNorm(dim)
        )
        self.cls_token = nn.Parameter(torch.randn(1, dim))
        self.pos_embedding = nn.Parameter(torch.randn(num_patches + 1, dim))
        self.transformer = Transformer(dim, depth, heads, dim_head, mlp_dim)
        self.to_latent = nn.Identity()
        self.mlp_head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = self.to_patch_embedding(img)
        cls_tokens = self.cls_token.expand(img.shape[0], -1, -1)
        x = torch.cat((cls_tokens, x), dim=1) + self.pos_embedding
        return self.mlp_head(self.to_latent(self.transformer(x)[:, 0]))


torch.manual_seed(0)
model = ViT(image_size=8, patch_size=4, num_classes=4, dim=16, depth=2, heads=2, mlp_dim=32)
with torch.no_grad():
    for number, p in enumerate(model.parameters()):
        if p.dim() > 1:
            wave = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (number + 1.3))
            p.copy_(0.3 * wave.reshape(p.shape))
    for m in model.modules():
        if isinstance(m, nn.Linear) and m.bias is not None:
            m.bias.zero_()
model.to(device)
labels = torch.arange(8, device=device) % 4
images = torch.cos(torch.arange(8 * 3 * 8 * 8, dtype=torch.float64)).float().reshape(8, 3, 8, 8).to(device)
images = images + labels.view(-1, 1, 1, 1)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
for epoch in range(3):
    optimizer.zero_grad()
    output = model(images)
    loss = criterion(output, labels)
    loss.backward()
    optimizer.step()
    scheduler.step()
    accuracy = (output.argmax(dim=1) == labels).float().mean()
    assert 0 <= accuracy.item() <= 1
    print(f"loss {loss.item():.6f}")
