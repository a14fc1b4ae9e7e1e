"""The drill: the two source labs, run through the student's own functions."""

import pytest

from grader.lab import Lab

EXPECTED = {
    "after_failure_cents": 30_000,
    "rerun": {"applied": 1, "duplicate": 2, "rejected": 1},
    "unique_applied": 2,
    "total_cents": 70_000,
}
"""A is applied, B fails before its commit; the replay applies B, repeats A twice and rejects C."""


@pytest.mark.criterion("drill.queue_drill")
def test_queue_drill(lab: Lab) -> None:
    """The four supplied deliveries end with two events applied, 70000 cents, and every message settled."""
    reply = lab.worker().drill()

    assert reply.kind == "returned"
    drill = reply.value
    assert type(drill) is dict
    assert {key: drill.get(key) for key in EXPECTED} == EXPECTED
    # The drill's summary is a claim; the files it worked on are the evidence.
    assert lab.ledger().counts == (2, 2, 1)
    assert lab.ledger().totals == {"north": 70_000}
    assert {state for state, _attempt in lab.queue()} == {"settled"}


# Per case: the last row of the trace (queue, deliveries, effects, receipts) and how many events lead to it.
TRACES = {
    "normal": (4, ("settled", 1, 1, 1)),
    "duplicate-effect": (7, ("settled", 2, 2, 0)),
    "reuse-effect": (7, ("settled", 2, 1, 1)),
    "early-ack": (4, ("settled", 1, 0, 0)),
}


@pytest.mark.criterion("drill.source_traces")
def test_source_traces(lab: Lab) -> None:
    """Each of the four cases ends as the source lab says: work done, doubled, reused, or lost."""
    for case, (events, end) in TRACES.items():
        reply = lab.worker().case(case)

        assert reply.kind == "returned"
        trace = reply.value
        assert type(trace) is list and all(type(row) is dict for row in trace)
        assert len(trace) == events
        assert tuple(trace[-1].get(column) for column in ("queue", "deliveries", "effects", "receipts")) == end
