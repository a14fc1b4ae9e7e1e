"""The trusted end of the wire: one sandbox for a submission, its workers, their deadlines and the budget.

A call to a worker always ends: with what it returned or raised, or with a cause (deadline, died, flood, violation),
and then the worker has been killed. What is ours to answer for (no sandbox, a template that is silent) is raised as
`sandbox.Unavailable` instead, and is never a student's fault.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from grader import inspect, sandbox, wire

CALL_S = (2.0, 1.0, 0.5, 0.4)
"""Deadline of a call in seconds: the first, and after one, two, three deadlines passed in the same function."""
BUDGET_S = 20.0
"""Wall time in seconds that all calls of one submission may take together."""
OUTPUT_BYTES_MAX = 1024 * 1024
CALLBACKS_MAX = 400
_OURS_S = 10.0
_GONE = "the sandbox has stopped answering"


class Kind(StrEnum):
    """How a call ended."""

    RETURNED = "returned"
    RAISED = "raised"
    UNIMPORTABLE = "unimportable"
    DEADLINE = "deadline"
    DIED = "died"
    FLOOD = "flood"
    VIOLATION = "violation"


class BudgetSpent(Exception):
    """The submission has used up its wall time; what was not called yet stays unexecuted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a call ended and what the worker claims about it. All values are exact plain types."""

    kind: Kind
    value: Any = None
    error: str = ""
    mro: tuple[str, ...] = ()
    text: str = ""
    attempts: int | None = None
    same_error: bool = False
    cause_is_last: bool = False
    missing: str | None = None
    line: int | None = None
    file: str | None = None


Handler = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Answers a callback: its name and detail in, the answer's fields out. Time spent here is not the student's."""


class Killed(Exception):
    """Raised by a handler that has killed the worker it was asked by: the call then ends as died."""


