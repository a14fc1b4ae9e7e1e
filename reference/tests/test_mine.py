"""Model answer: two tests that name what must happen and what must not have changed."""

import tempfile
import unittest
from pathlib import Path

from student import ledger, retry
from student.lab import effects, errors, store

A = {"tenant": "north", "event_id": "A", "amount_cents": 30_000}


class MyTests(unittest.TestCase):
    """Each test gets a ledger of its own in a temporary folder."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "ledger.db"
        store.create(self.path)
        self.db = store.connect(self.path)
        self.addCleanup(self.db.close)

    def test_conflict(self) -> None:
        """A with another amount is a conflict: the total, the receipt and the effect stay those of the first A."""
        self.assertEqual(ledger.apply_event(self.db, A, effects.credit), "applied")
        before = store.inspect(self.path)

        with self.assertRaises(errors.OperationConflict):
            ledger.apply_event(self.db, {**A, "amount_cents": 40_000}, effects.credit)

        self.assertEqual(store.inspect(self.path), before)
        self.assertEqual(before["totals"], {"north": 30_000})
        self.assertEqual(ledger.apply_event(self.db, A, effects.credit), "duplicate")

    def test_three_timeouts(self) -> None:
        """Three timeouts are three calls, then RetriesExhausted that knows their number and the last error."""
        raised: list[TimeoutError] = []

        def times_out() -> None:
            raised.append(TimeoutError(f"attempt {len(raised) + 1}"))
            raise raised[-1]

        with self.assertRaises(errors.RetriesExhausted) as caught:
            retry.bounded_retry(times_out)

        self.assertEqual(len(raised), 3)
        self.assertEqual(caught.exception.attempts, 3)
        self.assertIs(caught.exception.__cause__, raised[-1])
