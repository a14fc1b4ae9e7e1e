"""What a judging test gets to see of a call, and the words in which a student may be told.

Words about hidden tests come from closed sets: a student's own text could otherwise carry a hidden input back to them.
"""

from __future__ import annotations

import builtins
import json
from dataclasses import dataclass, field
from typing import Any

from grader.child import Kind
from grader.inspect import State
from grader.wire import Other, same

WORDS = ("applied", "duplicate", "rejected", "new", "transient", "terminal", "unknown", "ok", "")
_BUILTINS = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)}
ERRORS = {name for name, kind in _BUILTINS.items() if issubclass(kind, BaseException)} | {
    "LabError",
    "NotAvailable",
    "DeliveryLost",
    "InvalidEvent",
    "OperationConflict",
    "InterruptedTransaction",
    "RetriesExhausted",
    "OperationalError",
    "IntegrityError",
    "DatabaseError",
    "ProgrammingError",
    "InterfaceError",
    "JSONDecodeError",
}
_ENDED = {
    Kind.DEADLINE: "did not come back in time and was stopped",
    Kind.DIED: "ended its whole process in the middle of the call",
    Kind.FLOOD: "printed or called back without end and was stopped",
    Kind.VIOLATION: "wrote into the grader's own channel and was stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One thing that student code called: what, with which detail, and what stood in the file at that moment."""

    name: str
    detail: dict[str, Any]
    ledger: State | None
    write_locked: bool

    @property
    def committed(self) -> tuple[int, int, int] | None:
        """How many (receipts, effects, rejections) a fresh connection saw at that moment; None where nobody looked."""
        return self.ledger.counts if self.ledger is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How a call should end: the kind, and the exact value or the name of an error class (or of a base of it)."""

    kind: Kind
    value: Any

    def words(self, *, shown: bool) -> str:
        """For a student: `returned 'applied'`."""
        return f"raised {self.value}" if self.kind is Kind.RAISED else "returned " + _value(self.value, shown=shown)


def returned(value: object) -> Expected:
    """The call came back with exactly this value, type included."""
    return Expected(kind=Kind.RETURNED, value=value)


def raised(name: str) -> Expected:
    """The call raised an error of this class or of a subclass."""
    return Expected(kind=Kind.RAISED, value=name.split(".")[-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """How a call ended, with everything that student code called meanwhile."""

    function: str
    kind: Kind
    value: Any = None
    error: str = ""
    mro: tuple[str, ...] = ()
    text: str = ""
    attempts: int | None = None
    same_error: bool = False
    cause_is_last: bool = False
    calls: tuple[Call, ...] = ()
    missed: list[Expected] = field(default_factory=list, repr=False)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expected):
            return NotImplemented
        if self.kind is not other.kind:
            fits = False
        elif self.kind is Kind.RAISED:
            fits = other.value in self.mro
        else:
            fits = same(self.value, other.value)
        if not fits:
            self.missed.append(other)
        return fits

    def words(self, *, shown: bool) -> str:
        """For a student: `raised KeyError`. `shown` is true for visible tests, whose inputs are no secret."""
        if self.kind is Kind.RETURNED:
            return "returned " + _value(self.value, shown=shown)
        if self.kind is Kind.RAISED:
            name = next((name for name in self.mro if name in ERRORS), "Exception")
            name = name if self.error == name else f"an error of its own (a {name})"
            return f"raised {name}" + (f": {self.text}" if shown and self.text else "")
        return _ENDED[self.kind]


def _value(value: object, *, shown: bool) -> str:
    if value is None or type(value) is bool or (type(value) is str and value in WORDS):
        return repr(value)
    if isinstance(value, Other):
        return "a value of another type"
    if shown:
        text = repr(value)
        return text if len(text) <= 120 else text[:117] + "..."
    return f"another {type(value).__name__}"


def event_words(value: object) -> str:
    """A visible test's input as the student may see it: JSON where possible, cut to a line."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def state_words(state: State, *, shown: bool) -> str:
    """What a fresh connection found, counted; the totals only where the inputs are no secret."""
    parts = [
        _counted(len(rows), noun)
        for rows, noun in ((state.receipts, "receipt"), (state.effects, "effect"), (state.rejections, "rejection"))
    ]
    text = f"{parts[0]}, {parts[1]} and {parts[2]}"
    if shown and state.totals:
        text += "; total " + ", ".join(
            f"{event_words(tenant)}: {event_words(cents)} cents"
            for tenant, cents in sorted(state.totals.items(), key=str)
        )
    return text


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
