"""CUDA C++ to PTX or cubin, with NVRTC. Needs no GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import CompileError, CudaError, InvalidValueError, LibraryNotInstalledError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .device import Device

_QUOTED_LINES = 5
#: The first architecture that has features of its own, which newer ones do not have.
_FIRST_WITH_OWN_FEATURES = 90
_INSTALL_HEADERS = (
    "CUDA's headers were not found: pip install nvidia-cuda-runtime, or set CUDA_HOME to a CUDA toolkit."
)


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """Code that NVRTC compiled.

    Attributes
    ----------
    image : bytes
        PTX text or a cubin, for :class:`drv.Module`.
    architecture : str
        ``"compute_90"`` for PTX, ``"sm_90"`` for a cubin.
    names : dict
        Mangled name of each name expression, as in ``{"scale<float>": "_Z5scaleIfEvPT_"}``.
    log : str
        Warnings.
    """

    image: bytes
    architecture: str
    names: dict[str, str] = field(default_factory=dict)
    log: str = ""


def compile_program(
    source: str,
    architecture: str,
    *,
    name: str = "program.cu",
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    name_expressions: Sequence[str] = (),
    line_info: bool = False,
) -> CompiledProgram:
    """Compile CUDA C++ with NVRTC, which needs no GPU.

    Parameters
    ----------
    source : str
        Text of the program.
    architecture : str
        As :func:`drv.compiler.architecture_of` a device gives it: ``"compute_90"`` makes PTX, ``"sm_90"`` a cubin.
    name : str
        File name of the program, in messages and line information.
    options : sequence of str
        Options of NVRTC, such as ``"-DWIDTH=4"``.
    include_dirs : sequence of str
        Directories searched for headers, before CUDA's own.
    headers : mapping, optional
        Text of headers by the name under which the source includes them.
    name_expressions : sequence of str
        C++ names whose mangled names :attr:`CompiledProgram.names` is to have, such as ``"scale<float>"``;
        templates are instantiated.
    line_info : bool
        Whether the code tells which source line it comes from.

    Raises
    ------
    CompileError
        If the source, or a name expression, does not compile; the message holds the compiler's log and quotes the lines.
    InvalidValueError
        If an option is not known to NVRTC, or is the architecture.
    LibraryNotInstalledError
        If NVRTC is not installed.
    CudaError
        If NVRTC fails otherwise.

    Examples
    --------
    >>> source = "template <class T> __global__ void scale(T* x) { x[threadIdx.x] *= 2; }"
    >>> program = drv.compile_program(source, "compute_90", name_expressions=["scale<float>"])
    >>> program.names["scale<float>"]
    '_Z5scaleIfEvPT_'
    """
    if any(option.startswith(("-arch", "--gpu-architecture")) for option in options):
        raise InvalidValueError("the architecture is no option: it follows from the device")
    flags = [f"--gpu-architecture={architecture}", *options]
    if line_info:
        flags.append("--generate-line-info")
    flags += [f"--include-path={directory}" for directory in (*include_dirs, *cuda_include_dirs())]
    texts = dict(headers or {})
    nvrtc = _nvrtc()
    program = _check(
        nvrtc.nvrtcCreateProgram(
            source.encode(),
            name.encode(),
            len(texts),
            [text.encode() for text in texts.values()] or None,
            [header.encode() for header in texts] or None,
        )
    )
    try:
        for expression in name_expressions:
            _check(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        status = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])[0]
        log = _text(program, "ProgramLog")
        if status:
            _fail(status, log, source, name, architecture, flags)
        binary = architecture.startswith("sm_")
        image = _bytes(program, "CUBIN" if binary else "PTX")
        if line_info and not binary:
            # NVRTC puts the working directory before the name, where no such file is.
            image = image.replace(f'"{Path.cwd()}/{name}"'.encode(), f'"{name}"'.encode())
        return CompiledProgram(
            image=image,
            architecture=architecture,
            names={
                expression: _check(nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode()
                for expression in name_expressions
            },
            log=log,
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def architecture_of(device: Device, *, only: bool = False) -> str:
    """What to compile for a device: PTX for a simulated one, else a cubin.

    A device newer than the compiler gets PTX of the newest architecture that the compiler knows, which
    NVIDIA's driver translates.

    Parameters
    ----------
    only : bool
        Whether the code is for this architecture and no newer one, and may use what only this one has (``sm_90a``, such as
        ``wgmma``).

    Raises
    ------
    InvalidValueError
        If the device is older than anything the compiler knows.
    """
    major, minor = device.compute_capability
    device_number = major * 10 + minor
    known = [int(number) for number in _check(_nvrtc().nvrtcGetSupportedArchs())]
    usable = [number for number in known if number <= device_number]
    if not usable:
        raise InvalidValueError(
            f"device {device.ordinal} has compute capability {major}.{minor}; NVRTC {_version_text()} compiles "
            f"for {known[0] // 10}.{known[0] % 10} and newer"
        )
    best = max(usable)
    same_family = best // 10 == major
    suffix = "a" if only and best == device_number and best >= _FIRST_WITH_OWN_FEATURES else ""
    return f"{'sm' if same_family and not device.runtime.simulated else 'compute'}_{best}{suffix}"


def compiler_version() -> tuple[int, int]:
    """Major and minor version of NVRTC, such as ``(13, 0)``.

    Raises
    ------
    LibraryNotInstalledError
        If NVRTC is not installed.
    """
    major, minor = _check(_nvrtc().nvrtcVersion())
    return int(major), int(minor)


@lru_cache(maxsize=1)
def cuda_include_dirs() -> tuple[str, ...]:
    """Directories of CUDA's own headers, for ``include_dirs`` of :func:`compile_program`.

    Empty where they are not installed. They are looked for once in a process.
    """
    from cuda.pathfinder import find_nvidia_header_directory

    directories = (find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return tuple(dict.fromkeys(str(directory) for directory in directories if directory is not None))


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise LibraryNotInstalledError(
            f"cuda.bindings cannot be imported ({error}): pip install cuda-python"
        ) from error
    return nvrtc


def _check(result: Any) -> Any:
    status = result[0]
    if status:
        raise CudaError(f"NVRTC failed: {status.name}: {_status_text(status)}", status=status.name)
    return result[1] if len(result) == 2 else result[1:]


def _status_text(status: Any) -> str:
    text: bytes = _nvrtc().nvrtcGetErrorString(status)[1]
    return text.decode()


def _version_text() -> str:
    return ".".join(map(str, compiler_version()))


def _bytes(program: Any, what: str) -> bytes:
    nvrtc = _nvrtc()
    size = _check(getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytearray(size)
    _check(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return bytes(buffer)


def _text(program: Any, what: str) -> str:
    return _bytes(program, what).rstrip(b"\0").decode(errors="replace").strip()


def _fail(status: Any, log: str, source: str, name: str, architecture: str, flags: Sequence[str]) -> None:
    lines = [f"{name} does not compile (NVRTC {_version_text()}, {architecture}):", log]
    quoted = _quote(log, source, name)
    if quoted:
        lines += ["", *quoted]
    if "could not open source file" in log and not cuda_include_dirs():
        lines += ["", _INSTALL_HEADERS]
    if status.name == "NVRTC_ERROR_INVALID_OPTION":
        raise InvalidValueError(f"NVRTC refuses an option among {list(flags)}: {log}", status=status.name)
    raise CompileError(
        "\n".join(lines), log=log, source=source, status=status.name, call="nvrtcCompileProgram"
    )


def _quote(log: str, source: str, name: str) -> list[str]:
    """The first source lines that the log calls wrong, with their numbers."""
    numbers = dict.fromkeys(
        int(number) for number in re.findall(rf"^{re.escape(name)}\((\d+)\): [a-z ]*error", log, re.MULTILINE)
    )
    text = source.splitlines()
    return [
        f"{name}:{number}: {text[number - 1]}"
        for number in list(numbers)[:_QUOTED_LINES]
        if 0 < number <= len(text)
    ]


def has_c_linkage(code: str, name: str) -> bool:
    """Whether ``code`` declares the kernel ``name`` as ``extern "C"``, by itself or in a block of such declarations.

    Such a kernel is found by its name alone. NVRTC must not be asked for the name as an expression: that of a
    function which CUDA has too, such as ``all`` or ``clock``, is ambiguous.
    """
    declaration = rf"[^;{{}}]*?\b{re.escape(name)}\s*\("
    if re.search(rf'\bextern\s*"C"\s{declaration}', code):
        return True
    return any(re.search(rf"\b__global__\b{declaration}", block) for block in _blocks_of_c_linkage(code))


def _blocks_of_c_linkage(code: str) -> Iterator[str]:
    """What stands between the braces of ``extern "C" { }``, as far as braces in comments and texts are balanced."""
    for begin in re.finditer(r'\bextern\s*"C"\s*\{', code):
        depth = 1
        for brace in re.finditer(r"[{}]", code[begin.end() :]):
            depth += 1 if brace.group() == "{" else -1
            if not depth:
                yield code[begin.end() : begin.end() + brace.start()]
                break
