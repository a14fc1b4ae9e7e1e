"""What comes out: pages, terminal, gradebook and files. Foreign text stays data, and equal facts give equal bytes."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rubric import __main__ as command
from rubric import classes, gradebook, pages, report, terminal
from rubric.criteria import Shown, load
from rubric.evidence import Evidence, Review, map_report
from rubric.feedback import Feedback, build, write
from rubric.gradebook import ClassRow, RowStatus

RUBRIC = load()
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "[bold red]markup[/] :smile: [link=file:///etc/passwd]x[/link]",
    "=cmd|' /C calc'!A0",
    "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1+1", "＝1+1", "%0a=1",
    "\x1b[2J\x1b]0;title\x07", "\u202egnp.exe", "a\x00b", "\ud800", "{{ 7*7 }}", "{% raw %}", "line\nbreak", "e\u0301",
    "名前",
)  # fmt: skip


def entry(node: str, outcome: str, **facts: Any) -> dict[str, Any]:
    """One entry of a report."""
    phase = {"outcome": "passed"}
    call = {"outcome": outcome, "longrepr": "secret traceback"}
    return {"nodeid": node, "outcome": outcome, "setup": phase, "call": call, "teardown": phase, "metadata": facts}


def document(foreign: str = "a fact", *, control: str = "failed") -> bytes:
    """A report with some of each: met, not met with steps and a history, unexecuted."""
    nodes = [node for one in RUBRIC.criteria for node in one.tests]
    steps = [{"did": f"apply {foreign}", "saw": foreign}]
    history = {"code": "A30 A31", "steps": [foreign]}
    tests = [entry(RUBRIC.control_test, control)]
    for number, node in enumerate(nodes):
        if number % 3 == 0:
            facts = {"cause": "wrong_answer", "seen": [foreign], "steps": steps, "counts": {foreign: 3}}
            tests.append(entry(node, "failed", history=history, **facts))
        elif number % 3 == 1:
            tests.append(entry(node, "passed"))
        else:
            tests.append(entry(node, "skipped", cause="stub_not_written", seen=[foreign]))
    summary = Counter(one["outcome"] for one in tests) + Counter(total=len(tests))
    return json.dumps({"tests": tests, "summary": summary, "exitcode": 1}).encode()


def run_facts(foreign: str = "ada") -> dict[str, Any]:
    """What a run.json holds."""
    return {"submission": foreign, "isolation": "full", "status": "graded", "notes": [foreign],
            "changed_given": [foreign], "files": {}}  # fmt: skip


def told(foreign: str = "a fact", **more: Any) -> tuple[tuple[Evidence, ...], Feedback]:
    """Records and feedback of that report, with a review (unless void) and a noted command."""
    review = Review(criterion="written.handover", reviewer=foreign, date=foreign, level=2, comment=foreign, sha256="",
                    current=True)  # fmt: skip
    words = json.dumps(foreign.encode("utf-8", "replace").decode("utf-8"))  # TOML has no lone surrogates
    noted = f"[[run]]\ncommand={words}\nobserved={words}\nstatus='executed'\n"
    evidence = map_report(
        report.parse(document(foreign, **more)), RUBRIC, run=run_facts(foreign), reviews=[] if more else [review],
        answers=noted.encode("utf-8"),
    )  # fmt: skip
    return evidence, build(evidence, RUBRIC, run_facts(foreign))


def printed(feedback: Feedback, *, width: int = 80, encoding: str = "utf-8") -> str:
    """What a console of that width and encoding, without colour, would get."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal.show(feedback, Console(file=stream, width=width, color_system=None, markup=True, emoji=True))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


