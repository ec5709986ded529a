"""Texts and states that users compare with PyTorch's: the same, with the names of these packages."""

from __future__ import annotations

import re
from typing import Any

import pytest

import nn
import nn.optim.lr_scheduler
import nn.utils.parametrizations
import tensor

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

VALUES = [
    "m.Size([1, 2])",
    "m.Size([1, 2]) + (3,)",
    "m.Size([1, 2])[1:]",
    "m.device('cuda:0')",
    "m.device('cuda')",
    "str(m.device('cuda:1'))",
    "m.device(type='cuda', index=1)",
    "m.float32",
    "m.bool",
    "m.complex64",
    "str(m.int8)",
    "m.finfo(m.float32)",
    "m.finfo(m.float16)",
    "m.finfo(m.float64)",
    "m.finfo(m.bfloat16)",
    "m.finfo(m.complex64)",
    "m.finfo()",
    "m.finfo(m.float32).dtype",
    "m.iinfo(m.int8)",
    "m.iinfo(m.uint8)",
    "m.Generator().device",
    "m.channels_last",
    "m.contiguous_format",
    "m.strided",
    "m.ones(2).layout",
    "nn.Parameter(m.ones(2))",
    "nn.Parameter(m.ones(2), requires_grad=False)",
    "nn.ParameterDict({'a': nn.Parameter(m.ones(2, 3))})",
    "m.tensor([1.0, 2.0], requires_grad=True) * 2",
    "m.tensor(1.0, requires_grad=True)",
    "m.ones(2).grad_fn",
    "m.ones(2).stride()",
    "m.typename(m.ones(2))",
    "m.ones(2).type()",
    "m.ones(2).half().type()",
    "m.get_default_dtype()",
    "m.return_types.max",
    "m.tensor([])",
    "m.tensor([[]])",
    "m.empty(0, 3)",
    "m.zeros(2) == 0",
    "m.amp.GradScaler('cpu').state_dict()",
]
MODULES = [
    "Linear(2,3)",
    "Linear(2,3,bias=False)",
    "Bilinear(1,2,3)",
    "Identity()",
    "Conv1d(2,4,3)",
    "Conv2d(2,4,3,stride=2,padding=1,dilation=2,groups=2,bias=False,padding_mode='circular')",
    "Conv2d(2,4,3,padding='same')",
    "Conv3d(1,1,2)",
    "ConvTranspose2d(2,4,3,output_padding=1,stride=2)",
    "MaxPool2d(2,ceil_mode=True)",
    "MaxPool1d(2)",
    "MaxUnpool2d(2)",
    "AvgPool2d(2)",
    "AvgPool1d(2)",
    "LPPool2d(2,2)",
    "AdaptiveAvgPool2d((1,None))",
    "AdaptiveMaxPool1d(2)",
    "FractionalMaxPool2d(2,output_ratio=.5)",
    "ReLU()",
    "ReLU(inplace=True)",
    "ReLU6()",
    "LeakyReLU(.1)",
    "PReLU()",
    "ELU()",
    "SELU()",
    "CELU()",
    "GELU()",
    "GELU('tanh')",
    "SiLU()",
    "Mish()",
    "Sigmoid()",
    "Tanh()",
    "Softmax(1)",
    "Softmax()",
    "LogSoftmax(0)",
    "Softmin(1)",
    "Softmax2d()",
    "Softplus()",
    "Softshrink()",
    "Hardshrink()",
    "Hardtanh(-2,2)",
    "Hardsigmoid()",
    "Hardswish()",
    "Threshold(1,2)",
    "Tanhshrink()",
    "GLU()",
    "RReLU()",
    "LogSigmoid()",
    "Softsign()",
    "BatchNorm1d(3)",
    "BatchNorm2d(3,affine=False,track_running_stats=False)",
    "LayerNorm((2,3))",
    "LayerNorm(3,elementwise_affine=False)",
    "GroupNorm(1,2)",
    "InstanceNorm2d(3)",
    "RMSNorm(3)",
    "LocalResponseNorm(2)",
    "Dropout()",
    "Dropout2d(.2,True)",
    "AlphaDropout()",
    "FeatureAlphaDropout()",
    "Embedding(3,2)",
    "Embedding(3,2,padding_idx=0,max_norm=1.)",
    "EmbeddingBag(3,2,mode='sum')",
    "LSTM(2,3)",
    "LSTM(2,3,num_layers=2,bidirectional=True,batch_first=True,dropout=.1,proj_size=1)",
    "GRU(2,3,bias=False)",
    "RNN(2,3,nonlinearity='relu')",
    "LSTMCell(2,3)",
    "GRUCell(2,3)",
    "RNNCell(2,3)",
    "RNNCell(2,3,nonlinearity='relu',bias=False)",
    "Sequential(N.Linear(1,2),N.ReLU())",
    "ModuleList([N.Linear(1,2),N.Linear(1,2),N.ReLU()])",
    "ModuleDict({'a':N.ReLU()})",
    "MSELoss()",
    "CrossEntropyLoss()",
    "NLLLoss()",
    "BCELoss()",
    "BCEWithLogitsLoss()",
    "KLDivLoss()",
    "HuberLoss()",
    "SmoothL1Loss()",
    "CTCLoss()",
    "TripletMarginLoss()",
    "MarginRankingLoss()",
    "CosineEmbeddingLoss()",
    "PoissonNLLLoss()",
    "GaussianNLLLoss()",
    "Flatten()",
    "Unflatten(1,(2,2))",
    "Upsample(scale_factor=2)",
    "Upsample(size=(2,2),mode='bilinear')",
    "UpsamplingNearest2d(scale_factor=2)",
    "PixelShuffle(2)",
    "PixelUnshuffle(2)",
    "ChannelShuffle(2)",
    "ZeroPad2d(1)",
    "ConstantPad1d(1,2.)",
    "ReflectionPad2d(1)",
    "ReplicationPad3d(1)",
    "CircularPad2d(1)",
    "Fold(2,2)",
    "Unfold(2)",
    "CosineSimilarity()",
    "PairwiseDistance()",
    "AdaptiveLogSoftmaxWithLoss(4,10,[2,5])",
    "LazyLinear(3)",
    "LazyConv2d(2,3)",
    "LazyBatchNorm1d()",
    "utils.parametrizations.weight_norm(N.Linear(1,2))",
    "utils.spectral_norm(N.Linear(1,2))",
    "CrossMapLRN2d(2)",
    "ParameterList([N.Parameter(m.ones(1,2))])",
]
OPTIMIZERS = ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "RMSprop", "NAdam", "RAdam", "LBFGS"]
SCHEDULERS = [
    "StepLR(o, 2)",
    "MultiStepLR(o, [1, 2])",
    "ExponentialLR(o, 0.9)",
    "CosineAnnealingLR(o, 3)",
    "CosineAnnealingWarmRestarts(o, 3)",
    "ConstantLR(o)",
    "LinearLR(o)",
    "PolynomialLR(o)",
    "LambdaLR(o, lambda _: 1)",
    "MultiplicativeLR(o, lambda _: 1)",
    "ReduceLROnPlateau(o)",
    "OneCycleLR(o, 0.1, 10)",
    "CyclicLR(o, 0.1, 0.2)",
    "SequentialLR(o, [L.ConstantLR(o), L.ExponentialLR(o, 0.9)], [2])",
    "ChainedScheduler([L.ConstantLR(o), L.ExponentialLR(o, 0.9)])",
]


