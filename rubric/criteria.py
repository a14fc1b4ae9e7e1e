"""What is asked: the criteria, their points and their sentences, read strictly from rubric.toml."""

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

FORMAT_VERSION = 1
DEFAULT = Path(__file__).with_name("rubric.toml")
BYTES_MAX = 4 * 1024 * 1024
LEVELS = 4
SENTENCES = ("code", "title", "done", "expected", "met", "not_met", "unexecuted", "why", "read")


class RubricError(Exception):
    """The rubric cannot be used: one sentence that names the file, the place and what to do. Exit code 2."""


class Kind(StrEnum):
    """How a criterion is looked at: a test runs code, or a person reads."""

    EXECUTED = "executed"
    REVIEWED = "reviewed"


class Shown(StrEnum):
    """Who sees the check itself: everybody, staff only, or nobody because a person reads."""

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
    partial: bool = False  # a failed test earns the part that its counts name: ideas_noticed of ideas
    pending: bool = False  # stands in the rubric, has no test yet


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command a student may claim to have run, and the criterion and numbers that speak for or against it."""

    command: str
    criterion: str
    numbers: tuple[int, ...] = ()


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the given drill shows, by the dotted name of the box in answers.toml, to set beside a prediction."""

    criterion: str
    expected: dict[str, int]
    cases: dict[str, tuple[str, int, int, int]]  # the last line of each trace: queue, deliveries, effects, receipts


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
    prediction: Prediction | None = None
    claims_at: str = ""  # id of the criterion beside which noted commands are shown; "" shows none
    criteria: tuple[Criterion, ...]

    def get(self, criterion_id: str) -> Criterion:
        """The criterion of that id; raises KeyError."""
        for criterion in self.criteria:
            if criterion.id == criterion_id:
                return criterion
        raise KeyError(criterion_id)


def load(path: Path | None = None) -> Rubric:
    """The rubric of that file (ours when None), checked as a whole; raises RubricError, one sentence."""
    path = path or DEFAULT
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RubricError(f"The rubric {path} cannot be read ({error.strerror}); name a file that is there.") from error
    if len(content) > BYTES_MAX:
        raise RubricError(f"The rubric {path} is larger than {BYTES_MAX} bytes; it is hardly a rubric.")
    try:
        rubric = msgspec.toml.decode(content, type=Rubric, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RubricError(f"The rubric {path} does not fit: {_place(str(error), content)}.") from error
    for trouble in _troubles(rubric):
        raise RubricError(f"The rubric {path} does not fit: {trouble}.")
    return rubric


def _place(text: str, content: bytes) -> str:
    """The decoder's sentence, with the code of the criterion instead of a bare index where that can be told."""
    found = re.search(r"\$\.criteria\[(\d+)\]", text)
    text = " ".join(text.split()).rstrip(".")
    if not found:
        return text
    try:
        name = msgspec.toml.decode(content)["criteria"][int(found.group(1))]["id"]
    except (msgspec.DecodeError, KeyError, IndexError, TypeError):
        return text
    return f"{text} (criterion {name!r})"


def _troubles(rubric: Rubric) -> Iterator[str]:
    """What is wrong with a rubric whose shape is right, one sentence part each, the most basic first."""
    if rubric.format_version != FORMAT_VERSION:
        yield f"format_version is {rubric.format_version}, and this reads version {FORMAT_VERSION}"
    if not rubric.criteria:
        yield "it has no criteria"
    for what, names in (
        ("id", [one.id for one in rubric.criteria]),
        ("code", [one.code for one in rubric.criteria]),
        ("test", [test for one in rubric.criteria for test in one.tests]),
    ):
        for name, times in Counter(names).items():
            if times > 1:
                yield f"the {what} {name!r} is there {times} times"
    for criterion in rubric.criteria:
        for trouble in _criterion_troubles(criterion):
            yield f"criterion {criterion.id!r}: {trouble}"
    for name in (Shown.VISIBLE, Shown.HIDDEN, Shown.WRITTEN):
        points = sum(one.points for one in rubric.criteria if one.shown is name)
        if points != getattr(rubric, name):
            yield f"the {name} criteria have {points} points, and {name} says {getattr(rubric, name)}"
    points = sum(one.points for one in rubric.criteria)
    if points != rubric.total:
        yield f"the criteria have {points} points, and total says {rubric.total}"
    known = {one.id for one in rubric.criteria}
    if any(rubric.control_test in one.tests for one in rubric.criteria):
        yield f"the control test {rubric.control_test!r} must fail, so it cannot be a criterion's test"
    for claim in rubric.claims:
        if claim.criterion not in known:
            yield f"the claim {claim.command!r} names the criterion {claim.criterion!r}, which is not there"
    if rubric.claims_at and rubric.claims_at not in known:
        yield f"claims_at names the criterion {rubric.claims_at!r}, which is not there"


def _criterion_troubles(criterion: Criterion) -> Iterator[str]:
    """What is wrong with one criterion by itself."""
    if not re.fullmatch(r"[a-z]+\.[a-z0-9_]+", criterion.id):
        yield "an id is two lower-case words with a dot between them"
    if criterion.points < 1:
        yield f"points are whole and at least 1, not {criterion.points}"
    if not criterion.hints or not all(hint.strip() for hint in criterion.hints):
        yield "hints are missing"
    for name in SENTENCES:
        if not getattr(criterion, name).strip():
            yield f"{name} is empty"
    if criterion.partial and (criterion.kind is not Kind.EXECUTED or len(criterion.tests) != 1):
        yield "partial points come from the counts of one test, so it names exactly one"
    if criterion.kind is Kind.EXECUTED:
        if criterion.shown is Shown.WRITTEN:
            yield "what is executed is visible or hidden, not written"
        if not criterion.tests and not criterion.pending:
            yield "it is executed and names no tests; add them, or set pending = true"
        if criterion.tests and criterion.pending:
            yield "it has tests, so it is not pending"
        return
    if criterion.shown is not Shown.WRITTEN:
        yield "what is reviewed is written"
    if criterion.tests or criterion.pending:
        yield "a person reviews it, so it has no tests and is not pending"
    if len(criterion.levels) != LEVELS:
        yield f"levels are {LEVELS}, from 0 to {LEVELS - 1}, not {len(criterion.levels)}"
    if not criterion.files:
        yield "files are missing: a reviewer must know what to read"