@dataclass(slots=True)
class Worker:
    """One child in the sandbox. `ended` says why it lives no longer."""

    session: Session
    pid: int
    connection: socket.socket
    output: int
    ended: Kind | None = None
    printed: int = 0
    status: int | None = None
    _buffer: bytearray = field(default_factory=bytearray)
    _request: str = ""
    _reply: dict[str, Any] | None = None

    def call(self, do: str, args: dict[str, Any], handler: Handler, function: str) -> Answer:
        """Ask for one thing and wait for the answer. `function` names the student's function for the deadlines."""
        self.ask(do, args)
        return self.answer(handler, function)

    def ask(self, do: str, args: dict[str, Any]) -> None:
        """Send a request; `answer` fetches what comes of it."""
        if self.ended is not None:
            return
        self._request = secrets.token_hex(8)
        message = {"id": self._request, "do": do, "args": {name: wire.encode(value) for name, value in args.items()}}
        try:
            if self._buffer or self._readable(0):
                self.end(Kind.DIED if self._hung_up() else Kind.VIOLATION)
            else:
                self.connection.sendall(wire.pack(message))
        except _Ended as ended:
            self.end(ended.kind)
        except OSError:
            self.end(Kind.DIED)

    def answer(self, handler: Handler, function: str) -> Answer:
        """Answer the callbacks of the last request until its reply comes, or the worker has come to an end."""
        if self.ended is not None:
            return Answer(kind=self.ended)
        limit = self.session.deadline(function)
        started = time.monotonic()
        ours = 0.0
        try:
            for _ in range(CALLBACKS_MAX):
                frame, self._reply = self._reply or self._frame(started + limit + ours), None
                if type(frame.get("id")) is not str or frame["id"] != self._request:
                    return self.end(Kind.VIOLATION)
                if "reply" in frame:
                    return self._answer(frame) if not self._buffer else self.end(Kind.VIOLATION)
                before = time.monotonic()
                said = handler(*_callback(frame))
                form = {name: wire.encode(value) for name, value in said.items()}
                self.connection.sendall(wire.pack(form | {"id": self._request}))
                ours += time.monotonic() - before
            return self.end(Kind.FLOOD)
        except _Ended as ended:
            if ended.kind is Kind.DEADLINE:
                self.session.late(function)
            return self.end(ended.kind)
        except Killed:
            return Answer(kind=Kind.DIED)
        except wire.WireError:
            return self.end(Kind.VIOLATION)
        except OSError:
            return self.end(Kind.DIED)
        finally:
            self.session.spend(time.monotonic() - started - ours)

    def pump(self, handler: Handler) -> bool:
        """Answer one callback of the last request; true once the reply is there or the worker has ended."""
        if self._over():
            return True
        try:
            frame = self._frame(time.monotonic() + CALL_S[0])
            if frame.get("id") != self._request:
                self.end(Kind.VIOLATION)
            elif "reply" in frame:
                self._reply = frame
            else:
                said = handler(*_callback(frame))
                form = {name: wire.encode(value) for name, value in said.items()}
                self.connection.sendall(wire.pack(form | {"id": self._request}))
        except _Ended as ended:
            self.end(ended.kind)
        except wire.WireError:
            self.end(Kind.VIOLATION)
        except OSError:
            self.end(Kind.DIED)
        return self._over()

    def _over(self) -> bool:
        return self.ended is not None or self._reply is not None

    def hello(self) -> None:
        """Wait until the child serves; before that it runs none of the student's code. Raises Unavailable."""
        try:
            if self._frame(time.monotonic() + _OURS_S) == {"hello": True}:
                return
        except (_Ended, wire.WireError, OSError):
            pass
        raise sandbox.Unavailable("a worker in the sandbox did not start")

    def end(self, kind: Kind = Kind.DIED) -> Answer:
        """Kill the worker, if it lives; the template waits until it is gone."""
        if self.ended is None:
            self.ended = kind
            self.status = self.session.kill(self.pid)
            self.connection.close()
            os.close(self.output)
            self.session.workers.remove(self)
        return Answer(kind=self.ended)

    @property
    def killed_by_us(self) -> bool:
        """The template's own SIGKILL ended it, and nothing else."""
        return (
            self.status is not None
            and self.status >= 0
            and os.WIFSIGNALED(self.status)
            and os.WTERMSIG(self.status) == signal.SIGKILL
        )

    def _frame(self, until: float) -> dict[str, Any]:
        head = self._exactly(4, until)
        return wire.unpack(self._exactly(wire.frame_length(head), until))

    def _exactly(self, count: int, until: float) -> bytes:
        while len(self._buffer) < count:
            left = until - time.monotonic()
            if left <= 0 or not self._readable(left):
                raise _Ended(Kind.DEADLINE)
            data = self.connection.recv(65536)
            if not data:
                raise _Ended(Kind.DIED)
            self._buffer += data
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _readable(self, seconds: float) -> bool:
        """Wait for the wire, and meanwhile throw away what the worker prints."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        poll.register(self.output, select.POLLIN)
        end = time.monotonic() + seconds
        while True:
            ready = {fd for fd, _ in poll.poll(max(0.0, end - time.monotonic()) * 1000)}
            if self.output in ready:
                got = len(os.read(self.output, 65536))
                self.printed += got
                if self.printed > OUTPUT_BYTES_MAX:
                    raise _Ended(Kind.FLOOD)
                if not got:
                    poll.unregister(self.output)
            if self.connection.fileno() in ready:
                return True
            if time.monotonic() >= end:
                return False

    def _hung_up(self) -> bool:
        return not self._buffer and not self.connection.recv(1, socket.MSG_PEEK)

    def _answer(self, frame: dict[str, Any]) -> Answer:
        reply = frame["reply"]
        if set(frame) != {"id", "reply"} or type(reply) is not dict:
            raise wire.WireError("unknown shape")
        kind = reply.get("kind")
        if kind == "returned" and set(reply) == {"kind", "value"}:
            return Answer(kind=Kind.RETURNED, value=wire.decode(reply["value"]))
        if kind in ("raised", "unimportable"):
            return _raised(reply)
        raise wire.WireError("unknown shape")


class Session:
    """One submission's sandbox, started when the first worker is asked for."""

    def __init__(self, start: Callable[[], sandbox.Box], budget_s: float = BUDGET_S, hello_s: float = _OURS_S) -> None:
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
        self.box.control.settimeout(_OURS_S)
        self.box.watch()
        return self.box


class _Ended(Exception):
    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.kind = kind


def _callback(frame: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if set(frame) != {"id", "callback", "detail"} or type(frame["callback"]) is not str:
        raise wire.WireError("unknown shape")
    detail = wire.decode(frame["detail"])
    if type(detail) is not dict:
        raise wire.WireError("unknown shape")
    return frame["callback"], detail


_RAISED = {"kind", "error", "mro", "text", "attempts", "same_error", "cause_is_last"}
_UNIMPORTABLE = _RAISED | {"module", "missing", "line", "file"}


def _raised(reply: dict[str, Any]) -> Answer:
    if set(reply) != (_RAISED if reply["kind"] == "raised" else _UNIMPORTABLE):
        raise wire.WireError("unknown shape")
    mro, attempts, missing, line = reply["mro"], reply["attempts"], reply.get("missing"), reply.get("line")
    file = reply.get("file")
    sound = (
        type(reply["error"]) is str
        and type(reply["text"]) is str
        and type(mro) is list
        and all(type(name) is str for name in mro)
        and type(reply["same_error"]) is type(reply["cause_is_last"]) is bool
        and type(attempts) in (int, type(None))
        and type(missing) in (str, type(None))
        and type(file) in (str, type(None))
        and type(line) in (int, type(None))
    )
    if not sound:
        raise wire.WireError("unknown shape")
    return Answer(
        kind=Kind(reply["kind"]),
        error=reply["error"][:60],
        mro=tuple(mro[:12]),
        text=reply["text"][:800],
        attempts=attempts,
        same_error=reply["same_error"],
        cause_is_last=reply["cause_is_last"],
        missing=missing[:80] if missing else None,
        line=line,
        file=file[:20] if file else None,
    )
