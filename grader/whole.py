"""The kill sweep over the whole worker: queue and ledger are two files, and no transaction covers both.

Three messages are in the queue: an event, the same event again, an event that must be rejected. The worker is killed
before each of its statements, restarted when the leases have run out, and must end where an unkilled one ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from grader import inspect
from grader.child import Answer, Killed, Kind, Worker
from grader.finding import Finding, Tally, said, short
from grader.histories import Fault, History, Step
from grader.lab import Effect, Lab
from grader.observation import state_words

_WORK = "review.handle_delivery"
_RUN = Step(letter="W")
MESSAGES = (Step(letter="A", amount=30), Step(letter="A", amount=30))
RESTARTS = (5, 10, 15)
"""Ticks at which a fresh worker goes on."""
FILES = 2
"""Queue and ledger: a connection each, with a hook each."""
_END = "A applied once, one rejection, all messages settled"


@dataclass(slots=True)
class WholePlayer:
    """Plays runs of the whole worker, each from the same kept files."""

    lab: Lab
    tally: Tally = field(default_factory=Tally)
    steps: list[str] = field(default_factory=list)
    statements: int = 0
    watch: Callable[[str, str], None] | None = None
    """Told of each statement before it runs, and what a fresh connection sees then; for a replay."""
    _kept: bool = False
    _sql: str = ""

    def play(self, history: History) -> Finding | None:
        """Play the first step, then restart the worker until all is settled or the restarts are used up."""
        self._fill()
        self.steps = []
        self.tally.histories += 1
        step = history[0]
        answer, killed = self._work(0, step.at if step.fault is Fault.KILLED else 0)
        if step.fault is Fault.KILLED:
            self.tally.faults += 1
            self.tally.faults_reached += int(killed)
        if not killed and answer.kind is not Kind.RETURNED:
            return self._wrong((_RUN,), said(answer), answer.kind)
        where = f"killed before {self._sql}" if killed else "the worker came to its end"
        for number, tick in enumerate(RESTARTS, 1):
            words, right, settled = self._look()
            self.steps.append(f"{where}; a fresh connection sees {words}")
            if right:
                return None
            if settled or (not killed and number > 1):  # nothing will be delivered again
                return self._wrong((step,), f"{where}; a fresh connection saw {words}", Kind.RETURNED)
            answer, _ = self._work(tick, 0)
            where = f"a fresh worker at tick {tick}"
            if answer.kind is not Kind.RETURNED:
                return self._wrong((step,), f"{where}: {said(answer)}", answer.kind)
        words, right, _ = self._look()
        self.steps.append(f"{where}; a fresh connection sees {words}")
        return None if right else self._wrong((step,), f"{where}; a fresh connection saw {words}", Kind.RETURNED)

    def _wrong(self, history: History, saw: str, kind: Kind) -> Finding:
        return Finding(history=history, expected=_END, saw=saw, kind=kind)

    def _fill(self) -> None:
        if not self._kept:
            self.lab.folder = None
            for message in MESSAGES:
                self.lab.send(message.event)
            self.lab.send({"tenant": "north", "event_id": "C", "amount_cents": -5_000})
            self.lab.forget_hands()
            self.lab.session.keep()
            self._kept = True
        self.lab.folder = self.lab.session.fresh_scratch(kept=True)

    def _work(self, now: int, kill_at: int) -> tuple[Answer, bool]:
        """One run of the worker loop; killed before the statement `kill_at`, or at its end where that is one past."""
        process: Worker = self.lab.spawn(trace=True)
        self.lab.import_all(process, ("review",))
        self.statements = 0
        killed, hooks = False, 0

        def heard(name: str, detail: dict[str, Any]) -> dict[str, Any]:
            nonlocal killed, hooks
            hooks += name == "hook"
            if name == "statement":
                number = detail.get("number")
                self.statements = number if type(number) is int else 0
                self._sql = f"#{self.statements} {short(str(detail.get('sql')))}"
                if self.watch is not None:
                    self.watch(self._sql, self._look()[0])
                if kill_at and number == kill_at:
                    killed = True
                    process.end()
                    raise Killed
            return Effect().answer() if name == "effect" else {}

        told = 1 if self.watch is not None else max(kill_at, 1) if now == 0 else 0
        answer = process.call("work", {"now": now, "trace": told}, heard, _WORK)
        self.tally.unseen |= now == 0 and not killed and hooks < FILES
        self.lab.refuse_stub(answer)
        killed = killed and process.killed_by_us
        process.end()
        return answer, killed

    def _look(self) -> tuple[str, bool, bool]:
        """What stands in both files, in words; whether it is the end that it should be; whether all is settled."""
        try:
            state, queue = self.lab.look(), self.lab.queue()
        except inspect.Unreadable as problem:
            return str(problem), False, False
        settled = sum(1 for message, _ in queue if message == "settled")
        words = f"{state_words(state, shown=False)}; {settled} of {len(queue)} messages settled"
        bodies = [row[1] for row in state.rejections]
        right = (
            [row[:2] for row in state.receipts] == [("north", "A")]
            and [row[:2] for row in state.effects] == [("north", "A")]
            and state.totals == {"north": 30_000}
            and len(bodies) == 1
            and _is_rejected(bodies[0])
            and settled == len(queue) == 3
        )
        return words, right, settled == len(queue)


def _is_rejected(body: Any) -> bool:
    try:
        return bool(json.loads(str(body)) == {"tenant": "north", "event_id": "C", "amount_cents": -5_000})
    except (ValueError, RecursionError):
        return False
