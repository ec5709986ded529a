"""``func.vmap``: where batches are, nesting, random numbers, writing in place, and what is refused."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import nn
import nn.functional as functional
import tensor
from tensor.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = np.random.default_rng(3).standard_normal((3, 2))


@pytest.fixture(autouse=True)
def _no_loops() -> Any:
    """What falls back to a loop says so; nothing here may."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def real(array: Any, device: str = "cpu") -> Any:
    return tensor.tensor(array, dtype=tensor.float64, device=device)


def rows(function: Any, *batches: Any) -> Any:
    return tensor.stack([function(*sample) for sample in zip(*batches, strict=True)])


def test_samples_look_like_samples(device_name: str) -> None:
    x = real(X, device_name)
    seen = []

    def look(sample: Any) -> Any:
        seen.append((tuple(sample.shape), sample.dim(), sample.dtype, str(sample.device)[:4], len(sample)))
        return sample * 2

    assert vmap(look)(x).equal(2 * x)
    assert seen == [((2,), 1, tensor.float64, device_name[:4], 2)]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sin() @ x,
        lambda x: x.softmax(0).log() + x.sum(),
        lambda x: tensor.stack([x, 2 * x]).T.reshape(-1)[1:3],
        lambda x: tensor.where(x > 0, x, -x).cumsum(0),
        lambda x: (x.outer(x) + 2 * tensor.eye(2, dtype=x.dtype, device=x.device)).inverse(),
        lambda x: tensor.einsum("i,j->ij", x, x).max(1).values,
        lambda x: next(iter(x)) * x.new_ones(2) + tensor.zeros_like(x).add_(x),
        lambda x: x if x.dim() == 1 else None,
        lambda x: functional.gelu(functional.layer_norm(x, (2,))),
        lambda x: x.float().sum().double() + x.argmax(),
    ],
)
def test_vmap_is_a_loop(device_name: str, function: Any) -> None:
    x = real(X, device_name)
    assert vmap(function)(x).allclose(rows(function, x))


def test_operations_are_called_once_for_all_samples() -> None:
    calls = []

    def count(x: Any) -> Any:
        calls.append(1)
        return x.exp()

    vmap(count)(tensor.randn(50, 2))
    assert len(calls) == 1


def test_dimensions_of_batches(device_name: str) -> None:
    x, y = real(X, device_name), real(X.T.copy(), device_name)
    assert vmap(tensor.dot, in_dims=(0, 1))(x, y).allclose((x * x).sum(1))
    assert vmap(lambda x: x, in_dims=-1)(x).equal(x.T)
    assert vmap(lambda x: x, out_dims=-1)(x).equal(x.T)
    assert vmap(lambda x, w: x * w, (0, None))(x, x[0]).equal(x * x[0])
    assert vmap(lambda x, w: x + w["a"][0], in_dims=(0, {"a": [None]}))(x, {"a": [x[0]]}).equal(x + x[0])
    found = vmap(lambda x: {"a": x, "b": (x.sum(), 2 * x)}, out_dims={"a": 1, "b": (0, 1)})(x)
    assert found["a"].equal(x.T)
    assert found["b"][0].allclose(x.sum(1))
    assert found["b"][1].equal(2 * x.T)
    assert vmap(lambda x: tensor.ones(2))(x).shape == (3, 2)
    assert vmap(lambda x: (x, 7), out_dims=(0, None))(x)[1] == 7
    assert vmap(lambda x, scale=1: x * scale)(x, scale=3).equal(3 * x)
    assert vmap(lambda x: x.sum(), in_dims=1)(real(np.zeros((2, 0)), device_name)).shape == (0,)


def test_chunks_give_the_same() -> None:
    x = real(X)
    sizes = []

    def seen(x: Any) -> Any:
        sizes.append(x.value.shape[0])
        return x.exp(), x.sum()

    found = vmap(seen, out_dims=(1, 0), chunk_size=2)(x)
    assert sizes == [2, 1]
    assert found[0].equal(x.exp().T)
    assert found[1].allclose(x.sum(1))


