"""The rubric is read strictly: what does not add up is refused in one sentence that names the file and the place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rubric.criteria import DEFAULT, Kind, RubricError, Shown, load

SMALL = """
format_version = 1
title = "A small rubric"
total = 3
visible = 2
hidden = 0
written = 1
control_test = "visible/test_control.py::test_control_must_fail"
not_shown = ["Anything else."]
claims_at = "written.text"

[[claims]]
command = "python3 -m student"
criterion = "ledger.first"
numbers = [7]

[[criteria]]
id = "ledger.first"
code = "A1"
title = "The first"
points = 2
kind = "executed"
shown = "visible"
tests = ["visible/test_a.py::test_first"]
sources = ["Q1"]
done = "It was done."
expected = "This."
met = "It was."
not_met = "It was not."
unexecuted = "Whether it is."
why = "It matters."
read = "the docstring"
hints = ["A question?", "The concept."]

[[criteria]]
id = "written.text"
code = "W1"
title = "A text"
points = 1
kind = "reviewed"
shown = "written"
sources = ["Q2"]
files = ["student/writeup.md"]
done = "A person reads it."
expected = "A text."
met = "The highest level."
not_met = "A lower level."
unexecuted = "What a reviewer thinks."
why = "It matters."
read = "the section"
hints = ["A question?"]
levels = ["absent", "one", "two", "three"]
"""


def refused(folder: Path, text: str) -> str:
    """The sentence with which a rubric is refused."""
    path = folder / "rubric.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RubricError) as caught:
        load(path)
    sentence = str(caught.value)
    assert str(path) in sentence and "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_our_rubric_is_read_and_adds_up() -> None:
    """The rubric of this lab has 100 points, 35 visible, 45 hidden and 20 written, and each criterion its sentences."""
    rubric = load()
    points = {shown: sum(one.points for one in rubric.criteria if one.shown is shown) for shown in Shown}
    assert points == {Shown.VISIBLE: 35, Shown.HIDDEN: 45, Shown.WRITTEN: 20}
    assert sum(points.values()) == rubric.total == 100
    assert all(len(one.hints) >= 2 for one in rubric.criteria if one.kind is Kind.EXECUTED)


def test_every_test_that_our_rubric_names_is_there(root: Path) -> None:
    """A node id of the rubric is a function in a file of the grader, so no criterion waits for a test for ever."""
    rubric = load()
    for node in [rubric.control_test, *(node for one in rubric.criteria for node in one.tests)]:
        path, _, function = node.partition("::")
        assert f"def {function}(" in (root / "grader" / path).read_text(encoding="utf-8"), node


def test_every_test_of_the_grader_is_on_our_rubric(root: Path) -> None:
    """No test judges in vain: each one belongs to a criterion, but for the control test."""
    rubric = load()
    known = {rubric.control_test, *(node for one in rubric.criteria for node in one.tests)}
    for path in sorted((root / "grader").glob("*/test_*.py")):
        for function in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert f"{path.parent.name}/{path.name}::{function}" in known


def test_no_sentence_promises_exactly_once() -> None:
    """Nothing that students read promises what no code can keep."""
    text = DEFAULT.read_text(encoding="utf-8").lower()
    assert not re.search(r"exactly[ -]once", text)


def test_a_small_rubric_is_read(tmp_path: Path) -> None:
    """The rubric that the refusals below start from is itself right."""
    path = tmp_path / "rubric.toml"
    path.write_text(SMALL, encoding="utf-8")
    rubric = load(path)
    assert [one.code for one in rubric.criteria] == ["A1", "W1"]
    assert rubric.get("ledger.first").points == 2
    with pytest.raises(KeyError):
        rubric.get("ledger.second")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("total = 3", "total = 4", "total says 4"),
        ("visible = 2", "visible = 1", "visible says 1"),
        ("hidden = 0", "hidden = 1", "hidden says 1"),
        ("written = 1", "written = 2", "written says 2"),
        ("format_version = 1", "format_version = 9", "format_version is 9"),
        ('code = "W1"', 'code = "A1"', "the code 'A1' is there 2 times"),
        ('id = "written.text"\n', 'id = "ledger.first"\n', "the id 'ledger.first' is there 2 times"),
        ('id = "ledger.first"\n', 'id = "ledger"\n', "two lower-case words"),
        ('tests = ["visible/test_a.py::test_first"]\n', "", "names no tests"),
        ('sources = ["Q1"]\n', 'sources = ["Q1"]\npending = true\n', "not pending"),
        ("test_a.py::test_first", "test_control.py::test_control_must_fail", "must fail"),
        ('"absent", "one"', '"absent"', "levels are 4"),
        ('files = ["student/writeup.md"]\n', "", "files are missing"),
        ('hints = ["A question?"]', "hints = []", "hints are missing"),
        ('hints = ["A question?"]', 'hints = [" "]', "hints are missing"),
        ('why = "It matters."', 'why = ""', "why is empty"),
        ("points = 2", "points = 0", "at least 1"),
        ("points = 2", 'points = "2"', "criterion 'ledger.first'"),
        ("points = 2", "points = 2.0", "criterion 'ledger.first'"),
        ("points = 2", "points = 2\npoints_max = 3", "points_max"),
        ('kind = "executed"', 'kind = "guessed"', "guessed"),
        ('shown = "visible"', 'shown = "written"', "visible or hidden"),
        ('shown = "written"', 'shown = "hidden"', "what is reviewed is written"),
        ('claims_at = "written.text"', 'claims_at = "written.other"', "written.other"),
        ('criterion = "ledger.first"', 'criterion = "ledger.other"', "ledger.other"),
        ('title = "A small rubric"', 'title = "A small rubric', "line"),
    ],
)
def test_a_rubric_that_does_not_add_up_is_refused(tmp_path: Path, old: str, new: str, place: str) -> None:
    """One sentence names the file and the place of each mistake."""
    assert old in SMALL
    assert place in refused(tmp_path, SMALL.replace(old, new, 1))


def test_an_executed_criterion_without_tests_may_be_pending(tmp_path: Path) -> None:
    """A criterion may stand in the rubric before its test is built, if it says so."""
    path = tmp_path / "rubric.toml"
    text = SMALL.replace('tests = ["visible/test_a.py::test_first"]\n', "pending = true\n", 1)
    path.write_text(text, encoding="utf-8")
    assert load(path).criteria[0].pending


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    """A missing file and one of random bytes end in one sentence, not in a traceback."""
    with pytest.raises(RubricError, match="cannot be read"):
        load(tmp_path / "nothing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RubricError, match="does not fit"):
        load(tmp_path / "bytes.toml")
