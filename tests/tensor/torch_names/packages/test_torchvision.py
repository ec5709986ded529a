"""torchvision: its models, transforms and utilities, and its compiled operators, which are this library's."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.thinning import thinned

from .installed import DEVICES, needs, run
from .training import losses, printed_by_pytorch, printed_here

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs("torchvision")

MODELS = {
    "resnet18": "train(torchvision.models.resnet18(num_classes=5), 64)",
    "vit": """
        train(
            torchvision.models.VisionTransformer(
                image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=5
            ),
            32,
        )
    """,
    "mobilenet": """
        train(torchvision.models.mobilenet_v3_small(num_classes=5, dropout=0.0), 64)
    """,
}

TRANSFORMS = """
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.utils import make_grid

    image = (torch.arange(3 * 50 * 60) % 251).reshape(3, 50, 60).to(torch.uint8)
    pipeline = v2.Compose([
        v2.ToDtype(torch.float32, scale=True),
        v2.Resize((40, 44), antialias=True),
        v2.CenterCrop(32),
        v2.RandomHorizontalFlip(p=1.0),
        v2.Normalize([0.5] * 3, [0.25] * 3),
    ])
    boxes = tv_tensors.BoundingBoxes([[1, 2, 30, 40]], format="XYXY", canvas_size=(50, 60))
    out = pipeline({"image": tv_tensors.Image(image), "boxes": boxes, "label": 3})
    print(type(out["image"]).__name__, out["image"].shape, out["label"], out["boxes"])
    print(f"loss {out['image'].double().abs().sum().item():.2f}")
    for transform in (
        v2.Grayscale(3), v2.Pad(4), v2.GaussianBlur(5, 1.5), v2.RandomRotation((30, 30)),

        # Alone, as it changes colours in an order that chance decides.
        v2.ColorJitter(brightness=(1.2, 1.2)), v2.ColorJitter(contrast=(0.8, 0.8)),
        v2.ColorJitter(saturation=(1.1, 1.1)), v2.ColorJitter(hue=(0.1, 0.1)), v2.RandomInvert(1.0),
        v2.RandomAffine((10, 10), translate=(0, 0), scale=(1.1, 1.1)), v2.RandomPerspective(0.0, 1.0),
        v2.RandomPosterize(3, 1.0), v2.RandomSolarize(100, 1.0), v2.RandomAutocontrast(1.0), v2.RandomEqualize(1.0),
        v2.RandomAdjustSharpness(2.0, 1.0), v2.FiveCrop(20), v2.RandomErasing(0.0),
    ):
        x = transform(image)
        x = x[0] if isinstance(x, tuple) else x
        print(type(transform).__name__, x.shape, x.dtype)
        print(f"loss {x.double().sum().item():.1f}")
    print(torch.equal(v2.PILToTensor()(v2.ToPILImage()(image)), image))
    print(torchvision.ops.box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 3, 3]])))
    print(make_grid(torch.zeros(4, 3, 5, 5)).shape)
"""


@pytest.mark.parametrize("model", thinned(MODELS, lambda model: model == "vit"))
def test_models_train_alike_on_both_devices(tmp_path: Path, model: str) -> None:
    text = "import torchvision\n" + _dedented(MODELS[model])
    on_cpu, on_gpu = (losses(printed_here(tmp_path, text, device)) for device in DEVICES)
    assert len(on_cpu) == 2
    assert on_gpu == pytest.approx(on_cpu, rel=1e-2)


def test_features_are_extracted_by_tracing(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        import torch
        from torchvision.models import resnet18
        from torchvision.models.feature_extraction import create_feature_extractor

        features = create_feature_extractor(resnet18(), {"layer1": "first", "layer3.0.relu": "third"})
        shapes = {name: tuple(x.shape) for name, x in features(torch.zeros(1, 3, 64, 64)).items()}
        assert shapes == {"first": (1, 64, 16, 16), "third": (1, 256, 4, 4)}
        """,
    )


