"""The trusted end of the wire: one sandbox for a submission, its workers, their deadlines and the budget.

A call to a worker always ends: with what it returned or raised, or with a cause (deadline, died, flood, violation),
and then the worker has been killed. What is ours to answer for (no sandbox, a template that is silent) is raised as
`sandbox.Unavailable` instead, and is never a student's fault.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import Any

from grader import inspect, sandbox
from grader.child import OURS_S, Worker

CALL_S = (2.0, 1.0, 0.5, 0.4)
"""Deadline of a call in seconds: the first, and after one, two, three deadlines passed in the same function."""
BUDGET_S = 20.0
"""Wall time in seconds that all calls of one submission may take together."""
_GONE = "the sandbox has stopped answering"


class BudgetSpent(Exception):
    """The submission has used up its wall time; what was not called yet stays unexecuted."""


class Session:
    """One submission's sandbox, started when the first worker is asked for."""

    def __init__(self, start: Callable[[], sandbox.Box], budget_s: float = BUDGET_S, hello_s: float = OURS_S) -> None:
        self._start = start
        self._hello_s = hello_s
        self.box: sandbox.Box | None = None
        self.left_s = budget_s
        self.workers: list[Worker] = []
        self._late: dict[str, int] = {}
        self.scratch: int | None = None
        self.unimportable: dict[str, tuple[str, str]] = {}
        """Student module -> (cause, sentence), once one has been seen not to import."""
        self._schemas: dict[str, dict[str, str]] = {}
        self.own_tests: list[Any] = []
        """What the student's own tests said of each piece of code, once they have run."""

    def schema(self, name: str) -> dict[str, str]:
        """Table -> SQL of one of the two files, as the given code makes it; read before any student code ran."""
        return self._schemas[name]

    def keep(self) -> None:
        """Keep the two files as they are for `fresh_scratch(kept=True)`. Only where no student code has run on them."""
        self.end_workers()
        self._ask({"do": "keep"})

    def fresh_scratch(self, *, kept: bool = False) -> int:
        """A new, bounded scratch with ledger and queue in it, empty or as kept; a descriptor of the folder, to read."""
        self.end_workers()
        if self.scratch is not None:
            os.close(self.scratch)
            self.scratch = None
        limits = {"bytes": sandbox.SCRATCH_BYTES_MAX, "inodes": sandbox.SCRATCH_FILES_MAX, "kept": kept}
        _, fds = self._ask({"do": "scratch", **limits}, fds=1)
        self.scratch = fds[0]
        if not self._schemas:
            self._schemas = {name: inspect.schema(fds[0], name) for name in ("ledger.db", "queue.db")}
        return fds[0]

    def spawn(self, *, fresh: bool = False, trace: bool = False, timeout: float = 5.0, tests: bool = False) -> Worker:
        """A new child over the present scratch. `fresh`: in a new interpreter, with another hash seed.

        `tests`: it will run the student's own tests, which need more modules.
        """
        if self.left_s <= 0:
            raise BudgetSpent
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        message = {"do": "spawn", "fresh": fresh, "trace": trace, "timeout": timeout, "tests": tests}
        try:
            answer, _ = self._ask(message, send=[theirs.fileno(), write])
        finally:
            theirs.close()
            os.close(write)
        worker = Worker(self, answer["pid"], ours, read)
        self.workers.append(worker)
        worker.hello()
        return worker

    def kill(self, pid: int) -> int:
        """A real SIGKILL by the template; the wait status, or -1 where the child was gone already."""
        return int(self._ask({"do": "kill", "pid": pid})[0]["status"])

    def end_workers(self) -> None:
        """Kill all workers that still live."""
        for worker in list(self.workers):
            worker.end()

    def close(self) -> None:
        """End the sandbox; after that no process of it is left."""
        for worker in self.workers:
            worker.connection.close()
            os.close(worker.output)
        self.workers.clear()
        if self.scratch is not None:
            os.close(self.scratch)
            self.scratch = None
        if self.box is not None:
            self.box.end()
            self.box = None

    def deadline(self, function: str) -> float:
        """Seconds that a call of this function may take now."""
        if self.left_s <= 0:
            raise BudgetSpent
        return min(CALL_S[min(self._late.get(function, 0), len(CALL_S) - 1)], self.left_s)

    def late(self, function: str) -> None:
        """Note a deadline passed, so that the next one in the same function is shorter."""
        self._late[function] = self._late.get(function, 0) + 1

    def spend(self, seconds: float) -> None:
        """Take wall time off the budget."""
        self.left_s -= seconds

    def _ask(
        self, message: dict[str, Any], send: list[int] | None = None, fds: int = 0
    ) -> tuple[dict[str, Any], list[int]]:
        box = self.box or self._open()
        try:
            socket.send_fds(box.control, [json.dumps(message).encode()], send or [])
            data, got, _, _ = socket.recv_fds(box.control, 65536, max(fds, 1))
        except OSError as error:
            raise sandbox.Unavailable(_GONE) from error
        if not data or len(got) != fds:
            raise sandbox.Unavailable(_GONE)
        answer = json.loads(data)
        if type(answer) is not dict or "fault" in answer:
            raise sandbox.Unavailable(f"{_GONE}: {answer!r}"[:200])
        return answer, list(got)

    def _open(self) -> sandbox.Box:
        self.box = self._start()
        self.box.control.settimeout(self._hello_s)
        try:
            hello = self.box.control.recv(65536)
        except OSError:
            hello = b""
        if not hello.startswith(b'{"hello"'):
            why = self.box.complaint()
            self.close()
            raise sandbox.Unavailable(why)
        self.box.control.settimeout(OURS_S)
        self.box.watch()
        return self.box
