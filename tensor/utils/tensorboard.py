"""``SummaryWriter``: curves, pictures and histograms for TensorBoard, written by the package ``tensorboardX``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tensor.core.base import TensorBase
from tensor.core.names.absent import missing as _missing

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SummaryWriter"]


def _on_the_host(value: Any) -> Any:
    """``value`` with its tensors as arrays: what the package takes as values."""
    if isinstance(value, TensorBase):
        x: Any = value.detach().cpu()
        return (x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x).numpy()
    if isinstance(value, dict):
        return {key: _on_the_host(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(each, TensorBase) for each in value):
        return [_on_the_host(each) for each in value]
    return value


class SummaryWriter:
    """Writes events into a folder that TensorBoard shows, by ``tensorboardX.SummaryWriter``.

    It has that class's methods (``add_scalar``, ``add_scalars``, ``add_histogram``, ``add_image``, ``add_text``, ...),
    which take tensors of any device as values here: they are copied to the host, for which the host waits.
    ``add_graph`` raises RuntimeError, as programs are not traced.

    Parameters
    ----------
    log_dir : str, optional
        The folder; by default one below ``runs`` that is named after time and host.
    comment : str
        Added to the default folder's name.
    purge_step : int, optional
        Events from this step on, which an interrupted run left, are hidden.
    max_queue : int
        Events that wait at most, before a call waits until they are written.
    flush_secs : int
        Seconds after which events are written.
    filename_suffix : str
        Added to the names of files.

    Raises
    ------
    ImportError
        If ``tensorboardX`` is not installed; the message says how to install it.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        try:
            import tensorboardX
        except ImportError as error:
            raise ImportError(
                f"utils.tensorboard.SummaryWriter needs the package tensorboardX, which cannot be imported ({error}): "
                "pip install tensorboardX"
            ) from error
        self._writer: Any = tensorboardX.SummaryWriter(
            None if log_dir is None else str(log_dir),
            comment=comment,
            purge_step=purge_step,
            max_queue=max_queue,
            flush_secs=flush_secs,
            filename_suffix=filename_suffix,
        )
        self.log_dir = self._writer.logdir

    def get_logdir(self) -> str:
        """The folder that events are written to."""
        return str(self.log_dir)

    def add_graph(self, model: Any, *arguments: Any, **options: Any) -> None:
        """Refuse to write the graph of ``model``.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(
            "SummaryWriter.add_graph(): programs are not traced here, so that there is no graph to write"
        )

    def __getattr__(self, name: str) -> Any:
        if name == "_writer":  # asked for before it is there, as by copy
            raise AttributeError(name)
        method = getattr(self._writer, name)
        return _taking_tensors(method) if name.startswith("add_") else method

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()


def _taking_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    def add(*arguments: Any, **options: Any) -> Any:
        values = [_on_the_host(each) for each in arguments]
        return method(*values, **{name: _on_the_host(each) for name, each in options.items()})

    return add


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
