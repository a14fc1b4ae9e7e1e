"""A worker inside the sandbox: gives up its rights, imports the student's files, and serves calls on its wire.

Whatever student code calls (effect, operation, acknowledge, sleep, an SQL statement) is asked of the trusted side,
which counts and decides. What a worker says is a claim; judged are the files in the scratch. Standard library only.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any, NoReturn

from grader import wire
from grader.compiled import Finder
from grader.confined import LIBC, SET_PDEATHSIG, Confinement
from grader.serving import Serving


def run(
    wire_fd: int, confinement: Confinement | None, options: dict[str, Any], compiled: dict[str, bytes] | None = None
) -> NoReturn:
    """Serve calls on the wire until it closes or the template kills this process. Without confinement: practice."""
    if confinement is not None:
        confinement.enter()
    elif sys.platform.startswith("linux"):
        LIBC.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if compiled:
        sys.meta_path.insert(0, Finder(compiled))
    serving = Serving(Line(socket.socket(fileno=wire_fd)), options)
    serving.line.send({"hello": True})
    while True:
        serving.once()


class Line:
    """The worker's end of the wire."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.request = ""

    def send(self, message: dict[str, Any]) -> None:
        """Send one frame."""
        self.connection.sendall(wire.pack(message))

    def read(self) -> dict[str, Any]:
        """Wait for one frame; the process ends when the wire does."""
        head = self._exactly(4)
        return wire.unpack(self._exactly(wire.frame_length(head)))

    def ask(self, name: str, detail: dict[str, Any]) -> dict[str, Any]:
        """A callback: tell the trusted side and do as it answers."""
        self.send({"id": self.request, "callback": name, "detail": wire.encode(detail)})
        return {key: wire.decode(form) for key, form in self.read().items() if key != "id"}

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.connection.recv(count - len(data))
            if not more:
                os._exit(0)
            data += more
        return data
