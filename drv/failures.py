"""What a failed call says: the status' name, the driver's text, the call, the kernel, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .documentation import driver_function_link
from .errors import CaptureError, CudaError, FindingError, error_class, finding_class, is_sticky
from .python_stack import StackRecorder, format_stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .runtime import Runtime

_OUT_OF_DATE = "Update the NVIDIA driver, or install the cuda-python release made for it."
_ADVICE = {
    34: "A stub of libcuda was loaded: install the NVIDIA driver.",
    100: "No CUDA device is visible: check CUDA_VISIBLE_DEVICES.",
    222: _OUT_OF_DATE,
    803: "The NVIDIA kernel module and libcuda differ: restart the machine after updating the driver.",
    804: _OUT_OF_DATE,
}
_BLOCKING = (
    "The error is asynchronous: it may belong to an earlier launch or copy than the call that reports it. "
    "Set CUDA_LAUNCH_BLOCKING=1 to have it raised where the launch is."
)
_INVALIDATED = 2
_NOT_SUPPORTED = 801
_call_sites = StackRecorder(True)
_LOST = "The context is lost: every later call on this device fails with the same error."


def failure(runtime: Runtime, status: Any, call: str, kernel: str | None = None) -> CudaError:
    """Exception for ``status``, returned by ``call`` (a launch of ``kernel``, where one is given)."""
    code = int(status)
    name, text = status_text(runtime.driver, status)
    subject = call if kernel is None else f"{call} of kernel '{kernel}'"
    lines = [f"{subject} failed: {name}: {text}"]
    sticky = is_sticky(code)
    if sticky:
        lines += _origin(runtime, lines[0], asynchronous=not runtime.launch_blocking)
    if error_class(code) is CaptureError:
        lines += _capture(runtime, lines[0])
    if code in _ADVICE:
        lines.append(_ADVICE[code])
    if code == _NOT_SUPPORTED:
        lines.append(_about(runtime, call))
    exception = error_class(code)
    return exception("\n".join(lines), status=name, call=call, kernel=kernel, sticky=sticky)


def _about(runtime: Runtime, call: str) -> str:
    """Where to read what a call needs that is not supported."""
    name = call.partition("(")[0]
    if runtime.simulated and name in runtime.driver.missing:
        return f"The simulated driver has no {name}: {runtime.driver.missing[name]}"
    return f"What it needs: {driver_function_link(name)}"


def status_text(driver: Any, status: Any) -> tuple[str, str]:
    """Name of a status, and the driver's own words for it."""
    failed, name = driver.cuGetErrorName(status)
    if failed or name is None:
        return getattr(status, "name", f"CUresult {int(status)}"), "unknown error"
    _, text = driver.cuGetErrorString(status)
    return name.decode(), text.decode()


def findings_error(findings: Sequence[Any]) -> FindingError:
    """Exception for findings of the simulated driver; its class is that of the first."""
    message = str(findings[0])
    if len(findings) > 1:
        message += f"\n({len(findings) - 1} more in drv.simulator.findings())"
    return finding_class(findings[0].kind)(message, tuple(findings))


def _origin(runtime: Runtime, first: str, *, asynchronous: bool) -> list[str]:
    """Where a lost context comes from: what the simulator saw, or the launches before it was noticed."""
    device = runtime.current.device
    if device is not None and device.lost is not None:
        return [f"The context was lost earlier: {device.lost}"]
    report = runtime.driver.fault_report() if runtime.simulated else None
    if report is not None:
        lines = [report]
    else:
        lines = [f"Launches before the error, the latest last: {_names(runtime.recent_launches)}."]
    if device is not None:
        device.lost = "\n".join([first, *lines])
        if runtime.guard is not None:
            runtime.guard.faulted(device.lost)
    if asynchronous:
        lines.append(_BLOCKING)
    return [*lines, _LOST]


def called_by() -> str:
    """Where in the program a call stands: a few lines of text, or none where that is unknown."""
    stack = _call_sites.take()
    return f"Called by\n{format_stack(stack[:4])}" if stack else ""


def _capture(runtime: Runtime, failed: str) -> list[str]:
    """Where a call stands that a capture does not allow, and what has become of the capture by it."""
    lines = [text] if (text := called_by()) else []
    for capture in runtime.captures:
        answer = runtime.driver.cuStreamIsCapturing(capture.stream.handle)
        if capture.failure is None and not answer[0] and int(answer[1]) == _INVALIDATED:
            capture.failure = "\n".join([failed, *lines])
            lines.append(
                f"The capture on {capture.stream!r} that began at {capture.call_site} is void by that: what a capture records "
                "is not done, so nothing of it can be waited for, and what it does not see, such as an allocation, would "
                "be missing at a launch. Do this before it begins or after it has ended."
            )
    return lines


def _names(launches: Iterable[Any]) -> str:
    return ", ".join(f"'{function.name}'" for function in launches) or "none"
