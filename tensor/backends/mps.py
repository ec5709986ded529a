"""Apple's devices, which are not supported: programs ask before they choose a device."""

from __future__ import annotations


def is_available() -> bool:
    """False: such devices are not supported."""
    return False


def is_built() -> bool:
    """False: such devices are not supported."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False, whichever ``major`` and ``minor`` version of macOS is asked for: Metal is not used on any.

    The numbers are not checked.
    """
    return False
