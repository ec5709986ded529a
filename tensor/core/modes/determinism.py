"""Whether operations must give the same bits in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.warning import warn_caller

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype


class _Determinism:
    """The settings; ``fills`` says whether new memory is filled, so that nobody depends on what lay there."""

    __slots__ = ("fill_memory", "fills", "required", "warn_only")

    def __init__(self) -> None:
        self.required = self.warn_only = self.fills = False
        self.fill_memory = True

    def set(self, required: bool, warn_only: bool) -> None:
        self.required, self.warn_only = required, required and warn_only
        self.fills = required and self.fill_memory


#: Of the whole process, as in PyTorch.
determinism = _Determinism()

_DEBUG_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Let sums at indices be the same in every run, at the price of sorting the indices.

    Without it the few operations that add floating-point numbers with atomics on CUDA (``scatter_add``,
    ``index_add``, ``scatter_reduce``, ``put_``, ``bincount`` with weights and the derivatives of reads by indices and
    of ``grid_sample``) may round differently from run to run. Everything else is the same in every run anyway: matrix
    products too, each stream having a cuBLAS workspace of its own, whatever ``CUBLAS_WORKSPACE_CONFIG`` says.

    New memory is filled with NaN, or the largest integer, by functions that leave it undefined otherwise; see
    :mod:`tensor.utils.deterministic`.

    Parameters
    ----------
    mode : bool
        Whether results must be the same in every run; it holds for the whole process.
    warn_only : bool
        Accepted for compatibility: there is no operation without a deterministic form to warn of.
    """
    determinism.set(bool(mode), bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """Whether :func:`use_deterministic_algorithms` is on; False unless set."""
    return determinism.required


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether :func:`use_deterministic_algorithms` is on with ``warn_only``."""
    return determinism.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """:func:`use_deterministic_algorithms` by another name.

    Parameters
    ----------
    debug_mode
        ``"default"`` or 0: off; ``"warn"`` or 1: on, with ``warn_only``; ``"error"`` or 2: on.

    Raises
    ------
    TypeError
        If it is neither an integer nor a text.
    RuntimeError
        For another number or text.
    """
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode).__name__}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if not 0 <= debug_mode <= 2:
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    determinism.set(debug_mode > 0, debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0 (off), 1 (on with ``warn_only``) or 2 (on); see :func:`set_deterministic_debug_mode`."""
    return 0 if not determinism.required else 1 if determinism.warn_only else 2


def alert_not_deterministic(caller: str) -> None:
    """Say that an operation may give other bits in every run, where these are required to be the same.

    Packages call it before operators of theirs, as ``torch._prims_common.alert_not_deterministic``; ``caller`` is the operation's name.

    Raises
    ------
    RuntimeError
        Under :func:`use_deterministic_algorithms`, unless that is to warn only.
    """
    if not determinism.required:
        return
    if not determinism.warn_only:
        raise RuntimeError(
            f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. You "
            "can turn off determinism just for this operation, or you can use the 'warn_only=True' option"
        )
    warn_caller(
        f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True, "
        "warn_only=True)'"
    )


def filling(dtype: dtype) -> Any:
    """What new memory is filled with: NaN, the largest integer, True."""
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return True if dtype.name == "bool" else int(np.iinfo(dtype.numpy).max)
