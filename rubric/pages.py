"""The pages: one for a student, one for a class. Self-contained, without scripts; all text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from rubric.causes import Cause
from rubric.evidence import Status, Verdict
from rubric.visible import visible

if TYPE_CHECKING:
    from rubric.feedback import Feedback
    from rubric.gradebook import ClassRow

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(slots=True, kw_only=True)
class Tally:
    """How often one criterion is met, not met and unexecuted in a class."""

    code: str
    title: str
    met: int = 0
    not_met: int = 0
    unexecuted: int = 0
    causes: Counter[Cause] = field(default_factory=Counter)

    @property
    def cause(self) -> str:
        """The cause that is there most often, with its number; "" without one."""
        if not self.causes:
            return ""
        cause = max(self.causes, key=lambda one: (self.causes[one], -list(Cause).index(one)))
        return f"{cause.value.replace('_', ' ')} ({self.causes[cause]})"


def student_page(feedback: Feedback) -> str:
    """One student's feedback as a whole HTML page; equal feedback gives equal text."""
    from rubric.feedback import item_points  # feedback writes this page, so it is imported here and not above

    return _templates().get_template("student.html").render(feedback=feedback, points=item_points)


def class_page(rows: Sequence[ClassRow]) -> str:
    """A class as a whole HTML page: what to reteach first, then one row a student."""
    statuses = sorted(Counter(row.status.value for row in rows).items())
    return _templates().get_template("class.html").render(rows=rows, tallies=reteach(rows), statuses=statuses)


def reteach(rows: Sequence[ClassRow]) -> list[Tally]:
    """The criteria of a class, most often not met first, then most often unexecuted, then as in the rubric."""
    tallies: dict[str, Tally] = {}
    for row in rows:
        for mark in row.marks:
            tally = tallies.setdefault(mark.criterion, Tally(code=mark.code, title=mark.title))
            tally.met += mark.verdict is Verdict.MET
            tally.not_met += mark.verdict is Verdict.NOT_MET
            tally.unexecuted += mark.status is Status.UNEXECUTED
            if mark.cause is not None:
                tally.causes[mark.cause] += 1
    return sorted(tallies.values(), key=lambda one: (-one.not_met, -one.unexecuted))


@cache
def _templates() -> jinja2.Environment:
    from rubric.gradebook import because, hundredths_text

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    # The policy names the one style sheet by its digest, so that no other style can be slipped in.
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    environment.globals.update(style=Markup(style), style_hash=Markup(f"sha256-{digest}"))
    environment.filters.update(visible=visible, points=hundredths_text, because=because)
    return environment
