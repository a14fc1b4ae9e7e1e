"""Given: the worker's loop. It takes what the queue hands out and gives it to your handle_delivery."""

from __future__ import annotations

import importlib
import sqlite3

from student.lab.effects import Effect
from student.lab.errors import NotAvailable
from student.lab.lease_queue import LeaseQueue


def run_worker(queue: LeaseQueue, db: sqlite3.Connection, effect: Effect, now: int) -> dict[str, int]:
    """Handle every message that is free at tick `now`; returns how often each answer was given.

    An error that handle_delivery passes on ends the loop: its message is not acknowledged and will come again.
    """
    # Yours, so it is not imported at the top of given code.
    handle_delivery = importlib.import_module("student.review").handle_delivery
    counts = {"applied": 0, "duplicate": 0, "rejected": 0}
    while True:
        try:
            message = queue.receive(now)
        except NotAvailable:
            return counts
        answer = handle_delivery(db, queue, message, now, effect)
        counts[answer] = counts.get(answer, 0) + 1
