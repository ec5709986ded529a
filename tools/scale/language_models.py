"""Sizes of language models, by name, and the operations of a step of training one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a language model, and of the batch of a rank.

    Attributes
    ----------
    layers, width, heads, length, vocabulary : int
        Blocks, elements of a token, heads of attention, tokens of a sequence, and how many different ones.
    batch : int
        Sequences of a batch.
    checkpointed : int
        1 if blocks keep their inputs alone, and compute once more in the backward pass, else 0.
    """

    layers: int
    width: int
    heads: int
    length: int
    vocabulary: int
    batch: int
    checkpointed: int = 0

    def changed(self, changes: list[str]) -> Sizes:
        """These with others in their stead, each written as ``layers=24``.

        Raises
        ------
        ValueError
            If one is no size, or has no number.
        """
        values: dict[str, int] = {}
        names = [each.name for each in fields(Sizes)]
        for each in changes:
            key, _, value = each.partition("=")
            if key not in names or not value.isdecimal():
                raise ValueError(
                    f"{each!r} is no size of a model: expected one of {', '.join(names)}, and a number"
                )
            values[key] = int(value)
        return replace(self, **values)

    def flops(self) -> float:
        """By D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021, equation 3.

        It counts forward, backward, and the second forward pass of checkpointed blocks.
        """
        passes = 96 if self.checkpointed else 72
        terms = 1 + self.length / (6 * self.width) + self.vocabulary / (16 * self.layers * self.width)
        return passes * self.batch * self.length * self.layers * self.width**2 * terms


#: A small one for tests, GPT-2 (Radford et al. 2019) of the smallest size, and the first of Narayanan et al. 2021, table 1.
GPTS = {
    "gpt-tiny": Sizes(2, 128, 2, 128, 512, 2),
    "gpt2": Sizes(12, 768, 12, 1024, 50304, 8),
    "gpt-1.7b": Sizes(24, 2304, 24, 2048, 51200, 16, 1),
}