def _ours(text: str) -> str:
    """A text of PyTorch's with our names, and without addresses."""
    text = text.replace("torch.nn.", "nn.").replace("torch.", "tensor.").replace("'torch'", "'tensor'")
    return re.sub(r"0x[0-9a-f]+", "0x", text)


@pytest.mark.parametrize("text", VALUES)
def test_values(text: str) -> None:
    import torch

    result, expected = (repr(eval(text, {"m": m, "nn": n})) for m, n in ((tensor, nn), (torch, torch.nn)))
    assert re.sub(r"0x[0-9a-f]+", "0x", result) == _ours(expected)


@pytest.mark.parametrize("text", MODULES)
def test_modules(text: str) -> None:
    import torch

    assert repr(eval(f"N.{text}", {"N": nn, "m": tensor})) == _ours(
        repr(eval(f"N.{text}", {"N": torch.nn, "m": torch}))
    )


def _optimizer(library: Any, name: str, **options: Any) -> Any:
    space = library.nn if library.__name__ == "torch" else nn
    optim = library.optim if library.__name__ == "torch" else nn.optim
    return getattr(optim, name)([space.Parameter(library.ones(2))], lr=0.1, **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    import torch

    result, expected = _optimizer(tensor, name), _optimizer(torch, name)
    assert repr(result) == repr(expected)
    assert repr(result.state_dict()) == repr(expected.state_dict())
    assert result.defaults == expected.defaults


@pytest.mark.parametrize("text", SCHEDULERS)
def test_states_of_schedulers(text: str) -> None:
    import torch

    states = []
    for library, schedulers in ((tensor, nn.optim.lr_scheduler), (torch, torch.optim.lr_scheduler)):
        names = {"L": schedulers, "o": _optimizer(library, "SGD", momentum=0.9)}
        state = eval(f"L.{text}", names).state_dict()
        states.append(_ours(repr({key: state[key] for key in sorted(state)})))
    assert states[0] == states[1]
