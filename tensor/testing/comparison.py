"""``assert_close``: values that agree within tolerances, and errors that say where and by how much they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import bfloat16, complex64, complex128, float16, float32, float64
from tensor.core.sparse import is_sparse, sparse_coo, sparse_csc, sparse_csr
from tensor.core.warning import warn_caller
from tensor.methods.tensor import Tensor
from tensor.operations.creation.construction import tensor

if TYPE_CHECKING:
    from collections.abc import Callable

#: Relative and absolute tolerance by dtype, PyTorch's own. Others have to be equal.
_TOLERANCES = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}

#: Of sparse layouts the name, and the indices: what gives them, and what errors call them.
_SPARSE = {
    sparse_coo: ("COO", {"_indices": "indices"}),
    sparse_csr: ("CSR", {"crow_indices": "crow_indices", "col_indices": "col_indices"}),
    sparse_csc: ("CSC", {"ccol_indices": "ccol_indices", "row_indices": "row_indices"}),
}

_LOOSE_TOLERANCES = {float16: (1e-3, 1e-3), float32: (1e-4, 1e-5), float64: (1e-5, 1e-8)}


@dataclass(frozen=True, slots=True)
class _Options:
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(each, (0.0, 0.0)) for each in dtypes]
        return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Check that ``|actual - expected| <= atol + rtol * |expected|`` for each element; waits for devices.

    Parameters
    ----------
    actual, expected
        Tensors, NumPy arrays, numbers, bools, None, or sequences and mappings of them.
    allow_subclasses : bool
        Whether the class of one may be derived from that of the other.
    rtol, atol : float, optional
        Both or neither. Without them 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for float64, 1e-3 and 1e-5 for float16,
        1.6e-2 and 1e-5 for bfloat16, 0 and 0 for integers and bools.
    equal_nan : bool
        Whether NaN equals NaN.
    check_device, check_dtype, check_stride : bool
        Whether these have to be the same.
    check_layout : bool
        Whether layouts have to be the same: strided, COO, CSR or CSC. Sparse tensors of one layout are compared by their
        indices, which have to be equal, and their values; of different ones, where that is not checked, as dense tensors.
    msg : str or callable, optional
        The text of the error, or what makes it of the usual one.

    Raises
    ------
    AssertionError
        If they are not close, or are of different shape, length, keys, type or, where these are checked, device, dtype
        or strides.
    TypeError
        For other values.
    ValueError
        If one of ``rtol`` and ``atol`` is given alone.

    Examples
    --------
    >>> tensor.testing.assert_close(tensor.ones(2) / 3 * 3, tensor.ones(2))
    """
    if (rtol is None) != (atol is None):
        missing = "atol" if atol is None else "rtol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    options = _Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride
    )
    problem = _problem(actual, expected, options, ())
    if problem is not None:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form of :func:`assert_close`, with its looser tolerances, and a warning; dtypes may differ.

    Parameters
    ----------
    actual, expected
        Tensors, or what makes one.
    rtol, atol : float, optional
        Both or neither.
    equal_nan : bool
        Whether NaN agrees with NaN.
    msg : str
        What the error says instead.

    Raises
    ------
    AssertionError
        If they do not agree.

    Warns
    -----
    FutureWarning
        That it is deprecated.
    """
    warn_caller("testing.assert_allclose() is deprecated; use testing.assert_close().", FutureWarning)
    if not isinstance(actual, Tensor):
        actual = tensor(actual)
    if not isinstance(expected, Tensor):
        expected = tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        pairs = [_LOOSE_TOLERANCES.get(each.dtype, (0.0, 0.0)) for each in (actual, expected)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


def _problem(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> str | None:
    """What keeps two values from being close, or None."""
    if isinstance(actual, str) or isinstance(expected, str):
        raise _unknown(actual, expected, path)
    if isinstance(actual, Sequence) and isinstance(expected, Sequence):
        if len(actual) != len(expected):
            return _at(path, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        places: Any = range(len(actual))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return _at(path, _keys(actual, expected))
        places = actual
    else:
        problem = _leaf_problem(actual, expected, options, path)
        return None if problem is None else _at(path, problem)
    problems = (_problem(actual[each], expected[each], options, (*path, each)) for each in places)
    return next((each for each in problems if each is not None), None)


def _keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any]) -> str:
    missing = sorted(map(repr, expected.keys() - actual.keys()))
    additional = sorted(map(repr, actual.keys() - expected.keys()))
    return (
        "The keys of the mappings do not match:\n"
        f"Missing keys in the actual mapping: [{', '.join(missing)}]\n"
        f"Additional keys in the actual mapping: [{', '.join(additional)}]"
    )


def _at(path: tuple[Any, ...], text: str) -> str:
    return f"{text}\n\nThe failure occurred for item {_item(path)}" if path else text


def _item(path: tuple[Any, ...]) -> str:
    return "".join(f"[{each!r}]" for each in path)


def _unknown(actual: Any, expected: Any, path: tuple[Any, ...]) -> TypeError:
    place = f" for item {_item(path)}" if path else ""
    return TypeError(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}{place}."
    )


def _leaf_problem(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> str | None:
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}"
    if not options.allow_subclasses and type(actual) is not type(expected):
        raise _unknown(actual, expected, path)
    if all(isinstance(each, (bool, np.bool_)) for each in (actual, expected)):
        return None if bool(actual) is bool(expected) else f"Booleans mismatch: {actual} is not {expected}"
    if all(isinstance(each, (Tensor, np.ndarray)) for each in (actual, expected)):
        return _tensor_problem(_as_tensor(actual), _as_tensor(expected), options)
    if all(isinstance(each, (int, float, complex, np.number)) for each in (actual, expected)):
        return _number_problem(actual, expected, options)
    raise _unknown(actual, expected, path)


def _as_tensor(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else Tensor(value)


def _number_problem(actual: Any, expected: Any, options: _Options) -> str | None:
    if options.check_dtype and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}."
    by_class = {int: None, float: float64, complex: complex128}
    dtypes = [
        next((d for cls, d in by_class.items() if isinstance(each, cls)), None) for each in (actual, expected)
    ]
    return _values_problem(
        np.asarray(actual), np.asarray(expected), *options.tolerances(*dtypes), options.equal_nan
    )


def _tensor_problem(actual: Any, expected: Any, options: _Options) -> str | None:
    checks = (
        ("shape", True, actual.shape, expected.shape),
        ("device", options.check_device, actual.device, expected.device),
        ("dtype", options.check_dtype, actual.dtype, expected.dtype),
        ("layout", options.check_layout, actual.layout, expected.layout),
    )
    for name, is_checked, ours, theirs in checks:
        if is_checked and ours != theirs:
            return f"The values for attribute '{name}' do not match: {ours} != {theirs}."
    tolerances = options.tolerances(actual.dtype, expected.dtype)
    if is_sparse(actual) or is_sparse(expected):
        if actual.layout == expected.layout:
            return _sparse_problem(actual, expected, tolerances, options.equal_nan)
        actual, expected = (x.to_dense() if is_sparse(x) else x for x in (actual, expected))
    elif options.check_stride and actual.stride() != expected.stride():
        return f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
    return _values_problem(_array(actual), _array(expected), *tolerances, options.equal_nan)


def _sparse_problem(
    actual: Any, expected: Any, tolerances: tuple[float, float], equal_nan: bool
) -> str | None:
    """In what two tensors of one sparse layout differ."""
    name, indices = _SPARSE[actual.layout]
    counts = actual._nnz(), expected._nnz()
    if counts[0] != counts[1]:
        return f"The number of specified values in sparse {name} tensors does not match: {counts[0]} != {counts[1]}"
    for method, called in indices.items():
        ours, theirs = (_array(getattr(x, method)()) for x in (actual, expected))
        problem = _values_problem(ours, theirs, 0, 0, equal_nan, f"Sparse {name} {called}")
        if problem is not None:
            return problem
    values = "_values" if actual.layout == sparse_coo else "values"
    ours, theirs = (_array(getattr(x, values)()) for x in (actual, expected))
    return _values_problem(ours, theirs, *tolerances, equal_nan, f"Sparse {name} values")


def _array(x: Any) -> np.ndarray[Any, Any]:
    """The elements on the host, in a dtype in which differences can be computed."""
    if x.dtype in (float16, bfloat16):
        x = x.to(float32)
    array: np.ndarray[Any, Any] = x.resolve_conj().resolve_neg().cpu().numpy()
    return array if array.dtype.kind in "fc" else array.astype(np.int64)


def _values_problem(
    actual: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    rtol: float,
    atol: float,
    equal_nan: bool,
    what: str = "Tensor-likes",
) -> str | None:
    with np.errstate(all="ignore"):
        difference = np.abs(actual - expected)
        close = actual == expected
        if rtol or atol:
            close |= (
                np.isfinite(actual) & np.isfinite(expected) & (difference <= atol + rtol * np.abs(expected))
            )
        if equal_nan and "i" not in (actual.dtype.kind, expected.dtype.kind):
            close |= np.isnan(actual) & np.isnan(expected)
        if np.all(close):
            return None
        relative = difference / np.abs(expected)
    is_equality = not (rtol or atol)
    absolute_limit, relative_limit = (
        ("", "") if is_equality else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    )
    verb = "equal" if is_equality else "close"
    if actual.ndim == 0:
        return (
            f"Scalars are not {verb}!\n\nExpected {expected.item()} but got {actual.item()}.\n"
            f"Absolute difference: {difference.item()}{absolute_limit}\n"
            f"Relative difference: {relative.item()}{relative_limit}"
        )
    count, total = int(np.sum(~close)), close.size
    lines = [
        f"{what} are not {verb}!\n",
        f"Mismatched elements: {count} / {total} ({count / total:.1%})",
    ]
    for name, values, limit in (
        ("absolute", difference, absolute_limit),
        ("relative", relative, relative_limit),
    ):
        # Elements that are close are not the greatest, not even where both are NaN or infinite.
        values = np.where(close, 0, values)
        index = tuple(int(each) for each in np.unravel_index(int(np.argmax(values)), values.shape))
        lines.append(f"Greatest {name} difference: {values[index].item()} at index {index}{limit}")
    return "\n".join(lines)
