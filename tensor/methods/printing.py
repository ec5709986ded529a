"""The text of a tensor, character for character as PyTorch prints it.

Works on NumPy arrays, so that it can be tested alone; :func:`tensor_text` adds the prefix and the
suffixes (``device=``, ``dtype=``, ``grad_fn=``).
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensor.core.dtypes.default import default_dtype_of, get_default_dtype
from tensor.core.sparse import sparse_coo, sparse_csc, sparse_csr, storage_of
from tensor.operations.creation.conversions import host_copy_for_display

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tensor import Tensor


class PrintOptions(NamedTuple):
    """How tensors print: see :func:`set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_options = PrintOptions()


def get_printoptions() -> PrintOptions:
    """Options in force."""
    return _options


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print, for the whole process.

    Parameters
    ----------
    precision
        Digits after the point (4).
    threshold
        Number of elements above which the middle is left out (1000).
    edgeitems
        Elements shown at each end of a dimension that is shortened (3).
    linewidth
        Characters per line (80).
    profile
        ``"default"``, ``"short"`` or ``"full"``; the other arguments change it.
    sci_mode
        Scientific notation always (True), never (False) or as the values need (None).

    Raises
    ------
    ValueError
        For an unknown profile, or a negative number; nothing is changed.
    TypeError
        If ``precision``, ``edgeitems`` or ``linewidth`` is no integer, or ``threshold`` is no number; nothing is
        changed.
    """
    global _options
    if profile is not None and profile not in PROFILES:
        raise ValueError(f"unknown print profile {profile!r}; expected one of {', '.join(PROFILES)}")
    argument = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {name: value for name, value in argument.items() if value is not None}
    # A wrong one would fail much later, where some tensor is printed.
    for name, value in changes.items():
        allowed, expected = (Real, "a number") if name == "threshold" else (Integral, "int")
        if not isinstance(value, allowed):
            raise TypeError(
                f"set_printoptions(): argument '{name}' must be {expected}, not {type(value).__name__}"
            )
        if value < 0:
            raise ValueError(f"set_printoptions(): argument '{name}' must not be negative, got {value}")
    _options = (PROFILES[profile] if profile else _options)._replace(sci_mode=sci_mode, **changes)


class _NumberFormat:
    """Common width and notation of all numbers of one text."""

    def __init__(self, values: np.ndarray[Any, Any], options: PrintOptions) -> None:
        self.floating = values.dtype.kind == "f"
        self.precision = options.precision
        self.integral = True
        self.scientific = False
        self.width = 1
        if not self.floating:
            self.width = max((len(str(value)) for value in values.ravel().tolist()), default=1)
            return
        shown = values[np.isfinite(values) & (values != 0)].astype(np.float64)
        if shown.size:
            magnitude = np.abs(shown)
            smallest, largest = float(magnitude.min()), float(magnitude.max())
            self.integral = bool((shown == np.ceil(shown)).all())
            uneven = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
            self.scientific = uneven if options.sci_mode is None else options.sci_mode
            self.width = max(len(self._number(value)) for value in shown.tolist())

    def _number(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{self.precision}e}"
        if self.integral:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{self.precision}f}"

    def __call__(self, value: Any) -> str:
        text = self._number(value) if self.floating else str(value)
        return text.rjust(self.width)


class _ElementFormat:
    """Format of one element: a number, or the two parts of a complex number."""

    def __init__(self, values: np.ndarray[Any, Any], options: PrintOptions) -> None:
        if values.dtype.kind == "c":
            self.real = _NumberFormat(values.real, options)
            self.imaginary: _NumberFormat | None = _NumberFormat(values.imag, options)
            self.width = self.real.width + self.imaginary.width + 1
        else:
            self.real = _NumberFormat(values, options)
            self.imaginary = None
            self.width = self.real.width

    def __call__(self, value: Any) -> str:
        if self.imaginary is None:
            return self.real(value)
        imaginary = self.imaginary(value.imag).lstrip() + "j"
        sign = "" if imaginary[0] in "+-" else "+"
        return self.real(value.real) + sign + imaginary


def _edges(array: np.ndarray[Any, Any], edge: int) -> np.ndarray[Any, Any]:
    """Array without the middle of every dimension that would be shortened."""
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            edges = np.r_[0:edge, size - edge : size]
            array = np.take(array, edges, axis=axis)
    return array


def _vector(
    values: np.ndarray[Any, Any], indent: int, shorten: bool, form: _ElementFormat, options: PrintOptions
) -> str:
    per_line = max(1, (options.linewidth - indent) // (form.width + 2))
    edge = options.edgeitems
    if shorten and not edge:
        texts = ["..."]
    elif shorten and len(values) > 2 * edge:
        texts = [form(v) for v in values[:edge].tolist()]
        texts += [" ..."] + [form(v) for v in values[-edge:].tolist()]
    else:
        texts = [form(v) for v in values.tolist()]
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(
    array: np.ndarray[Any, Any], indent: int, shorten: bool, form: _ElementFormat, options: PrintOptions
) -> str:
    if array.ndim == 0:
        return form(array.item())
    if array.ndim == 1:
        return _vector(array, indent, shorten, form, options)
    edge = options.edgeitems

    def rows(part: np.ndarray[Any, Any]) -> list[str]:
        return [_nested(row, indent + 1, shorten, form, options) for row in part]

    if shorten and len(array) > 2 * edge:
        texts = [*rows(array[:edge]), "...", *rows(array[len(array) - edge :])]
    else:
        texts = rows(array)
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(texts) + "]"


def array_text(array: np.ndarray[Any, Any], indent: int = 0, options: PrintOptions | None = None) -> str:
    """Nested brackets of ``array``'s elements.

    ``array`` holds bool, integer, float or complex elements (half precision widened to float32 first).
    ``indent`` is how far continuation lines are moved to the right.
    """
    options = options or _options
    shorten = array.size > options.threshold
    form = _ElementFormat(_edges(array, options.edgeitems) if shorten else array, options)
    return _nested(array, indent, shorten, form, options)


def tensor_text(prefix: str, array: np.ndarray[Any, Any], suffixes: Sequence[str]) -> str:
    """``prefix`` + elements + comma-separated ``suffixes`` + ``")"``, wrapped at the line width.

    An empty array prints as ``[]``; its shape, when it is not ``(0,)``, is the caller's suffix.
    """
    options = _options
    text = prefix + (array_text(array, len(prefix), options) if array.size else "[]")
    return _with_suffixes(text, len(prefix), suffixes, options)


def _with_suffixes(
    text: str, indent: int, suffixes: Sequence[str], options: PrintOptions, *, below: bool = False
) -> str:
    """``text`` and what follows the elements; ``below`` starts a line for it."""
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if below or column + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
            below = False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def text_of(tensor: Tensor, name: str = "tensor") -> str:
    """What ``print(tensor)`` shows, beginning with ``name``. Waits for a CUDA tensor."""
    layout = tensor._layout
    dtype = layout.dtype
    suffixes = [f"device='{layout.device}'"] if layout.device_state.is_cuda else []
    if not layout.numel:
        if len(layout.shape) != 1:
            suffixes.append(f"size={tuple(layout.shape)}")
        if dtype is not get_default_dtype():
            suffixes.append(f"dtype={dtype!r}")
    else:
        if not _options.edgeitems:
            suffixes.append(f"size={tuple(layout.shape)}")
        if dtype.name not in ("int64", "bool") and dtype not in (get_default_dtype(), default_dtype_of(1j)):
            suffixes.append(f"dtype={dtype!r}")
    suffixes.extend(_history(tensor))
    return tensor_text(f"{name}(", host_copy_for_display(tensor.detach()), suffixes)


def sparse_text(tensor: Tensor) -> str:
    """What ``print`` shows of a sparse tensor: index tensors and values. Waits for a CUDA tensor."""
    layout = tensor._layout
    storage = storage_of(tensor)
    structure = storage.structure
    parts = [
        (name, each)
        for name, each in zip(_INDEX_NAMES[structure.layout_name], structure.tensors(), strict=True)
    ]
    prefix, options = "tensor(", _options
    texts = []
    for name, part in [*parts, ("values", storage.values)]:
        head = f"{name}=tensor("
        elements = (
            array_text(host_copy_for_display(part.detach()), len(prefix) + len(head), options)
            if part._layout.numel
            else f"[], size={tuple(part._layout.shape)}"
        )
        texts.append(f"{head}{elements})")
    suffixes = [f"device='{layout.device}'"] if layout.device_state.is_cuda else []
    suffixes += [f"size={tuple(layout.shape)}", f"nnz={structure.count}"]
    if layout.dtype.name not in ("int64", "bool") and layout.dtype not in (
        get_default_dtype(),
        default_dtype_of(1j),
    ):
        suffixes.append(f"dtype={layout.dtype!r}")
    suffixes += [f"layout={structure.layout_name!r}", *_history(tensor)]
    text = prefix + (",\n" + " " * len(prefix)).join(texts)
    return _with_suffixes(text, len(prefix), suffixes, options, below=structure.layout_name is sparse_coo)


_INDEX_NAMES = {
    sparse_coo: ("indices",),
    sparse_csr: ("crow_indices", "col_indices"),
    sparse_csc: ("ccol_indices", "row_indices"),
}


def _history(tensor: Tensor) -> list[str]:
    """How the tensor was made, or that gradients with respect to it are wanted."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        # A view that was made in no_grad mode, and written since: it has no right history to show.
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name()}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []
