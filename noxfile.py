"""Every command of the lab: `nox` for students, `nox -s grade -- FOLDER` for instructors, the rest for maintainers.

Sessions share two environments, `.nox/run` and `.nox/dev`, made from the locks in `requirements/`. An environment
is made again only when its lock or the interpreter has changed, so the second `nox` starts at once. For another Python:
`python3.13 -m nox`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["check"]
nox.options.error_on_missing_interpreters = True


@nox.session(venv_backend="none")
def check(session: nox.Session) -> None:
    """Student: run the visible tests on student/ and show the feedback."""
    command(session, "grader", "check", *session.posargs)


@nox.session(venv_backend="none")
def replay(session: nox.Session) -> None:
    """Student: play a failing history again on student/, by its code from the feedback."""
    command(session, "grader", "replay", *session.posargs)


@nox.session(venv_backend="none")
def submit(session: nox.Session) -> None:
    """Student: pack the editable files and say what is missing."""
    command(session, "grader", "submit", *session.posargs)


@nox.session(venv_backend="none")
def grade(session: nox.Session) -> None:
    """Instructor: grade a folder or file of submissions; without arguments the sample class."""
    command(session, "grader", "grade", *(session.posargs or ["fixtures/submissions"]))


@nox.session(venv_backend="none")
def feedback(session: nox.Session) -> None:
    """Instructor: map a report.json to feedback again, without running anyone's code."""
    command(session, "rubric", *session.posargs)


@nox.session(venv_backend="none")
def selfcheck(session: nox.Session) -> None:
    """Maintainer: prove that the grader judges stubs, reference, known mistakes and correct variants right."""
    command(session, "grader", "selfcheck", *session.posargs)


@nox.session(venv_backend="none")
def proof(session: nox.Session) -> None:
    """Maintainer: measure how rarely the judge is wrong, and write docs/proof.md; takes minutes."""
    command(session, "grader", "proof", *session.posargs, packages="dev")


@nox.session(venv_backend="none")
def attack(session: nox.Session) -> None:
    """Maintainer: prove that no hostile submission wins or leaves anything, and how each fares in a plain pytest."""
    command(session, "grader.attack", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Maintainer: the package's own tests."""
    session.run(environment(session, "dev"), "-m", "pytest", "-q", *(session.posargs or ["tests"]), external=True)


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Maintainer: style, formatting and import rules."""
    python = environment(session, "dev")
    session.run(python, "-m", "ruff", "check", external=True)
    session.run(python, "-m", "ruff", "format", "--check", external=True)
    session.run(python, "-c", "from importlinter.cli import lint_imports_command as main; main()", external=True)


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Maintainer: mypy, strict."""
    session.run(environment(session, "dev"), "-m", "mypy", *session.posargs, external=True)


def command(session: nox.Session, *arguments: str, packages: str = "run") -> None:
    """Run `python -m ARGUMENTS…` and end nox with that command's exit code, which nox itself would turn into 1."""
    python = environment(session, packages)
    with subprocess.Popen([python, "-m", *arguments], cwd=ROOT, env=surroundings(python)) as process:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # Ctrl-C reached the command as well: let it finish what it records
                continue
    if code:
        sys.exit(code if code > 0 else 128 - code)


def environment(session: nox.Session, name: str) -> str:
    """The interpreter of the environment with the packages of requirements/NAME.txt, which is made where needed."""
    lock = ROOT / "requirements" / f"{name}.txt"
    folder = ROOT / ".nox" / name
    stamp = folder / "made-from"
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest() + f"\n{sys.version}\n{sys.base_prefix}\n{folder}\n"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        session.log(f"making {folder.relative_to(ROOT)} from requirements/{name}.txt (once)")
        session.run(sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(folder), external=True, log=False)
        install = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock)]
        session.run(*install, external=True, log=False)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def surroundings(python: str) -> dict[str, str]:
    """The environment variables of a command: the caller's, with the environment's own programs found first."""
    return {**os.environ, "PATH": str(Path(python).parent) + os.pathsep + os.environ.get("PATH", os.defpath)}
