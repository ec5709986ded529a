"""Batch normalisation put into the layer before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.utils import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval
from tests.nn.parity import assert_like_pytorch


def normalized(layers: Any, lib: Any, kind: str, features: int, **options: Any) -> Any:
    """A normalisation with statistics that are not the first ones."""
    rng = np.random.default_rng(1)
    result = getattr(layers, f"BatchNorm{kind}")(features, **options).double().eval()
    with lib.no_grad():
        for name, each in (*result.named_parameters(), *result.named_buffers()):
            if each.is_floating_point():
                values = rng.uniform(0.5, 2, each.shape) if "var" in name else rng.standard_normal(each.shape)
                each.copy_(lib.from_numpy(np.asarray(values)))
    return result


LAYERS: dict[str, tuple[Any, str, dict[str, Any], tuple[int, ...]]] = {
    "conv": (lambda layers: layers.Conv2d(3, 4, 3), "2d", {}, (2, 3, 5, 5)),
    "no bias": (lambda layers: layers.Conv1d(3, 4, 3, bias=False), "1d", {}, (2, 3, 5)),
    "plain": (lambda layers: layers.Conv3d(2, 4, 2), "3d", {"affine": False}, (1, 2, 3, 3, 3)),
    "transposed": (lambda layers: layers.ConvTranspose2d(3, 4, 3), "2d", {}, (2, 3, 5, 5)),
    "linear": (lambda layers: layers.Linear(3, 4), "1d", {}, (6, 3)),
    "linear without bias": (lambda layers: layers.Linear(3, 4, bias=False), "1d", {}, (6, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_fused_layers_do_both(name: str) -> None:
    make, kind, options, shape = LAYERS[name]
    layer, bn = make(nn).double().eval(), normalized(nn, tensor, kind, 4, **options)
    before = layer.weight.detach().clone()
    if "linear" in name:
        fused = fuse_linear_bn_eval(layer, bn)
    else:
        fused = fuse_conv_bn_eval(layer, bn, transpose=name == "transposed")
    x = tensor.from_numpy(np.random.default_rng(0).standard_normal(shape))
    np.testing.assert_allclose(fused(x).detach().numpy(), bn(layer(x)).detach().numpy(), atol=1e-12)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), before.numpy())
    assert isinstance(fused.weight, nn.Parameter)
    assert fused.weight.requires_grad
    assert fused.weight.is_leaf
    assert fused.bias.requires_grad == (layer.bias is not None)


@pytest.mark.parity
def test_types_stay() -> None:
    def program(lib: Any, layers: Any) -> Any:
        weight, bias = layers.utils.fuse_conv_bn_weights(
            lib.ones(2, 3, 1).bfloat16(), None, lib.zeros(2), lib.ones(2), 0.0, lib.full((2,), 3.0), None
        )
        return str(weight.dtype), str(bias.dtype), weight.float(), bias.float(), bias.requires_grad

    assert_like_pytorch(program)
    weight, _ = fuse_conv_bn_weights(
        tensor.ones(2, 3, 1).half(), None, *(tensor.ones(2),) * 2, 0.0, None, None
    )
    assert weight.dtype is tensor.float16


def test_training_layers_cannot_be_fused() -> None:
    conv, bn, linear = nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.Linear(2, 3)
    with pytest.raises(AssertionError, match="only for eval"):
        fuse_conv_bn_eval(conv, bn)
    with pytest.raises(AssertionError, match="must not be None"):
        fuse_conv_bn_eval(conv.eval(), nn.BatchNorm1d(3, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match=r"linear.out_features=3 and bn.num_features=2"):
        fuse_linear_bn_eval(linear.eval(), nn.BatchNorm1d(2).eval())
