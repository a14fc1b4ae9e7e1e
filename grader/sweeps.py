"""The sweeps over single deliveries: which histories are played for a criterion, and what becomes of the outcome.

A sweep that finds a wrong end fails with the shortest history. One whose faults were not all reached is unexecuted:
the code's statements changed under way, or the statement hook was taken away, and nothing is claimed about the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from grader.child import Kind
from grader.faults import Player, sweep
from grader.finding import Finding
from grader.histories import Fault, History, Step, code
from grader.lab import Lab
from grader.whole import WholePlayer

_A, _B, _A_OTHER = Step(letter="A", amount=30), Step(letter="B", amount=40), Step(letter="A", amount=31)
DRAWN_MAX = 12
"""Histories that the state machine draws."""
DRAWN_STEPS_MAX = 6
_CAUSES = {
    Kind.DEADLINE: "deadline",
    Kind.DIED: "worker_died",
    Kind.FLOOD: "flood",
    Kind.VIOLATION: "protocol_violation",
}


def kills(lab: Lab) -> None:
    """A SIGKILL before each statement of a first delivery, a second event, a duplicate, a conflict; then twice more."""
    player = Player(lab)
    for before, delivery in (((), _A), ((_A,), _B), ((_A,), _A), ((_A,), _A_OTHER)):
        last = _statements(player, before, delivery) + 1
        _settle(lab, player, sweep(player, (_killed(before, delivery, n) for n in range(1, last + 1))), "kill_points")
    _complete(lab, player, "kill_points")


def interleavings(lab: Lab) -> None:
    """Another worker handles the same delivery before each statement: first without waiting for locks, then waiting."""
    player = Player(lab)
    for before, delivery in (((), _A), ((_A,), _A), ((_A,), _A_OTHER)):
        last = _statements(player, before, delivery)
        for fault in (Fault.OTHER, Fault.WAITING):
            found = sweep(player, ((*before, _with(delivery, fault, n)) for n in range(1, last + 1)))
            _settle(lab, player, found, "interleavings")
    _complete(lab, player, "interleavings")


def histories(lab: Lab) -> None:
    """All histories of one and two steps up to renaming, then longer ones that a state machine draws from the seed."""
    player = Player(lab)
    commit = _statements(player, (), _A)
    _settle(lab, player, sweep(player, _short(commit), lenient=True), "kill_points")
    _settle(lab, player, _drawn(player, lab.random.randrange(2**32), commit), "kill_points")
    _complete(lab, player, "kill_points")


def whole_worker(lab: Lab) -> None:
    """A SIGKILL before each statement of the whole worker over queue and ledger, and one after its last."""
    player = WholePlayer(lab)
    _settle(lab, player, player.play((Step(letter="W"),)), "kill_points")
    for number in range(1, player.statements + 1):
        _settle(lab, player, player.play((Step(letter="W", fault=Fault.KILLED, at=number),)), "kill_points")
    _complete(lab, player, "kill_points")


def _statements(player: Player, before: History, delivery: Step) -> int:
    """How many statements the delivery sends, seen in a run that is killed after its end."""
    finding = player.play((*before, _with(delivery, Fault.KILLED, 10_000)))
    player.tally.faults -= 1
    _settle(player.lab, player, finding, "histories")
    return player.statements


def _killed(before: History, delivery: Step, number: int) -> History:
    return (*before, _with(delivery, Fault.KILLED, number), delivery, delivery)


def _with(step: Step, fault: Fault, at: int = 0) -> Step:
    return Step(letter=step.letter, amount=step.amount, fault=fault, at=at)


def _short(commit: int) -> Iterator[History]:
    """One step, then two; the first event can be named A, the second is any of two tenants, two ids, two amounts."""
    firsts = [_A, _with(_A, Fault.FAILS), _with(_A, Fault.KILLED, commit)]
    yield from ((first,) for first in firsts)
    for first in firsts:
        for letter in "AaBb":
            for amount in (30, 31):
                second = Step(letter=letter, amount=amount)
                yield from (
                    (first, one) for one in (second, _with(second, Fault.FAILS), _with(second, Fault.KILLED, commit))
                )


def _drawn(player: Player, start: int, commit: int) -> Finding | None:
    found: list[Finding] = []

    class Machine(RuleBasedStateMachine):
        """Writes the history down; it is played when it is complete."""

        def __init__(self) -> None:
            super().__init__()
            self.history: list[Step] = []

        @rule(
            letter=st.sampled_from("AaBb"),
            amount=st.sampled_from((30, 31)),
            fault=st.sampled_from((Fault.NONE, Fault.NONE, Fault.FAILS)),
        )
        def deliver(self, letter: str, amount: int, fault: Fault) -> None:
            """A delivery, a redelivery, one after a lost acknowledgement, or one whose effect fails."""
            self.history.append(Step(letter=letter, amount=amount, fault=fault))

        @rule(letter=st.sampled_from("AaBb"), amount=st.sampled_from((30, 31)), at=st.integers(1, max(commit, 1)))
        def kill(self, letter: str, amount: int, at: int) -> None:
            """A delivery whose process is killed."""
            self.history.append(Step(letter=letter, amount=amount, fault=Fault.KILLED, at=at))

        def teardown(self) -> None:
            if self.history and not found:
                finding = player.play(tuple(self.history), lenient=True)
                if finding is not None:
                    found.append(finding)

    limits = settings(
        max_examples=DRAWN_MAX, stateful_step_count=DRAWN_STEPS_MAX, database=None, deadline=None,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(seed(start)(Machine), settings=limits)
    return sweep(player, [found[0].history]) if found else None


def _settle(lab: Lab, player: Player | WholePlayer, finding: Finding | None, noun: str) -> None:
    """Fail with the finding, if there is one."""
    lab.counts = player.tally.counts(noun)
    if finding is not None:
        lab.history = {
            "code": code(finding.history),
            "steps": [f"{n}. {text}" for n, text in enumerate(player.steps, 1)],
        }
        lab.not_met(
            _CAUSES.get(finding.kind, "exception" if finding.kind is Kind.RAISED else "wrong_answer"), finding.sentence
        )


def _complete(lab: Lab, player: Player | WholePlayer, noun: str) -> None:
    """Skip as partly run where a fault was not reached, or none was there to reach."""
    tally = player.tally
    lab.counts = tally.counts(noun)
    if tally.faults_reached < tally.faults or tally.faults == 0 or tally.unseen:
        words = f"{tally.faults_reached} of {tally.faults} {noun.replace('_', ' ')} executed"
        why = ", because the connection's trace callback was taken away" if tally.unseen else ""
        lab.unexecuted("partly_run", f"{words}: the statements could not all be seen{why}.")
