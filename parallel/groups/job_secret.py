"""The secret of a job: what its processes show each other, so that nobody else takes part.

It never travels: each side of a connection proves with a keyed hash of the other's random challenge that it knows it.
A process requires it of others when the variable GRAPHROOT_JOB_SECRET is set. One that has handed a secret to the
processes it spawned can show that, and requires nothing.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
from dataclasses import dataclass

VARIABLE = "GRAPHROOT_JOB_SECRET"
PROOF_BYTES = 32
CHALLENGE_BYTES = 32

NONE, KNOWN, REQUIRED = 0, 1, 2
"""Whether a process has a secret, and requires it of others."""


@dataclass(frozen=True, slots=True)
class JobSecret:
    """What this process knows; :attr:`stance` is NONE, KNOWN or REQUIRED."""

    key: bytes
    stance: int

    def proof(self, purpose: bytes, *fields: bytes) -> bytes:
        """What only those who know the secret can compute. ``fields`` have a fixed number and fixed sizes."""
        return hmac.digest(self.key, b"graphroot " + purpose + b"\0" + b"".join(fields), "sha256")

    def proves(self, proof: bytes, purpose: bytes, *fields: bytes) -> bool:
        """Whether ``proof`` is that of ``purpose`` and ``fields``; takes the same time for all that are not."""
        return hmac.compare_digest(proof, self.proof(purpose, *fields))


def required_between(own: int, other: int) -> bool:
    """Whether two processes have to prove that they know the secret, by their stances."""
    return REQUIRED in (own, other)


def mismatch(own: int, other: int, whom: str) -> str | None:
    """Why ``whom`` and this process cannot meet, by their stances; None if they can."""
    if own == REQUIRED and other == NONE:
        return (
            f"{whom} has no job secret, and this process requires one: set {VARIABLE} there to the same value"
        )
    if own == NONE and other == REQUIRED:
        return (
            f"{whom} requires the job's secret, and this process has none: set {VARIABLE} to the same value"
        )
    return None


def wrong_secret(whom: str) -> str:
    """The text of an error: both have a secret, and it is not the same."""
    return f"{whom} has another job secret than this process: {VARIABLE} has to be the same everywhere"


def job_secret() -> JobSecret:
    """The secret of this process: GRAPHROOT_JOB_SECRET, or that which it has handed to processes it spawned.

    Raises
    ------
    ValueError
        If the variable is set and empty.
    """
    text = _from_environment()
    if text is not None:
        return JobSecret(os.fsencode(text), REQUIRED)
    if _handed_on.text:
        return JobSecret(_handed_on.text.encode(), KNOWN)
    return JobSecret(b"", NONE)


def secret_for_children() -> str:
    """The secret for processes that this one starts: its own, or one that is made at the first call.

    Raises
    ------
    ValueError
        If GRAPHROOT_JOB_SECRET is set and empty.
    """
    text = _from_environment()
    if text is not None:
        return text
    with _handed_on.lock:
        if not _handed_on.text:
            _handed_on.text = new_secret()
        return _handed_on.text


def adopt(text: str) -> None:
    """Take the secret that another process of the job has made, unless the environment has one."""
    with _handed_on.lock:
        _handed_on.text = text


def new_secret() -> str:
    """A secret that nobody can guess."""
    return secrets.token_hex(32)


def challenge() -> bytes:
    """Random bytes, which are new for every connection."""
    return secrets.token_bytes(CHALLENGE_BYTES)


def _from_environment() -> str | None:
    text = os.environ.get(VARIABLE)
    if text == "":
        raise ValueError(
            f"the environment variable {VARIABLE} is set and empty: unset it, or set it to a text that nobody can guess, "
            "the same for all processes of the job"
        )
    return text


class _HandedOn:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.text = ""


_handed_on = _HandedOn()
