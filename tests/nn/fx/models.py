"""Models that are traced by this library and by PyTorch, from the text of one program."""

PROGRAM = """
import copy
import math
import pickle
import torch
import torch.nn.functional as F
from torch import fx, nn

@fx.wrap
def leaf(x, n):
    return x if n > 1 else -x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0, 1, 12).reshape(3, 4))
        self.register_buffer("shift", torch.ones(3, 4))
        self.linear = nn.Linear(4, 5)
        self.activation = F.relu
        self.body = nn.Sequential(nn.Linear(5, 5), nn.Tanh())
        with torch.no_grad():
            for each in (self.linear, self.body[0]):
                each.weight.copy_(torch.linspace(-1, 1, each.weight.numel()).reshape(each.weight.shape))
                each.bias.fill_(0.25)

    def forward(self, x: torch.Tensor, y=2, *, unused=None):
        z = self.activation(self.linear(x + self.scale) * y, inplace=True)
        z = self.body(torch.relu(z).clamp(min=0.0, max=1.0))
        z = z.view(z.shape[0], -1) + self.shift.sum() + torch.ones(1)
        z = F.relu(z, inplace=True)[:, 1:]
        first, second = z.split(2, dim=1)
        torch._assert(z.dim() == 2, "a matrix")
        joined = torch.cat([z, -z], dim=-1).to(torch.float64)
        normal = torch.ones(4).mul(z) ** 2 + math.sqrt(z.size(0))
        return {"joined": joined, "normal": leaf(normal, 2), "product": first @ second.t(), "infinite": float("inf")}

model = Model()
traced = fx.symbolic_trace(model)
x = torch.linspace(-1, 1, 12).reshape(3, 4)
"""
