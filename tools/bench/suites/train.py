"""Training steps: gradients cleared, forward, loss, backward, optimizer; of a perceptron, a small CNN, ResNet-18, an LSTM and a GPT.

With a GPU: on the device, timed by events, against PyTorch. Without: smaller models on the CPU, against PyTorch on one
thread; and the host time of steps so small that the work does not matter, on a simulated device that runs nothing
(``execute=off``), against PyTorch's on the CPU. With ``--compiled`` the steps are measured as each library compiles them, too: whole
ones here, and of PyTorch the loss with its gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import nn
import tensor
from tools.bench.measure import OURS, Row, host_rows, libraries, on_gpu, work_times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    Step = Callable[[], object]


class Trainer(NamedTuple):
    """What steps consist of.

    Attributes
    ----------
    optimizer
        Of the model's parameters.
    loss : callable
        What is minimised, with its graph.
    """

    optimizer: Any
    loss: Callable[[], Any]

    def step(self) -> Any:
        """Clear gradients, compute the loss and its gradient, and let the optimizer step."""
        return _step(self.optimizer, self.loss)

    def compiled(self, library: Any) -> Step:
        """The same as a library compiles it."""
        optimizer, loss = self
        if library is tensor:
            compiled_step: Step = tensor.compile(lambda: _step(optimizer, loss))
            return compiled_step
        compiled_loss = library.compile(loss)
        return lambda: _step(optimizer, compiled_loss)


def _step(optimizer: Any, loss: Callable[[], Any]) -> Any:
    optimizer.zero_grad()
    result = loss()
    result.backward()
    optimizer.step()
    return result


class Sizes(NamedTuple):
    """Of the models: samples of a step, and what else makes them large."""

    batch: int
    width: int
    channels: int
    sequences: int
    layers: int
    embedding: int
    heads: int
    length: int
    words: int
    images: int
    channels_of_resnet: int
    units: int
    characters: int


#: Of PyTorch's time, what a step as it is may take on the CPU.
_ON_CPU = 1.2
#: Sequences of a step of the LSTM.
_SEQUENCES = 32
ON_GPU = Sizes(512, 4096, 64, 8, 12, 768, 12, 1024, 50304, 256, 64, 1024, 128)
ON_CPU = Sizes(64, 256, 16, 2, 2, 128, 4, 64, 512, 8, 64, 256, 32)
ON_HOST = Sizes(2, 8, 4, 1, 2, 8, 2, 4, 8, 1, 2, 4, 2)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The suite's own options."""
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="measure compiled steps, too; PyTorch takes a minute for each model and needs a C++ compiler",
    )


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    device = "cuda" if gpu else "cpu"
    sizes = ON_GPU if gpu else ON_CPU
    contenders = libraries(device)
    for name, (make, samples, unit) in _models(sizes).items():
        if only not in name:
            continue
        steps: dict[str, Step] = {
            each: make(library, device, sizes).step for each, library in contenders.items()
        }
        if getattr(options, "compiled", False):
            steps |= {
                f"{each}, compiled": make(library, device, sizes).compiled(library)
                for each, library in contenders.items()
            }
        times = work_times(steps, contenders | {f"{each}, compiled": contenders[each] for each in contenders})
        peers = [times[each] for each in contenders if each != OURS]
        yield Row(
            name,
            "ms",
            {each: time / 1e6 for each, time in times.items()},
            reach=min(peers) / 1e6 * (1.0 if gpu else _ON_CPU) if peers else None,
            note=f"{samples / times[OURS] * 1e9:,.0f} {unit} a second",
        )
    yield from host_rows(only, contenders, _small, 1)


def _models(sizes: Sizes) -> dict[str, tuple[Callable[[Any, str, Sizes], Trainer], int, str]]:
    """What makes a step of each model, the samples of a step, and what they are."""
    tokens = sizes.sequences * sizes.length
    return {
        f"perceptron, 784-{sizes.width}-{sizes.width}-10": (_perceptron, sizes.batch, "images"),
        f"CNN, {sizes.channels} and {2 * sizes.channels} channels": (_cnn, sizes.batch, "images"),
        f"GPT, {sizes.layers} layers, {sizes.embedding} wide, {sizes.length} long, bf16": (
            _gpt,
            tokens,
            "tokens",
        ),
        f"LSTM, 2 layers of {sizes.units}, {sizes.characters} long": (
            _lstm,
            _SEQUENCES * sizes.characters,
            "characters",
        ),
        f"ResNet-18, {sizes.images} images": (_resnet, sizes.images, "images"),
    }


def _small(lib: Any, device: str) -> Mapping[str, Callable[[], object]]:
    return {
        name.split(",")[0] + ", a step": make(lib, device, ON_HOST).step
        for name, (make, _, _) in _models(ON_HOST).items()
    }


def _modules(lib: Any) -> Any:
    return nn if lib is tensor else lib.nn


def _optim(lib: Any) -> Any:
    return nn.optim if lib is tensor else lib.optim


def _perceptron(lib: Any, device: str, sizes: Sizes) -> Trainer:
    modules = _modules(lib)
    model = modules.Sequential(
        modules.Linear(784, sizes.width),
        modules.ReLU(),
        modules.Linear(sizes.width, sizes.width),
        modules.ReLU(),
        modules.Linear(sizes.width, 10),
    ).to(device)
    optimizer = _optim(lib).SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = lib.randn(sizes.batch, 784, device=device)
    y = lib.randint(0, 10, (sizes.batch,), device=device)
    return Trainer(optimizer, lambda: modules.functional.cross_entropy(model(x), y))


