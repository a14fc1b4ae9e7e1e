"""Task 4: messages that cannot be applied are kept for a person, and acknowledging comes last."""

from __future__ import annotations

import sqlite3
from typing import Any

from student.lab.effects import Effect
from student.lab.lease_queue import LeaseQueue, Message


def record_rejection(db: sqlite3.Connection, body: Any, error: Exception) -> int:
    """Keep a rejected message in the table `rejections`; returns its rejection_id.

    One row for each pair of body and reason: `body` is stored whole, as JSON text with sorted keys, `reason` is
    str(error).
    The same rejection again adds 1 to times_seen and returns the same id: the row itself is never replaced.
    """
    raise NotImplementedError("review.record_rejection: one row for each body and reason")


def decide(db: sqlite3.Connection, rejection_id: int, reviewer: str, decision: str, note: str) -> None:
    """Append a person's decision to the table `decisions`; nothing that is there is ever changed or removed.

    `decision` is "keep_rejected", "resubmit_corrected" or "escalate". There is no "delete".
    Raises ValueError for any other word and for a blank reviewer or note, LookupError for an unknown rejection_id;
    then nothing is written.
    """
    raise NotImplementedError("review.decide: append a decision, or refuse it")


def handle_delivery(db: sqlite3.Connection, queue: LeaseQueue, message: Message, now: int, effect: Effect) -> str:
    """Handle one delivery at tick `now`; returns "applied", "duplicate" or "rejected".

    Apply message.body through bounded_retry, then acknowledge: AFTER the commit, for duplicates as well.
    A TERMINAL error is recorded as a rejection, and then acknowledged. An UNKNOWN error is raised: no record, no
    acknowledgement, so the queue delivers the message again.
    DeliveryLost from the acknowledgement is passed on; it says nothing against the message.
    """
    raise NotImplementedError("review.handle_delivery: apply, or record; then acknowledge")
