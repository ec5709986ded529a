"""Attention with several heads and transformers against PyTorch's, and against their definition."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nn import functional
from tests.nn.parity import assert_like_pytorch, copy_weights, plain
from tests.tensor.comparison import array_of

_RNG = np.random.default_rng(0)
_L, _S, _N, _E = 5, 6, 3, 8


def _mask(*shape: int, share: float = 0.3) -> Any:
    """A mask that leaves the first key to all."""
    result = _RNG.random(shape) < share
    result[..., 0] = False
    return result


#: Options of the layer, whether there is a batch, masks, other arguments.
CALLS: dict[str, tuple[dict[str, Any], bool, dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, True, {}, {}),
    "no weights": ({}, True, {}, {"need_weights": False}),
    "weights of heads": ({"bias": False}, True, {}, {"average_attn_weights": False}),
    "no batch": ({}, False, {"attn_mask": _mask(2, _L, _S)}, {}),
    "no batch, no weights": ({}, False, {"key_padding_mask": _mask(_S)}, {"need_weights": False}),
    "batch first": ({"batch_first": True}, True, {"key_padding_mask": _mask(_N, _S)}, {}),
    "sizes": ({"kdim": 4, "vdim": 10}, True, {"attn_mask": _mask(_L, _S)}, {"need_weights": False}),
    "more keys": (
        {"add_bias_kv": True, "add_zero_attn": True},
        True,
        {"attn_mask": _mask(_N * 2, _L, _S), "key_padding_mask": _mask(_N, _S)},
        {},
    ),
    "more keys, no weights": (
        {"add_bias_kv": True, "add_zero_attn": True},
        True,
        {"attn_mask": _mask(_L, _S), "key_padding_mask": _mask(_N, _S)},
        {"need_weights": False},
    ),
    "added": (
        {},
        True,
        {
            "attn_mask": _RNG.standard_normal((_L, _S)).astype(np.float32),
            "key_padding_mask": _RNG.standard_normal((_N, _S)).astype(np.float32),
        },
        {"need_weights": False},
    ),
    "added and bool": (
        {},
        True,
        {"attn_mask": _RNG.standard_normal((_L, _S)).astype(np.float32), "key_padding_mask": _mask(_N, _S)},
        {},
    ),
    "causal": (
        {},
        True,
        {"attn_mask": ~np.tri(_L, _S, dtype=bool)},
        {"need_weights": False, "is_causal": True},
    ),
    "causal, padded": (
        {},
        True,
        {"attn_mask": ~np.tri(_L, _S, dtype=bool), "key_padding_mask": _mask(_N, _S)},
        {"need_weights": False, "is_causal": True},
    ),
}


def _compare(
    mine: Any, theirs: Any, arrays: list[Any], place: str, call: Any, tolerance: float = 2e-5
) -> None:
    """Assert that results are the same, and the gradients of all operands and parameters."""
    import torch

    mine.to(place)
    ours = [tensor.from_numpy(x.copy()).to(place).requires_grad_() for x in arrays]
    other = [torch.from_numpy(x.copy()).requires_grad_() for x in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, expected = call(mine, ours, tensor, place), call(theirs, other, torch, "cpu")
    for left, right in zip(result, expected, strict=True):
        assert (left is None) == (right is None)
        if left is not None:
            assert tuple(left.shape) == tuple(right.shape)
            np.testing.assert_allclose(array_of(left), array_of(right), rtol=tolerance, atol=tolerance)
    for results in (result, expected):
        sum((each * each).sum() for each in results if each is not None).backward()
    pairs = [*zip(ours, other, strict=True), *zip(mine.parameters(), theirs.parameters(), strict=True)]
    for left, right in pairs:
        np.testing.assert_allclose(
            array_of(left.grad), array_of(right.grad), rtol=tolerance * 20, atol=tolerance * 20
        )


@pytest.mark.parity
@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sampled(3)
def test_attention_like_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    options, batched, masks, arguments = CALLS[name]
    theirs = torch.nn.MultiheadAttention(_E, 2, **options)
    mine = nn.MultiheadAttention(_E, 2, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(-0.5, 0.5)
    copy_weights(mine, theirs)
    assert [key for key, _ in mine.named_parameters()] == [key for key, _ in theirs.named_parameters()]
    sizes = (_L, _E), (_S, options.get("kdim", _E)), (_S, options.get("vdim", _E))
    arrays = []
    for length, size in sizes:
        shape = (length, _N, size) if batched else (length, size)
        array = _RNG.standard_normal(shape).astype(np.float32)
        arrays.append(array.swapaxes(0, 1).copy() if options.get("batch_first") else array)

    def call(layer: Any, operands: list[Any], library: Any, place: str) -> Any:
        result = {key: library.from_numpy(value.copy()).to(place) for key, value in masks.items()}
        return layer(*operands, **result, **arguments)

    _compare(mine, theirs, arrays, device_name, call)


@pytest.mark.parity
@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("same", ["all", "keys and values"])
def test_attention_to_itself(same: str, batch_first: bool, need_weights: bool, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(_E, 4, batch_first=batch_first)
    mine = nn.MultiheadAttention(_E, 4, batch_first=batch_first)
    copy_weights(mine, theirs)
    arrays = [_RNG.standard_normal((4, 3, _E)).astype(np.float32) for _ in range(1 if same == "all" else 2)]

    def call(layer: Any, operands: list[Any], library: Any, place: str) -> Any:
        return layer(operands[0], operands[-1], operands[-1], need_weights=need_weights)

    _compare(mine, theirs, arrays, device_name, call)


def test_attention_by_its_definition(device_name: str) -> None:
    layer = nn.MultiheadAttention(6, 2, bias=False).to(device_name, dtype=tensor.float64)
    arrays = [_RNG.standard_normal((n, 2, 6)) for n in (3, 4, 4)]
    result, weights = layer(*(tensor.from_numpy(x).to(device_name) for x in arrays))
    q, k, v = (
        (x @ w.T).reshape(len(x), 2, 2, 3).transpose(1, 2, 0, 3)
        for x, w in zip(arrays, np.split(layer.in_proj_weight.detach().cpu().numpy(), 3), strict=True)
    )
    scores = np.exp(q @ k.swapaxes(-1, -2) / 3**0.5)
    scores /= scores.sum(-1, keepdims=True)
    expected = (scores @ v).transpose(2, 0, 1, 3).reshape(
        3, 2, 6
    ) @ layer.out_proj.weight.detach().cpu().numpy().T
    np.testing.assert_allclose(result.detach().cpu().numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(weights.detach().cpu().numpy(), scores.mean(1), rtol=1e-12)
    short, nothing = layer(*(tensor.from_numpy(x).to(device_name) for x in arrays), need_weights=False)
    assert nothing is None
    np.testing.assert_allclose(short.detach().cpu().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_second_derivatives() -> None:
    layer = nn.MultiheadAttention(4, 2).to(dtype=tensor.float64)
    x = tensor.randn(3, 2, 4, dtype=tensor.float64, requires_grad=True)
    y = tensor.randn(4, 2, 4, dtype=tensor.float64, requires_grad=True)
    for function in (lambda x: layer(x, x, x, need_weights=False)[0], lambda x: layer(x, y, y)[0]):
        assert tensor.autograd.gradgradcheck(function, (x,), fast_mode=True)


@pytest.mark.parity
def test_given_keys_and_values() -> None:
    def program(library: Any, layers: Any) -> Any:
        x = library.arange(24.0).reshape(3, 2, 4).sin()
        argument = library.arange(24.0).reshape(4, 3, 2).cos()
        weight, out = library.arange(48.0).reshape(12, 4).sin(), library.eye(4)
        result = layers.functional.multi_head_attention_forward(
            x,
            x,
            x,
            4,
            2,
            weight,
            None,
            None,
            None,
            False,
            0.0,
            out,
            None,
            static_k=argument,
            static_v=argument,
        )
        return [[round(each, 4) for each in part.flatten().tolist()] for part in result]

    assert_like_pytorch(program)


def test_dropped_weights(device_name: str) -> None:
    layer = nn.MultiheadAttention(8, 2, dropout=0.4).to(device_name)
    x = tensor.randn(40, 2, 8, device=device_name)
    tensor.manual_seed(0)
    weights = layer(x, x, x, average_attn_weights=False)[1].detach().cpu().numpy()
    assert abs((weights == 0).mean() - 0.4) < 0.05
    first, second = (layer(x, x, x, need_weights=False)[0].detach().cpu().numpy() for _ in range(2))
    assert (first != second).any()
    layer.eval()
    first, second = (layer(x, x, x, need_weights=False)[0].detach().cpu().numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parity
def test_one_mask_of_two() -> None:
    def program(library: Any, layers: Any) -> Any:
        layer = layers.MultiheadAttention(8, 2)
        query = library.zeros(3, 5, 8)
        result = []
        square, padding = library.ones(5, 5).triu(1), library.ones(3, 5).tril()
        for convert in (lambda x: x, lambda x: x.bool()):
            for attn in (None, convert(square), convert(square).expand(6, 5, 5)):
                for keys in (None, convert(padding)):
                    mask, kind = layer.merge_masks(attn, keys, query)
                    result.append((None if mask is None else (mask.dtype, mask.float().tolist()), kind))
        return result

    assert_like_pytorch(program)


_BAD: dict[str, Any] = {
    "heads": lambda library, layers: layers.MultiheadAttention(8, 3),
    "no size": lambda library, layers: layers.MultiheadAttention(0, 3),
    "activation": lambda library, layers: layers.TransformerEncoderLayer(8, 2, activation="tanh"),
    "dimensions": lambda library, layers: _call(library, layers, key=(6, 8)),
    "a vector": lambda library, layers: _call(library, layers, query=(8,)),
    "features": lambda library, layers: _call(library, layers, query=(5, 3, 4)),
    "features of keys": lambda library, layers: _call(library, layers, key=(6, 3, 4)),
    "lengths": lambda library, layers: _call(library, layers, value=(4, 3, 8)),
    "causal without mask": lambda library, layers: _call(library, layers, is_causal=True),
    "padding's length": lambda library, layers: _call(library, layers, padding=(3, 5)),
    "padding's dimensions": lambda library, layers: _call(library, layers, padding=(6,)),
    "mask's shape": lambda library, layers: _call(library, layers, mask=(5, 5)),
    "mask of heads": lambda library, layers: _call(library, layers, mask=(3, 5, 6)),
    "mask's dimensions": lambda library, layers: _call(library, layers, mask=(1, 3, 5, 6)),
    "mask's type": lambda library, layers: _call(library, layers, mask=(5, 6), kind="int32"),
    "batches": lambda library, layers: layers.Transformer(8, 2, 1, 1, 16, batch_first=True)(
        library.zeros(2, 3, 8), library.zeros(3, 3, 8)
    ),
    "model's features": lambda library, layers: layers.Transformer(8, 2, 1, 1, 16, batch_first=True)(
        library.zeros(2, 3, 8), library.zeros(2, 3, 4)
    ),
}


def _call(
    library: Any, layers: Any, *, query: Any = (5, 3, 8), key: Any = (6, 3, 8), value: Any = None, padding: Any = None,
    mask: Any = None, kind: str = "bool", **options: Any,
) -> Any:  # fmt: skip
    masks = {
        name: library.zeros(shape, dtype=getattr(library, kind))
        for name, shape in (("key_padding_mask", padding), ("attn_mask", mask))
        if shape is not None
    }
    operands = [library.zeros(shape) for shape in (query, key, key if value is None else value)]
    return layers.MultiheadAttention(8, 2)(*operands, **masks, **options)


@pytest.mark.parity
@pytest.mark.parametrize("name", _BAD)
def test_wrong_arguments(name: str) -> None:
    assert assert_like_pytorch(_BAD[name])[0].startswith("raised")


#: Class, arguments, shapes of the operands, names of masks with their shapes.
LAYERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...], dict[str, Any]]] = {
    "encoder layer": ("TransformerEncoderLayer", (8, 2, 16), {}, ((5, 3, 8),), {"src_mask": (5, 5)}),
    "encoder layer, gelu, norm first": (
        "TransformerEncoderLayer",
        (8, 2, 16),
        {"activation": "gelu", "norm_first": True, "batch_first": True, "bias": False},
        ((3, 5, 8),),
        {"src_key_padding_mask": (3, 5)},
    ),
    "encoder layer, no batch": (
        "TransformerEncoderLayer",
        (8, 2, 16),
        {},
        ((5, 8),),
        {"src_mask": (2, 5, 5)},
    ),
    "decoder layer": (
        "TransformerDecoderLayer",
        (8, 4, 16),
        {},
        ((5, 3, 8), (6, 3, 8)),
        {"tgt_mask": (5, 5), "memory_mask": (5, 6)},
    ),
    "decoder layer, norm first": (
        "TransformerDecoderLayer",
        (8, 4, 16),
        {"norm_first": True, "batch_first": True, "layer_norm_eps": 0.1},
        ((3, 5, 8), (3, 6, 8)),
        {"tgt_key_padding_mask": (3, 5), "memory_key_padding_mask": (3, 6)},
    ),
    "transformer": (
        "Transformer",
        (8, 2, 1, 2, 16),
        {},
        ((6, 3, 8), (5, 3, 8)),
        {"src_mask": (6, 6), "tgt_mask": (5, 5), "memory_key_padding_mask": (3, 6)},
    ),
    "transformer, batch first": (
        "Transformer",
        (8, 2, 2, 1, 16),
        {"batch_first": True},
        ((3, 6, 8), (3, 5, 8)),
        {},
    ),
}


@pytest.mark.parity
@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore:.*enable_nested_tensor")
@pytest.mark.sampled(3)
def test_layers_like_pytorch(name: str, device_name: str) -> None:
    torch = pytest.importorskip("torch")
    kind, arguments, options, shapes, masks = LAYERS[name]
    theirs = getattr(torch.nn, kind)(*arguments, dropout=0.0, **options)
    mine = getattr(nn, kind)(*arguments, dropout=0.0, **options)
    text = plain(repr(theirs)).replace("NonDynamicallyQuantizable", "")
    assert repr(mine) == text
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    copy_weights(mine, theirs)
    arrays = [_RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    argument = {key: _mask(*shape) for key, shape in masks.items()}

    def call(layer: Any, operands: list[Any], library: Any, place: str) -> Any:
        return [
            layer(
                *operands,
                **{key: library.from_numpy(value.copy()).to(place) for key, value in argument.items()},
            )
        ]

    _compare(mine, theirs, arrays, device_name, call, 1e-4)


@pytest.mark.parity
@pytest.mark.usefixtures("full_precision")
def test_stacks_like_pytorch() -> None:
    torch = pytest.importorskip("torch")

    def layers_of(library: Any) -> Any:
        inner = library.nn if library is torch else nn
        encoder = inner.TransformerEncoderLayer(
            8, 2, 12, 0.0, activation=inner.functional.silu, batch_first=True
        )
        decoder = inner.TransformerDecoderLayer(
            8, 2, 12, 0.0, activation=inner.functional.silu, batch_first=True
        )
        return inner.ModuleList(
            [
                inner.TransformerEncoder(encoder, 2, inner.LayerNorm(8), enable_nested_tensor=False),
                inner.TransformerDecoder(decoder, 2),
            ]
        )

    theirs, mine = layers_of(torch), layers_of(tensor)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    copy_weights(mine, theirs)
    arrays = [_RNG.standard_normal((2, 5, 8)).astype(np.float32) for _ in range(2)]

    def call(layer: Any, operands: list[Any], library: Any, place: str) -> Any:
        inner = library.nn if library is torch else nn
        causal = inner.Transformer.generate_square_subsequent_mask(5)
        memory = layer[0](operands[0], causal)
        return [memory, layer[1](operands[1], memory, tgt_mask=causal, tgt_is_causal=True)]

    _compare(mine, theirs, arrays, "cpu", call, 1e-4)


@pytest.mark.usefixtures("full_precision")
def test_causal_masks_are_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks that were made as causal ones, and are so still, are not read."""
    hints = []
    inner = functional.attention.scaled_dot_product_attention

    def noted(q: Any, k: Any, v: Any, mask: Any, p: float, causal: bool) -> Any:
        hints.append((causal, mask is None))
        return inner(q, k, v, mask, p, causal)

    monkeypatch.setattr(functional.attention, "scaled_dot_product_attention", noted)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 1)
    x = tensor.randn(5, 2, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    np.testing.assert_array_equal(mask.numpy(), np.triu(np.full((5, 5), -np.inf, np.float32), 1))
    assert nn.Transformer.generate_square_subsequent_mask(2, dtype=tensor.float64).dtype is tensor.float64
    result = encoder(x, mask)
    assert hints.pop() == (True, True)
    expected = encoder(x, mask.clone())
    assert hints.pop() == (False, False)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    encoder(x, mask, is_causal=False)
    assert hints.pop() == (False, False)
    mask[0, 1] = 0
    encoder(x, mask)
    assert hints.pop() == (False, False)
    with tensor.inference_mode():
        encoder(x, nn.Transformer.generate_square_subsequent_mask(5))


def test_first_weights() -> None:
    tensor.manual_seed(0)
    layer = nn.MultiheadAttention(64, 4, add_bias_kv=True, kdim=32)
    for name, rows, columns in (("q", 64, 64), ("k", 64, 32), ("v", 64, 64)):
        weight = getattr(layer, f"{name}_proj_weight")
        bound = (6 / (rows + columns)) ** 0.5
        assert 0.95 * bound < weight.abs().max().item() <= bound
    assert not layer.in_proj_bias.any()
    assert not layer.out_proj.bias.any()
    assert 0.05 < layer.bias_k.std().item() < 0.3
    model = nn.Transformer(16, 2, 1, 1, 32)
    assert all(
        each.abs().max() <= (6 / sum(each.shape)) ** 0.5 for each in model.parameters() if each.dim() > 1
    )
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    first, second = (dict(layer.named_parameters()) for layer in stack.layers)
    assert all(first[name] is not second[name] and first[name].equal(second[name]) for name in first)


def test_a_derived_layer() -> None:
    class Layer(nn.TransformerEncoderLayer):
        def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
            return x * 0

        def _ff_block(self, x: Any) -> Any:
            return x

    layer = Layer(4, 2, 8, norm_first=True)
    x = tensor.randn(3, 2, 4)
    expected = x + functional.layer_norm(x, (4,))
    np.testing.assert_allclose(layer(x).detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_half_precision_and_autocast(device_name: str) -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0).to(device_name)
    src, tgt = tensor.randn(4, 2, 8, device=device_name), tensor.randn(3, 2, 8, device=device_name)
    mask = nn.Transformer.generate_square_subsequent_mask(3, device=device_name)
    padding = tensor.zeros(2, 4, dtype=tensor.bool, device=device_name)
    options = {"tgt_mask": mask, "src_key_padding_mask": padding}
    expected = model(src, tgt, **options).detach().cpu().numpy()
    with tensor.autocast(device_name, dtype=tensor.bfloat16):
        result = model(src, tgt, **options)
    np.testing.assert_allclose(result.detach().cpu().float().numpy(), expected, rtol=0.1, atol=0.1)
    result.float().sum().backward()
    assert all(each.grad is not None and each.grad.dtype is tensor.float32 for each in model.parameters())
    half = model.to(dtype=tensor.bfloat16)
    result = half(src.bfloat16(), tgt.bfloat16(), **options)
    assert result.dtype is tensor.bfloat16
    np.testing.assert_allclose(result.detach().cpu().float().numpy(), expected, rtol=0.1, atol=0.1)


@pytest.mark.simulator_only
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_any_schedule_on_a_side_stream(schedule: str) -> None:
    def step(place: str) -> list[Any]:
        tensor.manual_seed(3)
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.25), 2).to(place)
        x = tensor.randn(5, 2, 8).to(place).requires_grad_()
        mask = nn.Transformer.generate_square_subsequent_mask(5, device=place)
        # Each device counts its own calls.
        tensor.manual_seed(4)
        loss = model(x, mask).square().mean()
        loss.backward()
        return [loss.detach(), x.grad, *(each.grad for each in model.parameters())]

    expected = [each.numpy() for each in step("cpu")]
    drv.simulator.install(check="full", schedule=schedule)
    tensor.backends.cuda.matmul.allow_tf32 = False
    try:
        with tensor.cuda.stream(tensor.cuda.Stream()):
            result = [each.cpu().numpy() for each in step("cuda")]
    finally:
        tensor.backends.cuda.matmul.allow_tf32 = True
    for left, right in zip(result, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)
    assert not drv.simulator.findings()


