"""Per-sample gradients and ensembles of small models by ``func.vmap``, with no operation called for each sample."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import nn
import nn.functional as functional
import tensor
from tensor.func import functional_call, grad, stack_module_state, vmap


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, 3, stride=2, bias=False)
        self.norm = nn.GroupNorm(2, 6)
        self.out = nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.first(x)), 2)
        x = functional.adaptive_avg_pool2d(self.norm(self.second(x)), 1)
        return self.out(x.flatten(1))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.projection = nn.Linear(8, 8)
        self.feed_forward = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.out = nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        batch, length, width = x.shape
        heads = [
            each.view(batch, length, 2, width // 2).transpose(1, 2)
            for each in self.qkv(self.norm(x)).split(width, 2)
        ]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).contiguous().view(batch, length, width))
        return self.out(x + self.feed_forward(x)).transpose(1, 2)


def images(device: str) -> tuple[Any, Any]:
    return tensor.randn(3, 1, 6, 6, dtype=tensor.float64, device=device), tensor.tensor(
        [0, 4, 2], device=device
    )


def tokens(device: str) -> tuple[Any, Any]:
    given = tensor.randint(0, 11, (3, 6), device=device)
    return given[:, :-1], given[:, 1:]


CASES = pytest.mark.parametrize(("model_class", "data"), [(Convolutional, images), (Transformer, tokens)])


@CASES
@pytest.mark.sampled(4)
def test_each_sample_has_its_gradient(device_name: str, model_class: Any, data: Any) -> None:
    tensor.manual_seed(1)
    model = model_class().double().to(device_name)
    x, y = data(device_name)
    parameters = {path: each.detach() for path, each in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
    for number in range(3):
        model.zero_grad()
        functional.cross_entropy(model(x[number : number + 1]), y[number : number + 1]).backward()
        for path, each in model.named_parameters():
            assert found[path][number].allclose(each.grad, rtol=1e-8, atol=1e-10), path


@CASES
@pytest.mark.sampled(4)
def test_an_ensemble_is_one_call(device_name: str, model_class: Any, data: Any) -> None:
    tensor.manual_seed(2)
    models = [model_class().double().to(device_name) for _ in range(3)]
    x, y = data(device_name)
    parameters, buffers = stack_module_state(models)

    def of_one(parameters: Any, buffers: Any, x: Any) -> Any:
        return functional_call(models[0], (parameters, buffers), (x,))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = vmap(of_one, (0, 0, None))(parameters, buffers, x)
        own = vmap(of_one)(parameters, buffers, tensor.stack([x, x, x]))
    for model, a, b in zip(models, same, own, strict=True):
        assert a.allclose(model(x), rtol=1e-8, atol=1e-10)
        assert b.allclose(model(x), rtol=1e-8, atol=1e-10)
    # The stacked parameters are trained as others are.
    vmap(functional.cross_entropy, (0, None))(same, y).sum().backward()
    functional.cross_entropy(models[1](x), y).backward()
    for path, each in models[1].named_parameters():
        assert parameters[path].grad[1].allclose(each.grad, rtol=1e-8, atol=1e-10), path


def test_layers_under_vmap(device_name: str) -> None:
    tensor.manual_seed(3)
    layers = [
        (nn.Conv1d(2, 4, 3, groups=2, padding=1), (2, 2, 5)),
        (nn.ConvTranspose2d(2, 3, 2, stride=2), (2, 2, 4, 4)),
        (nn.Conv2d(2, 3, 2), (2, 4, 4)),
        (nn.AvgPool2d(2), (2, 2, 4, 4)),
        (nn.BatchNorm2d(2).eval(), (2, 2, 4, 4)),
        (nn.BatchNorm1d(2, track_running_stats=False), (3, 2)),
        (nn.InstanceNorm1d(2, affine=True), (3, 2, 4)),
        (nn.RMSNorm(4), (2, 4)),
        (nn.Upsample(scale_factor=2), (1, 2, 3, 3)),
        (nn.ReflectionPad2d(1), (1, 2, 3, 3)),
        (nn.Unfold(2), (1, 2, 3, 3)),
        (nn.PReLU(2), (3, 2, 4)),
        (nn.Bilinear(2, 2, 3), None),
        (nn.MSELoss(), None),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for layer, shape in layers:
            layer.double().to(device_name)
            count = 1 if shape is not None else 2
            batches = [
                tensor.randn(3, *(shape or (4, 2)), dtype=tensor.float64, device=device_name)
                for _ in range(count)
            ]
            expected = tensor.stack([layer(*sample) for sample in zip(*batches, strict=True)])
            assert vmap(layer)(*batches).allclose(expected, rtol=1e-8, atol=1e-10), layer
            parameters = {path: each.detach() for path, each in layer.named_parameters()}
            if not parameters:
                continue
            several = {path: tensor.stack([each, 2 * each, -each]) for path, each in parameters.items()}
            found = vmap(lambda p, *x, layer=layer: functional_call(layer, p, x))(several, *batches)
            for number in range(3):
                one = functional_call(
                    layer,
                    {path: each[number] for path, each in several.items()},
                    tuple(x[number] for x in batches),
                )
                assert found[number].allclose(one, rtol=1e-8, atol=1e-10), layer


@pytest.mark.parametrize(
    "layer", [nn.LSTM(3, 4, num_layers=2, bidirectional=True), nn.GRU(3, 4), nn.RNN(3, 4)]
)
def test_recurrent_layers_are_called_for_each_sample(layer: Any) -> None:
    layer.double()
    x = tensor.randn(3, 5, 2, 3, dtype=tensor.float64)
    parameters = {path: each.detach() for path, each in layer.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return functional_call(layer, parameters, (x,))[0].square().sum()

    with pytest.warns(UserWarning, match=r"no batching rule for recur\(\)"):
        found = vmap(grad(loss), (None, 0))(parameters, x)
    for number in range(3):
        for path, each in grad(loss)(parameters, x[number]).items():
            assert found[path][number].allclose(each, rtol=1e-8, atol=1e-10), path


def test_losses_under_vmap(device_name: str) -> None:
    tensor.manual_seed(4)
    scores, classes = (
        tensor.randn(3, 4, 5, device=device_name),
        tensor.randint(0, 5, (3, 4), device=device_name),
    )
    weight = tensor.rand(5, device=device_name)
    shares = scores.softmax(-1)
    losses = [
        (lambda x, y, r: functional.cross_entropy(x, y, reduction=r), scores, classes),
        (
            lambda x, y, r: functional.cross_entropy(x, y, weight, ignore_index=1, reduction=r),
            scores,
            classes,
        ),
        (lambda x, y, r: functional.cross_entropy(x, y, label_smoothing=0.2, reduction=r), scores, classes),
        (lambda x, y, r: functional.cross_entropy(x, y, reduction=r), scores, shares),
        (lambda x, y, r: functional.nll_loss(x[0], y[0], reduction=r), scores, classes),
        (lambda x, y, r: functional.mse_loss(x, y, reduction=r), scores, shares),
        (lambda x, y, r: functional.huber_loss(x, y, reduction=r), scores, shares),
        (lambda x, y, r: functional.kl_div(x, y, reduction=r), scores, shares),
        (lambda x, y, r: functional.binary_cross_entropy_with_logits(x, y, reduction=r), scores, shares),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss, x, y in losses:
            for reduction in ("none", "mean", "sum"):
                with warnings.catch_warnings():
                    # What PyTorch warns of, of the mean of a divergence.
                    warnings.filterwarnings("ignore", message="reduction: 'mean'")
                    expected = tensor.stack([loss(a, b, reduction) for a, b in zip(x, y, strict=True)])
                    found = vmap(lambda a, b, loss=loss, r=reduction: loss(a, b, r))(x, y)
                assert found.allclose(expected, rtol=1e-4, atol=1e-5)
