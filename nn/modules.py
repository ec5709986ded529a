"""The classes of :mod:`nn` once more, by the names of ``torch.nn.modules`` and its submodules.

Programs name them there for ``isinstance``, and import base classes from them: ``nn.modules.batchnorm._BatchNorm`` is
what all batch normalizations are, ``nn.modules.conv._ConvNd`` what all convolutions are. Each submodule can be imported
(``from nn.modules.utils import _pair``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import repeat
from types import ModuleType
from typing import TYPE_CHECKING, Any

import nn
from tensor.core.names.absent import missing as _missing

from .layers.dropout import _Dropout
from .layers.losses import _Loss, _WeightedLoss
from .layers.normalization import _BatchNorm, _InstanceNorm, _Norm
from .layers.spatial.convolution import _Convolution, _Transposed
from .layers.spatial.pooling import (
    _AdaptiveAvgPool,
    _AdaptiveMaxPool,
    _AvgPool,
    _LPPool,
    _MaxPool,
    _MaxUnpool,
)
from .module import LazyModuleMixin, hooks
from .module.state import consume_prefix_in_state_dict_if_present

if TYPE_CHECKING:
    from collections.abc import Callable

#: Submodules, and the public classes that PyTorch defines in them.
_CLASSES = {
    "activation": "Threshold ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU GLU GELU Hardshrink LeakyReLU LogSigmoid Softplus Softshrink MultiheadAttention PReLU Softsign Tanhshrink Softmin Softmax Softmax2d LogSoftmax",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm",
    "channelshuffle": "ChannelShuffle",
    "container": "Sequential ModuleList ModuleDict ParameterList ParameterDict",
    "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d",
    "distance": "PairwiseDistance CosineSimilarity",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d",
    "lazy": "",
    "linear": "Identity Linear Bilinear LazyLinear",
    "loss": "L1Loss NLLLoss NLLLoss2d PoissonNLLLoss GaussianNLLLoss KLDivLoss MSELoss BCELoss BCEWithLogitsLoss HingeEmbeddingLoss MultiLabelMarginLoss SmoothL1Loss HuberLoss SoftMarginLoss CrossEntropyLoss MultiLabelSoftMarginLoss CosineEmbeddingLoss MarginRankingLoss MultiMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss CTCLoss",
    "module": "Module",
    "normalization": "LocalResponseNorm CrossMapLRN2d LayerNorm GroupNorm RMSNorm",
    "padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "pooling": "MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d",
    "rnn": "RNNBase RNN LSTM GRU RNNCellBase RNNCell LSTMCell GRUCell",
    "sparse": "Embedding EmbeddingBag",
    "transformer": "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer",
    "upsampling": "Upsample UpsamplingNearest2d UpsamplingBilinear2d",
    "utils": "",
}


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number ``n`` times, and makes a tuple of what is a sequence already."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """The entries of ``t`` from the last to the first, each ``n`` times: the order of padding."""
    return tuple(x for x in reversed(t) for _ in range(n))


#: What else programs import from the submodules: base classes for ``isinstance``, and ways to repeat numbers.
_OTHERS: dict[str, dict[str, Any]] = {
    "batchnorm": {"_BatchNorm": _BatchNorm, "_NormBase": _Norm},
    "conv": {"_ConvNd": _Convolution, "_ConvTransposeNd": _Transposed},
    "dropout": {"_DropoutNd": _Dropout},
    "instancenorm": {"_InstanceNorm": _InstanceNorm},
    "lazy": {"LazyModuleMixin": LazyModuleMixin},
    "loss": {"_Loss": _Loss, "_WeightedLoss": _WeightedLoss},
    "module": {name: getattr(hooks, name) for name in hooks.__all__ if name.startswith("register_module_")},
    "pooling": {
        "_AdaptiveAvgPoolNd": _AdaptiveAvgPool,
        "_AdaptiveMaxPoolNd": _AdaptiveMaxPool,
        "_AvgPoolNd": _AvgPool,
        "_LPPoolNd": _LPPool,
        "_MaxPoolNd": _MaxPool,
        "_MaxUnpoolNd": _MaxUnpool,
    },
    "utils": {
        "_ntuple": _ntuple,
        "_pair": _ntuple(2, "_pair"),
        "_quadruple": _ntuple(4, "_quadruple"),
        "_reverse_repeat_tuple": _reverse_repeat_tuple,
        "_single": _ntuple(1, "_single"),
        "_triple": _ntuple(3, "_triple"),
        "consume_prefix_in_state_dict_if_present": consume_prefix_in_state_dict_if_present,
    },
}

__all__ = sorted(name for names in _CLASSES.values() for name in names.split())


class _Submodule(ModuleType):
    """A submodule, whose classes are those of :mod:`nn`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{__name__}.{name}", f"The classes of ``torch.nn.modules.{name}``.")
        self.__all__ = _CLASSES[name].split()
        vars(self).update(_OTHERS.get(name, {}))

    def __getattr__(self, name: str) -> Any:
        if name in self.__all__:
            return getattr(nn, name)
        raise _missing(self.__name__, name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self.__all__})


for _name in _CLASSES:
    # An import of a submodule finds it there.
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _Submodule(_name)

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return getattr(nn, name)
        raise _missing(__name__, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