OPERATORS = """
    from torchvision import ops

    def wave(*shape, frequency=0.37):
        count = torch.Size(shape).numel()
        return torch.sin(torch.arange(count, dtype=torch.float64) * frequency).reshape(shape).to(device)

    def show(name, x):
        weights = torch.cos(torch.arange(x.numel(), dtype=torch.float64, device=device) * 0.3).reshape(x.shape)
        print(f"loss {(x * weights).sum().item():.6f} {name}")

    rois = torch.tensor(
        [[0, 1, 1, 11.3, 13.2], [1, -3, -2, 6, 5], [0, 4, 4, 4.2, 4.1], [0, 2.5, 3.5, 9.5, 10.5]], dtype=torch.float64, device=device
    )
    for name, pool in {
        "align": lambda x: ops.roi_align(x, rois, (3, 2), 0.5, 2, True),
        "pool": lambda x: ops.RoIPool((3, 2), 0.5)(x, rois),
        "sensitive align": lambda x: ops.ps_roi_align(x, rois, (3, 2), 0.5, 2),
        "sensitive pool": lambda x: ops.ps_roi_pool(x, rois, (3, 2), 0.5),
    }.items():
        x = wave(2, 12, 9, 9).requires_grad_()
        y = pool(x)
        show(name, y)
        (y**2).sum().backward()
        show(f"derivative of {name}", x.grad)

    x, weight, bias = (each.requires_grad_() for each in (wave(2, 12, 9, 7), wave(4, 6, 3, 2, frequency=0.11), wave(4)))
    offset, mask = (2 * wave(2, 36, 5, 8, frequency=1.7)).requires_grad_(), wave(2, 18, 5, 8, frequency=0.9).requires_grad_()
    y = ops.deform_conv2d(x, offset, weight, bias, stride=(2, 1), padding=(1, 1), mask=mask)
    show("convolution", y)
    (y**2).sum().backward()
    for each in (x, offset, weight, bias, mask):
        show("derivative", each.grad)

    corners = wave(150, 2, frequency=2.1) * 10
    boxes = torch.cat([corners, corners + wave(150, 2, frequency=3.3).abs() * 8 + 1], 1)
    scores = torch.round(wave(150, frequency=5.1) * 20)
    print(ops.nms(boxes, scores, 0.5).tolist())
    print(ops.batched_nms(boxes, scores, torch.arange(150, device=device) % 3, 0.3).tolist())
    with torch.autocast(device):
        print(ops.roi_align(wave(2, 3, 9, 9).half(), rois.half(), (3, 2), 0.5).dtype)
"""


def test_compiled_operators_are_ours(tmp_path: Path) -> None:
    on_cpu, on_gpu = (
        printed_here(tmp_path, "import torchvision\n" + _dedented(OPERATORS), device) for device in DEVICES
    )
    assert len(losses(on_cpu)) == 14
    assert losses(on_gpu) == pytest.approx(losses(on_cpu), abs=1e-5)
    assert [x for x in on_gpu if "loss" not in x][:3] == [x for x in on_cpu if "loss" not in x]


def _dedented(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[margin:] for line in lines)


@pytest.fixture
def theirs() -> Any:
    """PyTorch with the names of two operators that torchvision asks for, where its compiled half does not fit."""
    torch = pytest.importorskip("torch")
    with contextlib.suppress(RuntimeError):
        importlib.import_module("torchvision.extension")
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not torch._C._dispatch_has_kernel(f"torchvision::{name}"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    importlib.import_module("torchvision")
    return torch


# timm's transformer is the short form.
@pytest.mark.parity
@pytest.mark.parametrize("model", thinned(MODELS, lambda model: False))
def test_losses_are_pytorchs(tmp_path: Path, model: str, theirs: Any) -> None:
    text = "import torchvision\n" + _dedented(MODELS[model])
    expected = losses(printed_by_pytorch(tmp_path, text))
    assert len(expected) == 2
    assert losses(printed_here(tmp_path, text, "cpu")) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parity
def test_transforms_are_pytorchs(tmp_path: Path, theirs: Any) -> None:
    text = "import torchvision\n" + _dedented(TRANSFORMS)
    expected, ours = printed_by_pytorch(tmp_path, text), printed_here(tmp_path, text, "cpu")
    assert losses(ours) == pytest.approx(losses(expected), rel=1e-5)
    assert [x for x in ours if "loss" not in x] == [x for x in expected if "loss" not in x]


@pytest.mark.parity
def test_compiled_operators_are_torchvisions(tmp_path: Path, theirs: Any) -> None:
    if not importlib.import_module("torchvision.extension")._has_ops():
        pytest.skip("torchvision's compiled half does not fit this PyTorch")
    text = "import torchvision\n" + _dedented(OPERATORS)
    expected, ours = printed_by_pytorch(tmp_path, text), printed_here(tmp_path, text, "cpu")
    # The derivative of position-sensitive pooling leaves out the last row and column as its result does; torchvision's does not.
    same = [number for number, line in enumerate(expected) if "derivative of sensitive pool" not in line]
    assert losses([ours[k] for k in same]) == pytest.approx(losses([expected[k] for k in same]), abs=2e-6)
    assert [x for x in ours if "loss" not in x] == [x for x in expected if "loss" not in x]