class Page(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.words.append(data)


def student_pages() -> list[str]:
    """A page with everything on it, a void one, and one of a practice run."""
    evidence, feedback = told()
    void = told(control="passed")[1]
    return [pages.student_page(one) for one in (feedback, void, build(evidence, RUBRIC, {"isolation": "practice"}))]


@pytest.mark.parametrize("foreign", HOSTILE)
def test_foreign_text_on_a_page_is_text(foreign: str) -> None:
    """No name, fact or note adds a tag, an attribute or an invisible character to a page."""
    plain, hostile = Page(pages.student_page(told()[1])), Page(pages.student_page(told(foreign)[1]))
    assert hostile.tags == plain.tags
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", "".join(hostile.words))
    rows = [row("ada", "Ada"), row(foreign, foreign)]
    assert Page(pages.class_page(rows)).tags == Page(pages.class_page([row("ada", "Ada"), row("bob", "Bob")])).tags


@pytest.mark.parametrize("foreign", HOSTILE)
def test_foreign_text_on_the_terminal_is_text(foreign: str) -> None:
    """Markup, emoji codes and control codes are shown as they were written, and style nothing."""
    shown = printed(told(foreign)[1], width=200)
    assert "\x1b" not in shown and "\x00" not in shown and "\x07" not in shown
    if foreign.startswith("[bold"):
        assert foreign in shown
    stream = io.StringIO()
    terminal.class_table([row(foreign, foreign)], Console(file=stream, width=200, color_system=None))
    assert "\x1b" not in stream.getvalue() and "\x00" not in stream.getvalue()


@pytest.mark.parametrize("foreign", HOSTILE)
def test_foreign_text_in_the_gradebook_is_no_formula(tmp_path: Path, foreign: str) -> None:
    """No cell begins like a formula, and each row has every column."""
    gradebook.write([row(foreign, foreign), gradebook.unmarked(foreign, reason=foreign)], tmp_path / "g.csv")
    content = (tmp_path / "g.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf") and content.count(b"\r\n") == 3
    table = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [len(line) for line in table] == [len(gradebook.COLUMNS)] * 3
    for cell in (cell for line in table[1:] for cell in line):
        assert cell.strip()[:1] not in ("=", "+", "-", "@", "＝", "＋", "－", "＠") or re.fullmatch(r"-?[\d.]+", cell)


@pytest.mark.parametrize("page", [*student_pages(), pages.class_page([])])
def test_a_page_needs_nothing_from_outside_and_can_be_read(page: str) -> None:
    """No link, script, image or remote style; a strict policy; a language; a caption for each table; one main part."""
    held = Page(page)
    names = [tag for tag, _ in held.tags]
    assert not {"script", "img", "link", "iframe", "object", "form", "a", "base"} & set(names)
    assert not any(
        name in ("src", "href", "style") or name.startswith("on") for _, attrs in held.tags for name in attrs
    )
    policy = next(a["content"] for _, a in held.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "@import" not in page and "url(" not in page
    assert ("html", {"lang": "en"}) in held.tags
    assert names.count("table") == names.count("caption") and names.count("main") == names.count("h1") == 1
    ids = [attrs["id"] for _, attrs in held.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {a["aria-labelledby"] for _, a in held.tags if "aria-labelledby" in a} <= set(ids)
    levels = [int(name[1]) for name in names if re.fullmatch(r"h[1-6]", name)]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_equal_facts_give_equal_bytes(tmp_path: Path) -> None:
    """Written twice, in two processes with other hash seeds, feedback is the same to the byte, and JSON is readable."""
    (tmp_path / "report.json").write_bytes(document())
    (tmp_path / "run.json").write_text(json.dumps(run_facts()), encoding="utf-8")
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "rubric", str(tmp_path / "report.json"), "--out", str(tmp_path / seed)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent.parent)},
            check=True, capture_output=True,
        )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert names == ["evidence.json", "feedback.html", "feedback.json"]
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    for name in ("evidence.json", "feedback.json"):
        assert json.loads((tmp_path / "1" / name).read_bytes())["format_version"] == 1
    assert len(json.loads((tmp_path / "1" / "evidence.json").read_bytes())["records"]) == len(RUBRIC.criteria)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_the_terminal_works_narrow_plain_and_in_ascii(width: int, encoding: str) -> None:
    """At 80 and 120 columns, without colour, in any encoding: all codes, points and sentences, no line too long."""
    feedback = told("naïve – “quoted” 名前")[1]
    shown = printed(feedback, width=width, encoding=encoding)
    assert all(len(line) <= width for line in shown.splitlines())
    for item in feedback.items:
        assert re.search(rf"^\W*{item.code} ", shown, re.MULTILINE), item.code
    flat = " ".join(shown.split())
    for sentence in (feedback.opening, "Not met: L1", "Hint:", "Steps:", "Not run", "This report does not show"):
        assert sentence in flat


