"""One sample of an operation on both libraries: in what results and gradients differ."""

from __future__ import annotations

import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

import tensor
from tests.pytorch import torch

from .conversion import array_of, converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Relative to the expected element, and relative to the largest expected element or 1.
_TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "complex128": (1e-9, 1e-10),
    "float32": (1e-4, 1e-5),
    "complex64": (1e-4, 1e-5),
    "bfloat16": (2e-2, 8e-3),
}


def differences(
    info: Any, function: Callable[..., Any], sample: Any, seed: str, device: str = "cpu"
) -> list[str]:
    """In what ``function`` on ``device`` differs from PyTorch's operation, in a few words each.

    dtypes, shapes, elements and ``requires_grad`` of results are compared, and the gradients by ``seed``'s cotangents of
    what requires gradients. A sample that PyTorch refuses has to be refused.
    """
    arguments = converted((sample.input, sample.args, sample.kwargs), device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _outcome(info.op, sample.input, sample.args, sample.kwargs)
        result = _outcome(function, *arguments)
        if isinstance(expected, Exception) and isinstance(result, Exception):
            return []
        if isinstance(expected, Exception) or isinstance(result, Exception):
            return [f"result: {_short(result)} where PyTorch's is {_short(expected)}"]
        # Without what is not determined, such as the signs of eigenvectors.
        result, expected = (sample.output_process_fn_grad(each) for each in (result, expected))
        return list(_compared(result, expected, "result")) or list(
            _compared_gradients(result, expected, arguments, sample, seed, device)
        )


def _outcome(function: Callable[..., Any], first: Any, others: Any, options: Any) -> Any:
    try:
        return function(first, *others, **options)
    except Exception as error:
        return error


def _compared_gradients(
    result: Any, expected: Any, arguments: Any, sample: Any, seed: str, device: str
) -> Iterator[str]:
    outputs = [
        pair for pair in zip(_tensors(result), _tensors(expected), strict=True) if pair[1].requires_grad
    ]
    theirs = [x for x in _tensors((sample.input, sample.args, sample.kwargs)) if x.requires_grad]
    ours = [x for x in _tensors(arguments) if x.requires_grad]
    if not outputs or not theirs:
        return
    random = np.random.default_rng(zlib.crc32(seed.encode()))
    cotangents = [_random_like(each, random) for _, each in outputs]
    try:
        expected = torch.autograd.grad(
            [each for _, each in outputs],
            theirs,
            cotangents,
            allow_unused=True,
        )
    except RuntimeError:
        # PyTorch has no derivative of it.
        return
    try:
        gradients = tensor.autograd.grad(
            [each for each, _ in outputs],
            ours,
            converted(cotangents, device),
            allow_unused=True,
        )
    except Exception as error:
        yield f"gradient: {error!r}"
        return
    yield from _compared(gradients, expected, "gradient")


def _random_like(value: Any, random: np.random.Generator) -> Any:
    numbers = random.standard_normal(tuple(value.shape))
    if value.dtype.is_complex:
        numbers = numbers + 1j * random.standard_normal(tuple(value.shape))
    return torch.from_numpy(np.asarray(numbers)).to(value.dtype)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, (torch.Tensor, tensor.Tensor)):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [each for item in value for each in _tensors(item)]


def _compared(result: Any, expected: Any, what: str) -> Iterator[str]:
    if isinstance(expected, torch.Tensor):
        yield from _compared_tensors(result, expected, what)
    elif isinstance(expected, (tuple, list)):
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            yield f"{what}: {_short(result)} where PyTorch's is {_short(expected)}"
            return
        for number, (one, other) in enumerate(zip(result, expected, strict=True)):
            yield from _compared(one, other, f"{what}[{number}]")
    else:
        other = converted(expected)
        is_close = isinstance(other, (float, complex)) and np.isclose(result, other, equal_nan=True)
        if type(result) is not type(other) or not (is_close or result == other):
            yield f"{what}: {_short(result)} where PyTorch's is {_short(expected)}"


def _compared_tensors(result: Any, expected: Any, what: str) -> Iterator[str]:
    if not isinstance(result, tensor.Tensor):
        yield f"{what}: {_short(result)} where PyTorch's is {_short(expected)}"
        return
    dtype = str(expected.dtype).removeprefix("torch.")
    for name, one, other in (
        ("dtype", result.dtype.name, dtype),
        ("shape", tuple(result.shape), tuple(expected.shape)),
        ("requires_grad", result.requires_grad, expected.requires_grad),
    ):
        if one != other:
            yield f"{what}: {name} {one} where PyTorch's is {other}"
            return
    ours, theirs = array_of(result), array_of(expected)
    if dtype in _TOLERANCES:
        relative, absolute = _TOLERANCES[dtype]
        wide = np.complex128 if expected.dtype.is_complex else np.float64
        ours, theirs = ours.astype(wide), theirs.astype(wide)
        largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=1)
        equal = np.isclose(ours, theirs, relative, absolute * largest, equal_nan=True)
    else:
        equal = ours == theirs
    if not np.all(equal):
        yield (
            f"{what}: {np.count_nonzero(~equal)} of {equal.size} elements differ, such as "
            f"{ours[~equal][0]} where PyTorch's is {theirs[~equal][0]}"
        )


def _short(value: Any) -> str:
    if isinstance(value, (torch.Tensor, tensor.Tensor)):
        return f"a tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
    text = " ".join(repr(value).split())
    return text if len(text) < 200 else f"{text[:200]}..."
