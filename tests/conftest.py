"""What the package's own tests share: the checkout, copies of it to change, and one graded sample class."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader import assemble, catalogue, intake
from grader.runner import Judge
from rubric import criteria, evidence, report
from rubric.evidence import Evidence

ROOT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns("__pycache__", "work", "submissions", "evidence", ".*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that has ended: exit code and both streams as text."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def run() -> Command:
    """Run `python ARGUMENTS…` in a folder, as a user does, and wait for its end."""

    def run(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> Ran:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COLUMNS", "LINES"))
        }
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], cwd=cwd, env={**kept, **environment}, stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


def copied(folder: Path, *parts: str, model: bool) -> Path:
    """Those parts of the checkout in a new folder; with the model answers in student/ if `model`."""
    for part in parts:
        shutil.copytree(ROOT / part, folder / part, ignore=NOT_COPIED)
    if model:
        shutil.copytree(ROOT / "reference", folder / "student", dirs_exist_ok=True, ignore=NOT_COPIED)
    return folder


@pytest.fixture
def hand_out(tmp_path: Path) -> Path:
    """What a student receives: student/ and the fixtures, stubs as shipped."""
    return copied(tmp_path / "lab", "student", "fixtures", model=False)


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    """The same with the model answers in student/."""
    return copied(tmp_path / "solved", "student", "fixtures", model=True)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the whole checkout, with the stubs as shipped in student/; not to be changed."""
    return copied(tmp_path_factory.mktemp("stubs") / "it", "student", "fixtures", "grader", "rubric", model=False)


@pytest.fixture(scope="session")
def solved_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the whole checkout, with the model answers in student/; not to be changed."""
    parts = ("student", "fixtures", "grader", "rubric", "reference")
    return copied(tmp_path_factory.mktemp("solved") / "it", *parts, model=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One judged submission: the report as it stands in its file, and the records by criterion code."""

    report: dict[str, Any]
    records: dict[str, Evidence]

    def test(self, node: str) -> dict[str, Any]:
        """The report's entry of one test."""
        return next(one for one in self.report["tests"] if one["nodeid"] == node)

    def codes(self, verdict: str) -> set[str]:
        """The codes of the criteria with this verdict: met, not met or unknown."""
        return {code for code, one in self.records.items() if str(one.verdict) == verdict}


JudgeIt = Callable[..., Judged]


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeIt]:
    """Judge the model answers with some files replaced (None: not handed in), on one warm judge; equal ones once."""
    rubric = criteria.load()
    known: dict[tuple[str, int], Judged] = {}
    with Judge(include_hidden=True) as judge:

        def judged(changed: Mapping[str, bytes | None] | None = None, *, seed: int = 1) -> Judged:
            merged = {**catalogue.reference(), **(changed or {})}
            files = {name: data for name, data in merged.items() if data is not None}
            wanted = (intake.digest(files), seed)
            if wanted not in known:
                out = tmp_path_factory.mktemp("judged")
                done = judge.grade(assemble.workspace(Handed(files=files)), out, key="ada", seed=seed)
                assert done.kind == "graded", done.reason
                records = evidence.map_report(report.read(out / "report.json"), rubric)
                known[wanted] = Judged(
                    report=json.loads((out / "report.json").read_bytes()),
                    records={rubric.get(one.criterion).code: one for one in records},
                )
            return known[wanted]

        yield judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """Files as handed in."""

    files: dict[str, bytes]


SAMPLE = ("marker-before-effect", "markup-in-names", "patches-pytest", "reads-hidden-tests", "syntax-error")
"""Of the sample class those that say much, or try to find out something; the self-check grades all of it."""


@pytest.fixture(scope="session")
def graded_class(tmp_path_factory: pytest.TempPathFactory, run: Command) -> Path:
    """The run folder of these, graded by the command as an instructor gives it."""
    place = tmp_path_factory.mktemp("graded")
    for name in SAMPLE:
        left_out = None if name == "markup-in-names" else shutil.ignore_patterns("tests")  # they take most of the time
        shutil.copytree(ROOT / "fixtures" / "submissions" / name, place / "class" / name, ignore=left_out)
    done = run("-m", "grader", "grade", place / "class", "--out", place / "run", "--jobs", "2", "--seed", "7")
    assert done.code == 0, done.out + done.err
    (place / "run" / "screen.txt").write_text(done.out, encoding="utf-8")
    return place / "run"
