"""``autograd.functional``: values, structure, strictness and errors, as PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.autograd import functional, gradcheck, gradgradcheck

X = np.random.default_rng(1).standard_normal((2, 3))
Y = np.random.default_rng(2).standard_normal(3)
Z = np.array([0.5])


def one(x: Any) -> Any:
    return (x * x).exp().sum(-1)


def two(x: Any, y: Any) -> Any:
    return (x * y).exp(), x.sum(0) * y


def listed(x: Any, y: Any) -> Any:
    return (x * y,)


def linear(x: Any, y: Any) -> Any:
    return x.sum() * 2, y * 3


def scalar(x: Any, y: Any) -> Any:
    return ((x * y).exp() * y).sum()


def scalar_of_one(x: Any) -> Any:
    return (x * x * x).sum()


def linear_scalar(x: Any, y: Any) -> Any:
    return x.sum() + (y * y).sum()


def unused(x: Any, y: Any) -> Any:
    return (x * x).sum()


def cut(x: Any, y: Any) -> Any:
    return (x * y).sum().detach()


def partly_cut(x: Any, y: Any) -> Any:
    return x * 2, y.detach()


def with_one(x: Any) -> Any:
    return x[None] if x.ndim == 0 else x.sum()


def wrong(*_: Any) -> Any:
    return 3.0


def wrong_in_tuple(x: Any, *_: Any) -> Any:
    return x, "y"


FUNCTIONS = [
    (one, (X,), False),
    (one, (X,), True),
    (two, (X, Y), True),
    (listed, (X, Y), True),
    (linear, (X, Y), True),
    (scalar, (X, Y), True),
    (scalar_of_one, (X,), False),
    (scalar_of_one, (Z,), False),
    (linear_scalar, (X, Y), True),
    (unused, (X, Y), True),
    (cut, (X, Y), True),
    (partly_cut, (X, Y), True),
    (with_one, (Z,), False),
    (with_one, (X,), False),
    (wrong, (X,), False),
    (wrong_in_tuple, (X, Y), True),
]


def call(
    library: Any, module: Any, name: str, case: Any, create_graph: bool, strict: bool, vector: Any
) -> Any:
    function, arrays, several = case
    argument = tuple(library.tensor(x, requires_grad=create_graph) for x in arrays)
    options: dict[str, Any] = {"create_graph": create_graph, "strict": strict}
    if vector == "inputs":
        options["v"] = argument if several else argument[0]
    elif vector == "outputs":
        result = function(*argument)
        result = tuple(
            x.detach() if isinstance(x, library.Tensor) else x
            for x in (result if isinstance(result, tuple) else (result,))
        )
        options["v"] = result if len(result) > 1 or function is listed else result[0]
    try:
        return getattr(module, name)(function, argument if several else argument[0], **options)
    except Exception as error:
        return error


def assert_same(found: Any, expected: Any, create_graph: bool) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b, create_graph)
        return
    assert isinstance(found, tensor.Tensor)
    assert tuple(found.shape) == tuple(expected.shape)
    if not create_graph:
        assert not found.requires_grad
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize("create_graph", [False, True], ids=["", "graph"])
@pytest.mark.parametrize("name", functional.__all__)
def test_results_and_errors_are_pytorchs(name: str, create_graph: bool, strict: bool) -> None:
    torch = pytest.importorskip("torch")
    vectors = [None, "outputs" if name == "vjp" else "inputs"] if name[-1] == "p" else [None]
    seen = set()
    for case in FUNCTIONS:
        for vector in vectors:
            ours, theirs = (
                call(library, module, name, case, create_graph, strict, vector)
                for library, module in ((tensor, functional), (torch, torch.autograd.functional))
            )
            where = (name, case[0].__name__, vector)
            if isinstance(theirs, Exception):
                assert isinstance(ours, Exception), (where, ours, theirs)
                assert type(ours) is type(theirs), (where, ours, theirs)
                # What is said first, up to the types and shapes that differ.
                assert str(ours)[:45] == str(theirs)[:45], where
                seen.add("error")
            else:
                assert not isinstance(ours, Exception), (where, ours, theirs)
                assert_same(ours, theirs, create_graph)
                seen.add("result")
    assert seen == {"error", "result"}


@pytest.mark.parity
@pytest.mark.parametrize("name", functional.__all__)
def test_arguments_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = inspect.signature(getattr(functional, name)).parameters.values()
    theirs = inspect.signature(getattr(torch.autograd.functional, name)).parameters.values()
    assert [(x.name, x.default, x.kind) for x in ours] == [(x.name, x.default, x.kind) for x in theirs]


@pytest.mark.parametrize("vectorize", [False, True])
def test_strategies_agree(device_name: str, vectorize: bool) -> None:
    x, y = (tensor.tensor(each, device=device_name) for each in (X, Y))
    by_rows = functional.jacobian(two, (x, y), vectorize=vectorize)
    by_columns = functional.jacobian(two, (x, y), vectorize=vectorize, strategy="forward-mode")
    for a, b in zip(by_rows, by_columns, strict=True):
        for c, d in zip(a, b, strict=True):
            assert c.device == d.device == x.device
            np.testing.assert_allclose(c.cpu().numpy(), d.cpu().numpy(), rtol=1e-12)
    second = functional.hessian(scalar, (x, y))
    other = functional.hessian(scalar, (x, y), outer_jacobian_strategy="forward-mode")
    for a, b in zip(second, other, strict=True):
        for c, d in zip(a, b, strict=True):
            np.testing.assert_allclose(c.cpu().numpy(), d.cpu().numpy(), rtol=1e-12)


def test_products_are_those_of_the_matrices(device_name: str) -> None:
    x = tensor.tensor(X, device=device_name)
    v = tensor.tensor(X[::-1].copy(), device=device_name)
    w = tensor.tensor(Y[:2], device=device_name)
    matrix = functional.jacobian(one, x).cpu().numpy()
    np.testing.assert_allclose(
        functional.vjp(one, x, w)[1].cpu().numpy(), np.einsum("o,oij->ij", Y[:2], matrix), rtol=1e-12
    )
    np.testing.assert_allclose(
        functional.jvp(one, x, v)[1].cpu().numpy(), np.einsum("oij,ij->o", matrix, X[::-1]), rtol=1e-12
    )
    second = functional.hessian(scalar_of_one, x).cpu().numpy()
    expected = np.einsum("ijkl,kl->ij", second, X[::-1])
    for name in ("hvp", "vhp"):
        result = getattr(functional, name)(scalar_of_one, x, v)[1]
        np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_results_can_be_differentiated(strategy: str) -> None:
    x = tensor.tensor(X, requires_grad=True)
    v = tensor.tensor(X + 1, requires_grad=True)
    w = tensor.tensor(Y[:2], requires_grad=True)
    assert gradcheck(lambda x: functional.jacobian(one, x, create_graph=True, strategy=strategy), x)
    assert gradcheck(
        lambda x: functional.hessian(scalar_of_one, x, create_graph=True, outer_jacobian_strategy=strategy),
        x,
    )
    assert gradcheck(lambda x, w: functional.vjp(one, x, w, create_graph=True), (x, w))
    assert gradcheck(lambda x, v: functional.jvp(one, x, v, create_graph=True), (x, v))
    assert gradcheck(lambda x, v: functional.hvp(scalar_of_one, x, v, create_graph=True), (x, v))
    assert gradgradcheck(lambda x, v: functional.vhp(scalar_of_one, x, v, create_graph=True)[1], (x, v))


def test_nothing_is_accumulated_and_no_mode_matters() -> None:
    x = tensor.tensor(X, requires_grad=True)
    with tensor.no_grad():
        result = functional.jacobian(one, x)
        assert not tensor.is_grad_enabled()
    assert x.grad is None
    np.testing.assert_allclose(result.numpy(), functional.jacobian(one, x).numpy())
    assert tensor.is_grad_enabled()


def test_tensors_without_elements_or_dimensions() -> None:
    empty = tensor.ones(0, 2)
    assert functional.jacobian(lambda x: x * 2, empty).shape == (0, 2, 0, 2)
    assert functional.jacobian(lambda x: x.sum() * tensor.ones(3), empty).shape == (3, 0, 2)
    x = tensor.tensor(2.0)
    assert functional.jacobian(lambda x: x * x, x).tolist() == 4
    assert functional.jacobian(lambda x: x * x, x, strategy="forward-mode").tolist() == 4
    assert functional.hessian(lambda x: x**3, x).tolist() == 12


def test_what_the_strategies_refuse() -> None:
    x = tensor.ones(2)
    with pytest.raises(AssertionError, match=r"Expected strategy.*got 'sideways'"):
        functional.jacobian(one, x, strategy="sideways")
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.jacobian(one, x, strict=True, strategy="forward-mode")
    z = tensor.ones(2, dtype=tensor.complex64)
    with pytest.raises(RuntimeError, match=r"real outputs here.*view_as_real"):
        functional.jacobian(lambda z: z * z, z)
    with pytest.raises(RuntimeError, match=r"real inputs here"):
        functional.jacobian(lambda z: z.real, z, strategy="forward-mode")
    result = functional.jacobian(lambda z: z.real * 2, z)
    assert result.tolist() == [[2, 0], [0, 2]]


def test_misshapen_vectors() -> None:
    x = tensor.ones(2)
    with pytest.raises(RuntimeError, match="should contain a single Tensor, got 2"):
        functional.jvp(one, x, (x, x))
    with pytest.raises(RuntimeError, match="invalid length: should be 1 but got 2"):
        functional.jvp(one, (x,), (x, x))
    with pytest.raises(RuntimeError, match=r"^v has invalid size: should be .*\[2\]\) but got .*\[3\]"):
        functional.jvp(one, x, tensor.ones(3))
    with pytest.raises(RuntimeError, match=r"^Entry 0 in v has invalid size"):
        functional.jvp(one, (x,), (tensor.ones(3),))
    with pytest.raises(TypeError, match="The v given to jvp must be either a Tensor"):
        functional.jvp(one, x, 3)
