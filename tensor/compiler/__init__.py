"""``compile`` and what goes with it: the names of ``torch.compiler``.

What a compiled function does on a CUDA device is recorded at the first call, forward and backward, and runs as a flat list of
launches from then on, or as a CUDA graph, with chains of pointwise operations as one kernel each; see
:mod:`tensor.compilation`. On the CPU it runs as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.compilation import CompilationError, Compiled
from tensor.compilation import compiled as _compiled
from tensor.compilation.reading import is_module as _is_module
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CompilationError",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_stance",
]

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
#: Those whose programs are replayed as CUDA graphs, as in PyTorch.
_REPLAYED = ("reduce-overhead", "max-autotune")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """``model``, a module or a function, with its work on CUDA devices compiled; without it, a decorator that does the same.

    The first call with a signature (layouts of tensors, values of other arguments, modes such as autocast) runs the function
    and records what it does to tensors on the device, forward and backward; chains of pointwise operations become one kernel.
    Later calls with that signature run what was recorded, and no Python code of the function. What it reads besides (globals,
    closures, attributes of modules and objects) is looked at before each call: where it has changed, the function is compiled
    anew. Parameters, buffers and other tensors are taken as they are at the call. Random numbers are those of a call that is
    not compiled. What the Python code does to anything but tensors, as printing and counting, it does in the first call only.

    Where the function asks for a value of a tensor, works on several devices, or reads what cannot be told apart from a later
    state, it runs as it is, and one warning says why and where. On the CPU it runs as it is.

    Parameters
    ----------
    model : Module or callable
        A module stays what it is, and its ``forward`` is compiled. (PyTorch wraps it, so that the names in its wrapper's
        state dict begin with ``_orig_mod.``)
    fullgraph : bool
        Whether it is an error where the function cannot be compiled.
    backend : str or callable, optional
        ``"fused"``, which ``"inductor"`` and the default mean too; ``"eager"`` and all others run the function as it is.
    mode : str, optional
        One of PyTorch's. With ``"reduce-overhead"`` and ``"max-autotune"`` what is compiled is replayed as CUDA graphs, with the
        same results; it is captured in the third call of a signature, where ``explain()`` gives no reason against it. The others
        mean ``"default"``: nothing is tuned by trying.
    disable : bool
        Whether to run it as it is.
    recompile_limit : int, optional
        How many programs it may have, 8 by default; then it runs as it is, and a warning says what kept changing.
    options : dict, optional
        Those of PyTorch's compiler, of which ``"triton.cudagraphs"`` asks for replays; others change nothing.
    dynamic, name, isolate_recompiles, shapes_spec
        Taken, and change nothing: each shape is a signature of its own.

    Returns
    -------
    callable
        ``model`` if that is a module. Else a callable with ``explain(*args)``, a text with the operations and calls of both
        passes, and ``sources(*args)``, the code of the fused kernels.

    Raises
    ------
    RuntimeError
        If both ``mode`` and ``options`` are given, or for an unknown mode.
    TypeError
        If ``model`` cannot be called.
    CompilationError
        From a call, with ``fullgraph=True``, where the function cannot be compiled.

    Examples
    --------
    >>> @tensor.compile
    ... def double(x):
    ...     return 2 * x
    >>> double(tensor.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if disable or backend not in (None, "fused", "inductor"):
        return _same if model is None else _same(model)

    def compiled(function: Any) -> Compiled:
        replayed = mode in _REPLAYED or bool((options or {}).get("triton.cudagraphs"))
        return Compiled(function, fullgraph=fullgraph, limit=recompile_limit, replayed=replayed)

    def decorate(model: Any) -> Any:
        _same(model)
        if not _is_module(model):
            return compiled(model)
        if not isinstance(vars(model).get("forward"), Compiled):
            vars(model)["forward"] = compiled(model.forward)
        return model

    return decorate if model is None else decorate(model)


def _same(model: Any) -> Any:
    if not callable(model):
        raise TypeError(f"compile() takes a module or a function, but {type(model).__name__} is provided")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn``, which is not compiled: a function that calls it is not compiled either. Without it, a decorator.

    ``recursive`` and ``reason`` change nothing. Raises as :func:`compile`.
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    return _compiled.uncompiled(_same(fn))


def allow_in_graph(fn: Any) -> Any:
    """``fn`` itself, a function or several in a list or tuple: there is no graph.

    For programs that are also compiled by PyTorch. Nothing is checked.
    """
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself: its result is computed in each call.

    For programs that are also compiled by PyTorch, where the result of the first call is kept.
    """
    return fn


def is_compiling() -> bool:
    """Whether this thread runs a function in order to record it: see :func:`compile`."""
    return _compiled.is_compiling()


def is_dynamo_compiling() -> bool:
    """As :func:`is_compiling`, for programs that ask by this name."""
    return _compiled.is_compiling()


def is_exporting() -> bool:
    """False: nothing is being exported."""
    return False


def list_backends(exclude_tags: tuple[str, ...] = ("debug", "experimental")) -> list[str]:
    """Names of the backends of :func:`compile`: ``["fused"]``.

    ``exclude_tags`` leaves none out.
    """
    return ["fused"]


def reset() -> None:
    """Forget what was compiled: functions are compiled anew when they are called."""
    _compiled.reset()


def cudagraph_mark_step_begin() -> None:
    """Say that an iteration begins, which nothing here needs to know."""


class set_stance:  # noqa: N801 - PyTorch's name
    """How compiled functions behave from now on, or with ``with`` in a block: ``"force_eager"`` runs them as they are.

    Other stances are taken, and mean ``"default"``. As a decorator it changes nothing.

    Parameters
    ----------
    stance : str
        ``"default"``, ``"force_eager"``, ``"eager_on_recompile"``, ``"eager_then_compile"``, ``"fail_on_recompile"`` or
        ``"aot_eager_then_compile"``.
    skip_guard_eval_unsafe : bool
        Changes nothing.
    force_backend : str or callable, optional
        Changes nothing.

    Raises
    ------
    RuntimeError
        For any other ``stance``.
    """

    _STANCES = (
        "default",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
        "eager_then_compile",
        "aot_eager_then_compile",
    )

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in self._STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}, expected one of {self._STANCES}")
        self._before = _compiled.stance.as_it_is
        _compiled.stance.as_it_is = stance == "force_eager"

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _compiled.stance.as_it_is = self._before


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """``fn`` itself, or a decorator that returns it: nothing is compiled, whatever the ``options``.

    Usable as ``@nested_compile_region`` and ``@nested_compile_region(...)``.
    """
    return fn if fn is not None else lambda function: function


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