def test_a_hidden_criterion_shows_its_history_but_no_steps() -> None:
    """A test's steps belong to visible criteria; a history, which reveals no test, is there with its code for both."""
    _, feedback = told("SEEN-FACT")
    failed = [item for item in feedback.items if item.history]
    assert {item.shown for item in failed} == {Shown.VISIBLE, Shown.HIDDEN}
    for item in failed:
        assert (item.steps != ()) == (item.shown is Shown.VISIBLE)
        assert item.history is not None and item.history.code == "A30 A31"
        assert item.history.steps != ()


def test_a_void_run_shows_no_points_anywhere() -> None:
    """Neither 0 nor 100: a person must look, on the page, in the terminal and in the gradebook."""
    feedback = told(control="passed")[1]
    assert "tampering suspected" in feedback.opening
    for text in (printed(feedback), pages.student_page(feedback)):
        assert "tampering suspected" in text and not re.search(r"\d points earned|\d of \d+\b", text)
    line = gradebook.graded(feedback)
    assert line.status is RowStatus.NEEDS_ATTENTION and line.earned is None


def test_a_practice_run_is_never_a_grade() -> None:
    """It says so in its notes, and its row has no points."""
    feedback = build(told()[0], RUBRIC, run_facts() | {"isolation": "practice"})
    assert any("Practice" in note for note in feedback.notes)
    assert gradebook.graded(feedback).earned is None


def test_where_the_grader_failed_the_points_stay_and_staff_must_look() -> None:
    """Our fault is no zero: the rest of the points count, and the row needs attention with the place."""
    held = json.loads(document())
    held["tests"][1]["metadata"]["cause"] = "grader_fault"
    feedback = build(map_report(report.parse(json.dumps(held).encode()), RUBRIC), RUBRIC, run_facts())
    line = gradebook.graded(feedback)
    assert line.status is RowStatus.NEEDS_ATTENTION and "L1" in line.reason and line.earned


def test_points_are_rounded_down_once() -> None:
    """Two thirds of four points are 2.66, and three thirds of them are all four."""
    records, _ = told()
    thirds = [replace(one, earned=Fraction(8, 3)) for one in records if one.criterion == "written.handover"]
    assert build(thirds, RUBRIC).points.text == "2.66"


def row(key: str, name: str = "") -> ClassRow:
    """A graded row."""
    return gradebook.graded(told()[1], key=key, name=name)


def test_the_class_page_ranks_what_to_reteach() -> None:
    """Criteria that more students did not meet come first; unexecuted is counted apart."""
    tallies = pages.reteach([row("ada"), row("bob"), gradebook.unmarked("cyd", reason="no file")])
    counts = [tally.not_met for tally in tallies]
    assert counts == sorted(counts, reverse=True) and counts[0] == 2
    assert all(tally.met + tally.not_met + tally.unexecuted == 2 for tally in tallies)