def test_maps_nest(device_name: str) -> None:
    x, y = real(X, device_name), real(X[:, ::-1].copy(), device_name)
    outer = vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)
    assert outer.allclose(x @ y.T)
    a, b = real(np.arange(24.0).reshape(4, 2, 3), device_name), real(X.T.copy(), device_name)
    three = vmap(vmap(vmap(lambda a, b: a * b, (0, None)), (None, 0)), (0, None))(a, b)
    assert three.equal(a[:, None] * b[None, :, None])


def test_indexing_by_batched_indices(device_name: str) -> None:
    table = real(np.arange(24).reshape(2, 3, 4), device_name)
    index = tensor.tensor([[0, 1], [2, 0]], device=device_name)
    for function in (
        lambda t, i: t[i],
        lambda t, i: t[:, i],
        lambda t, i: t[..., i],
        lambda t, i: t[i, :, 0] if t.dim() > 2 else t[i, 1:],
        lambda t, i: t[i[0]],
        lambda t, i: t[i, i],
        lambda t, i: t[None, i, None],
    ):
        for in_dims in ((0, 0), (None, 0), (0, None)):
            batches = [
                [x[number] if dim == 0 else x for number in range(2)]
                for x, dim in zip((table, index % 2), in_dims, strict=True)
            ]
            expected = rows(function, *batches)
            assert vmap(function, in_dims)(table, index % 2).equal(expected)


def test_apart_index_tensors_put_their_dimensions_in_front() -> None:
    table = real(np.arange(48).reshape(2, 2, 3, 4))
    index = tensor.tensor([[0, 1], [1, 0]])
    first = index[0]
    keys = (lambda i: (i, slice(None), i), lambda i: (slice(None), i, i), lambda i: (0, slice(None), i))
    for key in keys:

        def function(t: Any, i: Any, key: Any = key) -> Any:
            return t[key(i)]

        assert vmap(function)(table, index).equal(rows(function, table, index))
        expected = rows(lambda t, key=key: t[key(first)], table)
        assert vmap(lambda t, key=key: t[key(first)])(table).equal(expected)


