"""Models of the suite ``compiled``: what makes a step of training of each, at the sizes that its figures are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nn
import tensor
from nn import functional
from tensor.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Training:
    """A model with its optimizer, and a batch.

    Attributes
    ----------
    optimizer : nn.optim.Optimizer
        Of the model's parameters.
    loss : callable
        ``loss(*batch)`` is a scalar.
    batch : tuple of Tensor
        Inputs and targets.
    """

    optimizer: Any
    loss: Callable[..., Any]
    batch: tuple[Any, ...]

    def step_of(self, function: Callable[..., Any]) -> Callable[..., None]:
        """What does a step of training by ``function``, in place of :attr:`loss`, on a batch."""

        def step(*batch: Any) -> None:
            self.optimizer.zero_grad()
            function(*batch).backward()
            self.optimizer.step()

        return step


class _Attention(nn.Module):
    """A block of a transformer: attention over a sequence, then a perceptron for each of its elements."""

    def __init__(self, width: int, heads: int, *, causal: bool, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.joint, self.output = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.norm2, self.hidden, self.back = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        count, length, width = x.shape
        joint = self.joint(self.norm1(x)).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = joint.permute(2, 0, 3, 1, 4).unbind(0)
        result = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.drop(self.output(result.transpose(1, 2).reshape(x.shape)))
        return x + self.drop(self.back(functional.gelu(self.hidden(self.norm2(x)))))


class GPT(nn.Module):
    """A language model: ``(N, length)`` numbers of tokens to ``(N, length, vocabulary)`` scores.

    Parameters
    ----------
    layers, width, heads, length, vocabulary : int
        Blocks, elements of a token, heads of attention, tokens of a sequence at most, and how many different ones.
    dropout : float
        The share of elements that blocks drop.
    checkpointed : bool
        Whether blocks keep their inputs alone, and compute once more in the backward pass.
    """

    def __init__(
        self,
        layers: int = 6,
        width: int = 384,
        heads: int = 6,
        length: int = 64,
        vocabulary: int = 256,
        *,
        dropout: float = 0.1,
        checkpointed: bool = False,
    ) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(
            *(_Attention(width, heads, causal=True, dropout=dropout) for _ in range(layers))
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.checkpointed = checkpointed

    def forward(self, x: Any) -> Any:
        x = self.characters(x) + self.positions(tensor.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = checkpoint(block, x) if self.checkpointed and tensor.is_grad_enabled() else block(x)
        return self.head(self.norm(x))


class _ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(3, 192, 4, 4), nn.Parameter(tensor.zeros(1, 64, 192))
        self.blocks = nn.Sequential(*(_Attention(192, 3, causal=False) for _ in range(6)))
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


class _Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.second, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Any) -> Any:
        result = self.norm2(self.second(self.relu(self.norm1(self.first(x)))))
        result += self.shortcut(x)
        return self.relu(result)


class _LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.characters, self.layers = (
            nn.Embedding(256, 256),
            nn.LSTM(256, 256, 2, batch_first=True, dropout=0.1),
        )
        self.head = nn.Linear(256, 256)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(self.characters(x))[0])


def _resnet() -> nn.Module:
    blocks = []
    channels = 64
    for out in (64, 128, 256, 512):
        blocks += [_Residual(channels, out, 1 if out == 64 else 2), _Residual(out, out, 1)]
        channels = out
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def _perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 1024),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(1024, 1024),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(1024, 10),
    )


def _classes(count: int) -> Any:
    return tensor.randint(0, 10, (count,), device="cuda")


def _text(count: int, length: int) -> tuple[Any, Any]:
    return tensor.randint(0, 256, (count, length), device="cuda"), tensor.randint(
        0, 256, (count, length), device="cuda"
    )


def _training(make: Callable[[], Any], batch: tuple[Any, Any], *, half: bool, capturable: bool) -> Training:
    tensor.manual_seed(0)
    model: Any = make().to("cuda")
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-3, capturable=capturable)

    def loss(x: Any, y: Any) -> Any:
        with tensor.autocast("cuda", dtype=tensor.bfloat16, enabled=half):
            return functional.cross_entropy(model(x).flatten(0, y.ndim - 1), y.flatten())

    return Training(optimizer, loss, batch)


#: By name what makes the training of a model, where it is known whether a CUDA graph of it is captured.
TRAININGS: dict[str, Callable[[bool], Training]] = {
    "MLP 784-1024-1024-10, 512 images": lambda capturable: _training(
        _perceptron,
        (tensor.randn(512, 784, device="cuda"), _classes(512)),
        half=False,
        capturable=capturable,
    ),
    "LSTM 2 x 256, 32 sequences of 32": lambda capturable: _training(
        _LSTM, _text(32, 32), half=False, capturable=capturable
    ),
    "GPT 6 x 384, 8 sequences of 64, bf16": lambda capturable: _training(
        GPT, _text(8, 64), half=True, capturable=capturable
    ),
    "ViT 6 x 192, 32 images of 32 x 32, bf16": lambda capturable: _training(
        _ViT, (tensor.randn(32, 3, 32, 32, device="cuda"), _classes(32)), half=True, capturable=capturable
    ),
    "ResNet-18, 32 images of 32 x 32, bf16": lambda capturable: _training(
        _resnet, (tensor.randn(32, 3, 32, 32, device="cuda"), _classes(32)), half=True, capturable=capturable
    ),
}
