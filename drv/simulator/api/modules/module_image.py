"""Module images: what may be loaded, PTX parsed once however often it is loaded, the linker's log."""

from __future__ import annotations

import ctypes
import re
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.host import collector
from drv.simulator.driver_call import CallError, host_address, integer, invalid_value
from drv.simulator.execution.translation.translation_cache import TranslationCache
from drv.simulator.ptx import PTXSyntaxError, parse

if TYPE_CHECKING:
    from drv.simulator.ptx import Module

_ELF = b"\x7fELF"
_FATBINS = (b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46")


class ImageError(Exception):
    """An image that cannot be loaded: the status of the call and the linker's words."""

    def __init__(self, status: CUresult, log: str) -> None:
        super().__init__(log)
        self.status = status
        self.log = log


def image_bytes(image: Any) -> bytes:
    """Bytes of an image argument: a buffer, or the address of PTX that ends with a zero byte."""
    if image is None:
        raise invalid_value()
    if isinstance(image, int):
        if image == 0:
            raise invalid_value()
        return ctypes.string_at(image)
    try:
        data = bytes(memoryview(image))
    except TypeError:
        return ctypes.string_at(host_address(image))
    return data


#: PTX that modules parsed last, which no driver has loaded now: programs and tests that start a driver anew load the same.
_idle: dict[bytes, Module] = {}
#: Characters of PTX that are cached so, at most; parsed and translated it takes some fifty times as much memory.
_IDLE_LIMIT = 4 << 20


@dataclass(slots=True)
class _Parsed:
    module: Module
    users: int = 0


class ImageCache:
    """Parsed PTX of one driver, shared by the modules that are loaded from the same image.

    Another driver has what this one no longer uses, and never what it uses: a parsed module holds what its kernels have
    been translated to, and these know the memory they ran on.
    """

    def __init__(self) -> None:
        self._parsed: dict[bytes, _Parsed] = {}
        # At the end of the interpreter there is nothing to keep them for.
        weakref.finalize(self, _put_by_all, self._parsed).atexit = False

    def acquire(self, image: bytes) -> Module:
        """Parse ``image``, or find it parsed. Raises :class:`ImageError`."""
        parsed = self._parsed.get(image)
        if parsed is None:
            module = _idle.pop(image, None)
            parsed = self._parsed[image] = _Parsed(_parse(image) if module is None else module)
        parsed.users += 1
        return parsed.module

    def release(self, image: bytes) -> None:
        """One user of ``image`` less."""
        parsed = self._parsed[image]
        parsed.users -= 1
        if parsed.users == 0:
            del self._parsed[image]
            _put_by(image, parsed.module)


def _put_by(image: bytes, module: Module) -> None:
    """Keep a parsed module that no driver uses, and forget those that have been kept for longest beyond the limit."""
    for function in module.functions.values():
        if function.plan is not None:
            function.plan.leave()
    _idle[image] = module
    size = sum(map(len, list(_idle)))
    # A finalizer may do the same in between.
    for oldest in list(_idle):
        if size <= _IDLE_LIMIT:
            break
        if _idle.pop(oldest, None) is not None:
            size -= len(oldest)


def _put_by_all(parsed: dict[bytes, _Parsed]) -> None:
    """Keep what a driver that has gone used."""
    for image, each in list(parsed.items()):
        _put_by(image, each.module)


def _parse(image: bytes) -> Module:
    if image.startswith(_ELF) or image.startswith(_FATBINS):
        raise ImageError(
            CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
            "the simulated driver runs PTX: compile for a virtual architecture (compute_XX), not to a cubin",
        )
    text = image.split(b"\0", 1)[0].decode("utf-8", errors="replace")
    if not re.search(r"^\s*\.version\b", text, re.MULTILINE):
        raise ImageError(CUresult.CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX nor a binary")
    translation_cache = TranslationCache.of(image)
    with collector.paused():
        module = None if translation_cache is None else translation_cache.module()
        if module is None:
            try:
                module = parse(text)
            except PTXSyntaxError as error:
                raise ImageError(
                    CUresult.CUDA_ERROR_INVALID_PTX, f"ptxas application ptx input: {error}"
                ) from error
    module.translation_cache = translation_cache
    return module


def check_target(target: str, capability: tuple[int, int]) -> None:
    """Whether PTX for ``target`` (``sm_90``, ``sm_90a``) runs on a device. Raises :class:`ImageError`."""
    match = re.match(r"sm_(\d+)(\d)([af]?)", target)
    if match is None:
        raise ImageError(
            CUresult.CUDA_ERROR_INVALID_PTX,
            f"ptxas application ptx input; fatal: unknown .target {target!r}",
        )
    required = int(match[1]), int(match[2])
    fits = required <= capability
    if match[3] == "a":
        fits = required == capability
    elif match[3] == "f":
        fits = fits and required[0] == capability[0]
    if not fits:
        raise ImageError(
            CUresult.CUDA_ERROR_INVALID_PTX,
            f"ptxas application ptx input; fatal: .target {target} does not fit this device, "
            f"whose compute capability is {capability[0]}.{capability[1]}",
        )


def jit_log(options: Any, values: Any, text: str) -> None:
    """Write ``text`` into the error log buffer among the JIT options, if there is one."""
    settings = {integer(o): v for o, v in zip(options or (), values or (), strict=True)}
    names = cuda.CUjit_option
    buffer = settings.get(int(names.CU_JIT_ERROR_LOG_BUFFER))
    size = integer(settings.get(int(names.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)))
    if buffer is None or size <= 0:
        return
    room = size if isinstance(buffer, int) else min(size, memoryview(buffer).nbytes)
    data = text.encode()[: room - 1] + b"\0"
    ctypes.memmove(host_address(buffer), data, len(data))


def check_jit_options(count: int, options: Any, values: Any) -> None:
    """Refuse JIT options that do not fit together or do not exist."""
    if count != len(options or ()) or count != len(values or ()):
        raise invalid_value()
    for option in options or ():
        try:
            cuda.CUjit_option(integer(option))
        except ValueError:
            raise CallError(CUresult.CUDA_ERROR_INVALID_VALUE) from None