def test_writing_in_place(device_name: str) -> None:
    x = real(X, device_name)

    def write(x: Any) -> Any:
        y = tensor.zeros_like(x)
        y[0] = x[1] * 2
        y[1:] += x[:1]
        y.mul_(x).clamp_(max=5.0)
        return y

    assert vmap(write)(x).allclose(rows(write, x))
    own = x.clone()
    vmap(lambda x: x.add_(1))(own)
    assert own.equal(x + 1)
    same = real([0.0, 0.0], device_name)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda x: same.add_(x))(x)
    with pytest.raises(RuntimeError, match="same for all samples"):
        vmap(lambda x: same.__setitem__(0, x[0]))(x)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda x: same.copy_(x))(x)
    assert same.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: x.sum().item(), r"calling \.item\(\)"),
        (lambda x: float(x.sum()), r"calling \.item\(\)"),
        (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
        (lambda x: x.tolist(), "data pointer"),
        (lambda x: x.numpy(), "data pointer"),
        (lambda x: x.nonzero(), "dynamic shape"),
        (lambda x: x[x > 0], "boolean mask"),
        (lambda x: x.unique(), "dynamic shape"),
        (lambda x: tensor.equal(x, x), "isn't supported"),
        (lambda x: tensor.allclose(x, x), "isn't supported"),
        (lambda x: x.untyped_storage(), "no memory of its own"),
        (lambda x: tensor.add(x, x, out=tensor.empty(2)), "out="),
        (lambda x: x.sum().backward(), r"backward\(\) called inside"),
        (lambda x: x.requires_grad_(), "requires_grad_"),
    ],
)
def test_what_a_batch_cannot_give(function: Any, match: str) -> None:
    with pytest.raises(RuntimeError, match=match):
        vmap(function)(real(X))
    # Operations are their own again.
    assert tensor.add(real(X), 1).equal(real(X) + 1)
    assert tensor.add.__wrapped__.__code__.co_name == "add"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: vmap(lambda x: 3)(x), ValueError, "must only return Tensors, got type <class 'int'>"),
        (
            lambda x: vmap(lambda x, y: x)(x, x[:2]),
            ValueError,
            r"same size in the mapped dimension, got sizes \[3, 2\]",
        ),
        (lambda x: vmap(lambda x: x)(3), ValueError, "We cannot vmap over non-Tensor arguments"),
        (lambda x: vmap(lambda x: x)(), ValueError, "got no inputs"),
        (lambda x: vmap(lambda x: x, in_dims=2)(x), ValueError, "Tensor of dimensionality 2"),
        (lambda x: vmap(lambda x: x, in_dims=None)(x), ValueError, "expected `in_dims` to be int"),
        (lambda x: vmap(lambda x: x, in_dims=(None,))(x), ValueError, "nothing to map over"),
        (lambda x: vmap(lambda x: x, in_dims=(0, 0))(x), ValueError, "in_dims is not compatible"),
        (lambda x: vmap(lambda x: x, in_dims=[0])(x), ValueError, "got: <class 'list'>"),
        (lambda x: vmap(lambda x: x, out_dims="a")(x), ValueError, "`out_dims` must be an int, None"),
        (lambda x: vmap(lambda x: (x, x), out_dims=(0,))(x), ValueError, "out_dims is not compatible"),
        (lambda x: vmap(lambda x: x, out_dims=5)(x), IndexError, "Dimension out of range"),
        (lambda x: vmap(lambda x: x, out_dims=None)(x), ValueError, "when out_dim is None"),
        (lambda x: vmap(lambda x: x, randomness="a"), RuntimeError, "Only allowed values for randomness"),
        (lambda x: vmap(lambda x: x, chunk_size=0), ValueError, "greater than 0"),
        (lambda x: vmap(lambda x: x.sum(1))(x), IndexError, r"range of \[-1, 0\], but got 1"),
    ],
)
def test_errors(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(real(X))


def test_random_numbers(device_name: str) -> None:
    x = real(X, device_name)
    for function in (
        lambda x: tensor.rand(4),
        lambda x: tensor.randn_like(x),
        lambda x: tensor.randint(0, 1000, (4,)),
        lambda x: functional.dropout(x * 0 + 1.0),
        lambda x: tensor.zeros_like(x).uniform_(),
        lambda x: x.new_zeros(4).normal_(),
    ):
        with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
            vmap(function)(x)
        tensor.manual_seed(0)
        same = vmap(function, randomness="same")(x)
        assert same[0].equal(same[1])
        assert same[0].equal(same[2])
    for function in (
        lambda x: tensor.rand(4),
        lambda x: tensor.randn_like(x),
        lambda x: x.new_zeros(4).normal_(),
    ):
        tensor.manual_seed(0)
        different = vmap(function, randomness="different")(x)
        assert not different[0].equal(different[1])
    tensor.manual_seed(0)
    drawn = vmap(lambda x: tensor.rand(2), randomness="different")(x)
    tensor.manual_seed(0)
    assert drawn.equal(tensor.rand(3, 2))
    mask = vmap(lambda x: functional.dropout2d(x), randomness="different")(
        tensor.ones(8, 1, 4, 2, 2, device=device_name)
    )
    assert mask.flatten(3).std(-1).max().item() == 0.0
    assert mask.sum((2, 3, 4)).unique().numel() > 1
    assert vmap(lambda x: functional.dropout(x, training=False))(x).equal(x)
    common = tensor.zeros(2, device=device_name)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda x: common.normal_() + x, randomness="different")(x)


