"""Sweeps: a real kill before every statement, another worker at every statement, and whole histories."""
# staff only: heron-quartz

import pytest

from grader import sweeps
from grader.lab import Lab


@pytest.mark.criterion("ledger.survives_kill")
def test_survives_kill(lab: Lab) -> None:
    """Killed before any of its statements, a delivery leaves all or nothing, and the redelivery makes it whole."""
    sweeps.kills(lab)


@pytest.mark.criterion("ledger.two_workers_one_effect")
def test_two_workers_one_effect(lab: Lab) -> None:
    """Two workers on the same delivery, whichever comes first at whichever statement, make one effect."""
    sweeps.interleavings(lab)


@pytest.mark.criterion("ledger.histories_match_model")
def test_histories_match_model(lab: Lab) -> None:
    """Every short history, and drawn longer ones, end where the model ends."""
    sweeps.histories(lab)


@pytest.mark.criterion("review.worker_survives_kill")
def test_worker_survives_kill(lab: Lab) -> None:
    """Killed before any statement and restarted after the lease, the worker ends where an unkilled one does."""
    sweeps.whole_worker(lab)
