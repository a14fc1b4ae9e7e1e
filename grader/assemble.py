"""Assembling: the package's own given files and fixtures + the editable files of one submission.

Given files always win, whatever a submission holds under their names; nothing is written to disk here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Protocol

PACKAGE = Path(__file__).resolve().parent.parent
STUBS = ("conflict.py", "ledger.py", "retry.py", "review.py")
LOG = "work/runs.jsonl"
WRITTEN = ("answers.toml", "writeup.md", "resource_plan.md")
FIXTURES = ("deliveries.json", "drafts.json", "bad_events.json")


class Editable(Protocol):
    """What is needed of a submission: its editable files, keyed by name relative to student/."""

    @property
    def files(self) -> dict[str, bytes]: ...


@cache
def _read(root: Path) -> tuple[tuple[str, bytes], ...]:
    student = root / "student"
    paths = [*sorted((student / "lab").rglob("*")), student / "__init__.py", student / "__main__.py"]
    paths.append(student / "tests" / "__init__.py")
    return tuple(
        (path.relative_to(student).as_posix(), path.read_bytes())
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    )


def given(root: Path = PACKAGE) -> dict[str, bytes]:
    """The given files of the package, keyed by name relative to student/ (lab/…, __init__.py and so on)."""
    return dict(_read(root))


def is_given(name: str) -> bool:
    """True for names (relative to student/) that belong to the package and not to a submission."""
    return name.startswith("lab/") or name in ("__init__.py", "__main__.py", "tests/__init__.py")


def stub(name: str, root: Path = PACKAGE) -> bytes | None:
    """An editable file as handed out, or None when the hand-out has no such file."""
    path = root / "student" / name
    return path.read_bytes() if path.is_file() else None


def workspace(submission: Editable, root: Path = PACKAGE) -> dict[str, bytes]:
    """Path relative to the workspace's root -> bytes: `student/…` and `fixtures/…`.

    An editable .py file that was not handed in is absent, never filled in from the stubs or from before.
    """
    files = {f"student/{name}": data for name, data in submission.files.items() if not is_given(name)}
    files |= {f"student/{name}": data for name, data in given(root).items()}
    for name in FIXTURES:
        path = root / "fixtures" / name
        if path.is_file():
            files[f"fixtures/{name}"] = path.read_bytes()
    return dict(sorted(files.items()))
