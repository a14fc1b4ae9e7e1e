"""The requests that a worker serves, and what it hands to student code. Standard library only.

Whatever student code calls is asked of the trusted side; a worker decides nothing.
"""

from __future__ import annotations

import base64
import builtins
import importlib
import os
import pathlib
import select
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grader import wire
from grader.compiled import Finder
from grader.confined import EDITABLE, SCRATCH, WORKSPACE

if TYPE_CHECKING:
    from grader.worker import Line

HOOK = "SELECT 'the hook is still there'"


class Unimportable(Exception):
    """A student's file could not be imported; `facts` says which and why."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__()
        self.facts = facts


class Serving:
    """The requests of the trusted side, each a method `do_…`, and what they hand to student code."""

    def __init__(self, line: Line, options: dict[str, Any]) -> None:
        self.line = line
        self.options = options
        self.made: BaseException | None = None  # the last exception that an effect or operation of ours raised
        self.database: sqlite3.Connection | None = None
        self.queue: Any = None
        self.tracing = 0  # statements are told from this one on; 0 tells none
        self.count = 0
        self._watch_waiting()
        if options["trace"]:
            self._watch_statements()

    def once(self) -> None:
        """Serve one request."""
        message = self.line.read()
        self.line.request = message["id"]
        arguments = {key: wire.decode(form) for key, form in message["args"].items()}
        self.tracing, self.count = int(arguments.pop("trace", 0)), 0
        try:
            reply = {"kind": "returned", "value": wire.encode(getattr(self, "do_" + message["do"])(**arguments))}
        except Unimportable as problem:
            reply = {"kind": "unimportable", **problem.facts}
        except BaseException as error:
            reply = {"kind": "raised", **self._described(error)}
        if self.tracing:
            self._show_hooks()
        self.tracing = 0
        self.line.send({"id": self.line.request, "reply": reply})

    def _watch_statements(self) -> None:
        """Have every connection tell before each statement. Before student code is imported."""
        real: Callable[..., sqlite3.Connection] = sqlite3.connect

        def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            opened = real(*args, **kwargs)
            opened.set_trace_callback(self._statement)
            return opened

        for module in (sqlite3, sqlite3.dbapi2):
            setattr(module, "connect", connect)  # noqa: B010  (it is an overloaded function for the type checker)

    def _show_hooks(self) -> None:
        """A last statement on each connection of the call: one that is not heard means that its hook was taken away."""
        for db in (self.database, getattr(self.queue, "_db", None)):
            if db is not None:
                try:
                    db.execute(HOOK)
                except Exception:  # closed by the student's code, say: not heard either
                    pass

    def _statement(self, sql: str) -> None:
        if self.tracing and sql == HOOK:
            self.line.ask("hook", {})
        elif self.tracing:
            self.count += 1
            if self.count < self.tracing:
                return
            self.line.ask("statement", {"number": self.count, "sql": sql[:300]})

    def _watch_waiting(self) -> None:
        """Have the usual ways of waiting tell, and wait no more."""
        ask = self.line.ask

        def sleep(seconds: Any) -> None:
            ask("sleep", {})

        def nothing_ready(*files: Any) -> tuple[list[Any], list[Any], list[Any]]:
            ask("sleep", {})
            return [], [], []

        time.sleep = sleep
        setattr(select, "select", nothing_ready)  # noqa: B010  (it is a built-in for the type checker)

    def _watch_threads(self) -> None:
        """The same for threads, once student code has loaded them: threading makes every fork dearer."""
        threads = sys.modules.get("threading")
        ask = self.line.ask

        def wait(event: Any, timeout: float | None = None) -> Any:
            ask("sleep", {})
            return event.is_set()

        if threads is not None:
            threads.Event.wait = wait

    def _described(self, error: BaseException) -> dict[str, Any]:
        names = [wire.type_name(base) for base in type.__dict__["__mro__"].__get__(type(error))][:12]
        try:
            text = str(error)
            text = text if type(text) is str else ""
            cause, attempts = error.__cause__, getattr(error, "attempts", None)
        except BaseException:
            text, cause, attempts = "", None, None
        return {
            "error": names[0],
            "mro": names,
            "text": text[:200].encode("ascii", "backslashreplace").decode(),
            "attempts": attempts if type(attempts) is int and abs(attempts) < 10**6 else None,
            "same_error": error is self.made,
            "cause_is_last": cause is not None and cause is self.made,
        }

    # what requests are made of
    def _student(self, module: str, function: str) -> Any:
        try:
            found = importlib.import_module("student." + module)
        except BaseException as error:
            raise Unimportable(self._import_facts(module, error)) from None
        self._watch_threads()
        return getattr(found, function)

    def _import_facts(self, module: str, error: BaseException) -> dict[str, Any]:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
        return {
            **self._described(error),
            "module": module,
            "file": _place(error),
            "missing": missing if type(missing) is str else None,
            "line": line if type(line) is int else None,
        }

    def _db(self) -> sqlite3.Connection:
        if self.database is None:
            store = importlib.import_module("student.lab.store")
            path = os.path.join(SCRATCH, "ledger.db")
            self.database = store.connect(path, timeout=self.options["timeout"])
        assert self.database is not None
        return self.database

    def _queue(self) -> Any:
        if self.queue is None:
            lease_queue = importlib.import_module("student.lab.lease_queue")
            ask = self.line.ask

            class Watched(lease_queue.LeaseQueue):  # type: ignore[name-defined,misc]
                def acknowledge(self, message: Any, now: int) -> Any:
                    ask("acknowledge", {"now": now})
                    return super().acknowledge(message, now)

            self.queue = Watched(os.path.join(SCRATCH, "queue.db"))
        return self.queue

    def _effect(self, db: sqlite3.Connection, event: Any) -> None:
        answer = self.line.ask("effect", {"event": event, "in_transaction": bool(db.in_transaction)})
        if answer["write"] != "nothing":
            getattr(importlib.import_module("student.lab.effects"), answer["write"])(db, event)
        if answer.get("raise") is not None:
            raise self._exception(answer["raise"])

    def _operation(self) -> Any:
        answer = self.line.ask("operation", {})
        if answer.get("nested") is not None:
            return self._student("retry", "bounded_retry")(self._operation)
        if answer.get("raise") is not None:
            raise self._exception(answer["raise"])
        return answer.get("value")

    def _exception(self, spec: list[str]) -> BaseException:
        self.made = self._built(spec)
        return self.made

    def _built(self, spec: list[str]) -> BaseException:
        name, text = spec
        fresh = name.startswith("sub:")
        name = name.removeprefix("sub:").split(".")[-1]
        errors = importlib.import_module("student.lab.errors")
        if name == "RetriesExhausted":
            return errors.RetriesExhausted(3)  # type: ignore[no-any-return]
        kind = getattr(errors, name, None) or getattr(builtins, name, None) or getattr(sqlite3, name)
        if fresh:
            kind = type("Fresh" + name, (kind,), {})
        return kind(text) if text else kind()  # type: ignore[no-any-return]

    # requests
    def do_imports(self, modules: list[str]) -> str:
        """Import student files."""
        for module in modules:
            self._student(module, "__name__")
        return "ok"

    def do_apply(self, event: Any) -> Any:
        """ledger.apply_event with the watched effect."""
        return self._student("ledger", "apply_event")(self._db(), event, self._effect)

    def do_call(self, module: str, function: str, args: list[Any]) -> Any:
        """Any student function, over plain arguments and errors."""
        built = [self._exception([a["error"], a["text"]]) if _is_error(a) else a for a in args]
        return self._student(module, function)(*built)

    def do_retry(self, max_attempts: int | None) -> Any:
        """retry.bounded_retry with the watched operation."""
        call = self._student("retry", "bounded_retry")
        return call(self._operation) if max_attempts is None else call(self._operation, max_attempts)

    def do_record(self, body: Any, error: list[str]) -> Any:
        """review.record_rejection."""
        return self._student("review", "record_rejection")(self._db(), body, self._built(error))

    def do_decide(self, rejection_id: int, reviewer: str, decision: str, note: str) -> Any:
        """review.decide."""
        return self._student("review", "decide")(self._db(), rejection_id, reviewer, decision, note)

    def do_own_tests(self, modules: dict[str, list[str]]) -> list[list[str]]:
        """The student's own tests over other code than the student's: [name, outcome] of each test.

        `modules`: editable module -> its code (marshalled, base64, in pieces that the wire takes), which is ours.
        """
        compiled = {name: base64.b64decode("".join(code)) for name, code in modules.items()}
        sys.meta_path.insert(0, Finder(compiled))
        own = importlib.import_module("grader.outcomes")
        result = own.Outcomes()
        for name in sorted(os.listdir(os.path.join(WORKSPACE, "student", "tests"))):
            if name.startswith("test_") and name.endswith(".py"):
                try:
                    module = importlib.import_module("student.tests." + name.removesuffix(".py"))
                except BaseException as error:
                    raise Unimportable(self._import_facts("tests", error)) from None
                own.run(module, result)
        return [[name, outcome] for name, outcome in result.outcomes.items()]

    def do_send(self, body: Any) -> Any:
        """Given code: put a message into the queue."""
        return self._queue().send(body)

    def do_deliver(self, now: int, handled_at: int) -> Any:
        """Receive a message and hand it to review.handle_delivery."""
        handle = self._student("review", "handle_delivery")
        queue = self._queue()
        return handle(self._db(), queue, queue.receive(now), handled_at, self._effect)

    def do_work(self, now: int) -> Any:
        """The given worker loop over both files."""
        self._student("review", "handle_delivery")
        loop = importlib.import_module("student.lab.worker")
        return loop.run_worker(self._queue(), self._db(), self._effect, now)

    def do_drill(self) -> Any:
        """The given drill over the student's functions."""
        return importlib.import_module("student.lab.drill").queue_drill(pathlib.Path(SCRATCH))

    def do_case(self, case: str) -> Any:
        """One given trace over the student's functions."""
        return importlib.import_module("student.lab.drill").run_case(pathlib.Path(SCRATCH), case)

    def do_begin_immediate(self) -> str:
        """Given code: a second connection begins to write, without waiting, and gives up again."""
        store = importlib.import_module("student.lab.store")
        other = store.connect(os.path.join(SCRATCH, "ledger.db"), timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        finally:
            other.close()
        return "ok"


def _place(error: BaseException) -> str | None:
    """The student's module in which an import went wrong: that of the syntax error, else the innermost on the way."""
    path = error.filename if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None and not isinstance(error, SyntaxError):
        if trace.tb_frame.f_code.co_filename.startswith(WORKSPACE):
            path = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    name = os.path.basename(path).removesuffix(".py") if type(path) is str else None
    return name if name in EDITABLE else None


def _is_error(value: Any) -> bool:
    return type(value) is dict and set(value) == {"error", "text"}
