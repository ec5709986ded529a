"""Errors that simulated work ends with, and the report that explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuda.bindings.driver import CUresult


class DeviceFault(Exception):  # noqa: N818 - CUDA's word for it
    """A kernel or copy did something that CUDA answers with ``status``.

    ``report`` is the text for people: kernel, CUDA source line, block, thread, access, allocation and
    its Python line. A sticky fault loses the context, as on a GPU.
    """

    def __init__(self, status: CUresult, report: str, *, sticky: bool = True) -> None:
        super().__init__(report)
        self.status = status
        self.report = report
        self.sticky = sticky
