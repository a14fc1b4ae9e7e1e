"""The fixture through which every judging test drives student code: events in, replies, calls and file states out.

A test reads like the contract; the sandbox, the wire and the reading of files are in here. What cannot be executed (a
stub that is not written, a file that does not import) skips the test with its cause, so no test has to think of it.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import pytest

from grader import inspect, orders, sandbox, stubs
from grader.child import Answer, Kind
from grader.child import Worker as Process
from grader.inspect import State
from grader.observation import Call, Expected, Reply, event_words, raised, returned, state_words
from grader.orders import Effect, Error, Nested
from grader.session import BudgetSpent, Session

__all__ = ["Call", "Effect", "Error", "Expected", "Lab", "Nested", "Reply", "State", "raised", "returned"]

_FUNCTIONS = {
    "apply": "ledger.apply_event",
    "retry": "retry.bounded_retry",
    "record": "review.record_rejection",
    "decide": "review.decide",
    "deliver": "review.handle_delivery",
    "drill": "queue_drill",
    "case": "run_case",
}
_MODULES = {
    "apply": ("ledger",),
    "retry": ("retry",),
    "record": ("review",),
    "decide": ("review",),
    "deliver": ("review",),
    "drill": ("ledger", "review"),
    "case": ("ledger", "review"),
}


@dataclass(slots=True, repr=False)  # a failed assertion shows its operands: no process ids in reports
class Lab:
    """One test's view of one submission."""

    session: Session
    random: random.Random
    shown: bool
    cause: str | None = None
    seen: list[str] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    history: dict[str, Any] | None = None
    last: Reply | None = None
    state: State | None = None
    folder: int | None = None
    fed: bool = False
    """An input of this test has reached the sandbox, so that what student code says of itself may hold it."""
    _hands: Process | None = None

    # inputs
    def amount(self) -> int:
        """Cents, 1 to a million, from the run's seed."""
        return self.random.randint(1, 10**6)

    def event(self, **fields: object) -> dict[str, Any]:
        """A proper event: tenant, event_id and amount_cents from the seed unless given; any more fields."""
        drawn = {
            "tenant": self.random.choice(("north", "south", "east", "west")),
            "event_id": self._id(),
            "amount_cents": self.amount(),
        }
        return {**drawn, **fields}

    def draft_event(self, **fields: object) -> dict[str, Any]:
        """An event of the second kind, a draft."""
        return {"tenant": "north", "event_id": self._id(), "draft": f"draft {self.random.randrange(10**6)}", **fields}

    def _id(self) -> str:
        return f"{self.random.choice('ABDEFGHJKM')}-{self.random.randrange(10**6):06d}"

    def error(self, name: str, text: str = "") -> Error:
        """An error to be raised inside the worker."""
        return Error(name=name, text=text)

    def nested(self, answers: list[Any]) -> Nested:
        """An operation that calls bounded_retry itself."""
        return Nested(answers=tuple(answers))

    def credit(self) -> Effect:
        """The given effect: a row and the amount on the tenant's total."""
        return Effect()

    def store_draft(self) -> Effect:
        """The given effect of the drafts."""
        return Effect(write="store_draft")

    def fails(self, error: Error, times: int = 1, after_writing: bool = True) -> Effect:
        """`credit` that raises the error in its first `times` calls."""
        return Effect(error=error, times=times, after_writing=after_writing)

    # the worker's side
    def worker(self, db_timeout: float = 5.0, new_process: bool = False) -> Worker:
        """A fresh process with the student's files. `new_process`: a new interpreter too, with another hash seed."""
        return Worker(lab=self, process=self.spawn(fresh=new_process, timeout=db_timeout))

    def spawn(self, *, fresh: bool = False, trace: bool = False, timeout: float = 5.0, tests: bool = False) -> Process:
        """A child over this test's scratch."""
        self._scratch()
        try:
            return self.session.spawn(fresh=fresh, trace=trace, timeout=timeout, tests=tests)
        except BudgetSpent:
            self.unexecuted("budget_spent", "The submission had used up its time before this test could run.")

    def send(self, body: object) -> None:
        """Put a message into the queue; done by given code in a process that never imports student code."""
        self.fed = True
        if self._hands is None:
            self._hands = self.spawn()
        answer = self._hands.call("send", {"body": body}, _no_callbacks, "send")
        if answer.kind is not Kind.RETURNED:
            self.not_met("database_unreadable", "The queue's file could not be written to any more.")
        self.note(f"send {event_words(body)}", "the message is in the queue")

    def forget_hands(self) -> None:
        """End the process that sends, so that it holds no file."""
        if self._hands is not None:
            self._hands.end()
            self._hands = None

    # the trusted side's own eyes
    def ledger(self) -> State:
        """What a fresh connection finds in the ledger now."""
        try:
            self.state = inspect.ledger(self._scratch(), self.session.schema("ledger.db"))
        except inspect.Unreadable as problem:
            self.not_met("database_unreadable", f"Read from outside: {problem}.")
        self.note("look at the ledger through a fresh connection", state_words(self.state, shown=self.shown))
        return self.state

    def look(self) -> State:
        """The same without a note. Raises inspect.Unreadable."""
        return inspect.ledger(self._scratch(), self.session.schema("ledger.db"))

    def queue(self) -> list[tuple[Any, Any]]:
        """(state, attempt) of each message in the order they were sent."""
        try:
            return inspect.queue(self._scratch(), self.session.schema("queue.db"))
        except inspect.Unreadable as problem:
            self.not_met("database_unreadable", f"Read from outside: {problem}.")

    def _scratch(self) -> int:
        if self.folder is None:
            self.folder = self.session.fresh_scratch()
        return self.folder

    # verdicts
    def refuse_stub(self, answer: Answer) -> None:
        """End the test as unexecuted where the call met a stub that is not written yet."""
        sentence = stubs.unwritten(answer)
        if sentence is not None:
            self.unexecuted("stub_not_written", sentence)

    def unexecuted(self, cause: str, sentence: str) -> NoReturn:
        """End the test: it could not be executed, and why."""
        self.cause = cause
        self.seen = [sentence]
        pytest.skip(cause)

    def not_met(self, cause: str, *sentences: str) -> NoReturn:
        """End the test: it was executed and the criterion is not met."""
        self.cause = cause
        self.seen = list(sentences)
        raise AssertionError(sentences[0])

    def note(self, did: str, saw: str) -> None:
        """Keep a step for the report; only visible tests show theirs."""
        if self.shown and len(self.steps) < 40:
            self.steps.append({"did": did, "saw": saw})

    def import_all(self, process: Process, modules: tuple[str, ...]) -> None:
        """Import the student's modules in the process, or skip with the cause."""
        for module in modules:
            known = self.session.unimportable.get(module)
            if known is None:
                answer = process.call("imports", {"modules": [module]}, _no_callbacks, f"import {module}")
                if answer.kind is Kind.RETURNED:
                    continue
                known = stubs.import_trouble(module, answer, secret=self.fed and not self.shown)
                self.session.unimportable[module] = known
            self.unexecuted(*known)


