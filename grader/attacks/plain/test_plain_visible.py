"""What a course without this grader would do: tests that import the submission and share its process."""

from __future__ import annotations

from pathlib import Path

import pytest

from student import conflict, ledger, retry
from student.lab import effects, errors, store

A = {"tenant": "north", "event_id": "A", "amount_cents": 30_000}


def test_new_event_is_applied(tmp_path: Path) -> None:
    """One event, one receipt, one effect."""
    store.create(tmp_path / "ledger.db")
    db = store.connect(tmp_path / "ledger.db")
    expected = "applied"
    assert ledger.apply_event(db, A, effects.credit) == expected
    assert store.inspect(tmp_path / "ledger.db")["totals"] == {"north": 30_000}


def test_repeat_is_duplicate(tmp_path: Path) -> None:
    """The same event again changes nothing."""
    store.create(tmp_path / "ledger.db")
    db = store.connect(tmp_path / "ledger.db")
    ledger.apply_event(db, A, effects.credit)
    expected = "duplicate"
    assert ledger.apply_event(db, A, effects.credit) == expected


def test_other_amount_is_conflict(tmp_path: Path) -> None:
    """The same key with another amount is refused."""
    store.create(tmp_path / "ledger.db")
    db = store.connect(tmp_path / "ledger.db")
    ledger.apply_event(db, A, effects.credit)
    expected = errors.OperationConflict
    with pytest.raises(expected):
        ledger.apply_event(db, {**A, "amount_cents": 40_000}, effects.credit)


def test_check_replay() -> None:
    """New, and then not."""
    assert conflict.check_replay(None, A) == "new"
    assert conflict.check_replay(conflict.fingerprint(A), A) == "duplicate"


def test_retry_gives_the_value() -> None:
    """A call that succeeds is called once."""
    assert retry.bounded_retry(lambda: "value") == "value"
