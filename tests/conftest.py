"""What the package's own tests share: the checkout, copies of it to change, and one graded sample class."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

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
