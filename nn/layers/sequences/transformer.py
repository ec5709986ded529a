"""The Transformer (Vaswani et al., 2017), its encoder and decoder, and the layers these stack."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from nn import init
from nn.functional import gelu, relu
from nn.layers.containers import ModuleList
from nn.layers.dropout import Dropout
from nn.layers.linear import Linear
from nn.layers.normalization import LayerNorm
from nn.module import Module
from tensor import full

from .multihead_attention import MultiheadAttention

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor, dtype


_ACTIVATIONS: dict[str, Any] = {"relu": relu, "gelu": gelu}


def _activation(activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    function: Callable[[Tensor], Tensor] | None = _ACTIVATIONS.get(activation)
    if function is None:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return function


class _Layer(Module):
    """Base class of encoder and decoder layers: self-attention, and a feedforward network of two linear layers."""

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
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, **options}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        if len(self.numbers) > 2:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        for number in self.numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **options))
        for number in self.numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _step(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Residual connection around ``block``, with layer normalization before or after."""
        norm = getattr(self, f"norm{number}")
        output: Tensor = x + block(norm(x)) if self.norm_first else norm(x + block(x))
        return output

    # The blocks have PyTorch's names and arguments: classes that are derived from these layers replace them.

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Self-attention."""
        output: Tensor = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        dropped: Tensor = self.dropout1(output)
        return dropped

    def _ff_block(self, x: Tensor) -> Tensor:
        """The feedforward network."""
        output: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        dropped: Tensor = getattr(self, f"dropout{self.numbers[-1]}")(output)
        return dropped


class TransformerEncoderLayer(_Layer):
    """Layer of a Transformer encoder: self-attention and a feedforward network, each with a residual connection.

    Vaswani et al., "Attention Is All You Need", 2017; with ``norm_first``, Xiong et al., 2020.

    Parameters
    ----------
    d_model : int
        Features E.
    nhead : int
        Number of attention heads, which divides E.
    dim_feedforward : int
        Hidden features of the feedforward network.
    dropout : float
        Probability of the dropout on attention weights and on the output of each block, in training.
    activation : str or callable
        Of the feedforward network: ``"relu"``, ``"gelu"`` or a function.
    layer_norm_eps : float
        Added to the variance in layer normalization.
    batch_first : bool
        Whether tensors have shape (N, S, E) instead of (S, N, E).
    norm_first : bool
        Whether layer normalization comes before each block (pre-norm) instead of after each sum (post-norm).
    bias : bool
        Whether linear layers and layer normalizations have biases.
    device, dtype
        Of the parameters.

    Raises
    ------
    RuntimeError
        If ``activation`` is another string.

    Examples
    --------
    >>> layer = nn.TransformerEncoderLayer(d_model=512, nhead=8, batch_first=True)
    >>> layer(tensor.randn(32, 10, 512)).shape
    tensor.Size([32, 10, 512])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Encode sequences.

        Parameters
        ----------
        src : Tensor
            Shape (S, N, E), with ``batch_first`` (N, S, E), or (S, E).
        src_mask : Tensor, optional
            Shape (S, S) or (N * nhead, S, S): bool with True for pairs to ignore, or floating point, which is added
            to the scores.
        src_key_padding_mask : Tensor, optional
            Shape (N, S) or (S,), in the same way.
        is_causal : bool
            A hint that ``src_mask`` is the causal mask, which then need not be read.

        Returns
        -------
        Tensor
            Of the shape of ``src``.
        """
        src = self._step(src, 1, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self._step(src, 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Layer of a Transformer decoder: self-attention, cross-attention to the encoder's output, feedforward network.

    Each block has a residual connection. Vaswani et al., "Attention Is All You Need", 2017.

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
        """Decode sequences.

        Parameters
        ----------
        tgt, memory : Tensor
            Target and the encoder's output, of shapes (T, N, E) and (S, N, E), with ``batch_first`` (N, T, E) and
            (N, S, E), or without N.
        tgt_mask, memory_mask : Tensor, optional
            Shapes (T, T) and (T, S), or with N * nhead before that: bool with True for pairs to ignore, or floating
            point, which is added to the scores.
        tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Shapes (N, T) and (N, S), in the same way.
        tgt_is_causal, memory_is_causal : bool
            Hints that a mask is the causal one, which then need not be read.

        Returns
        -------
        Tensor
            Of the shape of ``tgt``.
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
        """Cross-attention."""
        output: Tensor = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        dropped: Tensor = self.dropout2(output)
        return dropped


_MINUS_INFINITY = float("-inf")


def _causal_mask(size: int, device: Any, dtype: dtype | None) -> Tensor:
    mask: Any = full((size, size), _MINUS_INFINITY, device=device, dtype=dtype).triu(1)
    if not mask.is_inference():
        # The layers recognize it by this, without reading its elements, which would wait for the device.
        mask._causal_since = mask._version
    return mask  # type: ignore[no-any-return]


