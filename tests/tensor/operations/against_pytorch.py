"""Tensors of all layouts, and functions that are compared with PyTorch's, derivatives too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import array_of, assert_same, assert_same_outcome, outcome, torch_of

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(0)
TYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def make(shape: tuple[int, ...], kind: str = "float32", device: str = "cpu") -> Any:
    """Random elements."""
    numbers = np.asarray(RNG.standard_normal(shape) * 20)
    # NumPy gives empty arrays other strides than a tensor has.
    return tensor.empty(shape, dtype=dtypes.dtype_named(kind), device=device).copy_(
        tensor.from_numpy(numbers)
    )


def inputs(device: str, kind: str = "float32") -> dict[str, Any]:
    """Tensors of all ranks and layouts."""
    return {
        "number": make((), kind, device),
        "one": make((1,), kind, device),
        "vector": make((5,), kind, device),
        "empty": make((0,), kind, device),
        "matrix": make((4, 6), kind, device),
        "row": make((1, 5), kind, device),
        "transposed": make((4, 6), kind, device).t(),
        "no rows": make((0, 3), kind, device),
        "no columns": make((3, 0), kind, device),
        "words": make((3, 4, 16), kind, device),
        "unaligned": make((3, 4, 17), kind, device)[:, :, 1:],
        "steps": make((6, 4, 8), kind, device)[::2, 1:, ::3],
        "permuted": make((2, 3, 4), kind, device).permute(2, 0, 1),
        "stretched": make((3, 1), kind, device).expand(2, 3, 4),
        "nothing": make((2, 0, 3), kind, device),
        "four": make((2, 3, 2, 5), kind, device),
    }


def check(found: Callable[..., Any], expected: Callable[..., Any], *given: Any, **options: Any) -> None:
    """Assert that a function and PyTorch's have the same outcome."""
    theirs = [torch_of(x) if isinstance(x, tensor.Tensor) else x for x in given]
    named = {key: torch_of(x) if isinstance(x, tensor.Tensor) else x for key, x in options.items()}
    assert_same_outcome(outcome(found, *given, **options), outcome(expected, *theirs, **named), assert_alike)


def assert_alike(found: Any, expected: Any) -> None:
    """Assert that tensors, or several of them, are the same but for rounding."""
    if isinstance(expected, (tuple, list)):
        assert isinstance(found, tuple)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    if not expected.dtype.is_floating_point:
        assert_same(found, expected)
        return
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert found.stride() == expected.stride()
    np.testing.assert_allclose(
        array_of(found).astype(np.float64), array_of(expected).astype(np.float64), rtol=1e-5, atol=1e-5
    )


def derivatives(function: Callable[..., Any], given: list[Any], weight: Any, library: Any) -> list[Any]:
    """First derivatives of a weighted sum of the result's squares, and their own derivatives."""
    result = function(*given)
    weight = weight[: result.numel()].reshape(result.shape)
    first = library.autograd.grad((result * result * weight).sum(), given, create_graph=True)
    second = library.autograd.grad(sum((each**2 * (each + 1)).sum() for each in first), given)
    return [*first, *second]


def check_derivatives(
    found: Callable[..., Any], expected: Callable[..., Any], *given: Any, name: str = ""
) -> None:
    """Assert that the first and second derivatives are PyTorch's, and that the node is called as there."""
    mine = [x.detach().requires_grad_() for x in given]
    theirs = [torch_of(x).detach().requires_grad_() for x in given]
    weight = RNG.standard_normal(8000).astype(np.float32)
    ours = derivatives(found, mine, tensor.from_numpy(weight).to(mine[0].device), tensor)
    for one, other in zip(ours, derivatives(expected, theirs, torch.from_numpy(weight), torch), strict=True):
        needed = array_of(other)
        rounding = 1e-5 * max(float(np.abs(needed).max(initial=0)), 1)
        np.testing.assert_allclose(array_of(one), needed, rtol=1e-4, atol=rounding)
    if name:
        assert found(*mine).grad_fn.name() == name == expected(*theirs).grad_fn.name()


def check_derivatives_of_call(call: Callable[[Any, Any], Any], device: str, name: str) -> None:
    """:func:`check_derivatives` of ``call(library, x)`` for ``x`` of shape ``(3, 4, 6)``.

    The node is asked for its name where ``name`` is that of a node.
    """
    permuted = make((6, 3, 8), device=device).permute(1, 2, 0)[:, ::2] / 20
    # Kernels are the same for what is recorded; the simulator takes its time.
    for argument in (permuted, make((3, 4, 6)) / 20) if device == "cpu" else (permuted,):
        check_derivatives(
            lambda x: call(tensor, x),
            lambda x: call(torch, x),
            argument,
            name=name if name.endswith("Backward0") else "",
        )
