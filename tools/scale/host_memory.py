"""How much memory this machine has for a prediction, which is found out before any is taken."""

from __future__ import annotations

from pathlib import Path

#: What a prediction takes at most, whatever the size of the model: samples of kernels, one after the other, and records.
NEEDED = 4 << 30

_GROUP = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that this process can still take; of a container, what its limit leaves."""
    machine = _numbers(Path("/proc/meminfo")).get("MemAvailable:")
    # Where nobody says, nothing is known to be missing.
    left = NEEDED if machine is None else machine << 10
    limit, used = _text(_GROUP / "memory.max").strip(), _text(_GROUP / "memory.current").strip()
    if limit.isdecimal() and used.isdecimal():
        # Files that were read are forgotten when memory is needed.
        files = _numbers(_GROUP / "memory.stat")
        cached = files.get("inactive_file", 0) + files.get("active_file", 0)
        left = min(left, max(int(limit) - int(used) + cached, 0))
    return left


def check_available() -> None:
    """Raise MemoryError, with what is there and what is needed, if this machine has too little memory for a prediction."""
    there = available()
    if there < NEEDED:
        raise MemoryError(
            f"a prediction takes up to {NEEDED / 2**30:g} GiB of this machine's memory, and {there / 2**30:.1f} GiB are available: "
            "end other programs, or raise the container's limit"
        )


def _numbers(path: Path) -> dict[str, int]:
    """What a file says, each on a line of its own, a name and a number."""
    return {words[0]: int(words[1]) for line in _text(path).splitlines() if len(words := line.split()) > 1}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
