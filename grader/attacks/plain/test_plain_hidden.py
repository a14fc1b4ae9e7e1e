"""The hidden half of the plain run: copied beside the submission, as is usual."""

# staff only: heron-quartz
from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from student import conflict, ledger, retry, review
from student.lab import effects, errors, store
from student.lab.lease_queue import LeaseQueue

B = {"tenant": "south", "event_id": "B", "amount_cents": 12_345}


def _times_out() -> NoReturn:
    raise TimeoutError("again")


def test_check_replay_conflict() -> None:
    """Other content under the same key is a conflict."""
    expected = errors.OperationConflict
    with pytest.raises(expected):
        conflict.check_replay("other content", B)


def test_three_attempts_then_exhausted() -> None:
    """The third timeout is the last."""
    expected = errors.RetriesExhausted
    with pytest.raises(expected):
        retry.bounded_retry(_times_out)


def test_conflict_goes_to_review(tmp_path: Path) -> None:
    """A conflict is recorded and acknowledged."""
    store.create(tmp_path / "ledger.db")
    db = store.connect(tmp_path / "ledger.db")
    queue = LeaseQueue(tmp_path / "queue.db")
    queue.create()
    for cents in (1, 2):
        queue.send({**B, "amount_cents": cents})
    assert review.handle_delivery(db, queue, queue.receive(0), 0, effects.credit) == "applied"
    expected = "rejected"
    assert review.handle_delivery(db, queue, queue.receive(1), 1, effects.credit) == expected


def test_first_receipt_stays(tmp_path: Path) -> None:
    """After a conflict the first amount stands, and the conflict came out."""
    store.create(tmp_path / "ledger.db")
    db = store.connect(tmp_path / "ledger.db")
    ledger.apply_event(db, B, effects.credit)
    with pytest.raises(errors.OperationConflict):
        ledger.apply_event(db, {**B, "amount_cents": 1}, effects.credit)
    assert store.inspect(tmp_path / "ledger.db")["totals"] == {"south": 12_345}


def test_unknown_rejection_is_refused(tmp_path: Path) -> None:
    """A decision needs a rejection."""
    store.create(tmp_path / "ledger.db")
    db = store.connect(tmp_path / "ledger.db")
    with pytest.raises(LookupError):
        review.decide(db, 99, "Ada", "escalate", "why")
