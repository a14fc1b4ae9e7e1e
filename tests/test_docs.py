"""The documents are tested: a command they name can be given, a file they name is there."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/design.md", "docs/instructors.md", "docs/runbook.md",
             "docs/security.md", "docs/proof.md", "student/README.md", "student/HINTS.md")  # fmt: skip
TOP_LEVEL = ("student/", "reference/", "grader/", "rubric/", "fixtures/", "tests/", "docs/", "requirements/", ".ci/")
CODE = re.compile(r"```[a-z]*\n(?P<block>.*?)```|`(?P<span>[^`\n]+)`", re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)(?P<target>[^)\s#]+)")
COMMAND = re.compile(r"^\s*(?:\$ )?(?P<line>(?:\S+ -m )?nox\b.*?)\s*(?:#.*)?$", re.MULTILINE)


def sessions(root: Path) -> set[str]:
    """Names of the sessions that noxfile.py defines."""
    tree = ast.parse((root / "noxfile.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("nox.session" in ast.unparse(mark) for mark in node.decorator_list)
    }


def text(root: Path, document: str) -> str:
    """The text of a document."""
    return (root / document).read_text(encoding="utf-8")


def code(words: str) -> list[str]:
    """The code spans and code blocks of a Markdown text, without sample blocks of recorded output."""
    words = re.sub(r"<!-- sample: .*?<!-- /sample -->", "", words, flags=re.DOTALL)
    return [match["block"] or match["span"] or "" for match in CODE.finditer(words)]


def commands(words: str) -> list[list[str]]:
    """Every nox command line of a text, split as a shell would; comments cut off."""
    return [shlex.split(match["line"], comments=True) for part in code(words) for match in COMMAND.finditer(part)]


def named_sessions(arguments: list[str]) -> list[str]:
    """The sessions that a nox command line names, from `-s` up to the next option."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "-s" not in own:
        return []
    after = own[own.index("-s") + 1 :]
    return after[: next((at for at, word in enumerate(after) if word.startswith("-")), len(after))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_nox_command_in_a_document_can_be_given(root: Path, document: str) -> None:
    """Each `nox -s …` names sessions that exist, and at least one."""
    known = sessions(root)
    for arguments in commands(text(root, document)):
        if "-s" in arguments:
            named = named_sessions(arguments)
            assert named, f"{document}: {shlex.join(arguments)} names no session"
            assert set(named) <= known, f"{document}: no session {sorted(set(named) - known)} in noxfile.py"


def test_every_session_is_documented(root: Path) -> None:
    """A command without mention in README or docs fails the build, as does one without a docstring."""
    named = {
        name for document in DOCUMENTS for words in commands(text(root, document)) for name in named_sessions(words)
    }
    assert sessions(root) - {"check"} <= named
    tree = ast.parse(text(root, "noxfile.py"))
    helpless = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not ast.get_docstring(node)]
    assert helpless == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_a_document_names_is_there(root: Path, document: str) -> None:
    """Links resolve from the document, code spans that start with a top-level folder from the checkout."""
    words = text(root, document)
    absent = [
        match["target"]
        for match in LINK.finditer(words)
        if not (root / document).parent.joinpath(match["target"]).exists()
    ]
    for span in code(words):
        for word in span.split():
            if (
                word.startswith(TOP_LEVEL)
                and re.fullmatch(r"[\w./-]+", word)
                and not word.startswith("student/work/")  # made by a student's own runs
                and not any((place / word.rstrip(".")).exists() for place in (root, (root / document).parent))
            ):
                absent.append(word)
    assert absent == []


def test_readme_opens_with_both_users_two_lines(root: Path) -> None:
    """Who opens the README sees on the first screen what a student and what an instructor types."""
    first_screen = "\n".join(text(root, "README.md").splitlines()[:45])
    assert "pip install nox" in first_screen
    assert "nox -s grade -- FOLDER" in first_screen
    assert text(root, "README.md").count("<!-- sample: grade -->") == 1
    assert text(root, "README.md").count("<!-- /sample -->") >= 1


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_promises_exactly_once_delivery(root: Path, document: str) -> None:
    """Where the words occur, the same paragraph says no, not, never, cannot or quotes them as a mistake."""
    for paragraph in re.split(r"\n\s*\n", text(root, document)):
        if re.search(r"exactly[- ]once", paragraph, re.IGNORECASE):
            assert re.search(r"\b(no|not|never|cannot|can't|without|mistake)\b", paragraph, re.IGNORECASE), paragraph
