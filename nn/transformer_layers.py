"""Layers of which the encoders and decoders of transformers consist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dropout import Dropout
from .functional.activations import gelu, relu
from .linear import Linear
from .module import Module
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor, dtype

_ACTIVATIONS: dict[str, Any] = {"relu": relu, "gelu": gelu}


def _activation(given: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    found: Callable[[Tensor], Tensor] | None = _ACTIVATIONS.get(given)
    if found is None:
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return found


class _Layer(Module):
    """What both kinds of layers have: attention to oneself, and two linear maps."""

    #: Of the blocks.
    numbers: tuple[int, ...] = (1, 2)
    dropout1: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, **made}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        if len(self.numbers) > 2:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        for number in self.numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **made))
        for number in self.numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _step(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """``x`` plus what ``block`` makes of it, normalised before or after."""
        norm = getattr(self, f"norm{number}")
        made: Tensor = x + block(norm(x)) if self.norm_first else norm(x + block(x))
        return made

    # The blocks have PyTorch's names and arguments: classes that are derived from these layers replace them.

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention of a sequence to itself."""
        found: Tensor = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        dropped: Tensor = self.dropout1(found)
        return dropped

    def _ff_block(self, x: Tensor) -> Tensor:
        """The linear maps."""
        made: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        dropped: Tensor = getattr(self, f"dropout{self.numbers[-1]}")(made)
        return dropped


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, and two linear maps; each is added to its input and normalised.

    Parameters
    ----------
    d_model : int
        Size E of the features.
    nhead : int
        Heads of the attention.
    dim_feedforward : int
        Size between the two linear maps.
    dropout : float
        How probable it is, in training, that something is left out.
    activation : str or callable
        ``"relu"``, ``"gelu"``, or what is called between these maps.
    layer_norm_eps : float
        Added to the variance where features are normalised.
    batch_first : bool
        Whether tensors are of shape (N, S, E) rather than (S, N, E).
    norm_first : bool
        Whether features are normalised before attention and linear maps, and not after the sums.
    bias : bool
        Whether linear maps and normalisations add something.
    device, dtype
        Of the parameters.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """What the layer makes of a sequence.

        Parameters
        ----------
        src : Tensor
            Of shape (S, N, E), with ``batch_first`` (N, S, E), or (S, E).
        src_mask : Tensor, optional
            Of shape (S, S) or (N * nhead, S, S): bool, ``True`` for what is not seen, or what is added to the scores.
        src_key_padding_mask : Tensor, optional
            Of shape (N, S), likewise.
        is_causal : bool
            That ``src_mask`` is the causal one, so that it need not be read.
        """
        src = self._step(src, 1, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self._step(src, 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself and to what an encoder made, and two linear maps.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype
        As those of :class:`TransformerEncoderLayer`.
    """

    numbers = (1, 2, 3)
    dropout2: Dropout

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the layer makes of a sequence and a memory.

        Parameters
        ----------
        tgt, memory : Tensor
            Of shapes (T, N, E) and (S, N, E), with ``batch_first`` (N, T, E) and (N, S, E), or without N.
        tgt_mask, memory_mask : Tensor, optional
            Of shapes (T, T) and (T, S), or with N * nhead before that: bool, ``True`` for what is not seen, or what
            is added to the scores.
        tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Of shapes (N, T) and (N, S), likewise.
        tgt_is_causal, memory_is_causal : bool
            That the mask is the causal one, so that it need not be read.
        """
        tgt = self._step(tgt, 1, lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        tgt = self._step(
            tgt,
            2,
            lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal),
        )
        return self._step(tgt, 3, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention to the memory."""
        found: Tensor = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        dropped: Tensor = self.dropout2(found)
        return dropped