@pytest.mark.simulator_only
def test_long_sequences_fit() -> None:
    drv.simulator.install(execute=False)
    length = 8192
    layer = nn.TransformerEncoderLayer(16, 2, 16, 0.1).to("cuda")
    x = tensor.empty(length, 1, 16, device="cuda", requires_grad=True)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device="cuda")
    before = tensor.cuda.memory_allocated()
    tensor.cuda.reset_peak_memory_stats()
    layer(x, mask, is_causal=True).sum().backward()
    # The scores of one head alone would be 256 MiB.
    assert tensor.cuda.max_memory_allocated() - before < 100 << 20


def test_learning(device_name: str) -> None:
    """Whether the first of a sequence's numbers is larger than the last."""
    tensor.manual_seed(1)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 1)
    model = nn.ModuleList([nn.Linear(3, 8), encoder, nn.Linear(8, 1)]).to(device_name)
    optimizer = nn.optim.Adam(model.parameters(), lr=0.02)
    # A device is simulated, and its kernels take sequence after sequence.
    count = 64 if device_name == "cpu" else 16
    numbers = tensor.randn(count, 4)
    ends = tensor.zeros(count, 4, 2)
    ends[:, 0, 0] = ends[:, 3, 1] = 1
    x = tensor.cat([numbers.unsqueeze(-1), ends], -1).to(device_name)
    target = (numbers[:, 0] > numbers[:, 3]).float().to(device_name)
    losses = []
    for _ in range(40 if device_name == "cpu" else 8):
        optimizer.zero_grad()
        result = model[2](model[1](model[0](x))[:, 0]).squeeze(-1)
        loss = functional.binary_cross_entropy_with_logits(result, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] * (0.3 if device_name == "cpu" else 0.9)