class Doubled(tensor.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return tensor.from_numpy(x.detach().numpy() * 2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class DoubledForEach(Doubled):
    generate_vmap_rule = True


class DoubledAtOnce(Doubled):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        assert (info.batch_size, info.randomness, in_dims) == (3, "error", (0,))
        return DoubledAtOnce.apply(x), 0


def test_functions_of_users() -> None:
    x = real(X)
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Doubled.apply)(x)
    for function in (DoubledAtOnce, DoubledForEach):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert vmap(function.apply)(x).equal(2 * x)
            assert vmap(grad(lambda x, f=function: (f.apply(x) * x).sum()))(x).allclose(4 * x)


def test_what_has_no_rule_is_called_for_each_sample_and_says_so() -> None:
    counts = tensor.tensor([[0, 1, 1], [2, 2, 2]])
    with pytest.warns(UserWarning, match=r"no batching rule for bincount\(\)"):
        found = vmap(lambda x: tensor.bincount(x, minlength=3))(counts)
    assert found.tolist() == [[1, 2, 0], [0, 0, 3]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="not possible with an empty batch"):
            vmap(tensor.bincount)(counts[:0])


def test_derivatives_inside(device_name: str) -> None:
    x = real(X, device_name)

    def f(x: Any) -> Any:
        return (x.sin() * x.sum()).prod()

    def g(x: Any) -> Any:
        return x.exp() * x[0]

    assert vmap(grad(f))(x).allclose(rows(grad(f), x))
    assert vmap(hessian(f))(x).allclose(rows(hessian(f), x))
    assert vmap(jacrev(g))(x).allclose(rows(jacrev(g), x))
    assert vmap(jacfwd(g))(x).allclose(rows(jacfwd(g), x))
    assert vmap(lambda x, t: jvp(g, (x,), (t,))[1])(x, x).allclose(
        rows(lambda x, t: jvp(g, (x,), (t,))[1], x, x)
    )
    assert vmap(lambda x, c: vjp(g, x)[1](c)[0])(x, x).allclose(rows(lambda x, c: vjp(g, x)[1](c)[0], x, x))
    # Of a tensor that is the same for all, each sample has a gradient of its own.
    w = x[0]
    loss = lambda w, x: (w * x).sum() ** 2  # noqa: E731
    assert vmap(grad(loss), (None, 0))(w, x).allclose(rows(lambda x: grad(loss)(w, x), x))
    twice = vmap(vmap(grad(loss), (None, 0)), (None, 0))(w, tensor.stack([x, 2 * x]))
    assert twice[1].allclose(rows(lambda x: grad(loss)(w, 2 * x), x))
    (by_sample,) = vmap(lambda x: (grad(lambda y: (x * y).sum())(w),))(x)
    assert by_sample.equal(x)


def test_derivatives_outside(device_name: str) -> None:
    x = real(X, device_name)
    assert grad(lambda x: vmap(lambda r: (r**3).sum())(x).sum())(x).allclose(3 * x**2)
    leaf = x.clone().requires_grad_()
    vmap(lambda r: (r**3).sum())(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.allclose(3 * x**2)
    # Per-sample gradients can be differentiated again.
    assert grad(lambda w: vmap(grad(lambda w, r: (w * r).sum() ** 2), (None, 0))(w, x).sum())(x[0]).allclose(
        2 * (x.T @ x).sum(1)
    )


def test_maps_over_functions_of_cotangents_and_tangents() -> None:
    x, basis = real(X[0]), tensor.eye(2, dtype=tensor.float64)

    def g(x: Any) -> Any:
        return x.exp() * x[0]

    expected = jacrev(g)(x)
    _, pullback = vjp(g, x)
    assert vmap(pullback)(basis)[0].allclose(expected)
    _, push = linearize(g, x)
    assert vmap(push, out_dims=1)(basis).allclose(expected)
    assert vmap(lambda t: jvp(g, (x,), (t,))[1], out_dims=1)(basis).allclose(expected)


def test_autograd_inside() -> None:
    x = real(X)
    weight = real(X[0]).requires_grad_()

    def f(x: Any) -> Any:
        (found,) = tensor.autograd.grad((x**3).sum(), x)
        return found

    leaf = x.clone().requires_grad_()
    assert vmap(f)(leaf).allclose(3 * x**2)
    with pytest.raises(RuntimeError, match=r"use func\.grad, which gives one for each"):
        vmap(lambda x: tensor.autograd.grad((x * weight).sum(), weight)[0])(x)


def test_other_threads_and_later_calls_see_plain_operations() -> None:
    inside, leave = threading.Event(), threading.Event()

    def waits(x: Any) -> Any:
        inside.set()
        assert leave.wait(10)
        return x + 1

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(vmap(waits)(real(X))))
    thread.start()
    assert inside.wait(10)
    assert tensor.rand(2).shape == (2,)
    assert vmap(lambda x: x * 2)(real(X)).equal(real(X) * 2)
    assert (real(X) + 1).sum().item() == pytest.approx(X.sum() + X.size)
    leave.set()
    thread.join()
    assert found[0].equal(real(X) + 1)


def test_parameters_and_batch_norms() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double()
    x = real(X)[None].expand(4, 3, 2)
    with pytest.raises(RuntimeError, match="running_var, which will be updated in place, were not batched"):
        vmap(model)(x)
    model.eval()
    assert vmap(model)(x).allclose(model(x[0]).expand(4, 3, 3))
