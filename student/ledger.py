"""Task 2: a ledger that applies each event once, however often it is delivered and wherever it is interrupted."""

from __future__ import annotations

import sqlite3
from typing import Any

from student.lab.effects import Effect


def validate(event: object) -> None:
    """Raise InvalidEvent (name the faulty field as its detail, for whoever reads it) unless this can be applied:

    a dict; `tenant` and `event_id` are str and not blank; and then one of two kinds:
    `amount_cents` is a whole number (type int; a bool is none) from 1 to 10**12, or, in an event without
    `amount_cents`, `draft` is a str that is not blank. Any other fields are allowed.

    >>> validate({"tenant": "north", "event_id": "C", "amount_cents": -5000})
    Traceback (most recent call last):
    student.lab.errors.InvalidEvent: invalid_event: amount_cents
    """
    raise NotImplementedError("ledger.validate: raise InvalidEvent for what can never be applied")


def apply_event(db: sqlite3.Connection, event: dict[str, Any], effect: Effect) -> str:
    """Apply an event; returns "applied" or "duplicate".

    Validate first. Then, for a new event, write its receipt (tenant, event_id, fingerprint) and call
    `effect(db, event)`, once, both in ONE transaction. A duplicate writes nothing and calls nothing.
    Raises InvalidEvent, OperationConflict, or whatever the effect raises, as the very same object; after any error
    nothing is committed and no transaction is left open.
    Another worker may handle the same event at the same time: then wait for it, don't fail.

    `db` comes from store.connect and is in autocommit mode: a transaction starts with your `BEGIN IMMEDIATE`.
    """
    raise NotImplementedError("ledger.apply_event: receipt and effect in one transaction")
