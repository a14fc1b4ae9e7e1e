"""Given: a small queue that delivers at least once, in its own SQLite file.

It has a file of its own, so that no transaction can cover both queue and ledger. That is what a real broker is like.
Ticks are whole numbers that the caller passes in; there is no clock and nobody waits.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from os import PathLike
from typing import Any

from student.lab.errors import DeliveryLost, NotAvailable

LEASE_TICKS = 5


@dataclass(frozen=True)
class Message:
    """One delivery. `attempt` counts the deliveries of this message and is also the receipt for acknowledging it."""

    message_id: int
    attempt: int
    body: Any


class LeaseQueue:
    """Messages go from `ready` to `in flight` (leased to one worker) to `settled` (acknowledged)."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._db = sqlite3.connect(path, timeout=5.0, isolation_level=None)

    def create(self) -> None:
        """Make the table where it is missing."""
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS messages (message_id INTEGER PRIMARY KEY, state TEXT NOT NULL, "
            "attempt INTEGER NOT NULL, until_tick INTEGER NOT NULL, body TEXT NOT NULL)"
        )

    def send(self, body: Any) -> int:
        """Accept a message; returns its number. The body is anything that JSON can hold."""
        text = json.dumps(body)
        cursor = self._db.execute("INSERT INTO messages VALUES (NULL, 'ready', 0, 0, ?)", (text,))
        return int(cursor.lastrowid or 0)

    def receive(self, now: int) -> Message:
        """Lease the first message that is free at tick `now` for LEASE_TICKS; raises NotAvailable when none is."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            row = self._db.execute(
                "SELECT message_id, attempt, body FROM messages "
                "WHERE state = 'ready' OR (state = 'in flight' AND until_tick <= ?) ORDER BY message_id LIMIT 1",
                (now,),
            ).fetchone()
            if row is None:
                raise NotAvailable
            message_id, attempt, text = row
            self._db.execute(
                "UPDATE messages SET state = 'in flight', attempt = attempt + 1, until_tick = ? WHERE message_id = ?",
                (now + LEASE_TICKS, message_id),
            )
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return Message(message_id=message_id, attempt=attempt + 1, body=json.loads(text))

    def acknowledge(self, message: Message, now: int) -> None:
        """Settle a delivery; raises DeliveryLost unless it is the newest of its message and its lease still runs."""
        cursor = self._db.execute(
            "UPDATE messages SET state = 'settled' "
            "WHERE message_id = ? AND attempt = ? AND state = 'in flight' AND until_tick > ?",
            (message.message_id, message.attempt, now),
        )
        if cursor.rowcount != 1:
            raise DeliveryLost(f"message {message.message_id}, delivery {message.attempt}, tick {now}")

    def states(self) -> list[tuple[str, int]]:
        """State and number of deliveries of every message, in the order they were sent."""
        return self._db.execute("SELECT state, attempt FROM messages ORDER BY message_id").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._db.close()
