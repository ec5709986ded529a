"""Strangers who call a rank while the ranks connect: whatever they send, the ranks find each other."""

from __future__ import annotations

import contextlib
import json
import socket
import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel.backends.gloo.connections import PeerConnections
from parallel.backends.gloo.handshake import _HELLO, _MAGIC
from parallel.backends.gloo.transport import GlooTransport
from parallel.groups.reduce_op import ReduceOp
from parallel.groups.stores.store import HashStore
from tests.parallel.threads import together

from .test_gloo import soon

_NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, (1 << 32) - 1))
_HELLOS = st.builds(
    lambda magic, sender, receiver, nonce, proof: _HELLO.pack(magic, sender, receiver, nonce, proof),
    st.sampled_from([_MAGIC, bytes(len(_MAGIC))]),
    _NUMBERS,
    _NUMBERS,
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=32, max_size=32),
)


@settings(max_examples=25)
@given(
    sent=st.lists(
        st.one_of(st.binary(max_size=200), _HELLOS, _HELLOS.map(lambda hello: hello[:-1])), max_size=4
    ),
    vanish=st.booleans(),
)
def test_whatever_strangers_send_the_ranks_meet(sent: list[bytes], vanish: bool) -> None:
    store = HashStore()
    strangers: list[socket.socket] = []

    def rank_body(rank: int) -> None:
        if rank == 1:
            host, port = json.loads(store.get("connections/0"))[:2]
            for data in sent:
                stranger = socket.create_connection((host, port))
                stranger.sendall(data)
                if vanish:
                    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    stranger.close()
                else:
                    strangers.append(stranger)
        connections = PeerConnections(store, rank, 2, 20)
        array = np.full(3, rank + 1, np.int64)
        GlooTransport(connections, "world", range(2)).all_reduce(array, ReduceOp.SUM, soon())
        connections.close()
        assert (array == 3).all()

    together(rank_body, 2)
    for stranger in strangers:
        # Nobody talks to them.
        stranger.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
        stranger.close()
