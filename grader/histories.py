"""Histories: deliveries and faults in a written-down order, as short codes that can be typed by hand.

`A30 k5 A30` reads: event A of 30 000 cents is delivered and its process is killed before statement 5; then A is
delivered again. A capital letter is an event of the tenant north, a small one of the tenant south.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

STEPS_MAX = 12
STATEMENT_MAX = 400
CENTS = 1_000
"""An amount in a code stands for this many cents."""


class Fault(StrEnum):
    """What goes wrong in a step."""

    NONE = ""
    FAILS = "x"
    """The effect raises InterruptedTransaction after it has written."""
    KILLED = "k"
    """The process is killed before its statement number `at`; past the last one: before it can acknowledge."""
    OTHER = "w"
    """Before statement `at`, another worker that does not wait for locks handles the same delivery."""
    WAITING = "v"
    """Before statement `at`, another worker that waits for locks handles the same delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One delivery of an event and its fault. `letter` names event and tenant; `amount` is in thousands of cents.

    The letter W stands for a run of the whole worker over queue and ledger; it has no amount.
    """

    letter: str
    amount: int = 0
    fault: Fault = Fault.NONE
    at: int = 0

    @property
    def whole_worker(self) -> bool:
        """The step runs the worker loop over the queue, not one delivery."""
        return self.letter == "W"

    @property
    def plain(self) -> Step:
        """The same delivery without a fault."""
        return Step(letter=self.letter, amount=self.amount)

    @property
    def event(self) -> dict[str, Any]:
        """The event that is delivered."""
        tenant = "north" if self.letter.isupper() else "south"
        return {"tenant": tenant, "event_id": self.letter.upper(), "amount_cents": self.amount * CENTS}

    @property
    def code(self) -> str:
        """The step as it is typed."""
        fault = self.fault.value + (str(self.at) if self.at else "")
        return f"{self.letter}{self.amount or ''}{' ' + fault if fault else ''}"

    @property
    def words(self) -> str:
        """The step as it is read."""
        if self.whole_worker:
            text = "the worker handles everything in the queue"
        else:
            event = self.event
            text = f"deliver {event['tenant']}/{event['event_id']} {event['amount_cents']} cents"
        return (
            text
            + {
                Fault.NONE: "",
                Fault.FAILS: ", its effect fails before the commit",
                Fault.KILLED: f", the process is killed before its statement {self.at}",
                Fault.OTHER: f", another worker handles it before statement {self.at}",
                Fault.WAITING: f", another worker handles it before statement {self.at} and waits for locks",
            }[self.fault]
        )


History = tuple[Step, ...]


def code(history: History) -> str:
    """The history as it is typed."""
    return " ".join(step.code for step in history)


class CodeError(ValueError):
    """A code that cannot be read: the text says what is wrong at which place."""


_DELIVERY = re.compile(r"([A-Za-z])([0-9]{1,3})\Z")
_FAULT = re.compile(r"([kwv])([0-9]{1,3})\Z")


def parse(text: str) -> History:
    """Read a code. Raises CodeError."""
    steps: list[Step] = []
    words = text.split()
    for place, word in enumerate(words, 1):
        where = f"word {place}, {word[:20]!r}"
        delivery, fault = _DELIVERY.match(word), _FAULT.match(word)
        # k5, w3 and v3 are faults, so events are not called k, w or v
        if fault or word == "x":
            if not steps:
                raise CodeError(f"{where}: a fault needs a delivery before it, as in A30 k5")
            if steps[-1].fault is not Fault.NONE:
                raise CodeError(f"{where}: the delivery before it already has a fault, {steps[-1].code!r}")
            kind, at = (Fault(fault[1]), int(fault[2])) if fault else (Fault.FAILS, 0)
            if fault and not 1 <= at <= STATEMENT_MAX:
                raise CodeError(f"{where}: statements are counted from 1 to {STATEMENT_MAX}")
            if steps[-1].whole_worker and kind is not Fault.KILLED:
                raise CodeError(f"{where}: a run of the whole worker can only be killed, as in W k5")
            steps[-1] = Step(letter=steps[-1].letter, amount=steps[-1].amount, fault=kind, at=at)
        elif word == "W":
            steps.append(Step(letter="W"))
        elif delivery:
            if int(delivery[2]) == 0:
                raise CodeError(f"{where}: an amount is 1 to 999 (thousands of cents)")
            steps.append(Step(letter=delivery[1], amount=int(delivery[2])))
        else:
            raise CodeError(f"{where}: neither a delivery like A30 nor a fault like k5, w3, v3 or x")
    if not steps:
        raise CodeError("the code is empty; one looks like A30 k5 A30")
    if len(steps) > STEPS_MAX:
        raise CodeError(f"{len(steps)} deliveries are too many: {STEPS_MAX} at most")
    if len({step.whole_worker for step in steps}) > 1:
        raise CodeError("W, a run of the whole worker, cannot be mixed with single deliveries")
    return tuple(steps)
