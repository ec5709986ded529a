"""Every module is there with an example, whose derivatives by inputs and parameters are those of differences."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn.utils.stateless import functional_call
from tensor.autograd import gradcheck

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bases, containers, and what is checked as something else: a lazy module becomes the one without ``Lazy``.
LEFT_OUT = {
    "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase", "RNNCellBase",
    *(name for name in nn.__all__ if name.startswith("Lazy")),
}  # fmt: skip


def real(*shape: int) -> tensor.Tensor:
    return tensor.randn(shape, dtype=tensor.float64)


def part(*shape: int) -> tensor.Tensor:
    """Numbers between 0 and 1."""
    return tensor.rand(shape, dtype=tensor.float64) * 0.8 + 0.1


def apart(*shape: int) -> tensor.Tensor:
    """Numbers of which no two are close, and none is close to a kink."""
    count = tensor.Size(shape).numel()
    return ((tensor.randperm(count) - count // 2).double() * 0.3 + 0.13).reshape(shape)


def labels(classes: int, *shape: int) -> tensor.Tensor:
    return tensor.randint(0, classes, shape)


def signs(*shape: int) -> tensor.Tensor:
    return labels(2, *shape).double() * 2 - 1


def unpooling(kind: str, *shape: int) -> tuple[tensor.Tensor, tensor.Tensor]:
    """A pooled tensor, and where its elements were."""
    return getattr(nn, f"MaxPool{kind}")(2, return_indices=True)(apart(*shape))


class OfScores(nn.CTCLoss):
    """The loss of normalised scores: for others its derivative is not meant, in PyTorch as here."""

    def forward(self, scores: tensor.Tensor, *others: tensor.Tensor) -> tensor.Tensor:
        return super().forward(scores.log_softmax(2), *others)


LINE, PLANE, SPACE = (2, 4, 6), (2, 4, 4, 6), (1, 2, 4, 4, 4)
SHAPES = {"1d": LINE, "2d": PLANE, "3d": SPACE}

#: By name: how to make the module, and its inputs.
EXAMPLES: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]]]] = {}


def example(name: str, inputs: Callable[[], Any], *args: Any, **named: Any) -> None:
    def given() -> tuple[Any, ...]:
        result = inputs()
        return result if isinstance(result, tuple) else (result,)

    EXAMPLES[name] = partial(getattr(nn, name), *args, **named), given


ELEMENTWISE = """
    CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU RReLU
    ReLU ReLU6 SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Dropout AlphaDropout Flatten
