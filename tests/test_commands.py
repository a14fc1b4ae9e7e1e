"""The command line as a user sees it: what is printed, what is left on disk, and the exit code."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader import catalogue, intake
from rubric import criteria
from rubric.criteria import Kind, Shown

if TYPE_CHECKING:
    from tests.conftest import Command, Ran

RUBRIC = criteria.load()
VISIBLE = {one.code for one in RUBRIC.criteria if one.kind is Kind.EXECUTED and one.shown is Shown.VISIBLE}
HIDDEN = {one.code for one in RUBRIC.criteria if one.kind is Kind.EXECUTED and one.shown is Shown.HIDDEN}
COMMANDS = ("check", "submit", "grade", "replay", "selfcheck")
WIDTH = 80


def rows(text: str) -> dict[str, str]:
    """The feedback table's lines by criterion code."""
    found = (re.match(r" ?([A-Z][0-9]+[a-z]?)\s{2,}(.*)", line) for line in text.splitlines())
    return {match[1]: match[2] for match in found if match}


def narrow(ran: Ran) -> None:
    """No line wider than 80 columns, paths and digests apart; no control codes."""
    for line in (ran.out + ran.err).splitlines():
        assert "\x1b" not in line
        assert len(line.rstrip()) <= WIDTH or "/" in line or "digest" in line, line


def one_sentence(ran: Ran, code: int) -> str:
    """A refusal: the exit code, nothing on standard output, one line without a traceback on standard error."""
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.strip().count("\n") == 0
    assert "Traceback" not in ran.err
    return ran.err.strip()


@pytest.fixture(scope="module")
def unwritten(checkout: Path, run: Command) -> Ran:
    """`check` with the stubs as shipped."""
    return run("-m", "grader", "check", cwd=checkout, COLUMNS="80")


@pytest.fixture(scope="module")
def written(solved_checkout: Path, run: Command) -> Ran:
    """`check` with the model answers."""
    return run("-m", "grader", "check", cwd=solved_checkout)


def test_the_first_check_says_what_is_open_and_where_to_begin(unwritten: Ran, checkout: Path) -> None:
    """With the stubs as shipped: exit code 0, nothing failed, all open, and a page with the same."""
    assert (unwritten.code, unwritten.err) == (0, "")
    assert "0 points earned" in unwritten.out
    table = rows(unwritten.out)
    assert set(table) >= VISIBLE
    assert all("unexecuted" in table[code] and "open" in table[code] for code in VISIBLE)
    assert not any("not met" in line for line in table.values())
    assert "is not written yet" in unwritten.out
    assert "feedback.html" in unwritten.out
    page = checkout / "out/check/feedback.html"
    assert "is not written yet" in page.read_text(encoding="utf-8")


def test_a_check_of_the_model_answers_meets_all_that_is_visible(written: Ran, solved_checkout: Path) -> None:
    """Every visible criterion is met; each hidden one says that the instructor runs it; no points for those."""
    assert (written.code, written.err) == (0, "")
    held = json.loads((solved_checkout / "out/check/evidence.json").read_bytes())
    records = {RUBRIC.get(one["criterion"]).code: one for one in held["records"]}
    assert {code for code in VISIBLE if records[code]["verdict"] == "met"} == VISIBLE
    assert {records[code]["cause"] for code in HIDDEN} == {"needs_instructor"}
    points = sum(RUBRIC.get(one["criterion"]).points for one in records.values() if one["verdict"] == "met")
    assert f"{points} points earned, {points} executed or reviewed, {100 - points} still open" in written.out


def test_a_check_leaves_nothing_but_its_output(written: Ran, solved_checkout: Path) -> None:
    """In out/check stand the page and its data; no temporary folder, nothing in student/."""
    names = {path.name for path in (solved_checkout / "out/check").iterdir()}
    written_work = {"answers.toml", "writeup.md", "resource_plan.md"}
    assert names - written_work == {"report.json", "run.json", "evidence.json", "feedback.json", "feedback.html"}
    fresh = {path.relative_to(solved_checkout).as_posix() for path in (solved_checkout / "student").rglob("*.py")}
    assert not [name for name in fresh if "__pycache__" in name]
    assert json.loads((solved_checkout / "out/check/run.json").read_bytes())["isolation"] == "full"


def test_output_is_narrow_and_plain(unwritten: Ran, written: Ran) -> None:
    """At 80 columns and in a pipe no line is wider, and no colour codes are sent."""
    narrow(unwritten)
    narrow(written)


