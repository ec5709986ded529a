"""The secret of a job: processes that do not know it meet nobody, and both sides say why."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import warnings
from datetime import timedelta
from pathlib import Path
from subprocess import run as run_program
from typing import Any

import numpy as np
import pytest

import parallel
from parallel.backends.gloo.connections import PeerConnections
from parallel.backends.gloo.transport import GlooTransport
from parallel.groups import job_secret as secrets
from parallel.groups.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from parallel.groups.job_secret import KNOWN, NONE, REQUIRED, VARIABLE, JobSecret, job_secret
from parallel.groups.reduce_op import ReduceOp
from parallel.groups.stores.introduction import HELLO_BYTES, VERDICT_BYTES, Introduction, SecretError
from parallel.groups.stores.store import HashStore
from parallel.groups.stores.tcp_store import TCPStore
from tests.parallel.backends.gloo.test_gloo import soon
from tests.parallel.processes import run

_ROOT = Path(__file__).parents[3]
SHORT = timedelta(seconds=0.3)
LIMIT = timedelta(seconds=20)


def _secret(text: str | None, stance: int = REQUIRED) -> JobSecret:
    return JobSecret(b"", NONE) if text is None else JobSecret(text.encode(), stance)


def test_where_the_secret_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job_secret() == JobSecret(b"", NONE)
    handed = secrets.secret_for_children()
    assert len(handed) == 64
    assert secrets.secret_for_children() == handed
    assert job_secret() == JobSecret(handed.encode(), KNOWN)
    monkeypatch.setenv(VARIABLE, "one")
    assert job_secret() == JobSecret(b"one", REQUIRED)
    assert secrets.secret_for_children() == "one"
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(ValueError, match="GRAPHROOT_JOB_SECRET is set and empty: unset it"):
        job_secret()
    with pytest.raises(ValueError, match="is set and empty"):
        TCPStore("127.0.0.1", 0, is_master=True)


def test_a_proof_is_of_one_purpose_and_one_challenge() -> None:
    one, other = _secret("one"), _secret("other")
    proof = one.proof(b"purpose", bytes(32))
    assert one.proves(proof, b"purpose", bytes(32))
    assert not one.proves(proof, b"another", bytes(32))
    assert not one.proves(proof, b"purpose", b"\1" * 32)
    assert not other.proves(proof, b"purpose", bytes(32))
    assert not one.proves(b"", b"purpose", bytes(32))


_MEETINGS: list[tuple[str, JobSecret, JobSecret, str | None, str | None]] = [
    ("neither", _secret(None), _secret(None), None, None),
    ("the same", _secret("one"), _secret("one"), None, None),
    ("handed on", _secret("one"), _secret("one", KNOWN), None, None),
    ("two parents", _secret("one", KNOWN), _secret("other", KNOWN), None, None),
    ("parent and another", _secret("one", KNOWN), _secret(None), None, None),
    ("none", _secret("one"), _secret(None), "has no job secret", "requires the job's secret"),
    ("other", _secret("one"), _secret("other"), "has another job secret", "has another job secret"),
    (
        "another's",
        _secret("one"),
        _secret("other", KNOWN),
        "has another job secret",
        "has another job secret",
    ),
]


def _introduced(server: JobSecret, client: JobSecret) -> tuple[str | None, str | None]:
    """What the two sides find wrong, without a network between them."""
    here, there = Introduction(server), Introduction(client)
    problems: list[str | None] = [None, None]
    for at, (one, data) in enumerate(((here, there.hello()), (there, here.hello()))):
        try:
            one.take_hello(data, "it")
        except SecretError as error:
            problems[at] = str(error)
    if problems == [None, None] and here.proof_required:
        assert there.proof_required
        verdict = here.verdict(there.client_proof())
        assert len(verdict) == VERDICT_BYTES
        if verdict[0] != 1:
            problems[0] = "has another job secret"
        try:
            there.check_verdict(verdict, "it")
        except SecretError as error:
            problems[1] = str(error)
    return problems[0], problems[1]


@pytest.mark.parametrize(("name", "one", "other", "first", "second"), _MEETINGS)
def test_who_meets(
    name: str, one: JobSecret, other: JobSecret, first: str | None, second: str | None
) -> None:
    for problems in (_introduced(one, other), _introduced(other, one)[::-1]):
        for problem, expected in zip(problems, (first, second), strict=True):
            assert (problem is None) == (expected is None), problem
            assert expected is None or expected in str(problem)


def test_a_server_without_the_secret_cannot_pretend() -> None:
    client = Introduction(_secret("one"))
    false = Introduction(_secret("other"))
    client.take_hello(false.hello(), "it")
    with pytest.raises(SecretError, match="it has another job secret"):
        client.check_verdict(b"\1" + bytes(32), "it")
    # Nor can it give the client's own proof back.
    with pytest.raises(SecretError, match="it has another job secret"):
        client.check_verdict(b"\1" + client.client_proof(), "it")


def test_the_secret_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    monkeypatch.setenv(VARIABLE, "a secret that nobody guesses")
    for function in ("send", "sendall"):
        real = getattr(socket.socket, function)

        def noted(self: socket.socket, data: Any, *rest: Any, real: Any = real) -> Any:
            sent.append(bytes(data))
            return real(self, data, *rest)

        monkeypatch.setattr(socket.socket, function, noted)
    server = TCPStore("127.0.0.1", 0, is_master=True, timeout=LIMIT)
    server.set("key", "1")
    server.close()
    assert sum(map(len, sent)) > 2 * HELLO_BYTES + VERDICT_BYTES
    assert b"nobody guesses" not in b"".join(sent)


@pytest.mark.filterwarnings("ignore:the TCPStore at port")
@pytest.mark.parametrize("theirs", [None, "another"])
def test_a_store_turns_away_who_does_not_know_the_secret(
    theirs: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "one")
    server = TCPStore("127.0.0.1", 0, is_master=True, timeout=LIMIT)
    if theirs is None:
        monkeypatch.delenv(VARIABLE)
        reason = "requires the job's secret, and this process has none: set GRAPHROOT_JOB_SECRET"
    else:
        monkeypatch.setenv(VARIABLE, theirs)
        reason = "has another job secret than this process: GRAPHROOT_JOB_SECRET has to be the same"
    # The server of this process reads the variable of the moment; the client below is what changes.
    with monkeypatch.context() as patch:
        patch.setattr("parallel.groups.stores.server.job_secret", lambda: JobSecret(b"one", REQUIRED))
        with pytest.raises(DistNetworkError, match=f"the store at 127.0.0.1:{server.port} {reason}"):
            TCPStore("127.0.0.1", server.port, timeout=LIMIT)
        # Somebody who asks without a hello.
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stranger:
            stranger.sendall(bytes(HELLO_BYTES))
            while stranger.recv(100):
                pass
        monkeypatch.setenv(VARIABLE, "one")
        TCPStore("127.0.0.1", server.port, timeout=LIMIT).set("key", "1")
        assert server.get("key") == b"1"
        # Who waits for those that were turned away hears why they do not come.
        mine = (
            "has no job secret, and this process requires one" if theirs is None else "has another job secret"
        )
        server.set_timeout(SHORT)
        with pytest.raises(DistStoreError, match=rf"127.0.0.1:\d+ was turned away: it {mine}"):
            server.get("never")
    server.close()


def test_the_first_that_is_turned_away_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True, timeout=LIMIT)
    monkeypatch.setattr("parallel.groups.stores.tcp_store.job_secret", lambda: JobSecret(b"one", REQUIRED))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with pytest.raises(DistNetworkError, match="has no job secret, and this process requires one"):
                TCPStore("127.0.0.1", server.port, timeout=LIMIT)
        server.set_timeout(SHORT)
        with pytest.raises(DistError):
            server.clone()
    texts = [str(each.message) for each in caught]
    assert len(texts) == 1
    assert f"port {server.port}: 127.0.0.1:" in texts[0]
    assert "it requires the job's secret, and this process has none" in texts[0]
    server.close()


def _peers(rank: int, size: int, port: int, texts: list[str | None]) -> str:
    """Ranks that meet in a store which checks nothing, each with its own secret."""
    text = texts[rank]
    store = TCPStore("127.0.0.1", port, timeout=LIMIT)
    if text is not None:
        os.environ[VARIABLE] = text
    try:
        connections = PeerConnections(store, rank, size, 10)
    except DistBackendError as error:
        return str(error)
    array = np.ones(3, np.float32)
    GlooTransport(connections, "world", range(size)).all_reduce(array, ReduceOp.SUM, soon())
    connections.close()
    return "" if (array == size).all() else "wrong"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["one", "one", "one"], ["", "", ""]),
        (["one", None, "one"], ["rank 1 has no", "rank 0 requires", "rank 1 has no"]),
        ([None, "one"], ["rank 1 requires", "rank 0 has no"]),
        (["one", "other"], ["rank 1 has another", "rank 0 has another"]),
    ],
)
def test_ranks_connect_to_those_who_know_the_secret(texts: list[str | None], expected: list[str]) -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True)
    results = run(_peers, len(texts), server.port, texts)
    for rank, (result, part) in enumerate(zip(results, expected, strict=True)):
        if part:
            assert f"rank {rank} does not connect to" in result
            assert part in result
            assert VARIABLE in result
        else:
            assert result == ""
    server.close()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[1]",
        b'["h", 1, "00", "00"]',
        b'["h", "p", "' + b"00" * 32 + b'", ""]',
        b"\xff",
        b"[" * 5000,
    ],
)
def test_what_is_no_endpoint_is_an_error(value: bytes) -> None:
    store = HashStore()
    store.set("connections/0", value)
    with pytest.raises(
        DistBackendError, match="what the store says of rank 0, .* is not where a rank listens"
    ):
        PeerConnections(store, 1, 2, 5)


def test_who_writes_into_the_store_cannot_pretend_to_be_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "one")
    store = HashStore()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = ["127.0.0.1", listener.getsockname()[1], "00" * 32, "00" * 16, REQUIRED, "00" * 32]
        store.set("connections/0", json.dumps(endpoint))
        with pytest.raises(DistBackendError, match="rank 1 does not connect to rank 0: rank 0 has another"):
            PeerConnections(store, 1, 2, 5)
        # It has not even been called.
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def _joined(rank: int, port: int, folder: str) -> None:
    Path(folder, str(rank)).write_text(os.environ[VARIABLE])
    store = TCPStore("127.0.0.1", port, timeout=LIMIT)
    parallel.init_process_group("gloo", store=store, rank=rank, world_size=3, timeout=LIMIT)
    objects: list[Any] = [None] * 3
    parallel.all_gather_object(objects, rank)
    assert objects == [0, 1, 2]
    parallel.destroy_process_group()


def test_spawned_processes_have_a_secret_and_meet_their_parent(tmp_path: Path) -> None:
    # The parent serves the store, from before, and is a rank itself.
    server = TCPStore("127.0.0.1", 0, is_master=True, timeout=LIMIT)
    context = parallel.start_processes(
        _joined, (server.port, str(tmp_path)), nprocs=2, join=False, start_method="forkserver"
    )
    failed: list[BaseException] = []

    def join() -> None:
        try:
            while not context.join():
                pass
        except BaseException as error:
            failed.append(error)

    joining = threading.Thread(target=join)
    joining.start()
    parallel.init_process_group("gloo", store=server, rank=2, world_size=3, timeout=LIMIT)
    objects: list[Any] = [None] * 3
    parallel.all_gather_object(objects, 2)
    parallel.destroy_process_group()
    joining.join(30)
    assert not failed, failed
    assert objects == [0, 1, 2]
    texts = {(tmp_path / str(rank)).read_text() for rank in range(2)}
    assert texts == {secrets.secret_for_children()}
    assert VARIABLE not in os.environ
    server.close()


_SCRIPT = """
import os
import sys
import parallel
with open(f"{sys.argv[1]}.{os.environ['RANK']}", "w") as file:
    file.write(os.environ["GRAPHROOT_JOB_SECRET"])
parallel.init_process_group("gloo")
objects = [None] * 2
parallel.all_gather_object(objects, parallel.get_rank())
assert objects == [0, 1]
parallel.destroy_process_group()
"""


@pytest.mark.parametrize("text", [None, "of the user"])
def test_launched_ranks_have_a_secret(text: str | None, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    if text is not None:
        environment[VARIABLE] = text
    command = [sys.executable, "-m", "parallel.launch", "--nproc-per-node", "2", str(script), str(script)]
    done = run_program(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = {Path(f"{script}.{rank}").read_text() for rank in range(2)}
    assert len(seen) == 1
    assert seen == {text} if text is not None else len(seen.pop()) == 64