def _cnn(lib: Any, device: str, sizes: Sizes) -> Trainer:
    modules, channels = _modules(lib), sizes.channels
    model = modules.Sequential(
        modules.Conv2d(3, channels, 3, padding=1, bias=False),
        modules.BatchNorm2d(channels),
        modules.ReLU(),
        modules.MaxPool2d(2),
        modules.Conv2d(channels, 2 * channels, 3, padding=1, bias=False),
        modules.BatchNorm2d(2 * channels),
        modules.ReLU(),
        modules.MaxPool2d(2),
        modules.Flatten(),
        modules.Linear(2 * channels * 64, 10),
    ).to(device)
    optimizer = _optim(lib).Adam(model.parameters(), lr=1e-3)
    x = lib.randn(sizes.batch, 3, 32, 32, device=device)
    y = lib.randint(0, 10, (sizes.batch,), device=device)
    return Trainer(optimizer, lambda: modules.functional.cross_entropy(model(x), y))


def _lstm(lib: Any, device: str, sizes: Sizes) -> Trainer:
    modules, units, words = _modules(lib), sizes.units, 256
    embedding, head = modules.Embedding(words, units), modules.Linear(units, words)
    layers = modules.LSTM(units, units, 2, batch_first=True, dropout=0.1)
    model = modules.ModuleList([embedding, layers, head]).to(device)
    optimizer = _optim(lib).AdamW(model.parameters(), lr=1e-3)
    x, y = (lib.randint(0, words, (_SEQUENCES, sizes.characters), device=device) for _ in range(2))

    def loss() -> Any:
        scores = head(layers(embedding(x))[0])
        return modules.functional.cross_entropy(scores.flatten(0, 1), y.flatten())

    return Trainer(optimizer, loss)


def _resnet(lib: Any, device: str, sizes: Sizes) -> Trainer:
    """For images of 32 x 32, as for CIFAR-10: the first convolution has windows of 3 x 3, and no pooling behind it."""
    modules, first = _modules(lib), sizes.channels_of_resnet

    class Block(modules.Module):  # type: ignore[misc, name-defined]
        """Two convolutions and a shortcut."""

        def __init__(self, channels: int, out: int) -> None:
            super().__init__()
            stride = 1 if channels == out else 2
            self.first, self.norm1 = (
                modules.Conv2d(channels, out, 3, stride, 1, bias=False),
                modules.BatchNorm2d(out),
            )
            self.second, self.norm2 = (
                modules.Conv2d(out, out, 3, padding=1, bias=False),
                modules.BatchNorm2d(out),
            )
            self.relu, self.shortcut = modules.ReLU(inplace=True), modules.Identity()
            if channels != out:
                self.shortcut = modules.Sequential(
                    modules.Conv2d(channels, out, 1, stride, bias=False), modules.BatchNorm2d(out)
                )

        def forward(self, x: Any) -> Any:
            result = self.norm2(self.second(self.relu(self.norm1(self.first(x)))))
            result += self.shortcut(x)
            return self.relu(result)

    widths = [first, first, first, 2 * first, 2 * first, 4 * first, 4 * first, 8 * first, 8 * first]
    model = modules.Sequential(
        modules.Conv2d(3, first, 3, padding=1, bias=False),
        modules.BatchNorm2d(first),
        modules.ReLU(inplace=True),
        *map(Block, widths, widths[1:]),
        modules.AdaptiveAvgPool2d(1),
        modules.Flatten(),
        modules.Linear(8 * first, 10),
    ).to(device)
    optimizer = _optim(lib).SGD(model.parameters(), lr=1e-2, momentum=0.9)
    x = lib.randn(sizes.images, 3, 32, 32, device=device)
    y = lib.randint(0, 10, (sizes.images,), device=device)
    return Trainer(optimizer, lambda: modules.functional.cross_entropy(model(x), y))


def _gpt(lib: Any, device: str, sizes: Sizes) -> Trainer:
    modules, width = _modules(lib), sizes.embedding
    functional = modules.functional

    class Block(modules.Module):  # type: ignore[misc, name-defined]
        """Attention and a perceptron, each on a normalized input and added to it."""

        def __init__(self) -> None:
            super().__init__()
            self.before_attention, self.before_hidden = modules.LayerNorm(width), modules.LayerNorm(width)
            self.attention, self.output = modules.Linear(width, 3 * width), modules.Linear(width, width)
            self.hidden, self.back = modules.Linear(width, 4 * width), modules.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            joint = self.attention(self.before_attention(x))
            query, key, value = (
                each.view(*x.shape[:2], sizes.heads, -1).transpose(1, 2) for each in joint.chunk(3, dim=-1)
            )
            result = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.output(result.transpose(1, 2).reshape(x.shape))
            return x + self.back(functional.gelu(self.hidden(self.before_hidden(x))))

    class Model(modules.Module):  # type: ignore[misc, name-defined]
        """Predicts each next word."""

        def __init__(self) -> None:
            super().__init__()
            self.words = modules.Embedding(sizes.words, width)
            self.places = modules.Embedding(sizes.length, width)
            self.blocks = modules.Sequential(*(Block() for _ in range(sizes.layers)))
            self.last, self.scores = modules.LayerNorm(width), modules.Linear(width, sizes.words, bias=False)

        def forward(self, words: Any) -> Any:
            x = self.words(words) + self.places(lib.arange(sizes.length, device=device))
            return self.scores(self.last(self.blocks(x)))

    model = Model().to(device)
    optimizer = _optim(lib).AdamW(model.parameters(), lr=1e-4)
    words = lib.randint(0, sizes.words, (sizes.sequences, sizes.length), device=device)
    following = lib.randint(0, sizes.words, (sizes.sequences * sizes.length,), device=device)

    def loss() -> Any:
        with lib.autocast(device, dtype=lib.bfloat16):
            return functional.cross_entropy(model(words).flatten(0, 1), following)

    return Trainer(optimizer, loss)
