"""How client and server of a TCPStore begin: each says what it is, and proves that it knows the job's secret.

The client sends a hello, and the server its own. Where one of them requires the secret, the client sends a proof, and
the server its own behind a byte that says whether it accepted the client's. Then requests follow.
"""

from __future__ import annotations

import struct

from parallel.groups.job_secret import (
    CHALLENGE_BYTES,
    NONE,
    PROOF_BYTES,
    REQUIRED,
    JobSecret,
    challenge,
    mismatch,
    required_between,
    wrong_secret,
)

_MAGIC = b"graphroot store2"
_HELLO = struct.Struct(f"<{len(_MAGIC)}sB{CHALLENGE_BYTES}s")
HELLO_BYTES = _HELLO.size
#: What follows the server's hello where the secret is required.
VERDICT_BYTES = 1 + PROOF_BYTES


class SecretError(Exception):
    """The two sides do not share a secret; the text says why, from this side."""


class Introduction:
    """One side of the beginning of a connection."""

    def __init__(self, secret: JobSecret) -> None:
        self._secret = secret
        self._challenge = challenge()
        self._theirs = b""
        self.proof_required = False

    def hello(self) -> bytes:
        """What this side sends first."""
        return _HELLO.pack(_MAGIC, self._secret.stance, self._challenge)

    def take_hello(self, data: bytes, whom: str) -> None:
        """Read the other side's hello.

        Raises
        ------
        ValueError
            If it is none.
        SecretError
            If one side requires the secret and the other has none.
        """
        magic, stance, self._theirs = _HELLO.unpack(data)
        if magic != _MAGIC or not NONE <= stance <= REQUIRED:
            raise ValueError("what does not speak as a store does")
        reason = mismatch(self._secret.stance, stance, whom)
        if reason is not None:
            raise SecretError(reason)
        self.proof_required = required_between(self._secret.stance, stance)

    # The client's side

    def client_proof(self) -> bytes:
        """What the client sends next."""
        return self._secret.proof(b"store client", self._theirs, self._challenge)

    def check_verdict(self, data: bytes, whom: str) -> None:
        """Read what the server answers to the proof.

        Raises
        ------
        SecretError
            If it did not accept the proof, or cannot prove that it knows the secret.
        """
        if data[0] != 1 or not self._secret.proves(data[1:], b"store server", self._challenge, self._theirs):
            raise SecretError(wrong_secret(whom))

    # The server's side

    def verdict(self, proof: bytes) -> bytes:
        """What the server answers to the client's proof; begins with 1 if it is right."""
        if not self._secret.proves(proof, b"store client", self._challenge, self._theirs):
            return bytes(VERDICT_BYTES)
        return b"\1" + self._secret.proof(b"store server", self._theirs, self._challenge)
