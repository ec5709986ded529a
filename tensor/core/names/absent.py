"""Errors for names that are not there, and names that are looked up when they are first used.

A module that has a name in no other way asks :func:`lazily`, from its ``__getattr__``: it imports what the module says,
or raises an AttributeError that says what is missing, whether that is planned or left out, what to use, or which name
was probably meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphroot.coexistence import loaded, own
from nvrtc_kernels.printed_names import printed

from .left_out import LEFT_OUT as _LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: Names of PyTorch that are missing on purpose or so far, by the module that would have them: what to say of each.
_WORDS = {
    "tensor": {
        "export": "left out: there is no graph to export; save a state dict with tensor.save",
        "from_file": "planned; until then use tensor.from_numpy(numpy.memmap(...))",
        "functional": "left out: its functions are tensor's own, as tensor.einsum and tensor.stft",
        "futures": "left out; parallel.Future is what collectives return",
        "lobpcg": "left out; use tensor.linalg.eigh",
        "lstsq": "left out, as PyTorch removed it; use tensor.linalg.lstsq",
        "matrix_rank": "left out, as PyTorch removed it; use tensor.linalg.matrix_rank",
        "mps": "left out: Apple's devices are not supported; use device='cpu' or 'cuda'",
        "mtia": "left out: such devices are not supported; use device='cpu' or 'cuda'",
        "nested": "left out; pad the sequences with nn.utils.rnn.pad_sequence and use a mask",
        "package": "left out; save a state dict with tensor.save",
        "quantization": "left out: there are no quantized dtypes",
        "solve": "left out, as PyTorch removed it; use tensor.linalg.solve",
        "symeig": "left out, as PyTorch removed it; use tensor.linalg.eigh",
        "eig": "left out, as PyTorch removed it; use tensor.linalg.eig",
        "xpu": "left out: Intel's devices are not supported; use device='cpu' or 'cuda'",
        "complex32": "left out; use tensor.complex64",
        "chalf": "left out; use tensor.complex64",
        **dict.fromkeys(
            ("qint8", "quint8", "qint32", "quantize_per_tensor", "quantize_per_channel"),
            "left out: there are no quantized dtypes; use tensor.int8 or tensor.uint8",
        ),
    },
    "tensor.cuda": {
        "memory_cached": "left out, as PyTorch deprecates it; use cuda.memory_reserved",
        "max_memory_cached": "left out, as PyTorch deprecates it; use cuda.max_memory_reserved",
        "nccl": "left out; use the collectives of parallel with backend='nccl'",
        "sparse": "left out: it is empty in PyTorch too; see tensor.sparse",
        "tunable": "left out: cuBLAS chooses its algorithms",
    },
    "tensor.backends": {
        "cusparselt": "left out: the library is not used",
        "quantized": "left out: there are no quantized dtypes",
        "xnnpack": "left out: the library is not used",
    },
    "tensor.profiler": {
        "ExecutionTraceObserver": "left out; use profile(...).export_chrome_trace",
        "itt": "left out: Intel's tools see no GPU; use cuda.nvtx",
    },
    "tensor.library": {
        "get_ctx": "left out: nothing runs without values, so there is no context of a fake kernel",
        "get_kernel": "left out: call the operator itself",
        "opcheck": "left out: use autograd.gradcheck",
        "register_torch_dispatch": "left out: tensors do not dispatch to __torch_dispatch__",
        "register_vmap": "planned; until then write the kernel with operations, which vmap goes through",
        "triton_op": "left out: Triton's kernels are not launched; write one with cuda.RawKernel",
        "wrap_triton": "left out: Triton's kernels are not launched; write one with cuda.RawKernel",
    },
    "tensor.func": {
        "debug_unwrap": "left out: look at tensors before they are transformed",
        "functionalize": "left out: there is no compiler that wants programs without in-place operations",
        "rearrange": "left out; use the package einops, or permute and reshape",
    },
    "tensor.utils": {
        "bottleneck": "left out; use Python's cProfile",
        "cpp_extension": "left out: nothing is built; write kernels with cuda.RawKernel",
        "mobile_optimizer": "left out: phones are not supported",
    },
    "nn": {
        "intrinsic": "left out: there are no quantized dtypes",
        "qat": "left out: there are no quantized dtypes",
        "quantizable": "left out: there are no quantized dtypes",
        "quantized": "left out: there are no quantized dtypes",
    },
}


def lazily(module: str, name: str, lazy: Mapping[str, str]) -> Any:
    """The value of ``name`` in ``module``, which keeps it, by the import that ``lazy`` names.

    ``lazy`` has ``"package.module"`` or ``"package.module:attribute"``. It is for what stands in a higher layer: the
    import is no dependency of the layer, as it happens only for a program that asks for that layer by this name.

    Raises
    ------
    AttributeError
        If there is no such name.
    """
    target = lazy.get(name)
    if target is None:
        raise missing(module, name, lazy)
    path, _, attribute = target.partition(":")
    value = own(path)
    if attribute:
        value = getattr(value, attribute)
    vars(own(module))[name] = value
    return value


class MissingNameError(AttributeError):
    """An AttributeError whose hint is looked for when somebody reads it: most are answers to ``hasattr``.

    ``owner`` is the object that was asked.
    """

    def __init__(self, text: str, name: str, owner: object, hint: Callable[[], str]) -> None:
        # Python completes errors that name an object with a hint of its own, which would say the same again.
        super().__init__(text, name=name, obj=None)
        self.owner = owner
        self._hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]}{self._hint()}"

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


# What programs, and people, see of it is the class that it is derived from.
MissingNameError.__module__ = "builtins"
MissingNameError.__name__ = MissingNameError.__qualname__ = "AttributeError"


def missing(module: str, name: str, lazy: Iterable[str] = ()) -> AttributeError:
    """The error for a ``name`` that ``module`` does not have, with what is known of it."""
    text = printed(f"module {module!r} has no attribute {name!r}")
    # Protocols of Python ask for such names, often, and nobody reads the answer.
    if name.startswith("__"):
        return AttributeError(text)
    owner = loaded(module)
    return MissingNameError(text, name, owner, lambda: _hint(module, name, {*_public(owner), *lazy}))


def missing_attribute(
    owner: object, name: str, known_as: str = "", names: Iterable[str] = ()
) -> AttributeError:
    """The error for an attribute ``name`` that the object ``owner`` does not have.

    ``known_as`` is what its class is called in the lists of missing names, ``names`` are those of the object itself.
    """
    cls = type(owner)
    text = f"{cls.__name__!r} object has no attribute {name!r}"
    if name.startswith("__"):
        return AttributeError(text)

    def hint() -> str:
        public = {each for each in dir(cls) if each[0] != "_"}
        return _hint(known_as, name, {*public, *names} - {name})

    return MissingNameError(text, name, owner, hint)


def _hint(owner: str, name: str, public: Iterable[str]) -> str:
    words = said_of(owner, name)
    if words is not None:
        return printed(f": {words}")
    nearest = nearest_of(name, public)
    return "" if nearest is None else f": did you mean {nearest!r}?"


def hints(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that has no lazy names: it raises what :func:`missing` makes."""

    def __getattr__(name: str) -> Any:  # noqa: N807 - it is the module's
        raise missing(module, name)

    return __getattr__


