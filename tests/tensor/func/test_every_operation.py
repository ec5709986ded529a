"""``vmap`` of every operation that has samples gives what a loop over the samples of a batch gives."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.func import grad, vmap
from tests.pytorch import torch
from tests.tensor.comparison import array_of
from tests.tensor.expressions import value
from tests.tensor.operations import samples
from tests.tensor.operations.operands import KINDS, operands
from tests.tensor.operations.test_every_operation import ARRAYS, SAMPLES

SIZE = 3
#: Expressions of operations that vmap refuses: of memory, of shapes that depend on elements, and that draw numbers.
REFUSED = frozenset(
    each
    for name in [
        "argwhere",
        "as_strided",
        "as_strided_",
        "as_strided_scatter",
        "masked_select",
        "nonzero",
        "pca_lowrank",
        "resize_as_",
        "svd_lowrank",
        "unique",
        "unique_consecutive",
        "where",
    ]
    for each in SAMPLES[name]
)


def batch_of(array: Any) -> Any:
    """Arrays of the same domain along a new first dimension."""
    return np.stack([np.roll(array, number, -1) if array.ndim else array + number for number in range(SIZE)])


def names_in(expression: str) -> list[str]:
    return [name for name in ARRAYS if re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", expression)]


def flat(result: Any) -> list[Any]:
    """Tensors of a result, however they are nested."""
    if isinstance(result, (tuple, list)):
        return [leaf for each in result for leaf in flat(each)]
    return [result]


def compare(function: Any, batches: list[Any], in_dims: tuple[Any, ...], what: str) -> bool:
    """Assert that vmap and a loop agree; False where vmap refuses what depends on the elements."""

    def sample(number: int) -> list[Any]:
        return [
            x.clone() if dim is None else x.select(dim, number).clone()
            for x, dim in zip(batches, in_dims, strict=True)
        ]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected: list[list[Any]] = []
        failed: Exception | None = None
        try:
            expected = [flat(function(*sample(number))) for number in range(SIZE)]
        except Exception as error:
            failed = error
        tensors = [each for row in expected for each in row]
        if failed is None and not all(isinstance(each, tensor.Tensor) for each in tensors):
            return False
        try:
            found = flat(vmap(lambda *x: flat(function(*x)), in_dims)(*[x.clone() for x in batches]))
        except Exception as error:
            if "inplace arithmetic" in str(error) or (str(error).startswith("vmap") and what in REFUSED):
                return False
            assert failed is not None, f"{what}: {type(error).__name__}: {error}"
            return False
    assert failed is None, f"{what}: vmap gave {found} where a loop raises {failed!r}"
    for position, leaf in enumerate(found):
        rows = tensor.stack([row[position] for row in expected])
        assert leaf.shape == rows.shape, what
        assert leaf.dtype == rows.dtype, what
        if leaf.is_floating_point() or leaf.is_complex():
            assert leaf.allclose(rows, rtol=1e-9, atol=1e-9, equal_nan=True), (what, leaf, rows)
        else:
            assert leaf.equal(rows), (what, leaf, rows)
    return True


@pytest.mark.parametrize("name", SAMPLES)
def test_vmap_is_a_loop(name: str) -> None:
    for expression in SAMPLES[name]:
        names = names_in(expression)
        if names:
            check(expression, names)


@pytest.mark.parametrize("name", SAMPLES)
def test_gradients_pass_through_vmap(name: str) -> None:
    for expression in SAMPLES[name]:
        names = [each for each in names_in(expression) if ARRAYS[each].dtype.kind == "f"]
        others = {each: tensor.from_numpy(ARRAYS[each].copy()) for each in names_in(expression)}
        batches = [tensor.from_numpy(batch_of(ARRAYS[each])) for each in names]
        if batches:
            check_gradients(expression, names, others, batches)


def check_gradients(expression: str, names: list[str], others: dict[str, Any], batches: list[Any]) -> None:
    def total(*given: Any) -> Any:
        results = flat(value(expression, tensor, **(others | dict(zip(names, given, strict=True)))))
        parts = [each.abs() if each.is_complex() else each for each in results if each.requires_grad]
        return sum((each * (each.detach() * 0.3).cos()).sum() for each in parts)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = []
            for number in range(SIZE):
                leaves = [x[number].clone().requires_grad_() for x in batches]
                expected.append(tensor.autograd.grad(total(*leaves), leaves, materialize_grads=True))
        except Exception:  # it has no gradient
            return
        try:
            found = vmap(grad(total, tuple(range(len(batches)))))(*batches)
        except RuntimeError as error:
            assert str(error).startswith("vmap"), f"{expression}: {error}"
            return
    for position, each in enumerate(found):
        rows = tensor.stack([row[position] for row in expected])
        assert each.allclose(rows, rtol=1e-9, atol=1e-9, equal_nan=True), (expression, each, rows)


def check(expression: str, names: list[str]) -> None:
    whole = [tensor.from_numpy(batch_of(ARRAYS[name])) for name in names]

    def function(*given: Any) -> Any:
        return value(expression, tensor, **dict(zip(names, given, strict=True)))

    compare(function, whole, (0,) * len(names), expression)
    for number in range(len(names) if len(names) > 1 else 0):
        # One operand is the same for all.
        mixed = list(whole)
        mixed[number] = whole[number][0].clone()
        compare(
            function, mixed, tuple([None if each == number else 0 for each in range(len(names))]), expression
        )


@pytest.mark.parity
@pytest.mark.parametrize(
    "name",
    [name for name in SAMPLES if any(names_in(each) and each not in REFUSED for each in SAMPLES[name])],
)
def test_vmap_is_pytorchs(name: str) -> None:
    for expression in SAMPLES[name]:
        names = names_in(expression)
        if not names or expression in REFUSED:
            continue

        def run(library: Any, expression: str = expression, names: list[str] = names) -> list[Any]:
            batches = [library.from_numpy(batch_of(ARRAYS[each])) for each in names]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mapped = library.vmap(
                    lambda *x: flat(value(expression, library, **dict(zip(names, x, strict=True))))
                )
                return flat(mapped(*batches))

        try:
            expected = run(torch)
        except Exception:  # PyTorch refuses more
            continue
        if expression in ("m.tril(v)", "m.triu(v)", "m.index_select(x, 1, i)"):
            # PyTorch takes samples here that it refuses outside of vmap.
            with pytest.raises((RuntimeError, IndexError)):
                run(tensor)
            continue
        for found, other in zip(run(tensor), expected, strict=True):
            np.testing.assert_allclose(array_of(found), array_of(other), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sample", samples.SAMPLES, ids=str)
def test_vmap_of_pointwise_operations(sample: samples.Sample) -> None:
    for kind in sample.kinds:
        dtype = KINDS[kind][0]

        def function(*given: Any) -> Any:
            return sample.function(*given, **sample.arguments)

        broadcasting = () if sample.condition else (((SIZE, 2, 4), (SIZE, 4), (SIZE,)),)
        for shapes in (((SIZE, 2, 4),), *broadcasting):
            count = sample.operands
            arrays = operands(sample, dtype, *(shapes[:count] if len(shapes) > 1 else shapes))
            # Samples of operands that broadcast: the batch comes first, and then what is aligned from behind.
            batches = [tensor.from_numpy(np.array(each)) for each in arrays]
            dims: tuple[Any, ...] = (0,) * len(batches)
            compare(function, batches, dims, str(sample))
            if len(batches) > 1:
                compare(function, [batches[0][0], *batches[1:]], (None, *dims[1:]), str(sample))
