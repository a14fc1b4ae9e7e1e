"""One child in the sandbox, as the trusted side holds it: calls go in, callbacks come out, and every call ends.

With what it returned or raised, or with a cause (deadline, died, flood, violation), and then the child has been killed.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from grader import sandbox, wire

if TYPE_CHECKING:
    from grader.session import Session

PUMP_S = 2.0
"""How long one callback may be waited for while two workers are served at once. Seconds."""
OUTPUT_BYTES_MAX = 1024 * 1024
CALLBACKS_MAX = 400
OURS_S = 10.0


class Kind(StrEnum):
    """How a call ended."""

    RETURNED = "returned"
    RAISED = "raised"
    UNIMPORTABLE = "unimportable"
    DEADLINE = "deadline"
    DIED = "died"
    FLOOD = "flood"
    VIOLATION = "violation"


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
        if self.over:
            return True
        try:
            frame = self._frame(time.monotonic() + PUMP_S)
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
        return self.over

    @property
    def over(self) -> bool:
        """The reply to the last request is there, or the worker has ended."""
        return self.ended is not None or self._reply is not None

    def hello(self) -> None:
        """Wait until the child serves; before that it runs none of the student's code. Raises Unavailable."""
        try:
            if self._frame(time.monotonic() + OURS_S) == {"hello": True}:
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
