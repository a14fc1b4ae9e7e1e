"""What a submission has left behind on this machine: processes, mounts, files, connections."""

from __future__ import annotations

import ctypes
import os
import socket
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grader import assemble
from grader.hostile import MARK, PORT

SETTLE_S = 2.0
"""How long the kernel may take to clear away what was killed; what is there longer is left."""
_OURS = ("redelivery-inspect-", "redelivery-practice-")
_GIVEN = ("grader/hidden", "grader/visible", "reference", "student", "student/lab", "fixtures")
_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of the process table."""

    parent: int
    state: str


class Listener:
    """Plays the outside world: whoever connects, by TCP or through an abstract socket, is counted."""

    def __init__(self, port: int = PORT) -> None:
        self.connections = 0
        self._sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
        self._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        addresses: tuple[tuple[str, int] | str, ...] = (("127.0.0.1", port), f"\0{MARK}-{port}")
        for held, address in zip(self._sockets, addresses, strict=True):
            with suppress(OSError):  # in use by another run on this machine: then that one counts
                held.bind(address)
                held.listen(16)
                threading.Thread(target=self._count, args=(held,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        for held in self._sockets:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            held.close()

    def _count(self, held: socket.socket) -> None:
        while True:
            try:
                connection, _ = held.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()


class Watch:
    """Looks at one judge between two submissions. Made by the process that started the judge."""

    def __init__(self, judge: int, listener: Listener) -> None:
        self.judge = judge
        self.listener = listener
        self._mounts = _mounts(judge)
        self._before = frozenset(pid for pid, one in processes().items() if one.parent == os.getpid())
        self._connections = listener.connections

    def left(self, known: frozenset[int]) -> list[str]:
        """In words, what is there and was not before. `known`: the children of this process that are meant to live."""
        end = time.monotonic() + SETTLE_S
        found = self._look(known)
        while found and time.monotonic() < end:
            time.sleep(0.05)
            found &= self._look(known)
        if self.listener.connections > self._connections:
            found.add("a connection to the outside")
            self._connections = self.listener.connections
        return sorted(found)

    def _look(self, known: frozenset[int]) -> set[str]:
        table = processes()
        found = {f"process {pid} of the judge" for pid in _below(self.judge, table)}
        for pid, process in table.items():
            if process.parent == os.getpid() and pid not in known | self._before:
                if process.state == "Z":  # its parent was killed, so it came to us to be waited for
                    with suppress(OSError):
                        os.waitpid(pid, os.WNOHANG)
                else:
                    found.add(f"process {pid} without a parent")
        found |= {f"mount {line}" for line in _mounts(self.judge) - self._mounts}
        return found | set(files())


def adopt_orphans() -> None:
    """Have processes whose parents end become children of this one, so that none can slip away unseen."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes() -> dict[int, Process]:
    """The process table: pid -> parent and state."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                state, parent = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:2]
                table[int(name)] = Process(parent=int(parent), state=state)
    return table


def _below(root: int, table: dict[int, Process]) -> set[int]:
    found: set[int] = set()
    layer = {root}
    while layer:
        layer = {pid for pid, one in table.items() if one.parent in layer and one.state != "Z"}
        found |= layer
    return found


def _mounts(pid: int) -> set[str]:
    return {line.split(" ", 5)[4] for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()}


def files() -> list[str]:
    """Paths that carry the corpus's mark, given files that have it in them, and what of ours should be gone."""
    places = {Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home(), Path.cwd()}
    places |= {assemble.PACKAGE, assemble.PACKAGE / "grader", *(assemble.PACKAGE / name for name in _GIVEN)}
    found = []
    for place in places:
        with suppress(OSError):
            found += [f"file {place / name}" for name in os.listdir(place) if MARK in name or name.startswith(_OURS)]
    for folder in _GIVEN:
        for path in (assemble.PACKAGE / folder).glob("*.*"):
            if path.is_file() and MARK.encode() in path.read_bytes():
                found.append(f"changed file {path}")
    return found
