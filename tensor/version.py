"""Which version this is, and of what it is made, under the names of ``torch.version``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphroot import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

#: Whether this is a build for debugging: there are none.
debug = False
#: The revision of the source, which an installed package does not know.
git_version: str | None = None
#: AMD's and Intel's devices are not supported.
hip: str | None = None
rocm: str | None = None
xpu: str | None = None

if TYPE_CHECKING:
    #: Major and minor version of the CUDA toolkit whose compiler is installed, as ``"13.0"``; None without one.
    cuda: str | None
else:

    def __getattr__(name: str) -> Any:
        # Asked of the installation when it is used: looking for a distribution takes longer than the rest of the import.
        if name != "cuda":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # It takes longer to import than any module of ours.
        from importlib import metadata

        try:
            release = metadata.version("nvidia-cuda-nvrtc")
        except metadata.PackageNotFoundError:
            value = None
        else:
            value = ".".join(release.split(".")[:2])
        return globals().setdefault("cuda", value)
