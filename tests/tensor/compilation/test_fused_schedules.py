"""Fused kernels race with nothing, in whatever order streams and threads run, and read nothing that is not there yet."""

from __future__ import annotations

import nn
import tensor
from nn import functional


def test_a_training_step_of_channels_and_a_loss_of_elements(schedule: None) -> None:
    """Moments with running averages, chains of channels, a loss with what is before and after it."""
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    reference = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).cuda()
    reference.load_state_dict(model.state_dict())

    def loss_of(model: nn.Module, x: tensor.Tensor, target: tensor.Tensor) -> tensor.Tensor:
        return functional.mse_loss(model(x) * 0.5, target + 1).sqrt() * 3

    compiled = tensor.compile(loss_of, fullgraph=True)
    losses = []
    for each, function in ((model, compiled), (reference, loss_of)):
        tensor.manual_seed(3)
        optimizer = nn.optim.SGD(each.parameters(), lr=0.1)
        for _ in range(3):
            x, target = (tensor.randn(40, size, device="cuda") for size in (6, 3))
            optimizer.zero_grad()
            loss = function(each, x, target)
            loss.backward()
            optimizer.step()
        losses.append(loss)
    tensor.testing.assert_close(*losses)
    for one, other in zip(model.state_dict().values(), reference.state_dict().values(), strict=True):
        tensor.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
