"""The calls of one group: that they agree on all ranks, how they wait, and how they fail."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import STORAGE_ONLY
from parallel.backends.reductions import DTYPES
from parallel.groups.errors import DistBackendError

from .channels import DATA, OFFER, TRANSFER, Header
from .connections import EAGER_BYTES
from .shared_slots import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parallel.backends.backend import Array

    from .channels import Receipt
    from .connections import PeerConnections

# Room for what a rank that is behind calls next; and how long the others wait for its side of a disagreement.
_REMEMBERED = 256
_ANSWER_SECONDS = 1.0
# Signatures of calls that are cached, for sizes that recur.
_SIGNATURES = 1024
#: Types of arrays that are sent, combined or not.
_TYPES = sorted({*DTYPES, *(each.numpy for each in STORAGE_ONLY)}, key=lambda dtype: dtype.name)
_CODES = {dtype: code for code, dtype in enumerate(_TYPES, 1)}
_ACCEPT, _REFUSE = 0, 1
# The streams of announced transfers lie below those of collectives; two for each, the answer and the data.
_FIRST_TRANSFER = -1000


class Call:
    """One collective on this rank."""

    __slots__ = ("_calls", "deadline", "description", "sequence", "signature")

    def __init__(self, calls: Calls, description: str, sequence: int, deadline: float) -> None:
        self._calls = calls
        self.description = description
        self.sequence = sequence
        self.signature = calls.signature(description)
        self.deadline = deadline

    def post(self, rank: int, stream: int, array: Array | None = None) -> Receipt:
        """Expect the next message of ``stream`` from ``rank``, in ``array``."""
        view = None if array is None else _bytes_of(array)
        return self._calls.channel.post(self._calls.ranks[rank], stream, view, self.sequence)

    def send(self, rank: int, stream: int, array: Array | None = None) -> None:
        """Send ``array``, or a message without content."""
        body = b"" if array is None else _bytes_of(array)
        calls = self._calls
        try:
            header = Header(DATA, calls.channel.identity, stream, self.sequence, self.signature, len(body))
            calls.channel.send(calls.ranks[rank], header, body, self.deadline, self.sequence)
        except DistBackendError as error:
            # A failure of the other rank says more than its leaving afterwards.
            reason = calls.channel.failure_of(self.sequence) or str(error)
            raise calls.failed(self, reason, [rank]) from None

    def finish(self, receipts: list[Receipt]) -> None:
        """Wait for messages, and see that they belong to the same call."""
        for number, receipt in enumerate(receipts, 1):
            if not receipt.wait(self.deadline):
                raise self._calls.late(
                    self, [receipt, *[other for other in receipts[number:] if not other.wait(0)]]
                )
            if receipt.error is not None:
                unfinished = [other for other in receipts[number - 1 :] if other.error is not None]
                raise self._calls.failed(self, receipt.error, self._calls.senders(unfinished))
            if receipt.sequence != self.sequence or receipt.signature != self.signature:
                raise self._calls.disagreement(self)

    @contextmanager
    def agreement(self, stream: int) -> Iterator[None]:
        """Compare each rank's call with its neighbour's, for operations whose messages do not reveal a mismatch."""
        size, rank = self._calls.size, self._calls.rank
        if size == 1:
            yield
            return
        receipt = self.post((rank - 1) % size, stream)
        self.send((rank + 1) % size, stream)
        yield
        self.finish([receipt])


class Calls:
    """The sequence of a group's calls, and its channel."""

    def __init__(self, connections: PeerConnections, name: str, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.rank = ranks.index(connections.rank)
        self.size = len(ranks)
        self.name = name
        self._sequence = 0
        self._signatures: dict[str, int] = {}
        self._history: deque[tuple[int, str]] = deque(maxlen=_REMEMBERED)
        self._changed = threading.Condition()
        # What each rank says that it called, once ranks have disagreed about a call.
        self._disputed: int | None = None
        self._called: dict[int, str] = {}
        # For whom each rank waited in vain, once one has run out of time; and what follows from that.
        self._waits: dict[int, list[int]] = {}
        self._silent: list[int] | None = None
        self._transfers = 0
        self._tellers: list[threading.Thread] = []
        self.channel = connections.open(name, ranks)
        self.channel.listen(self._heard, lambda sequence: self._dispute(sequence, None))

    def begin(self, operation: str, array: Array | None, deadline: float, sized: bool = True) -> Call:
        """The next collective: ``operation`` on ``array``, whose size may differ between ranks unless ``sized``."""
        if array is not None and array.dtype not in _CODES:
            raise TypeError(f"{operation} takes {', '.join(t.name for t in _TYPES)}; not {array.dtype}")
        description = operation
        if array is not None:
            description += f" of {len(array)} {array.dtype.name}" if sized else f" of {array.dtype.name}"
        with self._changed:
            self._sequence += 1
            call = Call(self, description, self._sequence, deadline)
            self._history.append((call.sequence, description))
            disputed = self._disputed
        if disputed == call.sequence:
            self._state_own_call()
        failure = self.channel.failure_of(call.sequence)
        if failure is not None:
            raise self.failed(call, failure)
        if not self.channel.announce(call.sequence, call.signature):
            raise self.disagreement(call)
        return call

    def signature(self, description: str) -> int:
        """A number by which ranks compare calls."""
        known = self._signatures.get(description)
        if known is None:
            if len(self._signatures) >= _SIGNATURES:
                self._signatures.clear()
            text = f"{description} {self.ranks}"
            known = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
            self._signatures[description] = known
        return known

    def senders(self, receipts: list[Receipt]) -> list[int]:
        """The ranks that ``receipts`` are of."""
        return sorted({self.ranks.index(one.peer) for one in receipts if one.peer >= 0})

    def failed(self, call: Call, reason: str, waited: Sequence[int] = ()) -> DistBackendError:
        """The error of ``call``, which waited for the ranks ``waited``, after telling the others."""
        with self._changed:
            disputed = self._disputed is not None
            late = bool(self._waits)
        if disputed:
            return self.disagreement(call)
        if late and (silent := self._silent_ranks(waited)):
            reason += f"; nothing is heard of rank{'s' if len(silent) > 1 else ''} {_listed(silent)}"
        error = DistBackendError(f"{self._where()}: {call.description} failed: {reason}")
        self._tell(f"rank {self.rank} failed in {call.description}: {reason}", reason, call)
        return error

    def late(self, call: Call, receipts: list[Receipt]) -> DistBackendError:
        """The error of a call that ran out of time before ``receipts`` came."""
        missing = self.senders(receipts)
        waited = f"ran out of time waiting for rank{'s' if len(missing) > 1 else ''} {_listed(missing)}"
        self._tell(f"rank {self.rank} {waited} in {call.description}", waited, call, missing)
        # Who was waited for may itself wait for another.
        silent = self._silent_ranks(missing)
        if silent and silent != missing:
            waited += f", and nothing is heard of rank{'s' if len(silent) > 1 else ''} {_listed(silent)}"
        return DistBackendError(
            f"{self._where()}: {call.description} {waited}: has every rank called it, and is the timeout long enough?"
        )

    def _silent_ranks(self, waited: Sequence[int]) -> list[int]:
        """Ranks that are waited for and do not say for whom they wait, when one has run out of time."""
        with self._changed:
            if self._silent is not None:
                return self._silent
            first = self.rank not in self._waits
            self._waits[self.rank] = list(waited)
        if first:
            self.channel.tell_failure(json.dumps({"waited": list(waited)}).encode())
        deadline = time.monotonic() + 2 * _ANSWER_SECONDS
        with self._changed:
            while (silent := self._unanswered()) and self._changed.wait(
                max(0.0, deadline - time.monotonic())
            ):
                pass
            self._silent = sorted(silent)
            return self._silent

    def _unanswered(self) -> set[int]:
        return {rank for waited in self._waits.values() for rank in waited} - self._waits.keys()

    def disagreement(self, call: Call) -> DistBackendError:
        """The error of ranks that called different things, which says what each called."""
        with self._changed:
            sequence = call.sequence if self._disputed is None else self._disputed
        self._dispute(sequence, None)
        deadline = time.monotonic() + _ANSWER_SECONDS
        with self._changed:
            while len(self._called) < self.size and self._changed.wait(max(0.0, deadline - time.monotonic())):
                pass
            called = dict(self._called)
        lines = "; ".join(
            f"rank {rank} called {called[rank]}" if rank in called else f"rank {rank} has not called it yet"
            for rank in range(self.size)
        )
        return DistBackendError(
            f"{self._where()}: the ranks disagree on their call number {sequence}: {lines}"
        )

    def _dispute(self, sequence: int, heard: tuple[int, str] | None) -> None:
        """The ranks disagree about call ``sequence``; ``heard`` is a rank and what it called."""
        with self._changed:
            if self._disputed is None:
                self._disputed = sequence
            if heard is not None:
                self._called[heard[0]] = heard[1]
            self._changed.notify_all()
        self.channel.fail("the ranks disagree on what they call", sequence)
        self._state_own_call()

    def _state_own_call(self) -> None:
        """Tell all what this rank called where the ranks disagree, once and as soon as it has."""
        with self._changed:
            sequence = self._disputed
            assert sequence is not None
            called = [text for number, text in self._history if number == sequence]
            if self.rank in self._called or not (called or self._sequence > sequence):
                return
            mine = called[0] if called else f"something that is {self._sequence - sequence} calls ago"
            self._called[self.rank] = mine
            self._changed.notify_all()
        text = json.dumps({"disputed": sequence, "called": mine}).encode()
        self._tell_apart(text)

    def _heard(self, peer: int, text: bytes) -> None:
        rank = self.ranks.index(peer)
        message: dict[str, Any] = json.loads(text)
        if "disputed" in message:
            self._dispute(message["disputed"], (rank, message["called"]))
            return
        if "waited" in message:
            with self._changed:
                self._waits[rank] = message["waited"]
                self._changed.notify_all()
        if "failed" in message:
            self.channel.fail(message["failed"], message["call"])

    def _tell(self, text: str, reason: str, call: Call, waited: list[int] | None = None) -> None:
        first = self.channel.broken is None
        self.channel.fail(reason, call.sequence)
        if not first:
            return
        message: dict[str, Any] = {"failed": text, "call": call.sequence}
        if waited is not None:
            message["waited"] = waited
            with self._changed:
                self._waits[self.rank] = waited
        self.channel.tell_failure(json.dumps(message).encode())

    def _tell_apart(self, text: bytes) -> None:
        # Not here, because a reader that sends cannot receive, and abort() does not wait.
        teller = threading.Thread(
            target=self.channel.tell_failure, args=(text,), name=f"failure of group {self.name}", daemon=True
        )
        # Together: close() joins what is listed, which a thread that has not begun cannot be.
        with self._changed:
            self._tellers.append(teller)
            teller.start()

    def _where(self) -> str:
        return f"rank {self.rank} of {self.size} in group {self.name!r}"

    def send(self, array: Array, dst: int, tag: int, deadline: float) -> None:
        """Send to one rank; a long message is announced first, and sent once the receiver has posted a buffer."""
        what = f"send of {_described(array)} to rank {dst} with tag {tag}"
        signature = self._check_transfer(what, array, dst, tag)
        peer = self.ranks[dst]
        body = _bytes_of(array)
        try:
            if len(body) <= EAGER_BYTES:
                self._send(DATA, peer, tag, body, 0, signature, deadline)
                return
            with self._changed:
                self._transfers += 1
                stream = _FIRST_TRANSFER - 2 * self._transfers
            answer = self.channel.post(peer, stream, None, TRANSFER)
            self._send(OFFER, peer, tag, b"", -stream, signature, deadline)
            self._wait(answer, f"rank {dst} has not received it", deadline)
            if answer.signature == _REFUSE:
                raise DistBackendError(f"rank {dst} receives something of another size or type")
            for chunk in _pieces(body):
                self._send(DATA, peer, stream + 1, chunk, 0, signature, deadline)
        except DistBackendError as error:
            raise DistBackendError(f"{self._where()}: {what} failed: {error}") from None

    def recv(self, array: Array, src: int | None, tag: int, deadline: float) -> int:
        """Receive from one rank, or from any."""
        source = "any rank" if src is None else f"rank {src}"
        what = f"recv of {_described(array)} from {source} with tag {tag}"
        expected = self._check_transfer(what, array, src, tag)
        body = _bytes_of(array)
        try:
            receipt = self.channel.post(None if src is None else self.ranks[src], tag, body, TRANSFER)
            self._wait(receipt, f"{source} has not sent it", deadline)
            peer = receipt.peer
            rank = self.ranks.index(peer)
            fits = receipt.signature == expected
            if receipt.offer:
                answers, data = -receipt.sequence, 1 - receipt.sequence
                pieces = []
                if fits:
                    pieces = [self.channel.post(peer, data, piece, TRANSFER) for piece in _pieces(body)]
                self._send(DATA, peer, answers, b"", 0, _ACCEPT if fits else _REFUSE, deadline)
                for piece in pieces:
                    self._wait(piece, f"rank {rank} has not sent all of it", deadline, promised=True)
            if not fits:
                raise DistBackendError(f"rank {rank} sent {_decoded(receipt.signature)}")
        except DistBackendError as error:
            raise DistBackendError(f"{self._where()}: {what} failed: {error}") from None
        return rank

    def _send(
        self,
        kind: int,
        peer: int,
        stream: int,
        body: memoryview | bytes,
        sequence: int,
        signature: int,
        deadline: float,
    ) -> None:
        header = Header(kind, self.channel.identity, stream, sequence, signature, len(body))
        self.channel.send(peer, header, body, deadline)

    def _wait(self, receipt: Receipt, late: str, deadline: float, promised: bool = False) -> None:
        # What was promised comes to where it was posted, even if nobody waits any more.
        if not receipt.wait(deadline) and (promised or self.channel.withdraw(receipt)):
            raise DistBackendError(f"{late} in time")
        if not receipt.wait(time.monotonic() + _ANSWER_SECONDS):
            raise DistBackendError(f"{late} in time")
        if receipt.error is not None:
            raise DistBackendError(receipt.error)

    def _check_transfer(self, what: str, array: Array, other: int | None, tag: int) -> int:
        if array.dtype not in _CODES:
            raise TypeError(f"{what}: the types are {', '.join(t.name for t in _TYPES)}")
        if other == self.rank:
            raise ValueError(f"{what}: a rank does not send to itself")
        if tag < 0:
            raise ValueError(f"{what}: a tag is not negative")
        return _CODES[array.dtype] << 56 | len(array)

    def close(self) -> None:
        """Forget the group."""
        self.channel.close()
        with self._changed:
            tellers = list(self._tellers)
        for teller in tellers:
            teller.join(2 * _ANSWER_SECONDS)

    def abort(self) -> None:
        """Let all calls fail, and tell the others from another thread."""
        if self.channel.broken is None:
            self.channel.fail("it was aborted")
            text = json.dumps({"failed": f"rank {self.rank} aborted the group", "call": 0}).encode()
            self._tell_apart(text)


def _bytes_of(array: Array) -> memoryview:
    return array.view(np.uint8).data


def _pieces(body: memoryview) -> list[memoryview]:
    return [body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES)]


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def _described(array: Array) -> str:
    return f"{len(array)} {array.dtype.name}"


def _decoded(signature: int) -> str:
    code, count = signature >> 56, signature & ((1 << 56) - 1)
    name = _TYPES[code - 1].name if 1 <= code <= len(_TYPES) else "something"
    return f"{count} {name}"
