"""torchmetrics: metrics are modules whose states are our tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .installed import needs, on_devices, run

if TYPE_CHECKING:
    from pathlib import Path


@needs("torchmetrics")
@on_devices
def test_metrics(tmp_path: Path, device: str) -> None:
    run(
        tmp_path,
        """
        import pickle
        import torch
        import torchmetrics

        accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3).to(device)
        assert isinstance(accuracy, torch.nn.Module)
        scores = torch.tensor([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1]], device=device)
        accuracy(scores, torch.tensor([1, 2], device=device))
        assert accuracy.compute() == 0.5
        assert pickle.loads(pickle.dumps(accuracy)).compute() == 0.5
        accuracy.reset()

        counts = torchmetrics.ConfusionMatrix(task="multiclass", num_classes=3).to(device)
        counts.update(torch.tensor([0, 1, 1], device=device), torch.tensor([0, 2, 1], device=device))
        assert counts.compute().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]

        both = torchmetrics.MetricCollection([torchmetrics.MeanAbsoluteError(), torchmetrics.MeanSquaredError()])
        both.to(device).update(torch.full((4,), 3.0, device=device), torch.zeros(4, device=device))
        assert {name: value.item() for name, value in both.compute().items()} == {
            "MeanAbsoluteError": 3.0,
            "MeanSquaredError": 9.0,
        }
        curve = torchmetrics.AUROC(task="binary").to(device)
        assert curve(torch.tensor([0.1, 0.4, 0.8], device=device), torch.tensor([0, 1, 1], device=device)) == 1
        """,
        device,
    )
