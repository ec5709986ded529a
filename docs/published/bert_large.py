"""BERT-large with the two outputs of SQuAD, for ``graphroot scale --model docs/published/bert_large.py``.

Sizes are those of NVIDIA's DeepLearningExamples (``PyTorch/LanguageModeling/BERT/bert_configs/large.json``), and sequences have 384
tokens as ``run_squad.py`` has them. How many a device has stands in the environment variable ``SEQUENCES`` (32). Nothing is dropped:
each dropout has a seed of its own, and a prediction would sample every one.
"""

from __future__ import annotations

import os
from typing import Any

import nn
import tensor
from nn import functional

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 1024, 16, 24, 30522, 384


class Layer(nn.Module):
    """Attention over ``(N, length, width)`` and a perceptron, each added and then normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.output, self.norm1 = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.hidden, self.back = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)

    def forward(self, x: Any) -> Any:
        """``(N, length, width)`` to the same."""
        query, key, value = (
            each(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.output(mixed))
        return self.norm2(x + self.back(functional.gelu(self.hidden(x))))


class BERT(nn.Module):
    """``(N, length)`` numbers of words and of segments to scores that the answer begins, and ends, at each: ``(N, length, 2)``."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(512, WIDTH)
        self.segments, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.ends = nn.Linear(WIDTH, 2)

    def forward(self, words: Any, segments: Any) -> Any:
        """Scores of both ends."""
        x = self.words(words) + self.positions(tensor.arange(words.shape[1])) + self.segments(segments)
        return self.ends(self.layers(self.norm(x)))


def model() -> nn.Module:
    """What is trained."""
    return BERT()


def loss(module: Any) -> Any:
    """Of a device's sequences, which all are the same word."""
    count = int(os.environ.get("SEQUENCES", "32"))
    words, ends = tensor.zeros(count, LENGTH, dtype=tensor.int64), tensor.zeros(2, count, dtype=tensor.int64)
    first, last = module(words, tensor.zeros_like(words)).unbind(-1)
    return (functional.cross_entropy(first, ends[0]) + functional.cross_entropy(last, ends[1])) / 2


def layers(module: Any) -> list[Any]:
    """Those that are gathered by themselves."""
    return list(module.layers)
