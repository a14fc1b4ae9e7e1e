"""The student's own tests: right on every correct variant, and failing on the mistakes they are meant to notice."""
# staff only: heron-quartz

import pytest

from grader import owntests
from grader.lab import Lab


@pytest.mark.criterion("tests.conflict_test")
def test_conflict_test(lab: Lab) -> None:
    """The test about a repeat with another amount notices each way in which a conflict can be hidden."""
    owntests.judge(lab, "test_conflict")


@pytest.mark.criterion("tests.timeout_test")
def test_timeout_test(lab: Lab) -> None:
    """The test about three timeouts notices too many calls, too few, a silent end and a wrong error."""
    owntests.judge(lab, "test_three_timeouts")
