"""Exit codes of processes in words."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Name of a signal, as "SIGTERM"."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<unknown signal {number}>"


def describe_exit(code: int) -> str:
    """``code`` as the end of a message: "exit code 3", "signal SIGKILL" and what a user may do about it.

    Parameters
    ----------
    code
        The exit code; minus the signal's number where one ended the process.
    """
    if code >= 0:
        return f"exit code {code}"
    name = signal_name(-code)
    if name == "SIGKILL":
        return f"signal {name} (the system does this when memory runs out)"
    if name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL"):
        return f"signal {name} (PYTHONFAULTHANDLER=1 in the environment shows where)"
    return f"signal {name}"