def said_of(module: str, name: str) -> str | None:
    """What is known of a name of PyTorch that ``module`` does not have; None for any other name.

    The words begin with "planned" or "left out".
    """
    for rows in (_WORDS.get(module, {}), _LEFT_OUT.get(module, {})):
        if name in rows:
            return rows[name]
    families = (row for row in _LEFT_OUT.get(module, {}) if row[-1] == "*" and name.startswith(row[:-1]))
    row = max(families, key=len, default=None)
    return None if row is None else _LEFT_OUT[module][row]


def _public(module: Any) -> Iterable[str]:
    names = getattr(module, "__all__", None)
    return names if names is not None else [name for name in vars(module) if name[0] != "_"] if module else ()


def nearest_of(name: str, public: Iterable[str]) -> str | None:
    """The public name that ``name`` was probably meant to be: first one that differs by case or underscores alone."""
    by_letters: dict[str, list[str]] = {}
    for each in sorted(public):
        by_letters.setdefault(_letters(each), []).append(each)
    letters = _letters(name)
    import difflib  # only for what is wrong

    # Of letters in another order, as in ``bais``, less than the rest of a short name is alike.
    close = difflib.get_close_matches(letters, by_letters, n=1, cutoff=0.8) or [
        each for each in by_letters if sorted(each) == sorted(letters)
    ]
    if not close:
        return None
    return max(by_letters[close[0]], key=lambda each: difflib.SequenceMatcher(None, name, each).ratio())


def _letters(name: str) -> str:
    return name.replace("_", "").lower()