def called(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The exit code, output and errors of the command."""
    code = command.main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def a_run(folder: Path) -> Path:
    """A run folder: one graded, one that needs attention, one whose run.json is broken."""
    for key, status in (("ada", "graded"), ("bob", "needs_attention")):
        (folder / key).mkdir(parents=True)
        facts = run_facts(key) | {"status": status, "reason": None if status == "graded" else "Not a zip file."}
        (folder / key / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "ada" / "report.json").write_bytes(document())
    (folder / "cyd").mkdir()
    (folder / "cyd" / "run.json").write_text("{", encoding="utf-8")
    return folder


def test_a_run_folder_is_mapped_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each report gets new feedback, gradebook and class page are written, nobody is left out, names are kept."""
    folder = a_run(tmp_path / "run")
    missing = gradebook.unmarked("dan", name="Dan", reason="No file.", status=RowStatus.NOT_SUBMITTED)
    classes.write([row("ada", "Ada L."), missing], folder)
    code, out, _ = called([str(folder)], capsys)
    assert code == 1 and "Not a zip file." in " ".join(out.split())
    table = list(csv.DictReader(io.StringIO((folder / "gradebook.csv").read_bytes().decode("utf-8-sig"))))
    assert [(line["key"], line["name"], line["status"]) for line in table] == [
        ("ada", "Ada L.", "graded"), ("bob", "", "needs attention"), ("cyd", "", "needs attention"),
        ("dan", "Dan", "not submitted"),
    ]  # fmt: skip
    assert (folder / "ada" / "feedback.html").is_file() and (folder / "class.html").is_file()
    first = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert called([str(folder)], capsys)[0] == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == first


def test_one_report_is_shown_and_written_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answers beside the report stand beside what was seen; exit code 0 whatever the student scored."""
    folder = a_run(tmp_path / "run") / "ada"
    (folder / "answers.toml").write_text("[[run]]\ncommand='make'\nobserved='x'\nstatus='executed'\n", encoding="utf-8")
    code, out, _ = called([str(folder / "report.json"), "--out", str(tmp_path / "new")], capsys)
    assert code == 0 and "points earned" in out and "make: not checkable here" in out
    assert (tmp_path / "new" / "feedback.html").is_file()


def reviewed(digest: str, **changed: Any) -> str:
    """A review.toml with one block about W5."""
    block = {"criterion": "W5", "reviewer": "R. Viewer", "level": 3, "sha256": digest} | changed
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in block.items())
    return f"format_version = 1\n[[review]]\ndate = 2026-01-02\n{lines}"


def test_a_review_counts_for_the_bytes_that_were_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A review.toml beside the report brings points while the digest is that of run.json, and is stale afterwards."""
    folder = a_run(tmp_path / "run") / "ada"
    (folder / "run.json").write_text(json.dumps(run_facts() | {"digest": "a" * 64}), encoding="utf-8")
    (folder / "review.toml").write_text(reviewed("a" * 64), encoding="utf-8")
    assert "Reviewed: W5" in called([str(folder)], capsys)[1]
    (folder / "review.toml").write_text(reviewed("b" * 64), encoding="utf-8")
    out = " ".join(called([str(folder)], capsys)[1].split())
    assert "Reviewed: W5" not in out and "waits to be read again. (3 points): W5" in out


@pytest.mark.parametrize(
    "changed", [{"level": 4}, {"criterion": "L1"}, {"reviewer": " "}, {"sha256": "x"}, {"mood": 1}]
)
def test_a_review_that_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any]
) -> None:
    """It never silently counts as none: one sentence for a report, a row that needs attention for a run."""
    folder = a_run(tmp_path / "run") / "ada"
    (folder / "review.toml").write_text(reviewed("a" * 64, **changed), encoding="utf-8")
    code, _, err = called([str(folder)], capsys)
    assert code == 2 and len(err.splitlines()) == 1 and "review.toml" in err
    rows = classes.map_folder(folder.parent, RUBRIC)
    assert rows[0].status is RowStatus.NEEDS_ATTENTION and "review.toml" in rows[0].reason


def test_wrong_usage_ends_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, a file that is no report, a broken rubric, a wrong option: exit code 2, no traceback."""
    (tmp_path / "report.json").write_bytes(document())
    (tmp_path / "text.txt").write_text("hello", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    good, bad = str(tmp_path / "report.json"), str(tmp_path / "text.txt")
    for arguments in (
        [], [str(tmp_path / "nothing")], [bad], [good, "--rubric", bad], [good, "--wrong"], [str(tmp_path / "empty")],
        [str(a_run(tmp_path / "run")), "--out", str(tmp_path)],
    ):  # fmt: skip
        code, _, err = called(arguments, capsys)
        assert code == 2 and len(err.splitlines()) == 1 and "Traceback" not in err, arguments
    assert called(["--help"], capsys)[0] == 0


def test_a_place_that_cannot_be_written_ends_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a file is in the way of the folder, the exit code is 1 and the sentence names the place."""
    (tmp_path / "report.json").write_bytes(document())
    (tmp_path / "taken").write_text("", encoding="utf-8")
    code, _, err = called([str(tmp_path / "report.json"), "--out", str(tmp_path / "taken")], capsys)
    assert code == 1 and len(err.splitlines()) == 1 and "taken" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_ends_in_one_sentence(tmp_path: Path) -> None:
    """Output into a full device: exit code 1 and one sentence, no traceback at the interpreter's end either."""
    (tmp_path / "report.json").write_bytes(document())
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rubric", str(tmp_path / "report.json")],
            stdout=full, stderr=subprocess.PIPE, cwd=Path(__file__).parent.parent, check=False, text=True,
        )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "the disk is full" in done.stderr


def test_feedback_files_are_whole_or_the_old_ones(tmp_path: Path) -> None:
    """After writing over earlier files no temporary file is left, and the files can be read by others."""
    evidence, feedback = told()
    write(feedback, evidence, tmp_path)
    write(feedback, evidence, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence.json", "feedback.html", "feedback.json"]
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in tmp_path.iterdir())
