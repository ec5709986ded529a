"""timm: models by name, its optimizers, losses and schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.thinning import thinned

from .installed import DEVICES, needs, run
from .test_torchvision import theirs  # noqa: F401 - a fixture
from .training import losses, printed_by_pytorch, printed_here

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs("timm", "torchvision")

MODELS = {
    "resnet10t": ({}, 64),
    "vit_tiny_patch16_224": ({"img_size": 32, "depth": 2}, 32),
    "convnext_atto": ({}, 64),
    "efficientnet_b0": ({}, 64),
    "mixer_s32_224": ({"img_size": 64}, 64),
    "swin_tiny_patch4_window7_224": (
        {"img_size": 56, "depths": (1, 1, 1, 1), "window_size": 7, "drop_path_rate": 0.0},
        56,
    ),
}
#: Those that are run on the simulated device, too; torchvision's transformer is the short form.
SMALL = ("resnet10t", "vit_tiny_patch16_224", "mixer_s32_224")


def _program(model: str) -> str:
    options, size = MODELS[model]
    return f"import timm\ntrain(timm.create_model({model!r}, num_classes=5, **{options!r}), {size})\n"


@pytest.mark.parametrize("model", thinned(SMALL, lambda model: False))
def test_models_train_alike_on_both_devices(tmp_path: Path, model: str) -> None:
    on_cpu, on_gpu = (losses(printed_here(tmp_path, _program(model), device)) for device in DEVICES)
    assert len(on_cpu) == 2
    assert on_gpu == pytest.approx(on_cpu, rel=1e-2)


@pytest.mark.parity
@pytest.mark.parametrize("model", thinned(MODELS, lambda model: model == "vit_tiny_patch16_224"))
@pytest.mark.usefixtures("theirs")
def test_losses_are_pytorchs(tmp_path: Path, model: str) -> None:
    expected = losses(printed_by_pytorch(tmp_path, _program(model)))
    assert len(expected) == 2
    assert losses(printed_here(tmp_path, _program(model), "cpu")) == pytest.approx(expected, rel=1e-6)


def test_what_goes_with_training(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        import torch
        import timm
        from timm.data import create_transform, resolve_model_data_config
        from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
        from timm.optim import create_optimizer_v2
        from timm.scheduler import CosineLRScheduler
        from timm.utils import ModelEmaV2, accuracy

        model = timm.create_model("resnet10t", num_classes=4)
        optimizer = create_optimizer_v2(model, "adamw", lr=1e-2, weight_decay=0.05)
        x, y = torch.rand(2, 3, 32, 32), torch.tensor([1, 3])
        losses = []
        ema = ModelEmaV2(model, decay=0.5)
        for step in range(3):
            loss = LabelSmoothingCrossEntropy(0.1)(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2)
        schedule.step(1)
        assert optimizer.param_groups[0]["lr"] < 1e-2
        assert accuracy(model(x), y)[0] <= 100
        config = resolve_model_data_config(model)
        transform = create_transform(**config, is_training=False)
        from PIL import Image

        assert transform(Image.new("RGB", (300, 200))).shape == config["input_size"]
        features = timm.create_model("resnet10t", features_only=True)
        assert [tuple(each.shape[-2:]) for each in features(x)] == [(16, 16), (8, 8), (4, 4), (2, 2), (1, 1)]
        """,
    )