@dataclass(slots=True, kw_only=True, repr=False)
class Worker:
    """A worker process in a test's hands."""

    lab: Lab
    process: Process

    def apply(self, event: object, effect: Effect | None = None) -> Reply:
        """ledger.apply_event(db, event, effect)."""
        return self._call("apply", {"event": event}, effect=effect or Effect(), words=event_words(event))

    def call(self, function: str, *args: object) -> Reply:
        """One of the student's functions by "module.function", with plain arguments or errors."""
        module, name = function.split(".")
        given = [{"error": arg.name, "text": arg.text} if isinstance(arg, Error) else arg for arg in args]
        words = ", ".join(arg.name if isinstance(arg, Error) else event_words(arg) for arg in args)
        return self._call("call", {"module": module, "function": name, "args": given}, function=function, words=words)

    def retry(self, answers: list[Any], max_attempts: int | None = None) -> Reply:
        """retry.bounded_retry over an operation that gives these answers, one a call; the last one is repeated."""
        words = "an operation that gives " + ", then ".join(
            a.name if isinstance(a, Error) else "..." if isinstance(a, Nested) else repr(a)[:40] for a in answers[:5]
        )
        return self._call("retry", {"max_attempts": max_attempts}, operation=answers, words=words)

    def record(self, body: object, error: Error) -> Reply:
        """review.record_rejection(db, body, error)."""
        return self._call("record", {"body": body, "error": [error.name, error.text]}, words=event_words(body))

    def decide(self, rejection_id: int, reviewer: str, decision: str, note: str) -> Reply:
        """review.decide(db, rejection_id, reviewer, decision, note)."""
        args = {"rejection_id": rejection_id, "reviewer": reviewer, "decision": decision, "note": note}
        return self._call("decide", args, words=event_words(list(args.values())))

    def deliver(self, now: int, handled_at: int | None = None, effect: Effect | None = None) -> Reply:
        """Receive at tick `now` and give the message to review.handle_delivery at tick `handled_at`."""
        ticks = {"now": now, "handled_at": now if handled_at is None else handled_at}
        return self._call(
            "deliver", ticks, effect=effect or Effect(), words=f"the next message, tick {ticks['handled_at']}"
        )

    def drill(self) -> Reply:
        """The given queue drill over the student's functions."""
        return self._call("drill", {}, words="")

    def case(self, name: str) -> Reply:
        """One of the four source traces over the student's functions."""
        self.lab.folder = None
        self.process = self.lab.spawn()
        return self._call("case", {"case": name}, words=name)

    def begin_immediate(self) -> Reply:
        """Given code: a second connection begins to write and gives up again, without waiting."""
        return self._call("begin_immediate", {}, function="a second connection", words="BEGIN IMMEDIATE")

    def _call(
        self,
        do: str,
        args: dict[str, Any],
        *,
        words: str,
        function: str = "",
        effect: Effect | None = None,
        operation: list[Any] | None = None,
    ) -> Reply:
        lab = self.lab
        function = function or _FUNCTIONS[do]
        modules = (function.split(".")[0],) if do == "call" else _MODULES.get(do, ())
        calls: list[Call] = []
        answers = orders.answers(operation) if operation is not None else None

        def heard(name: str, detail: dict[str, Any]) -> dict[str, Any]:
            state = None
            if name in ("effect", "acknowledge"):
                try:
                    state = inspect.ledger(lab._scratch(), lab.session.schema("ledger.db"))
                except inspect.Unreadable as problem:
                    lab.cause, lab.seen = "database_unreadable", [f"Read from outside: {problem}."]
            locked = name == "effect" and inspect.write_locked(lab._scratch())
            answer: dict[str, Any] = {}
            if name == "effect" and effect is not None:
                answer = effect.answer()
            elif name == "operation" and answers is not None:
                answer = next(answers)
                detail = {"nested": True} if "nested" in answer else {}
            calls.append(Call(name=name, detail=detail, ledger=state, write_locked=locked))
            return answer

        try:
            if self.process.ended is None:
                lab.import_all(self.process, modules)
            lab.fed = True
            answer = self.process.call(do, args, heard, function)
        except BudgetSpent:
            lab.unexecuted("budget_spent", "The submission had used up its time before this call.")
        reply = Reply(
            function=function,
            calls=tuple(calls),
            **{key: value for key, value in asdict(answer).items() if key not in ("missing", "line", "file")},
        )
        lab.last = reply
        lab.refuse_stub(answer)
        if lab.cause == "database_unreadable":
            raise AssertionError(lab.seen[0])
        lab.note(f"{function}({words})", reply.words(shown=lab.shown))
        return reply


def _no_callbacks(name: str, detail: dict[str, Any]) -> dict[str, Any]:
    return {}


def unavailable(problem: sandbox.Unavailable) -> str:
    """The sentence for a fault of ours."""
    return f"The grader could not run this: {problem}."