"""
for name in ELEMENTWISE.split():
    example(name, partial(apart, 3, 4))
example("Threshold", partial(apart, 3, 4), 0.1, 20.0)
for name in ("LogSoftmax", "Softmax", "Softmin"):
    example(name, partial(real, 3, 4), dim=1)
example("Softmax2d", partial(real, 2, 3, 2, 2))
example("Unflatten", partial(real, 2, 6), 1, (2, 3))
example("Dropout1d", partial(real, *LINE))
example("Dropout2d", partial(real, *PLANE))
example("Dropout3d", partial(real, *SPACE))
example("FeatureAlphaDropout", partial(real, *PLANE))
for kind, shape in SHAPES.items():
    channels = shape[1]
    sides = int(kind[0]) * 2
    example(f"Conv{kind}", partial(real, *shape), channels, 2, 3, padding=1, stride=2)
    example(f"ConvTranspose{kind}", partial(real, *shape), channels, 2, 3, padding=1, stride=2)
    example(f"BatchNorm{kind}", partial(real, *shape), channels)
    example(f"InstanceNorm{kind}", partial(real, *shape), channels, affine=True)
    example(f"AvgPool{kind}", partial(real, *shape), 2)
    example(f"MaxPool{kind}", partial(apart, *shape), 2)
    example(f"LPPool{kind}", partial(part, *shape), 3, 2)
    example(f"AdaptiveAvgPool{kind}", partial(real, *shape), 3)
    example(f"AdaptiveMaxPool{kind}", partial(apart, *shape), 3)
    example(f"MaxUnpool{kind}", partial(unpooling, kind, *shape), 2)
    for pad in ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad"):
        example(f"{pad}{kind}", partial(real, *shape), (1, 2) * (sides // 2))
    example(f"ConstantPad{kind}", partial(real, *shape), (1, 2) * (sides // 2), 3.0)
example("FractionalMaxPool2d", partial(apart, *PLANE), 2, output_size=2)
example("FractionalMaxPool3d", partial(apart, *SPACE), 2, output_size=2)
example("GroupNorm", partial(real, *LINE), 2, 4)
example("LayerNorm", partial(real, *LINE), (4, 6))
example("RMSNorm", partial(real, *LINE), 6)
example("LocalResponseNorm", partial(real, *PLANE), 3)
example("CrossMapLRN2d", partial(real, *PLANE), 3)
example("Linear", partial(real, 3, 4), 4, 2)
example("Bilinear", lambda: (real(3, 4), real(3, 2)), 4, 2, 3)
example("Embedding", partial(labels, 5, 2, 3), 5, 3)
example("EmbeddingBag", partial(labels, 5, 2, 3), 5, 3)
example("Fold", partial(real, 1, 8, 4), (3, 3), 2)
example("Unfold", partial(real, 1, 2, 3, 3), 2)
example("PixelShuffle", partial(real, 1, 8, 2, 2), 2)
example("PixelUnshuffle", partial(real, 1, 2, 4, 4), 2)
example("ChannelShuffle", partial(real, 1, 4, 2, 2), 2)
example("Upsample", partial(real, *PLANE), scale_factor=1.5, mode="bicubic")
example("UpsamplingBilinear2d", partial(real, *PLANE), scale_factor=2)
example("UpsamplingNearest2d", partial(real, *PLANE), scale_factor=2)
example("CosineSimilarity", lambda: (real(3, 4), real(3, 4)))
example("PairwiseDistance", lambda: (real(3, 4), real(3, 4)))
for name in ("GRU", "LSTM", "RNN"):
    example(name, partial(real, 3, 2, 4), 4, 2, num_layers=2, bidirectional=True)
    example(f"{name}Cell", partial(real, 3, 4), 4, 2)
example("MultiheadAttention", lambda: (real(3, 2, 4), real(5, 2, 4), real(5, 2, 4)), 4, 2)
example("TransformerEncoderLayer", partial(real, 3, 1, 4), 4, 2, 4, dropout=0.0)
example("TransformerDecoderLayer", lambda: (real(3, 1, 4), real(2, 1, 4)), 4, 2, 4, dropout=0.0)
example("Transformer", lambda: (real(2, 1, 4), real(3, 1, 4)), 4, 2, 1, 1, 4, dropout=0.0)
EXAMPLES["TransformerEncoder"] = (
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0), 2),
    lambda: (real(3, 1, 4),),
)
EXAMPLES["TransformerDecoder"] = (
    lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 4, dropout=0.0), 2),
    lambda: (real(3, 1, 4), real(2, 1, 4)),
)
EXAMPLES["Sequential"] = (
    lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)),
    lambda: (real(3, 4),),
)
for name in ("HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss"):
    example(name, lambda: (apart(3, 4), apart(3, 4) + 0.05))
example("AdaptiveLogSoftmaxWithLoss", lambda: (real(4, 6), labels(6, 4)), 6, 6, [2, 4])
example("BCELoss", lambda: (part(3, 4), part(3, 4)))
example("BCEWithLogitsLoss", lambda: (real(3, 4), part(3, 4)))
EXAMPLES["CTCLoss"] = (
    OfScores,
    lambda: (real(6, 2, 4), labels(3, 2, 2) + 1, tensor.tensor([6, 5]), tensor.tensor([2, 2])),
)
example("CosineEmbeddingLoss", lambda: (real(3, 4), real(3, 4), signs(3)))
example("CrossEntropyLoss", lambda: (real(3, 4), labels(4, 3)), label_smoothing=0.1)
example("GaussianNLLLoss", lambda: (real(3, 4), real(3, 4), part(3, 4)))
example("HingeEmbeddingLoss", lambda: (apart(3, 4), signs(3, 4)))
example("KLDivLoss", lambda: (real(3, 4).log_softmax(1), part(3, 4)), reduction="batchmean")
example("MarginRankingLoss", lambda: (apart(5), apart(5) + 0.05, signs(5)))
example("MultiLabelMarginLoss", lambda: (apart(2, 4), tensor.tensor([[3, 0, -1, 1], [1, -1, 2, 0]])))
example("MultiLabelSoftMarginLoss", lambda: (real(3, 4), labels(2, 3, 4).double()))
example("MultiMarginLoss", lambda: (apart(3, 4), labels(4, 3)))
example("NLLLoss", lambda: (real(3, 4).log_softmax(1), labels(4, 3)))
example("NLLLoss2d", lambda: (real(2, 3, 2, 2).log_softmax(1), labels(3, 2, 2, 2)))
example("PoissonNLLLoss", lambda: (real(3, 4), part(3, 4)), full=True)
example("SoftMarginLoss", lambda: (real(3, 4), signs(3, 4)))
example("TripletMarginLoss", lambda: (real(3, 4), real(3, 4), real(3, 4)))
example("TripletMarginWithDistanceLoss", lambda: (real(3, 4), real(3, 4), real(3, 4)))


def test_there_is_an_example_of_every_module() -> None:
    modules = {
        name
        for name in nn.__all__
        if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    }
    assert modules - LEFT_OUT == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_derivatives(name: str) -> None:
    tensor.manual_seed(0)
    make, inputs = EXAMPLES[name]
    module = make().double()
    argument = inputs()
    # What is not wanted by differences: indices, lengths, labels, targets that take no gradient.
    expected = [
        x.dtype.is_floating_point and (number == 0 or "Loss" not in name) for number, x in enumerate(argument)
    ]
    leaves = [x.detach().requires_grad_() for x, want in zip(argument, expected, strict=True) if want]
    parameters = dict(module.named_parameters())

    def call(*values: tensor.Tensor) -> Any:
        # The same elements are dropped, and the same windows drawn, in each call.
        tensor.manual_seed(1)
        each = iter(values)
        arguments = tuple(next(each) if want else x for x, want in zip(argument, expected, strict=True))
        result = functional_call(module, dict(zip(parameters, each, strict=True)), arguments)
        return tuple(x for x in flat(result) if x.requires_grad)

    values = (*leaves, *parameters.values())
    # With many numbers one direction instead of each.
    assert gradcheck(call, values, fast_mode=sum(x.numel() for x in values) > 200)


def flat(found: Any) -> list[tensor.Tensor]:
    if isinstance(found, tensor.Tensor):
        return [found]
    return [x for each in found if each is not None for x in flat(each)]
