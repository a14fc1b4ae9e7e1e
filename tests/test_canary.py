"""What a graded class leaves behind: no hidden test and no place of this machine gets out, and foreign text is text."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CANARY = "heron-quartz"
STAFF_ONLY = {"report.json", "run.db"}
HARMLESS = {"html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "article", "nav",
            "h1", "h2", "h3", "h4", "p", "a", "ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody",
            "tr", "th", "td", "details", "summary", "code", "pre", "strong", "em", "span", "div", "b", "small", "br",
            "abbr", "time", "bdi", "hr", "colgroup", "col", "tfoot", "figure", "figcaption", "link"}  # fmt: skip


def handed_out(folder: Path) -> dict[str, str]:
    """Each file of a run that is not for staff only, as text; JSON without its escapes."""
    texts = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in STAFF_ONLY:
            text = path.read_bytes().decode("utf-8")
            if path.suffix == ".json":
                text += json.dumps(json.loads(text), ensure_ascii=False)
            texts[path.relative_to(folder).as_posix()] = text
    return texts


def hidden_lines() -> set[str]:
    """Lines of the hidden tests that stand nowhere else among what a student may see."""
    seen = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "grader/visible").glob("*.py"))
    lines = {
        line.strip()
        for path in (ROOT / "grader/hidden").glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    return {line for line in lines if len(line) > 24 and line not in seen}


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what stands in a start tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.targets |= {value or "" for name, value in attrs if name in ("href", "src")}


def test_the_canary_would_be_found() -> None:
    """It stands in every hidden test, and there are many lines to look for."""
    assert all(CANARY in path.read_text(encoding="utf-8") for path in (ROOT / "grader/hidden").glob("test_*.py"))
    assert len(hidden_lines()) > 100


def test_nothing_of_a_hidden_test_gets_out(graded_class: Path) -> None:
    """No canary, no line of source, no place of a hidden test, in anything but the report for staff."""
    lines = hidden_lines()
    texts = handed_out(graded_class)
    assert len(texts) > 20
    for name, text in texts.items():
        assert CANARY not in text, name
        assert "grader/hidden" not in text, name
        assert "Traceback (most recent call last)" not in text, name
        assert not [line for line in lines if line in text], name


def test_no_place_on_this_machine_gets_out(graded_class: Path) -> None:
    """Neither the checkout nor a temporary folder, nor the sandbox's own places."""
    for name, text in handed_out(graded_class).items():
        if name == "screen.txt":  # tells the one who graded where the files are
            continue
        for place in (str(ROOT), str(graded_class), "/tmp/", "site-packages", "/proc/"):
            assert place not in text, (name, place)


def test_reading_the_hidden_tests_found_nothing(graded_class: Path) -> None:
    """The sample that searches the machine for them is graded like any other, and its answers hold no secret."""
    held = json.loads((graded_class / "reads-hidden-tests/evidence.json").read_bytes())
    assert any(one["verdict"] == "met" for one in held["records"])
    assert json.loads((graded_class / "reads-hidden-tests/run.json").read_bytes())["status"] == "graded"


def test_foreign_text_is_never_markup_on_a_page(graded_class: Path) -> None:
    """Whatever students wrote, pages hold plain elements, no scripts, no handlers, and lead nowhere they chose."""
    pages = sorted(graded_class.rglob("*.html"))
    assert len(pages) == 6
    for page in pages:
        text = page.read_text(encoding="utf-8")
        found = Elements()
        found.feed(text)
        assert found.tags <= HARMLESS, page
        assert not [name for name in found.attributes if name.startswith("on")], page
        assert not [target for target in found.targets if not re.match(r"https://|#|[\w.-]+/[\w.-]+\.html$", target)], (
            page
        )
        assert "<script" not in text
        assert "<b>me</b>" not in text


def test_foreign_text_is_shown_as_it_was_written(graded_class: Path) -> None:
    """Escaping loses nothing: the words that try to be markup can be read."""
    page = (graded_class / "markup-in-names/feedback.html").read_text(encoding="utf-8")
    kept = (graded_class / "markup-in-names/answers.toml").read_text(encoding="utf-8")
    assert "<b>me</b> [red]" in kept
    assert "[red]" not in page or "&lt;b&gt;me&lt;/b&gt; [red]" in page


def test_no_cell_of_the_gradebook_is_a_formula(graded_class: Path) -> None:
    """A row for each student, and no cell that a spreadsheet would compute."""
    with open(graded_class / "gradebook.csv", encoding="utf-8-sig", newline="") as file:
        book = list(csv.reader(file))
    assert len(book) == 6
    assert not [cell for row in book for cell in row if cell[:1] in tuple("=+-@\t\r")]


@pytest.mark.parametrize("name", ["evidence.json", "feedback.json", "run.json"])
def test_every_student_has_each_file_with_its_format(graded_class: Path, name: str) -> None:
    """Each file says its format version, so that a later reader knows what it reads."""
    found = sorted(graded_class.glob(f"*/{name}"))
    assert len(found) == 5
    assert all(json.loads(path.read_bytes())["format_version"] == 1 for path in found)
