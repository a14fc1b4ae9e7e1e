"""What a sweep found, and the words for it: states, answers and statements as students may read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grader import inspect
from grader.child import Answer, Kind
from grader.histories import History, code
from grader.observation import ERRORS

Key = tuple[str, str]
_SQL_CHARS_MAX = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A history that ended wrong at its last step: what was expected there, and what was seen."""

    history: History
    expected: str
    saw: str
    kind: Kind

    @property
    def sentence(self) -> str:
        """One line for the student."""
        return f"{code(self.history)}: expected {self.expected}; {self.saw}."


@dataclass(slots=True)
class Tally:
    """What a sweep has executed. A fault whose place was never reached counts as not executed."""

    histories: int = 0
    faults: int = 0
    faults_reached: int = 0
    unseen: bool = False
    """A traced call came to its end and its statement hook was gone: there were statements that nobody saw."""

    def counts(self, noun: str) -> dict[str, int]:
        """For the report."""
        return {"histories": self.histories, f"{noun}_executed": self.faults_reached, noun: self.faults}


def locked(answer: Answer) -> bool:
    """The call ended because the database was locked."""
    return answer.kind is Kind.RAISED and "OperationalError" in answer.mro and "locked" in answer.text


def short(sql: str) -> str:
    """A statement on one line, cut where it is long."""
    line = " ".join(sql.split())
    return line if len(line) <= _SQL_CHARS_MAX else line[: _SQL_CHARS_MAX - 4] + " ..."


def said(answer: Answer) -> str:
    """The end of a call in words that are safe for a hidden test."""
    if answer.kind is Kind.RETURNED:
        text = repr(answer.value)
        return f"it said {text if len(text) < 60 else 'something else'}"
    if answer.kind is Kind.RAISED:
        name = next((name for name in answer.mro if name in ERRORS), "an error")
        return f"it raised {name}" + (" (database is locked)" if locked(answer) else "")
    return f"it ended: {answer.kind}"


def state_seen(state: inspect.State) -> str:
    """What a fresh connection saw, in words."""
    receipts = ", ".join(f"{tenant}/{event}" for tenant, event, *_ in state.receipts[:6]) or "none"
    held = sorted(state.totals.items(), key=str)[:4]
    totals = ", ".join(f"{tenant} {cents} cents" for tenant, cents in held) or "none"
    effects = "1 effect" if len(state.effects) == 1 else f"{len(state.effects)} effects"
    return f"receipts {receipts}; {effects}; totals {totals}"


def model_words(receipts: dict[Key, int]) -> str:
    """What the model holds, in words."""
    if not receipts:
        return "an empty ledger"
    return "receipt and effect of " + ", ".join(f"{tenant}/{event}" for tenant, event in receipts)


def matches(state: inspect.State, receipts: dict[Key, int]) -> bool:
    """The committed rows are those of the model: each receipt once, each effect once, the totals their sum."""
    totals: dict[Any, int] = {}
    for (tenant, _), amount in receipts.items():
        totals[tenant] = totals.get(tenant, 0) + amount * 1000
    keys = sorted(receipts)
    return (
        sorted(row[:2] for row in state.receipts) == keys
        and sorted(row[:2] for row in state.effects) == keys
        and {tenant: cents for tenant, cents in state.totals.items() if cents} == totals
    )
