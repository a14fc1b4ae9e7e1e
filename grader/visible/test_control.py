"""The control: a test that must fail, so that a run in which everything "passes" is not believed."""

import pytest

from grader.lab import Lab, returned


@pytest.mark.control
def test_control_must_fail(lab: Lab) -> None:
    """Given code answers a real call in a real worker, and what is asserted about the answer is false."""
    worker = lab.worker()
    assert worker.begin_immediate() == returned("this is never the answer")
