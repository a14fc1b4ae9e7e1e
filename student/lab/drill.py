"""Given: the two runs that show what redelivery does, through your functions.

Acknowledgements that are left out here MODEL a worker that was interrupted. Nothing is killed, and this is no cloud
queue.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from student.lab import store
from student.lab.effects import Effect, Event, credit, interrupted, store_draft
from student.lab.errors import InterruptedTransaction, NotAvailable
from student.lab.lease_queue import LeaseQueue
from student.lab.worker import run_worker

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "deliveries.json"
CASES = ("normal", "duplicate-effect", "reuse-effect", "early-ack")
DRAFT: Event = {"tenant": "north", "event_id": "J-12:draft:v1", "draft": "draft v1"}
Row = dict[str, Any]


class NoDeliveries(Exception):
    """A file of deliveries cannot be read; the text says which, and why."""


def read(path: Path) -> list[Event]:
    """The deliveries of a file, in their order; raises NoDeliveries."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["deliveries"]
    except OSError as error:
        raise NoDeliveries(f"The file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else 'it needs {"deliveries": [...]}'
        raise NoDeliveries(f"The file {path} holds no deliveries: {why}.") from error
    if not isinstance(found, list) or len(found) < 2:
        raise NoDeliveries(f"The file {path} needs a list of at least two deliveries.")
    return found


def queue_drill(folder: Path | None = None, *, deliveries: Path = FIXTURE) -> dict[str, Any]:
    """A is applied, B fails before its commit, then the queue delivers A, B, A and C.

    Keeps `ledger.db` and `queue.db` in `folder`; in a temporary folder, removed afterwards, when none is given.
    Returns cents and counts, all seen through a fresh connection; `rerun` is the worker's own tally.
    Raises NoDeliveries for a file that holds none.
    """
    events = read(deliveries)
    with _files(folder) as (ledger, queue, db):
        apply_event = importlib.import_module("student.ledger").apply_event
        apply_event(db, events[0], credit)
        try:
            apply_event(db, events[1], interrupted(credit))
        except InterruptedTransaction:
            pass
        after_failure = _total(ledger)
        for event in events:
            queue.send(event)
        rerun = run_worker(queue, db, credit, now=0)
        return {
            "after_failure_cents": after_failure,
            "rerun": rerun,
            "total_cents": _total(ledger),
            "unique_applied": store.inspect(ledger)["receipts"],
        }


def run_case(path: Path | str, case: str) -> list[Row]:
    """One of CASES as a trace: what happened, and what a fresh connection saw after it. Keeps its files in `path`."""
    if case not in CASES:
        raise ValueError(f"no case {case!r}: choose one of {', '.join(CASES)}")
    with _files(Path(path)) as (ledger, queue, db):
        trace: list[Row] = []

        def note(event: str) -> None:
            state, deliveries = queue.states()[0]
            seen = store.inspect(ledger)
            counts = {"effects": seen["effects"], "receipts": seen["receipts"]}
            trace.append({"event": event, "queue": state, "deliveries": deliveries, **counts})

        queue.send(DRAFT)
        note("message accepted")
        first = queue.receive(now=0)
        note("A receives delivery 1 at tick 0")
        if case == "early-ack":
            queue.acknowledge(first, now=1)
            note("A acknowledges at tick 1, before writing, and stops")
            try:
                queue.receive(now=5)
            except NotAvailable as error:
                note(f"B asks at tick 5: {error}")
            return trace
        apply = _apply_without_receipt if case == "duplicate-effect" else _apply_event()
        apply(db, first.body, store_draft)
        note("A commits its effect")
        if case == "normal":
            queue.acknowledge(first, now=1)
            note("A acknowledges at tick 1, after writing")
            return trace
        note("A stops before it acknowledges")
        second = queue.receive(now=5)
        note("B receives delivery 2 at tick 5")
        answer = apply(db, second.body, store_draft)
        note("B reuses the existing effect" if answer == "duplicate" else "B commits its effect")
        queue.acknowledge(second, now=6)
        note("B acknowledges at tick 6")
        return trace


def demo() -> Iterator[dict[str, Any]]:
    """The traces of all cases, each in a temporary folder that is removed again."""
    for case in CASES:
        with _temporary_folder() as folder:
            yield {"case": case, "trace": run_case(folder, case)}


def _apply_event() -> Callable[[sqlite3.Connection, Event, Effect], str]:
    found: Callable[[sqlite3.Connection, Event, Effect], str] = importlib.import_module("student.ledger").apply_event
    return found


def _apply_without_receipt(db: sqlite3.Connection, event: Event, effect: Effect) -> str:
    """What happens to those who keep no receipt: every call makes an effect."""
    db.execute("BEGIN IMMEDIATE")
    effect(db, event)
    db.execute("COMMIT")
    return "applied"


def _total(ledger: Path) -> int:
    return sum(store.inspect(ledger)["totals"].values())


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    import tempfile  # here, since who brings a folder does not need it

    with tempfile.TemporaryDirectory(prefix="redelivery-") as name:
        yield Path(name)


@contextmanager
def _files(folder: Path | None) -> Iterator[tuple[Path, LeaseQueue, sqlite3.Connection]]:
    if folder is None:
        with _temporary_folder() as place, _files(place) as files:
            yield files
        return
    ledger = folder / "ledger.db"
    store.create(ledger)
    db, queue = store.connect(ledger), LeaseQueue(folder / "queue.db")
    try:
        queue.create()
        yield ledger, queue, db
    finally:  # also on Windows an open file cannot be removed
        db.close()
        queue.close()
