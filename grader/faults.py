"""Plays histories on student code with real faults, and sweeps through them: kills, interleavings, whole histories.

A killed process is a process that the template killed with SIGKILL while it was stopped before a statement. Judged is
what a fresh connection finds, against a model of three lines: a dict of receipts, and what each answer must be.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from grader import inspect
from grader.child import Answer, Handler, Killed, Kind, Worker
from grader.finding import Finding, Key, Tally, locked, matches, model_words, said, short, state_seen
from grader.histories import STATEMENT_MAX, Fault, History, Step
from grader.lab import Effect, Lab

_FUNCTION = "ledger.apply_event"
_B_WAITS_S = 1.0
"""How long the other worker may go on before the first one is released, where no lock shows that it waits. Seconds."""


@dataclass(slots=True)
class Player:
    """Plays one history after another, each over a fresh scratch."""

    lab: Lab
    tally: Tally = field(default_factory=Tally)
    steps: list[str] = field(default_factory=list)
    statements: int = 0
    """How many statements the last traced delivery sent."""
    watch: Callable[[str, str], None] | None = None
    """Told of each statement before it runs, and what a fresh connection sees then; for a replay."""
    _sql: str = ""
    _reached: int = 0
    _hit: bool = True
    _receipts: dict[Key, int] = field(default_factory=dict)
    _process: Worker | None = None

    def play(self, history: History, *, lenient: bool = False) -> Finding | None:
        """Play to the end, or to the first step that went wrong. `lenient`: a fault not reached is none."""
        self.lab.folder = None
        self._process = None
        self._receipts = {}
        self.steps = []
        self._reached = 0
        self.tally.histories += 1
        planned = self.tally.faults
        for number, step in enumerate(history):
            wrong = self._step(step)
            if wrong is not None:
                expected, saw, kind = wrong
                last = step if self._hit else step.plain  # a fault that was not reached is not part of the history
                return Finding(history=(*history[:number], last), expected=expected, saw=saw, kind=kind)
        if lenient:
            self.tally.faults = planned + self._reached
        return None

    def _step(self, step: Step) -> tuple[str, str, Kind] | None:
        self._hit = True
        key = (step.event["tenant"], step.event["event_id"])
        known = self._receipts.get(key)
        fails = step.fault is Fault.FAILS and known is None
        right = "applied" if known is None else "duplicate" if known == step.amount else "OperationConflict"
        right = "InterruptedTransaction" if fails else right
        after = dict(self._receipts)
        if right == "applied":
            after[key] = step.amount
        if step.fault is Fault.KILLED:
            return self._killed(step, right, after)
        if step.fault in (Fault.OTHER, Fault.WAITING):
            return self._interleaved(step, right, after)
        effect = (
            Effect(error=self.lab.error("InterruptedTransaction"), times=1) if step.fault is Fault.FAILS else Effect()
        )
        answer = self._apply(step, effect)
        return self._judge(step, [(answer, {right})], [after])

    def _killed(self, step: Step, right: str, after: dict[Key, int]) -> tuple[str, str, Kind] | None:
        self.tally.faults += 1
        process = self._living()
        reached = hooked = False

        def heard(name: str, detail: dict[str, Any]) -> dict[str, Any]:
            nonlocal reached, hooked
            hooked = hooked or name == "hook"
            if name == "statement":
                self._heard_statement(detail)
                if detail.get("number") == step.at:
                    reached = True
                    process.end()
                    raise Killed
            return Effect().answer() if name == "effect" else {}

        self.statements = 0
        # Told from the statement before it on: so the last one is heard where `at` is one past it.
        told = step.at - 1 if 1 < step.at <= STATEMENT_MAX and self.watch is None else 1
        answer = process.call("apply", {"event": step.event, "trace": told}, heard, _FUNCTION)
        self.tally.unseen |= not reached and not hooked
        if not reached and answer.kind in (Kind.RETURNED, Kind.RAISED) and step.at == self.statements + 1:
            reached = True  # past its last statement: the work is done, the acknowledgement is not
            self._sql = "its end, before it could acknowledge"
            process.end()
        if not reached:
            self._hit = False
            return self._judge(step.plain, [(answer, {right})], [after])
        self.tally.faults_reached += int(process.killed_by_us)
        self._reached += int(process.killed_by_us)
        self._process = None
        return self._judge(step, [], [self._receipts, after])

    def _interleaved(self, step: Step, right: str, after: dict[Key, int]) -> tuple[str, str, Kind] | None:
        self.tally.faults += 1
        first = self._living()
        waits = step.fault is Fault.WAITING
        other: Worker | None = None
        answers: list[tuple[Answer, set[str]]] = []

        def heard(name: str, detail: dict[str, Any]) -> dict[str, Any]:
            nonlocal other
            if name == "effect":
                return Effect().answer()
            if name == "statement":
                self._heard_statement(detail)
                if detail.get("number") == step.at:
                    self.tally.faults_reached += 1
                    other = self._ready(timeout=5.0 if waits else 0.0)
                    if waits:
                        first_has_lock = inspect.write_locked(self._folder)
                        other.ask("apply", {"event": step.event})
                        if not first_has_lock:
                            self._until_it_waits(other)
                    else:
                        answers.append((other.call("apply", {"event": step.event}, _effects, _FUNCTION), set()))
            return {}

        self.statements = 0
        first.ask("apply", {"event": step.event, "trace": 1 if self.watch is not None else step.at})
        until = time.monotonic() + self.lab.session.deadline(_FUNCTION)
        while time.monotonic() < until and not self._served(first, other, heard):
            pass
        own = first.answer(heard, _FUNCTION)
        if other is None:
            self._hit = False
            return self._judge(step.plain, [(own, {right})], [after])
        if waits:
            answers.append((other.answer(_effects, _FUNCTION), set()))
        elif locked(answers[0][0]):
            answers = [(other.call("apply", {"event": step.event}, _effects, _FUNCTION), set())]
        other.end()
        both = {"applied", "duplicate"} if right == "applied" else {right}
        answers = [(own, both), (answers[0][0], both)]
        wrong = self._judge(step, answers, [after])
        if wrong is None and right == "applied" and own.value == answers[1][0].value:
            return "one worker to say 'applied' and one 'duplicate'", f"both said {own.value!r}", Kind.RETURNED
        return wrong

    def _served(self, first: Worker, other: Worker | None, heard: Handler) -> bool:
        """Answer whoever of the two asks; true once the first is done.

        Whoever holds the lock may be waiting for an answer of ours, and the one that waits for the lock for it.
        """
        living = [worker for worker in (first, other) if worker is not None and not worker.over]
        ready = select.select([worker.connection for worker in living], [], [], 0.05)[0]
        for worker in living:
            if worker.connection in ready:
                worker.pump(heard if worker is first else _effects)
        return first.over

    def _until_it_waits(self, other: Worker) -> None:
        """Let the other worker go on until it has answered, or its pending lock shows that it waits for the first."""
        for _ in range(int(_B_WAITS_S * 1000)):
            if inspect.waited_for(self._folder) or other.ended is not None:
                return
            if select.select([other.connection], [], [], 0.001)[0] and other.pump(_effects):
                return

    @property
    def _folder(self) -> int:
        assert self.lab.folder is not None
        return self.lab.folder

    def _judge(
        self, step: Step, answers: list[tuple[Answer, set[str]]], states: list[dict[Key, int]]
    ) -> tuple[str, str, Kind] | None:
        """Compare answers and committed state; adopt the state that is there, if it is one of `states`."""
        for answer, _ in answers:
            self.lab.refuse_stub(answer)
        spoken = " and ".join(said(answer) for answer, _ in answers)
        where = f" before {self._sql}" if step.fault not in (Fault.NONE, Fault.FAILS) and self._sql else ""
        try:
            state = self.lab.look()
        except inspect.Unreadable as problem:
            return "a ledger that can be read", str(problem), Kind.RETURNED
        found = state_seen(state)
        self.steps.append(f"{step.words}{where}: {spoken + '; ' if spoken else ''}a fresh connection sees {found}")
        for answer, right in answers:
            if (answer.value if answer.kind is Kind.RETURNED else answer.error) not in right:
                return (
                    " or ".join(repr(word) for word in sorted(right)),
                    f"{said(answer)}, and a fresh connection saw {found}",
                    answer.kind,
                )
        for receipts in states:
            if matches(state, receipts):
                self._receipts = dict(receipts)
                return None
        wanted = " or ".join(dict.fromkeys(model_words(receipts) for receipts in states))
        return wanted, f"{'killed' + where + ', ' if not answers else ''}a fresh connection saw {found}", Kind.RETURNED

    def _apply(self, step: Step, effect: Effect) -> Answer:
        process = self._living()

        def heard(name: str, detail: dict[str, Any]) -> dict[str, Any]:
            if name == "statement":
                self._heard_statement(detail)
            return effect.answer() if name == "effect" else {}

        answer = process.call("apply", {"event": step.event, "trace": int(self.watch is not None)}, heard, _FUNCTION)
        if process.ended is not None:
            self._process = None
        return answer

    def _heard_statement(self, detail: dict[str, Any]) -> None:
        number, sql = detail.get("number"), detail.get("sql")
        self.statements = number if type(number) is int else 0
        self._sql = f"#{self.statements} {short(str(sql))}"
        if self.watch is not None:
            self.watch(self._sql, self._glance())

    def _glance(self) -> str:
        try:
            return state_seen(self.lab.look())
        except inspect.Unreadable as problem:
            return str(problem)

    def _living(self) -> Worker:
        if self._process is None:
            self._process = self._ready(timeout=5.0, trace=True)
        return self._process

    def _ready(self, *, timeout: float, trace: bool = False) -> Worker:
        process = self.lab.spawn(trace=trace, timeout=timeout)
        self.lab.import_all(process, ("ledger",))
        return process


def _effects(name: str, detail: dict[str, Any]) -> dict[str, Any]:
    return Effect().answer() if name == "effect" else {}


def sweep(player: Player, histories: Iterable[History], *, lenient: bool = False) -> Finding | None:
    """Play histories until one fails; the finding is the shortest one that could be made of it."""
    for history in histories:
        finding = player.play(history, lenient=lenient)
        if finding is not None:
            return shortest(player, finding)
    return None


def shortest(player: Player, finding: Finding) -> Finding:
    """Leave out steps, one at a time, as long as the history still ends wrong."""
    number = 0
    while number < len(finding.history):
        shorter = finding.history[:number] + finding.history[number + 1 :]
        again = player.play(shorter) if shorter else None
        if again is None:
            number += 1
        else:
            finding, number = again, 0
    player.play(finding.history)  # so that the steps on record are those of the finding
    return finding
