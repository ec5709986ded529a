"""A process that runs lines of Python on a simulated driver of its own; see ``test_sharing.py``."""

from __future__ import annotations

import json
import os
import socket
import sys
import textwrap
import traceback
from typing import Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import contents, filled
from tests.drv.simulator.machine import Machine

from .test_sharing import DESCRIPTOR, mapped


def ipc_memory(text: str) -> cuda.CUipcMemHandle:
    return filled(cuda.CUipcMemHandle(), bytes.fromhex(text))


def ipc_event(text: str) -> cuda.CUipcEventHandle:
    return filled(cuda.CUipcEventHandle(), bytes.fromhex(text))


def pool_pointer(text: str) -> cuda.CUmemPoolPtrExportData:
    return filled(cuda.CUmemPoolPtrExportData(), bytes.fromhex(text))


def bytes_of(structure: Any) -> str:
    return contents(structure, 64).hex()


def serve(connection: socket.socket, options: dict[str, Any]) -> None:
    names: dict[str, Any] = {
        "machine": Machine(**options),
        "DESCRIPTOR": DESCRIPTOR,
        **{each.__name__: each for each in (ipc_memory, ipc_event, pool_pointer, bytes_of, mapped)},
    }
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 4)
        if not data:
            return
        message = json.loads(data)
        try:
            names.update(message["values"], fds=descriptors, answer=None)
            exec(textwrap.dedent(message["lines"]), names)
            answer = {"answer": names["answer"]}
        except Exception:
            answer = {"error": traceback.format_exc()}
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(json.dumps(answer).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]))
