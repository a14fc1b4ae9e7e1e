"""Assembling: the package's own given files and one submission's editable files, and nothing else of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grader import assemble, catalogue, intake

if TYPE_CHECKING:
    from tests.conftest import JudgeIt

MODEL = catalogue.reference()
PLANTED = {
    "conftest.py": b"def pytest_runtest_makereport(): raise SystemExit(0)\n",
    "student/conftest.py": b"import os; os._exit(0)\n",
    "pytest.ini": b"[pytest]\naddopts = --collect-only\n",
    "student/pytest.ini": b"[pytest]\naddopts = --collect-only\n",
    "pyproject.toml": b"[tool.pytest.ini_options]\naddopts = '--co'\n",
    "tox.ini": b"[pytest]\naddopts = --co\n",
    "setup.cfg": b"[tool:pytest]\naddopts = --co\n",
    "sitecustomize.py": b"import os; os._exit(0)\n",
    "student/sitecustomize.py": b"import os; os._exit(0)\n",
    "usercustomize.py": b"import os; os._exit(0)\n",
    "student/__init__.py": b"import os; os._exit(0)\n",
    "student/__main__.py": b"import os; os._exit(0)\n",
    "student/tests/__init__.py": b"import os; os._exit(0)\n",
    "student/lab/__init__.py": b"import os; os._exit(0)\n",
    "student/lab/store.py": b"import os; os._exit(0)\n",
    "student/lab/added.py": b"import os; os._exit(0)\n",
    "fixtures/deliveries.json": b'{"deliveries": []}',
    "grader/hidden/test_ledger_hidden.py": b"",
    **{
        f"student/{name}.py": b"import os; os._exit(0)\n"
        for name in ("queue", "json", "types", "enum", "sqlite3", "pytest", "unittest", "random", "logging", "hashlib")
    },
}


def handed_in(folder: Path, files: dict[str, bytes]) -> intake.Submission:
    """A submission of those files, read by intake."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    one = intake.read(intake.Upload(key="ada", source=folder))
    assert isinstance(one, intake.Submission), one
    return one


def test_given_files_win_over_whatever_a_submission_holds(tmp_path: Path) -> None:
    """Under the name of a given file, of a fixture or of configuration, the package's own bytes or nothing stand."""
    own = {f"student/{name}": data for name, data in MODEL.items()}
    changed = assemble.workspace(handed_in(tmp_path / "changed", own | PLANTED))
    assert changed == assemble.workspace(handed_in(tmp_path / "plain", own))
    assert b"os._exit" not in b"".join(changed.values())


def test_given_files_win_even_past_intake(tmp_path: Path) -> None:
    """Also where a submission's files were not read by intake, given names stay the package's."""
    one = handed_in(tmp_path, {f"student/{name}": data for name, data in MODEL.items()})
    forged = intake.Submission(
        key="ada", source=tmp_path, files={**one.files, "lab/store.py": b"x", "lab/x.py": b"x", "__init__.py": b"x"},
        notes=(), digest="", changed_given=(), states={},
    )  # fmt: skip
    assert assemble.workspace(forged) == assemble.workspace(one)


@pytest.mark.parametrize("name", assemble.STUBS)
def test_what_was_not_handed_in_stays_missing(tmp_path: Path, name: str) -> None:
    """A missing file is never filled from the stubs or from anywhere."""
    files = {f"student/{key}": data for key, data in MODEL.items() if key != name}
    one = handed_in(tmp_path, files)
    assert one.states[name] == "missing"
    assert f"student/{name}" not in assemble.workspace(one)


def test_a_workspace_holds_the_hand_out_and_nothing_of_ours(tmp_path: Path) -> None:
    """The student's files, the given ones and the fixtures, sorted; no hidden test, no reference, no grader."""
    files = assemble.workspace(handed_in(tmp_path, {"student/ledger.py": MODEL["ledger.py"]}))
    assert list(files) == sorted(files)
    assert all(name.startswith(("student/", "fixtures/")) for name in files)
    assert not any(b"heron-quartz" in data for data in files.values())
    assert {f"fixtures/{name}" for name in assemble.FIXTURES} <= set(files)


def outcomes(report: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What a report says of each test, without times."""
    keys = ("cause", "seen", "steps", "counts")
    return {
        one["nodeid"]: (one["outcome"], *((one.get("metadata") or {}).get(key) for key in keys))
        for one in report["tests"]
    }


def test_planted_configuration_changes_nothing_in_a_real_run(tmp_path: Path, judged: JudgeIt) -> None:
    """With conftest, ini, sitecustomize and shadowed modules beside the work, the report is the same as without."""
    one = handed_in(tmp_path, {f"student/{name}": data for name, data in MODEL.items()} | PLANTED)
    assert one.files == MODEL
    assert outcomes(judged(one.files).report) == outcomes(judged().report)
    shadows = {name.removeprefix("student/"): data for name, data in PLANTED.items() if name.startswith("student/")}
    assert outcomes(judged(shadows).report) == outcomes(judged().report)
