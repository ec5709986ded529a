"""Runs the ranks of one machine as processes: passes their output on, and ends all when one fails."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from .exit_codes import describe_exit, signal_name

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

# After a failure the others get this long to end of themselves: a rank whose exception made another one fail may be
# the slower of the two to end.
_SETTLING = 0.3
# From SIGTERM to SIGKILL: after a failure, and where nothing has failed here, when ranks may be saving their state.
_GRACE_AFTER_FAILURE = 5.0
_GRACE_TO_SAVE = 30.0

#: Signals that end a launcher, unless they are ignored.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_PIECE, _LARGEST_PIPE = 1 << 16, 1 << 20
_TAIL = 1 << 16
_TRACEBACK = re.compile(rb"^(  \+ Exception Group )?Traceback \(most recent call last\):", re.MULTILINE)
_CHAINED = (b"another exception occurred:\n\n", b"direct cause of the following exception:\n\n")

_PR_SET_PDEATHSIG = 1


@dataclass(slots=True, frozen=True)
class Rank:
    """A process to run.

    Attributes
    ----------
    rank, local_rank
        Its number among all, and among those of this machine.
    command, environment
        What is run.
    console
        The streams ("stdout", "stderr") that are shown.
    prefixed
        Those of which every line begins with the rank.
    files
        Where streams are written to.
    """

    rank: int
    local_rank: int
    command: Sequence[str]
    environment: Mapping[str, str]
    console: frozenset[str]
    prefixed: frozenset[str]
    files: Mapping[str, Path]


@dataclass(slots=True, frozen=True)
class Outcome:
    """How the ranks of this machine have ended.

    Attributes
    ----------
    status
        Exit status for the launcher: 0, that of the rank that failed first, or 128 plus the number of a signal.
    failure
        What the rank that failed first did, as "rank 1 failed with exit code 3"; empty if none did.
    signal
        The signal that the launcher received, if one ended the ranks.
    stopped
        Whether they were ended because ``stop`` asked for it.
    """

    status: int
    failure: str = ""
    signal: int | None = None
    stopped: bool = False


@dataclass(slots=True)
class _Stream:
    """A pipe that a rank writes to."""

    process: _Process
    source: BinaryIO
    console: int | None
    prefix: bytes
    file: BinaryIO | None
    keep: bool
    line: bytes = b""


@dataclass(slots=True)
class _Process:
    rank: Rank
    popen: subprocess.Popen[bytes]
    streams: list[_Stream] = field(default_factory=list)
    tail: bytes = b""
    traceback_at: float | None = None
    code: int | None = None
    ended_at: float = 0.0
    ended_by: int = 0


class LocalRanks:
    """Processes that live and die together."""

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self._ranks = ranks
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._signal: int | None = None
        self._stopped = False
        self._act_at: float | None = None
        self._action = 0

    def run(self, stop: socket.socket | None = None) -> Outcome:
        """Start all, wait for all, report a failure on stderr, and tell how they ended.

        A signal to this process (SIGINT, SIGTERM, SIGHUP, SIGQUIT) is passed on to the ranks; when there is something
        to read from ``stop``, they get SIGTERM. Whatever happens, none is left when this returns. To be called from
        the main thread.
        """
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        handlers = {}
        former = signal.set_wakeup_fd(writer)
        started = time.monotonic()
        try:
            for number in (signal.SIGCHLD, *ENDING_SIGNALS):
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                    handlers[number] = signal.signal(number, lambda *_: None)
            self._selector.register(reader, selectors.EVENT_READ)
            if stop is not None:
                self._selector.register(stop, selectors.EVENT_READ)
            for rank in self._ranks:
                self._processes.append(self._start(rank))
            self._watch(reader, stop)
        finally:
            self._kill()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former)
            self._selector.close()
            # What came when the last rank had ended, or while the rest was cleared away, ends this launcher all the same.
            late = _received(reader)
            if self._signal is None and late:
                self._signal = late[0]
            os.close(reader)
            os.close(writer)
        return self._report(started)

    def _start(self, rank: Rank) -> _Process:
        piped = {
            name: name in rank.files
            or name in rank.prefixed
            or name not in rank.console
            # Kept, so that a failure's traceback can be shown after the output of the others.
            or (name == "stderr" and len(self._ranks) > 1)
            for name in ("stdout", "stderr")
        }
        library, launcher = ctypes.CDLL(None), os.getpid()

        def end_with_launcher() -> None:
            library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != launcher:
                os._exit(1)

        popen = subprocess.Popen(
            rank.command,
            env=rank.environment,
            stdout=subprocess.PIPE if piped["stdout"] else None,
            stderr=subprocess.PIPE if piped["stderr"] else None,
            # Signals reach a rank's own children too, and Ctrl-C reaches the ranks once: from the launcher.
            start_new_session=True,
            preexec_fn=end_with_launcher,
        )
        process = _Process(rank, popen)
        for name, number in (("stdout", 1), ("stderr", 2)):
            source = getattr(popen, name)
            if source is None:
                continue
            file = None
            if name in rank.files:
                rank.files[name].parent.mkdir(parents=True, exist_ok=True)
                file = rank.files[name].open("wb", buffering=0)
            console = number if name in rank.console else None
            prefix = f"[rank{rank.rank}]: ".encode() if name in rank.prefixed else b""
            stream = _Stream(process, source, console, prefix, file, keep=name == "stderr")
            os.set_blocking(source.fileno(), False)
            process.streams.append(stream)
            self._selector.register(source, selectors.EVENT_READ, stream)
        return process

    def _watch(self, reader: int, stop: socket.socket | None) -> None:
        while any(process.code is None for process in self._processes):
            timeout = None if self._act_at is None else max(0.0, self._act_at - time.monotonic())
            for key, _ in self._selector.select(timeout):
                if isinstance(key.data, _Stream):
                    self._pass_on(key.data)
                    continue
                if stop is not None and key.fileobj is stop:
                    self._selector.unregister(stop)
                    self._stop()
                    continue
                for number in _received(reader):
                    self._forward(number)
            self._note_ends()
            if self._act_at is not None and time.monotonic() >= self._act_at:
                self._send(self._action)
                self._plan(signal.SIGKILL, _GRACE_AFTER_FAILURE)

    def _plan(self, action: int, seconds: float) -> None:
        self._action, self._act_at = action, time.monotonic() + seconds

    def _forward(self, number: int) -> None:
        """Pass a signal on; at the second one the user's patience has ended."""
        if self._signal is None:
            self._signal = number
            self._send(number)
            self._plan(signal.SIGKILL, _GRACE_TO_SAVE)
        else:
            self._send(signal.SIGKILL)

    def _stop(self) -> None:
        # Ranks that are being ended for another reason have their time already.
        if self._act_at is None:
            self._stopped = True
            self._send(signal.SIGTERM)
            self._plan(signal.SIGKILL, _GRACE_TO_SAVE)

    def _send(self, number: int) -> None:
        for process in self._processes:
            if process.code is None:
                process.ended_by = number
            # A rank that has ended is not reaped yet, so its number names no other session.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.popen.pid, number)

    def _note_ends(self) -> None:
        for process in self._processes:
            if process.code is not None:
                continue
            ended = os.waitid(os.P_PID, process.popen.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if ended is None:
                continue
            process.code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            process.ended_at = time.monotonic()
            for stream in process.streams:
                self._pass_on(stream, last=True)
            if process.code != 0 and self._act_at is None:
                self._plan(signal.SIGTERM, _SETTLING)

    def _kill(self) -> None:
        """Leave nothing behind; where all has gone well, what a rank has left running on purpose stays."""
        if any(process.code != 0 for process in self._processes):
            self._send(signal.SIGKILL)
        for process in self._processes:
            process.popen.wait()
            for stream in process.streams:
                self._pass_on(stream, last=True)
                stream.source.close()
                if stream.file is not None:
                    stream.file.close()

    def _pass_on(self, stream: _Stream, last: bool = False) -> None:
        """Pass on what a rank has written; at its end all of it, also a line that has none."""
        # Of what is written meanwhile only so much: others, and signals, want their turn.
        for _ in range(_LARGEST_PIPE // _PIECE if last else 1):
            try:
                data = os.read(stream.source.fileno(), _PIECE)
            except BlockingIOError:
                break
            if not data:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(stream.source)
                last = True
            if stream.keep:
                if _TRACEBACK.search(data):
                    stream.process.traceback_at = time.monotonic()
                stream.process.tail = (stream.process.tail + data)[-_TAIL:]
            _write(stream.file.fileno() if stream.file else None, data)
            _write(stream.console, _prefixed(stream, data) if stream.prefix else data)
            if not data:
                break
        if last and stream.line:
            _write(stream.console, stream.prefix + stream.line + b"\n")
            stream.line = b""

    def _report(self, started: float) -> Outcome:
        failed = [each for each in self._processes if each.code != 0 and not each.ended_by]
        if not failed:
            if self._signal is None:
                return Outcome(0, stopped=self._stopped)
            say(f"received {signal_name(self._signal)}; every rank has been ended")
            return Outcome(128 + self._signal, signal=self._signal)
        first = min(failed, key=_precedence)
        code = first.code or 0
        seconds = first.ended_at - started
        text = (
            f"rank {first.rank.rank} (local rank {first.rank.local_rank}, process {first.popen.pid}) failed with "
            f"{describe_exit(code)} after {seconds:.1f} s"
        )
        after = [each for each in failed if each is not first]
        if after:
            named = (f"rank {each.rank.rank} ({describe_exit(each.code or 0)})" for each in after)
            text += f"; after it failed {', '.join(named)}"
        if ended := [each.rank.rank for each in self._processes if each.ended_by]:
            numbers = f"rank {ended[0]} was" if len(ended) == 1 else f"ranks {_listed(ended)} were"
            text += f"; {numbers} ended because of it"
        if "stderr" in first.rank.files:
            text += f"; its errors are in {first.rank.files['stderr']}"
        last = _last_error(first.tail)
        say(text + ("; its error output ends with:" if last else ""))
        _write(2, last)
        failure = f"rank {first.rank.rank} failed with {describe_exit(code)}"
        return Outcome(code if code > 0 else 128 - code, failure, self._signal)


def _received(reader: int) -> list[int]:
    """The signals for this process whose numbers wait in a pipe."""
    numbers = bytearray()
    with contextlib.suppress(BlockingIOError):
        while True:
            numbers += os.read(reader, 1024)
    return [number for number in numbers if number != signal.SIGCHLD]


def _precedence(process: _Process) -> tuple[bool, float]:
    """Orders failures: the least is the cause."""
    # Nobody is killed because another rank failed, and others can miss a rank before the system tells of its end.
    return process.code != -signal.SIGKILL, process.traceback_at or process.ended_at


def _prefixed(stream: _Stream, data: bytes) -> bytes:
    """The lines that are complete, each after the rank; progress bars end theirs with a carriage return."""
    lines = (stream.line + data).splitlines(keepends=True)
    stream.line = lines.pop() if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
    return b"".join(stream.prefix + line for line in lines)


def say(text: str) -> None:
    """Write a line of the launcher's own to stderr, behind what the ranks have written."""
    sys.stdout.flush()
    _write(2, f"parallel.launch: {text}\n".encode())


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _last_error(tail: bytes) -> bytes:
    """The last traceback of error output, with the exceptions that led to it, or else the last lines."""
    starts = [match.start() for match in _TRACEBACK.finditer(tail)]
    if not starts:
        lines = tail.splitlines(keepends=True)[-20:]
        last = b"".join(lines)
    else:
        start = starts.pop()
        while starts and tail[:start].endswith(_CHAINED):
            start = starts.pop()
        last = tail[start:]
    return last if not last or last.endswith(b"\n") else last + b"\n"


def _write(descriptor: int | None, data: bytes) -> None:
    if descriptor is None:
        return
    # The reader of the console may have gone; the ranks go on.
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(descriptor, data) :]