def test_a_screen_that_knows_only_ascii_gets_ascii(
    run: Command, checkout: Path, unwritten: Ran, tmp_path: Path
) -> None:
    """An old Windows console or a bare `LC_ALL=C` gets the same facts without an encoding error."""
    done = run("-m", "grader", "check", cwd=checkout, PYTHONIOENCODING="ascii")
    assert done.code == unwritten.code
    assert done.out.isascii()
    assert set(rows(done.out)) == set(rows(unwritten.out))
    ran = run("-m", "grader", "grade", "--help", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    for cause in (tmp_path / "Zoë", "Ж k5"):
        arguments = ["grade", cause] if isinstance(cause, Path) else ["replay", cause]
        ran = run("-m", "grader", *arguments, PYTHONIOENCODING="ascii")
        assert ran.code == 2
        assert "Traceback" not in ran.err


def test_submit_packs_what_is_handed_in_and_names_what_is_not_ready(run: Command, checkout: Path) -> None:
    """The zip holds the editable files alone; stubs as handed out are named; the digest is the one grading shows."""
    done = run("-m", "grader", "submit", cwd=checkout)
    assert (done.code, done.err) == (0, "")
    for name in ("conflict.py", "ledger.py", "retry.py", "review.py", "tests/test_mine.py"):
        assert f"note: {name} is as it was handed out." in done.out
    packed = intake.read(intake.Upload(key="x", source=checkout / "submission.zip"))
    assert isinstance(packed, intake.Submission)
    assert f"digest {packed.digest}" in done.out
    with zipfile.ZipFile(checkout / "submission.zip") as archive:
        assert all(name.startswith("student/") and "/lab/" not in name for name in archive.namelist())
    narrow(done)


def test_the_same_files_make_the_same_zip_and_a_changed_one_another(
    run: Command, tmp_path: Path, checkout: Path
) -> None:
    """Time and place are not in it, so a digest can be compared; a missing file is named."""
    digests = []
    copy = shutil.copytree(checkout, tmp_path / "elsewhere")
    for folder in (checkout, copy):
        run("-m", "grader", "submit", cwd=folder)
        digests.append(hashlib.sha256((folder / "submission.zip").read_bytes()).hexdigest())
    assert len(set(digests)) == 1
    (copy / "student/retry.py").unlink()
    done = run("-m", "grader", "submit", cwd=copy)
    assert done.code == 0
    assert "note: retry.py is not there." in done.out
    assert hashlib.sha256((copy / "submission.zip").read_bytes()).hexdigest() not in digests


def test_submit_without_any_work_is_a_sentence(run: Command, tmp_path: Path, checkout: Path) -> None:
    """Where nothing is there to pack, no empty zip is made."""
    copy = shutil.copytree(checkout, tmp_path / "copy")
    for path in (copy / "student").iterdir():
        if path.is_file():
            path.unlink()
    shutil.rmtree(copy / "student/tests")
    (copy / "submission.zip").unlink(missing_ok=True)
    for command in ("submit", "check"):
        done = run("-m", "grader", command, cwd=copy)
        assert done.code == 2
        assert "Traceback" not in done.out + done.err
        assert "submitted" in done.out + done.err
    assert not (copy / "submission.zip").exists()


def test_a_class_is_graded_shown_and_graded_again_with_one_broken_zip(run: Command, root: Path, tmp_path: Path) -> None:
    """Two samples: table, paths, exit code 0. With a broken zip added: the two are kept, it is a row, exit code 1."""
    uploads = tmp_path / "class of 2026"
    for name in ("half-done", "untouched-stubs"):
        shutil.copytree(root / "fixtures/submissions" / name, uploads / name)
    place = tmp_path / "run"
    done = run("-m", "grader", "grade", uploads, "--out", place, "--jobs", "2", "--seed", "7", cwd=root)
    assert (done.code, done.err) == (0, "")
    assert "Students: 2 (graded: 2)." in done.out
    for name in ("gradebook.csv", "class.html"):
        assert str(place / name) in done.out
        assert (place / name).is_file()
    for name in ("half-done", "untouched-stubs"):
        assert {path.name for path in (place / name).iterdir()} >= {"report.json", "run.json", "feedback.html"}
    narrow(done)

    (uploads / "[bold]zoë.zip").write_bytes(b"PK\3\4 cut off")
    again = run("-m", "grader", "grade", uploads, "--out", place, cwd=root)
    assert (again.code, again.err) == (1, "")
    assert again.out.count("(unchanged, kept)") == 2
    assert "[bold]zoë: needs attention" in again.out
    with open(place / "gradebook.csv", encoding="utf-8-sig", newline="") as file:
        book = list(csv.reader(file))
    assert len(book) == 4
    assert len(list(place.glob("*/feedback.html"))) == 2
    narrow(again)


@pytest.mark.parametrize("path", ["nowhere", "empty", "grades.csv"])
def test_a_path_without_submissions_is_exit_code_two_in_one_sentence(run: Command, tmp_path: Path, path: str) -> None:
    """A mistyped folder is not an empty class."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "grades.csv").write_bytes(b"")
    done = run("-m", "grader", "grade", tmp_path / path, "--out", tmp_path / "run")
    assert path in one_sentence(done, 2)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments",
    [["grade", "--jobs", "-1"], ["grade", "--jobs", "many"], ["grade", "--seed", "x"], ["grade", "a", "b", "c"],
     ["gradee"], ["check", "--fast"], ["replay"]],
)  # fmt: skip
def test_wrong_usage_is_exit_code_two_in_one_sentence(run: Command, tmp_path: Path, arguments: list[str]) -> None:
    """A mistyped option or command says so, and where help is."""
    one_sentence(run("-m", "grader", *arguments), 2)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(run: Command, command: str) -> None:
    """`--help` says in a sentence what a command does and names each of its options."""
    done = run("-m", "grader", *filter(None, [command]), "--help", COLUMNS="80")
    assert (done.code, done.err) == (0, "")
    assert f"Usage: python -m grader {command}".rstrip() in done.out
    narrow(done)
    if command == "grade":
        assert all(f"--{option}" in done.out for option in ("out", "jobs", "seed"))


def test_a_history_from_the_feedback_plays_to_the_same_sentence(run: Command, tmp_path: Path, checkout: Path) -> None:
    """What the instructor's run found is what the student sees at home, statement by statement, by the code alone."""
    copy = shutil.copytree(checkout, tmp_path / "copy")
    sample = copy / "fixtures/submissions/marker-before-effect"
    root = Path(__file__).resolve().parent.parent
    for name in ("conflict.py", "ledger.py", "retry.py", "review.py"):
        shutil.copy(root / "fixtures/submissions" / sample.name / name, copy / "student" / name)
    golden = json.loads((root / "fixtures/evidence" / f"{sample.name}.json").read_bytes())["records"]
    found = next(one for one in golden if one["criterion"] == "ledger.survives_kill")
    assert found["history"]["code"] == "A30 k5"
    done = run("-m", "grader", "replay", "A30", "k5", cwd=copy)
    assert (done.code, done.err) == (0, "")
    assert found["seen"][0] in " ".join(done.out.split())
    assert "INSERT INTO receipts" in done.out
    narrow(done)
    quoted = run("-m", "grader", "replay", "A30 k5", cwd=copy)
    assert quoted.out == done.out


def test_a_history_that_goes_well_is_said_to_show_only_itself(run: Command, solved_checkout: Path) -> None:
    """On right code nothing wrong is seen, and the others were not played."""
    for code in (["A30", "k5", "A30"], ["W", "k9"]):
        done = run("-m", "grader", "replay", *code, cwd=solved_checkout)
        assert done.code == 0
        assert "nothing wrong was seen in this history" in done.out
        narrow(done)


def test_a_replay_of_stubs_is_not_executed(run: Command, checkout: Path) -> None:
    """Nothing is claimed about code that is not written."""
    done = run("-m", "grader", "replay", "A30", cwd=checkout)
    assert done.code == 0
    assert "Not executed: " in done.out
    assert "is not written yet" in done.out


@pytest.mark.parametrize(
    ("words", "place"),
    [(["A30", "q5x"], "word 2, 'q5x'"), (["k5"], "word 1"), (["A30 x x"], "word 3"), ([""], "empty")],
)
def test_a_mistyped_code_is_exit_code_two_and_names_the_place(run: Command, words: list[str], place: str) -> None:
    """The word is named, so that it can be found on the page."""
    done = run("-m", "grader", "replay", *words)
    assert done.code == 2
    assert "Traceback" not in done.out + done.err
    assert place in (done.out + done.err)


def test_a_reader_that_leaves_early_is_no_error(run: Command, checkout: Path) -> None:
    """`nox | head -1` ends without a traceback."""
    say = "import os, runpy, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 1); sys.argv = ['grader', 'check']; "
    done = run("-c", f"{say}runpy.run_module('grader', run_name='__main__')", cwd=checkout)
    assert "Traceback" not in done.err
    assert "Exception" not in done.err


def test_model_answers_are_whole(root: Path) -> None:
    """The tests above stand on them: each editable file has its model answer."""
    assert set(catalogue.reference()) >= {"conflict.py", "ledger.py", "retry.py", "review.py", "tests/test_mine.py"}