def _is_causal(mask: Tensor | None, hint: bool | None, length: int) -> bool:
    """Whether a mask was made by :func:`_causal_mask` and not changed since, or ``hint`` says so."""
    if hint is not None or mask is None:
        return bool(hint)
    version = getattr(mask, "_causal_since", None)
    return version is not None and version == mask._version and tuple(mask.shape) == (length, length)


def _length(x: Tensor, layer: Any) -> int:
    """Length of the sequences."""
    batch_first = getattr(getattr(layer, "self_attn", None), "batch_first", False)
    return x.shape[1 if batch_first and x.dim() == 3 else 0]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Stack of Transformer encoder layers.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        Copied for each layer, with its weights.
    num_layers : int
        Number of layers.
    norm : Module, optional
        Applied to the output of the last layer, such as :class:`LayerNorm` with ``norm_first`` layers.
    enable_nested_tensor, mask_check : bool
        Accepted and ignored: they choose among shortcuts of PyTorch.
    """

    norm: Module | None

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Encode sequences.

        Parameters
        ----------
        src, mask, src_key_padding_mask : Tensor
            As those of :meth:`TransformerEncoderLayer.forward`.
        is_causal : bool, optional
            A hint that ``mask`` is the causal one; by default it is recognized if
            :meth:`Transformer.generate_square_subsequent_mask` made it.

        Returns
        -------
        Tensor
            Of the shape of ``src``.
        """
        causal = bool(self.layers) and _is_causal(mask, is_causal, _length(src, self.layers[0]))
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Stack of Transformer decoder layers.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        Copied for each layer, with its weights.
    num_layers : int
        Number of layers.
    norm : Module, optional
        Applied to the output of the last layer.
    """

    norm: Module | None

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode sequences.

        Parameters
        ----------
        tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor
            As those of :meth:`TransformerDecoderLayer.forward`.
        tgt_is_causal : bool, optional
            A hint that ``tgt_mask`` is the causal one; by default it is recognized if
            :meth:`Transformer.generate_square_subsequent_mask` made it.
        memory_is_causal : bool
            A hint that ``memory_mask`` is the causal one.

        Returns
        -------
        Tensor
            Of the shape of ``tgt``.
        """
        causal = bool(self.layers) and _is_causal(tgt_mask, tgt_is_causal, _length(tgt, self.layers[0]))
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Transformer with an encoder and a decoder (Vaswani et al., "Attention Is All You Need", 2017).

    Parameters
    ----------
    d_model : int
        Features E.
    nhead : int
        Number of attention heads, which divides E.
    num_encoder_layers, num_decoder_layers : int
        Number of layers.
    dim_feedforward : int
        Hidden features of the feedforward networks.
    dropout : float
        Probability of the dropout in the layers, in training.
    activation : str or callable
        Of the feedforward networks: ``"relu"``, ``"gelu"`` or a function.
    custom_encoder, custom_decoder : Module, optional
        Instead of the default encoder and decoder.
    layer_norm_eps : float
        Added to the variance in layer normalization.
    batch_first : bool
        Whether tensors have shape (N, L, E) instead of (L, N, E).
    norm_first : bool
        Whether layer normalization comes before each block instead of after each sum.
    bias : bool
        Whether linear layers and layer normalizations have biases.
    device, dtype
        Of the parameters.

    Examples
    --------
    >>> model = nn.Transformer(d_model=64, nhead=4, batch_first=True)
    >>> mask = nn.Transformer.generate_square_subsequent_mask(20)
    >>> model(tensor.randn(2, 10, 64), tensor.randn(2, 20, 64), tgt_mask=mask).shape
    tensor.Size([2, 20, 64])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*sizes, *options)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*sizes, *options), num_decoder_layers, norm()
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode ``src``, and decode ``tgt`` with it.

        Parameters
        ----------
        src, tgt : Tensor
            Shapes (S, N, E) and (T, N, E), with ``batch_first`` (N, S, E) and (N, T, E), or without N.
        src_mask, tgt_mask, memory_mask : Tensor, optional
            Shapes (S, S), (T, T) and (T, S), or with N * nhead before that: bool with True for pairs to ignore, or
            floating point, which is added to the scores.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Shapes (N, S), (N, T) and (N, S), in the same way.
        src_is_causal, tgt_is_causal, memory_is_causal : bool, optional
            Hints that a mask is the causal one.

        Returns
        -------
        Tensor
            Of the shape of ``tgt``.

        Raises
        ------
        RuntimeError
            If the batch sizes of ``src`` and ``tgt`` differ, or their features are not ``d_model``.
        """
        dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[dim] != tgt.shape[dim]:
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, got {src.shape[dim]} and {tgt.shape[dim]}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model, got {src.shape[-1]} and {tgt.shape[-1]} for "
                f"{self.d_model}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        output: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return output

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: dtype | None = None) -> Tensor:
        """Causal mask of shape (sz, sz): 0 on and below the diagonal, ``-inf`` above.

        Parameters
        ----------
        sz : int
            Length of the sequence.
        device, dtype
            Of the mask.
        """
        return _causal_mask(sz, device, dtype)
