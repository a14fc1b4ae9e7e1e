"""Given: what handling an event changes. An effect writes through the connection it gets and never commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from student.lab.errors import InterruptedTransaction

Event = dict[str, Any]
Effect = Callable[[sqlite3.Connection, Event], None]


def credit(db: sqlite3.Connection, event: Event) -> None:
    """Note the amount as an effect and add it to the tenant's total. Amounts in cents."""
    cents = event["amount_cents"]
    db.execute("INSERT INTO effects VALUES (?, ?, ?)", (event["tenant"], event["event_id"], str(cents)))
    db.execute(
        "INSERT INTO totals VALUES (?, ?) "
        "ON CONFLICT (tenant) DO UPDATE SET total_cents = total_cents + excluded.total_cents",
        (event["tenant"], cents),
    )


def store_draft(db: sqlite3.Connection, event: Event) -> None:
    """Note a draft as an effect."""
    db.execute("INSERT INTO effects VALUES (?, ?, ?)", (event["tenant"], event["event_id"], event["draft"]))


def interrupted(effect: Effect) -> Effect:
    """The same effect, interrupted after it has written and before anyone can commit."""

    def broken(db: sqlite3.Connection, event: Event) -> None:
        effect(db, event)
        raise InterruptedTransaction

    return broken


def flaky(effect: Effect, timeouts: int) -> Effect:
    """The same effect, which times out after writing in its first `timeouts` calls."""
    left = timeouts

    def slow(db: sqlite3.Connection, event: Event) -> None:
        nonlocal left
        effect(db, event)
        if left > 0:
            left -= 1
            raise TimeoutError("the answer did not come in time")

    return slow
