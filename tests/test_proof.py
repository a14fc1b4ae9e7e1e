"""The proof's parts that need no grading: what is generated, which equivalents are listed, what the page says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from grader import catalogue, operators
from grader.commands import proof


@pytest.fixture(scope="module")
def plan() -> proof.Plan:
    """The whole proof, before anything is judged."""
    return proof.planned()


def test_every_generated_change_is_python_and_a_change(plan: proof.Plan) -> None:
    """Each one parses, differs from the model answers in what runs, and from every other one."""
    model = catalogue.reference()
    assert len({one.key for one in plan.mutants}) == len(plan.mutants) > 250
    for one in plan.mutants:
        assert ast.dump(ast.parse(one.code)) != ast.dump(ast.parse(model[one.file].decode())), one.key
        assert one.before != one.after
        line = model[one.file].decode().splitlines()[one.line - 1]
        assert one.before.startswith(" ".join(line.split())), one.key


@pytest.mark.parametrize(
    "source",
    [
        '"""A module."""\nfrom __future__ import annotations\n',
        "T = TypeVar('T')\n",
        'def f(a: int | None, b: "str | int") -> str | None:\n    """Say 1."""\n',
        "def f():\n    pass\n",
    ],
)
def test_types_docstrings_and_imports_are_left_alone(source: str) -> None:
    """Nothing is generated where nothing runs."""
    assert operators.mutants("sample.py", source) == ()


def test_our_operators_change_what_they_say() -> None:
    """Statements, calls, elements, arguments, texts and SQL, one place at a time."""
    source = 'def f(db, a):\n    db.execute("BEGIN IMMEDIATE", (a.strip(), "x"), key=1)\n    return g(a, b=2)\n'
    made = {(one.operator, one.after) for one in operators.mutants("sample.py", source)}
    assert {
        ("RemoveStatement", "pass"),
        ("RemoveCall", 'db.execute("BEGIN IMMEDIATE", (a, "x"), key=1)'),
        ("RemoveElement", 'db.execute("BEGIN IMMEDIATE", ("x",), key=1)'),
        ("RemoveElement", 'db.execute("BEGIN IMMEDIATE", (a.strip(),), key=1)'),
        ("RemoveArgument", "return g(a)"),
        ("ReplaceArgument", "return g(None, b=2)"),
        ("ReplaceArgument", "return g(a, b=None)"),
        ("ReplaceText", 'db.execute("BEGIN IMMEDIATE", (a.strip(), "XxX"), key=1)'),
        ("ReplaceSql", 'db.execute("BEGIN", (a.strip(), "x"), key=1)'),
        ("NumberReplacer", "return g(a, b= 3)"),
    } <= made


def test_every_listed_equivalent_is_still_generated(plan: proof.Plan) -> None:
    """The list holds nothing that the model answers have outgrown, nothing twice, and a reason each."""
    assert proof.stale(plan.mutants, plan.equivalents) == []
    for one in plan.mutants:
        assert sum(same.fits(one) for same in plan.equivalents) <= 1, one.key
    assert all(len(one.reason) > 20 and one.reason.endswith(".") for one in plan.equivalents)


def test_page_and_readme_agree_with_the_catalogue(root: Path, plan: proof.Plan) -> None:
    """The figures were written for the catalogue, the operators and the equivalents as they are now."""
    page = (root / "docs" / "proof.md").read_text(encoding="utf-8")
    quoted = proof.MARKED.search((root / "README.md").read_text(encoding="utf-8"))
    assert quoted is not None
    figures = quoted[0].strip()
    assert figures in page
    listed = sum(any(same.fits(one) for same in plan.equivalents) for one in plan.mutants)
    repeated = len(plan.repeated) * plan.runs
    assert [[int(number) for number in re.findall(r"\d+", line)] for line in figures.splitlines()] == [
        [len(plan.mistakes), len(plan.mistakes), 0],
        [len(plan.variants), len(plan.variants), 0],
        [len(plan.mutants), len(plan.mutants) - listed, listed, 0],
        [repeated, repeated, plan.runs, len(plan.repeated) - 1],
    ]
    for entry in (*plan.mistakes, *plan.variants):
        assert f"| {entry.id} | {entry.idea} |" in page
    assert "## Findings" not in page
    assert not re.search(r"\b20[2-9]\d-\d\d|\d\d:\d\d\b", page), "a date or a time makes two equal runs differ"
