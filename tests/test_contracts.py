"""The borders between the packages: who may import whom, read from the source and not from what is installed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("student", "grader", "rubric")
INSIDE_THE_SANDBOX = tuple(
    f"grader/{name}.py" for name in ("template", "worker", "serving", "compiled", "confined", "outcomes", "wire")
)
# The sandbox holds these files of the grader and the given code, and no other part of this package.
ALONE_IN_THE_SANDBOX = (
    "grader.worker",
    "grader.serving",
    "grader.compiled",
    "grader.confined",
    "grader.outcomes",
    "grader.wire",
    "student",
)


def imported(file: Path, root: Path) -> Iterator[str]:
    """The dotted names that a file imports anywhere, also inside functions; relative imports made absolute."""
    package = file.relative_to(root).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def sources(root: Path, *folders: str) -> list[Path]:
    """Every Python file below the folders, in a fixed order."""
    return sorted(
        file for folder in folders for file in (root / folder).rglob("*.py") if "__pycache__" not in file.parts
    )


def breaches(root: Path, files: list[Path], *forbidden: str) -> list[str]:
    """`file imports name` for each import of a forbidden package or of something in it."""
    return sorted(
        {
            f"{file.relative_to(root)} imports {name}"
            for file in files
            for name in imported(file, root)
            if any(name == package or name.startswith(package + ".") for package in forbidden)
        }
    )


def foreign(root: Path, files: list[Path], *own: str) -> list[str]:
    """`file imports name` for each import from outside the standard library and the packages named as own."""
    return sorted(
        {
            f"{file.relative_to(root)} imports {name}"
            for file in files
            for name in imported(file, root)
            if name.split(".")[0] not in sys.stdlib_module_names
            and not any(f"{name}.".startswith(f"{package}.") or package.startswith(f"{name}.") for package in own)
        }
    )


def test_import_linter_keeps_every_contract(root: Path) -> None:
    """The contracts in pyproject.toml hold for direct and indirect imports."""
    script = "from importlinter.cli import lint_imports_command as main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_student_side_needs_the_standard_library_only(root: Path) -> None:
    """A student needs Python and nothing else: no file under student/ or reference/ imports anything from outside."""
    files = sources(root, "student", "reference")
    assert files
    assert foreign(root, files, "student") == []


@pytest.mark.parametrize("name", INSIDE_THE_SANDBOX)
def test_code_inside_the_sandbox_needs_the_standard_library_only(root: Path, name: str) -> None:
    """What runs beside student code finds no third-party package there, so it imports none: only itself and the lab."""
    file = root / name
    assert file.is_file(), f"{name} has moved: name its new place here"
    assert foreign(root, [file], *ALONE_IN_THE_SANDBOX) == []


def test_nobody_imports_the_reference(root: Path) -> None:
    """Model answers are read as bytes and laid over a workspace; importing them would let them leak."""
    assert breaches(root, sources(root, *PACKAGES, "tests"), "reference") == []


def test_grading_ends_at_the_report(root: Path) -> None:
    """Whatever takes part in a run knows no points: only commands and trials of the grader know the rubric."""
    know = {"cli.py", "trial.py"}
    files = [file for file in sources(root, "grader") if file.name not in know and file.parent.name != "commands"]
    assert breaches(root, files, "rubric") == []


def test_nobody_imports_a_hidden_test(root: Path) -> None:
    """Hidden tests are collected by the trusted pytest alone."""
    assert breaches(root, sources(root, *PACKAGES, "reference", "tests"), "grader.hidden") == []


def test_student_modules_do_not_shadow_the_standard_library(root: Path) -> None:
    """No module a student may import at top level bears the name of a standard-library module."""
    names = {file.stem for file in sources(root, "student")} - {"__init__", "__main__"}
    assert names & sys.stdlib_module_names == set()


def test_given_code_can_be_imported_before_student_code(root: Path) -> None:
    """`import student.lab` loads neither a stub file nor anything that loads one."""
    script = "import sys, student.lab; print(sorted(set(sys.modules) & set(sys.argv[1:])))"
    stubs = ["student.conflict", "student.ledger", "student.retry", "student.review"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{script}", *stubs],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
