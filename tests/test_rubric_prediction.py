"""A prediction is set beside what the lab shows; a log is quoted as the student's own, and neither earns anything."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rubric import criteria, prediction

WANTED = criteria.load().prediction
assert WANTED is not None
ANSWERS = (Path(__file__).resolve().parent.parent / "reference" / "answers.toml").read_bytes()
EMPTY = (Path(__file__).resolve().parent.parent / "student" / "answers.toml").read_bytes()


def log(**fields: object) -> bytes:
    """A log of one run."""
    return json.dumps({"command": "python3 -m student", **fields}).encode() + b"\n"


def said(answers: bytes, held: bytes | None = None) -> str:
    """All that is said, as one text."""
    assert WANTED is not None
    return " ".join(prediction.facts(answers, held, WANTED))


def test_a_complete_and_right_prediction_is_called_that() -> None:
    """All boxes are counted, and nothing differs."""
    assert said(ANSWERS).startswith("Prediction: 10 of 10 boxes filled in. It agrees with the lab.")


def test_an_untouched_template_has_no_prediction() -> None:
    """Empty boxes are not guesses."""
    assert said(EMPTY) == "No box of the prediction is filled in."


def test_a_wrong_guess_is_named_and_a_right_one_is_not() -> None:
    """Only the boxes that differ are listed, with what was predicted."""
    guessed = ANSWERS.replace(b"total_cents = 70000", b"total_cents = 60000")
    assert "total_cents (predicted 60000, the lab shows 70000)" in said(guessed)
    assert "unique_applied" not in said(guessed)


def test_the_student_s_side_and_this_one_make_the_same_digest(tmp_path: Path) -> None:
    """A log that `python3 -m student` wrote after this very prediction is recognised."""
    root = Path(__file__).resolve().parent.parent
    for name in ("student", "fixtures"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("work", "submissions", "evidence"))
    for path in (root / "reference").glob("*.*"):
        shutil.copy(path, tmp_path / "student")
    subprocess.run([sys.executable, "-m", "student"], cwd=tmp_path, check=True, capture_output=True)
    held = (tmp_path / "student" / "work" / "runs.jsonl").read_bytes()
    assert "it is unchanged since before the first run (the log is the student's own)" in said(ANSWERS, held)


def test_the_log_is_quoted_as_the_student_s_own() -> None:
    """Unchanged, changed, too late, not there: each is said, and each time whose word it is."""
    changed = said(ANSWERS, log(predicted=True, prediction_sha256="0" * 64))
    late = said(ANSWERS, log(predicted=False, prediction_sha256="0" * 64))
    assert "changed after the first run (the log is the student's own)" in changed
    assert "the first run came before the prediction (the log is the student's own)" in late
    assert "No log of runs was handed in" in said(ANSWERS)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(answers: bytes, held: bytes) -> None:
    """Hostile answers and logs lead to sentences or to none, never to an exception."""
    said(answers, held)
    said(ANSWERS, held)
