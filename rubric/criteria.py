"""What is asked: the criteria, their points and their sentences, read strictly from rubric.toml."""

from collections import Counter
from enum import StrEnum
from pathlib import Path

import msgspec

FORMAT_VERSION = 1
DEFAULT = Path(__file__).with_name("rubric.toml")


class RubricError(Exception):
    """The rubric cannot be used: one sentence that names the file, the place and what to do. Exit code 2."""


class Kind(StrEnum):
    EXECUTED = "executed"
    REVIEWED = "reviewed"


class Shown(StrEnum):
    VISIBLE = "visible"
    HIDDEN = "hidden"
    WRITTEN = "written"


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the rubric. Sentences are plain text for students and never hold hidden inputs."""

    id: str  # readable: ledger.repeat_is_duplicate
    code: str  # short cross reference: L2
    title: str
    points: int
    kind: Kind
    shown: Shown
    tests: tuple[str, ...] = ()  # pytest node ids; all must pass
    sources: tuple[str, ...]  # numbered items of the source lessons: Q17, O12
    files: tuple[str, ...] = ()  # for written work: the submitted files a reviewer reads
    done: str  # what was done
    expected: str
    met: str  # seen, when the test left no facts of its own
    not_met: str
    unexecuted: str  # what stays unknown
    why: str  # why it matters
    read: str  # where to read
    hints: tuple[str, ...]  # a ladder: question first, then the concept
    levels: tuple[str, ...] = ()  # reviewed only: what levels 0 to 3 mean
    pending: bool = False  # stands in the rubric, has no test yet


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command a student may claim to have run, and the criterion and numbers that speak for or against it."""

    command: str
    criterion: str
    numbers: tuple[int, ...] = ()


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole rubric; points are whole points."""

    format_version: int
    title: str
    total: int
    visible: int
    hidden: int
    written: int
    control_test: str  # node id of the test that must fail; "" for a rubric without one
    not_shown: tuple[str, ...]  # what no report of this lab shows
    claims: tuple[Claim, ...] = ()
    criteria: tuple[Criterion, ...]

    def get(self, criterion_id: str) -> Criterion:
        """The criterion of that id; raises KeyError."""
        for criterion in self.criteria:
            if criterion.id == criterion_id:
                return criterion
        raise KeyError(criterion_id)
