"""The student's own files, in student/ of this checkout, as a submission."""

from __future__ import annotations

from grader import assemble, intake

KEY = "student"


def submission() -> intake.Submission | intake.Refusal:
    """What would be handed in now; a refusal says in plain words why it could not be."""
    return intake.read(intake.Upload(key=KEY, source=assemble.PACKAGE / "student"))
