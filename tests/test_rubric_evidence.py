"""The nine rules of evidence, each held against generated reports: whatever a report holds or lacks."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from rubric import files, pages, report, terminal
from rubric.causes import EXECUTED_CAUSES, UNEXECUTED_CAUSES
from rubric.criteria import Rubric, Shown, load
from rubric.evidence import Cause, Evidence, Review, Standing, Status, Verdict, map_report, total
from rubric.feedback import Feedback, build

RUBRIC = load()
NODES = [node for one in RUBRIC.criteria for node in one.tests]
# A few criteria of each sort, one of them with two tests and one with none, so that generated reports meet them often.
_SOME = ("ledger.new_event_is_applied", "ledger.repeat_in_new_process", "conflict.other_amount_is_conflict",
         "retry.never_sleeps", "drill.queue_drill", "drill.source_traces", "tests.conflict_test",
         "written.commands",          "written.knowledge_check")  # fmt: skip


def _small() -> Rubric:
    criteria = json.loads(json.dumps([files.plain(_dict(RUBRIC.get(name))) for name in _SOME]))
    criteria[0]["tests"].append("visible/test_ledger.py::test_second_half")
    criteria[3] |= {"tests": [], "pending": True}
    return msgspec.convert({**_dict(RUBRIC), "criteria": criteria}, Rubric)


def _dict(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


SMALL = _small()
SMALL_NODES = [node for one in SMALL.criteria for node in one.tests]
SECRET = "C:/secret/longrepr"

outcomes = st.sampled_from(["passed", "passed", "failed", "skipped", "error", "xfailed", "xpassed", "rerun"])
phases = st.none() | st.fixed_dictionaries(
    {"outcome": outcomes | st.integers(), "longrepr": st.just(SECRET), "crash": st.just({"path": SECRET})}
)
passing = st.just({"outcome": "passed"})
causes = st.none() | st.sampled_from([*Cause, "invented"]) | st.integers()
metadata = st.fixed_dictionaries(
    {
        "criterion": st.sampled_from(_SOME) | st.just("unknown.criterion"),
        "cause": causes,
        "seen": st.lists(st.text(max_size=20), max_size=2) | st.integers(),
        "steps": st.lists(st.fixed_dictionaries({"did": st.just("the hidden step"), "saw": st.text(max_size=9)})),
        "counts": st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=2), max_size=2)
        | st.fixed_dictionaries({"ideas": st.integers(-1, 5), "ideas_noticed": st.integers(-1, 6)}),
    },
    optional={"history": st.just({"code": "A30 B40", "steps": ["deliver"]}) | st.just([1])},
)


def entries(node: str) -> st.SearchStrategy[dict[str, Any]]:
    """One entry of a report about that test, often a plain pass or failure, sometimes anything."""
    return st.one_of(
        st.just(passed(node)),
        st.just(failed(node)),
        st.fixed_dictionaries(
            {"nodeid": st.just(node), "outcome": outcomes, "longrepr": st.just(SECRET)},
            optional={"setup": phases | passing, "call": phases | passing, "teardown": phases, "metadata": metadata},
        ),
    )


def passed(node: str) -> dict[str, Any]:
    """An entry that passed in all its phases."""
    phase = {"outcome": "passed"}
    return {"nodeid": node, "outcome": "passed", "setup": phase, "call": phase, "teardown": phase, "metadata": {}}


def failed(node: str, **facts: Any) -> dict[str, Any]:
    """An entry that failed in its call phase."""
    return passed(node) | {
        "outcome": "failed",
        "call": {"outcome": "failed", "longrepr": SECRET},
        "metadata": {"cause": "wrong_answer", **facts},
    }


def skipped(node: str, cause: str | None) -> dict[str, Any]:
    """An entry that skipped in its call phase, with a cause."""
    return passed(node) | {"outcome": "skipped", "call": {"outcome": "skipped"}, "metadata": {"cause": cause}}


@st.composite
def reports(draw: st.DrawFn, control: bool | None = None) -> list[dict[str, Any]]:
    """Entries in any order, some tests missing, some twice, some unknown; `control` True adds one that fails."""
    nodes = draw(st.lists(st.sampled_from([*SMALL_NODES, "other/test_x.py::test_y"]), max_size=9))
    held = [draw(entries(node)) for node in nodes]
    if control or (control is None and draw(st.booleans())):
        good = failed(SMALL.control_test)
        held.append(good if control else draw(st.just(good) | entries(SMALL.control_test)))
    return draw(st.permutations(held))


def mapped(held: list[dict[str, Any]], rubric: Rubric = SMALL, **more: Any) -> tuple[Evidence, ...]:
    """The records of a report with those entries."""
    return map_report(report.parse(json.dumps({"tests": held, "summary": {}}).encode()), rubric, **more)


def one(records: tuple[Evidence, ...], criterion: str) -> Evidence:
    """The record of a criterion."""
    return next(record for record in records if record.criterion == criterion)


def printed(feedback: Feedback) -> str:
    """What the terminal shows, on one line: words are searched, not columns."""
    console = Console(file=io.StringIO(), width=120, color_system=None)
    terminal.show(feedback, console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


examples = settings(max_examples=120, deadline=None, derandomize=True, database=None)
few = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@examples
@given(held=reports())
def test_rule_1_unexecuted_is_unknown_and_brings_no_points(held: list[dict[str, Any]]) -> None:
    """One record a criterion; unexecuted if and only if unknown, always with a cause, never with points."""
    records = mapped(held)
    assert [record.criterion for record in records] == [criterion.id for criterion in SMALL.criteria]
    for record in records:
        assert (record.status is Status.UNEXECUTED) == (record.verdict is Verdict.UNKNOWN)
        if record.status is Status.UNEXECUTED:
            assert record.cause in UNEXECUTED_CAUSES and record.earned == 0
        else:
            assert (record.cause in EXECUTED_CAUSES) == (record.verdict is Verdict.NOT_MET)


@examples
@given(held=reports())
def test_rule_2_met_needs_every_listed_test_passed_in_every_phase(held: list[dict[str, Any]]) -> None:
    """A criterion is met only if each of its tests is in the report and each of their entries passed throughout."""
    for record in mapped(held):
        if record.status is Status.EXECUTED and record.verdict is Verdict.MET:
            for node in SMALL.get(record.criterion).tests:
                about = [entry for entry in held if entry["nodeid"] == node]
                assert about
                for entry in about:
                    assert entry["outcome"] == "passed"
                    assert all(entry[phase]["outcome"] == "passed" for phase in ("setup", "call", "teardown"))


@examples
@given(held=reports(), level=st.integers(0, 3))
def test_rule_3_totals_come_from_the_rubric_and_round_once_down(held: list[dict[str, Any]], level: int) -> None:
    """Executed and open points add up to the rubric's, earned is exact, and the whole only if everything is met."""
    records = mapped(held, reviews=[review("written.commands", level)])
    points = total(records)
    assert points.total == sum(criterion.points for criterion in SMALL.criteria) == points.executed + points.open
    assert 0 <= points.earned <= points.executed
    assert points.earned == sum((record.earned for record in records), Fraction(0))
    assert Fraction(points.hundredths, 100) <= points.earned < Fraction(points.hundredths + 1, 100)
    assert (points.earned == points.total) == all(record.verdict is Verdict.MET for record in records)


@examples
@given(held=reports(), data=st.data())
def test_rule_4_a_test_that_now_passes_never_lowers_the_score(held: list[dict[str, Any]], data: st.DataObject) -> None:
    """From failed to passed, no test but the control lowers a score; order and unknown tests change nothing."""
    before = mapped(held)
    assert before == mapped(copy.deepcopy(held))
    strangers = [passed("hidden/test_nobody.py::test_nothing")]
    assert [r.verdict for r in mapped(held[::-1])] == [r.verdict for r in before]
    assert [r.verdict for r in mapped(held + strangers if held else held)] == [r.verdict for r in before]
    at = [i for i, entry in enumerate(held) if entry["outcome"] != "passed" and entry["nodeid"] != SMALL.control_test]
    if at:
        change = data.draw(st.sampled_from(at))
        after = mapped([passed(e["nodeid"]) if i == change else e for i, e in enumerate(held)])
        if any("metadata" in entry for entry in held):  # else the new entry would make a foreign report ours
            assert total(after).earned >= total(before).earned


@examples
@given(held=reports(control=True))
def test_rule_5_a_control_test_that_does_not_fail_voids_the_run(held: list[dict[str, Any]]) -> None:
    """Passed, skipped or missing: nothing executed is left, neither as points nor as zero."""
    fine = mapped(held)
    without = [entry for entry in held if entry["nodeid"] != SMALL.control_test]
    assert Cause.TAMPERING_SUSPECTED not in {record.cause for record in fine} or any(
        (entry.get("metadata") or {}).get("cause") == "tampering_suspected" for entry in held
    )
    spoilt: list[list[dict[str, Any]]] = [
        [*without, passed(SMALL.control_test)],
        [*held, passed(SMALL.control_test)],
        [*without, skipped(SMALL.control_test, "budget_spent")],
    ]
    if any("metadata" in entry for entry in without):
        spoilt.append(without)
    for entries_now in spoilt:
        void = mapped(entries_now)
        for record, earlier in zip(void, fine, strict=True):
            assert record.status is not Status.EXECUTED
            if earlier.status is Status.EXECUTED:
                assert record.cause in (Cause.TAMPERING_SUSPECTED, Cause.GRADER_FAULT) and not record.earned


@few
@given(held=reports(control=True))
def test_rule_6_students_read_no_traceback_and_no_hidden_step(held: list[dict[str, Any]]) -> None:
    """What pytest wrote about a failure never comes out, and the steps of hidden tests neither."""
    records = mapped(held)
    feedback = build(records, SMALL)
    assert SECRET not in printed(feedback) + pages.student_page(feedback) + str(files.plain(feedback))
    for record, item in zip(records, feedback.items, strict=True):
        if SMALL.get(record.criterion).shown is not Shown.VISIBLE:
            assert "the hidden step" not in str(files.plain(record)) + str(files.plain(item))


@few
@given(text=st.text(min_size=1, max_size=40), name=st.text(max_size=20))
def test_rule_7_foreign_text_is_data_at_each_exit(text: str, name: str) -> None:
    """Facts and names come out as text: no tag, no control code, and the files can be read again."""
    text = f"<b onclick=x>[red]{text}\x1b[31m"
    held = [failed(NODES[0], seen=[text]), failed(RUBRIC.control_test)]
    feedback = build(mapped(held, RUBRIC), RUBRIC, {"submission": f"<i>{name}\x1b", "notes": [text]})
    page = pages.student_page(feedback)
    assert "<b onclick" not in page and "<i>" not in page and "\x1b" not in page
    shown = printed(feedback)
    assert "[red]" in shown and "\x1b" not in shown
    assert json.loads(files.json_bytes(feedback))["submission"].startswith("<i>")


@few
@given(
    held=reports(control=True),
    command=st.sampled_from(["python3 -m student", "$ python -m student demo", "make", ""]) | st.text(max_size=9),
    observed=st.sampled_from(["30000 and 70000", "130000 70000", ""]) | st.text(max_size=9),
    status=st.sampled_from(["executed", "unexecuted", "reviewed", "passed"]),
)
def test_rule_8_nothing_claimed_is_counted(
    held: list[dict[str, Any]], command: str, observed: str, status: str
) -> None:
    """Whatever a student notes, statuses, verdicts and points stay the same; only the note stands beside them."""
    noted = f"[[run]]\ncommand = {quoted(command)}\nobserved = {quoted(observed)}\nstatus = {quoted(status)}\n"
    without, beside = mapped(held), mapped(held, answers=noted.encode("utf-8", "surrogatepass"))
    for before, after in zip(without, beside, strict=True):
        assert (before.status, before.verdict, before.cause, before.earned) == (
            after.status, after.verdict, after.cause, after.earned
        )  # fmt: skip
        for claim in after.claims:
            assert claim.standing is not Standing.SUPPORTED or status == "executed"
            assert after.criterion == SMALL.claims_at


@few
@given(held=reports())
def test_rule_9_every_report_says_what_it_does_not_show(held: list[dict[str, Any]]) -> None:
    """The limits stand on every page and in the terminal, whatever ran."""
    feedback = build(mapped(held), SMALL)
    page = pages.student_page(feedback)
    assert feedback.not_shown == SMALL.not_shown and "What this report does not show" in page
    assert page.count("<li>That ") >= sum(sentence.startswith("That ") for sentence in SMALL.not_shown)
    assert "This report does not show" in printed(feedback)


def quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text)


def review(criterion: str, level: int, *, current: bool = True, reviewer: str = "R. Viewer") -> Review:
    """A review by a named person."""
    return Review(
        criterion=criterion, reviewer=reviewer, date="2026-01-02", level=level, comment="", sha256="", current=current
    )


@pytest.mark.parametrize(
    ("held", "status", "cause"),
    [
        ([], Status.UNEXECUTED, Cause.NOT_COLLECTED),
        ([passed(NODES[0])], Status.EXECUTED, None),
        ([failed(NODES[0])], Status.EXECUTED, Cause.WRONG_ANSWER),
        ([failed(NODES[0], cause="deadline")], Status.EXECUTED, Cause.DEADLINE),
        ([failed(NODES[0], cause="invented")], Status.EXECUTED, Cause.WRONG_ANSWER),
        ([failed(NODES[0], cause="grader_fault")], Status.UNEXECUTED, Cause.GRADER_FAULT),
        ([skipped(NODES[0], "stub_not_written")], Status.UNEXECUTED, Cause.STUB_NOT_WRITTEN),
        ([skipped(NODES[0], None)], Status.UNEXECUTED, Cause.NOT_COLLECTED),
        ([{"nodeid": NODES[0], "outcome": "passed", "setup": {"outcome": "passed"}}], Status.UNEXECUTED,
         Cause.PARTLY_RUN),
        ([{"nodeid": NODES[0], "outcome": "error", "setup": {"outcome": "failed"}}], Status.UNEXECUTED,
         Cause.GRADER_FAULT),
        ([passed(NODES[0]) | {"outcome": "error", "teardown": {"outcome": "failed"}}], Status.UNEXECUTED,
         Cause.GRADER_FAULT),
        ([passed(NODES[0]), failed(NODES[0])], Status.EXECUTED, Cause.WRONG_ANSWER),
    ],
)  # fmt: skip
def test_each_way_a_test_can_end_has_its_status_and_cause(
    held: list[dict[str, Any]], status: Status, cause: Cause | None
) -> None:
    """The visible criterion with one test, in a run whose control test failed as it must."""
    record = one(mapped([*held, failed(RUBRIC.control_test)], RUBRIC), "ledger.new_event_is_applied")
    assert (record.status, record.cause) == (status, cause)


def test_a_criterion_with_some_tests_missing_is_partly_run_unless_one_failed() -> None:
    """One of two tests passed and the other is not there: unknown. One failed: known, and not met."""
    control, first = failed(SMALL.control_test), SMALL.criteria[0]
    assert one(mapped([control, passed(first.tests[0])]), first.id).cause is Cause.PARTLY_RUN
    assert one(mapped([control, failed(first.tests[0])]), first.id).verdict is Verdict.NOT_MET


@pytest.mark.parametrize(
    ("counts", "earned"),
    [({"ideas": 4, "ideas_noticed": 3}, Fraction(9, 4)), ({"ideas": 4, "ideas_noticed": 4}, 0), ({}, 0),
     ({"ideas": 0, "ideas_noticed": 0}, 0), ({"ideas": 4, "ideas_noticed": -1}, 0)],
)  # fmt: skip
def test_a_criterion_with_parts_earns_its_share_and_stays_not_met(counts: dict[str, int], earned: Fraction) -> None:
    """Three of four ideas noticed are three quarters of the points; counts that make no sense bring none."""
    criterion = RUBRIC.get("tests.conflict_test")
    held = [failed(criterion.tests[0], counts=counts), failed(RUBRIC.control_test)]
    record = one(mapped(held, RUBRIC), criterion.id)
    assert (record.verdict, record.earned) == (Verdict.NOT_MET, earned)


def test_hidden_criteria_wait_for_the_instructor_in_a_students_own_run() -> None:
    """No hidden test in the report: it needs the instructor. Some hidden tests: the missing ones were not collected."""
    visible = [passed(node) for node in NODES if node.startswith("visible/")]
    own = mapped([*visible, failed(RUBRIC.control_test)], RUBRIC)
    assert one(own, "ledger.repeat_in_new_process").cause is Cause.NEEDS_INSTRUCTOR
    hidden = next(node for node in RUBRIC.get("ledger.survives_kill").tests)
    staff = mapped([*visible, passed(hidden), failed(RUBRIC.control_test)], RUBRIC)
    assert one(staff, "ledger.repeat_in_new_process").cause is Cause.NOT_COLLECTED


def test_a_foreign_report_without_metadata_is_mapped_and_not_void() -> None:
    """A report that our plugin took no part in has no control test, and is mapped by its node ids alone."""
    foreign = [{key: value for key, value in passed(NODES[0]).items() if key != "metadata"}]
    record = one(mapped(foreign, RUBRIC), "ledger.new_event_is_applied")
    assert record.verdict is Verdict.MET and record.earned == record.points


def test_a_pending_criterion_is_not_built() -> None:
    """What stands in the rubric without a test is unexecuted, whatever else ran."""
    assert one(mapped([failed(SMALL.control_test)]), "retry.never_sleeps").cause is Cause.NOT_BUILT


@pytest.mark.parametrize(
    ("files_of_run", "reviews", "cause", "earned"),
    [
        ({}, [], Cause.WAITING_FOR_REVIEW, 0),
        ({"answers.toml": "missing"}, [], Cause.NOT_SUBMITTED, 0),
        ({"answers.toml": "unchanged stub"}, [], Cause.NOT_SUBMITTED, 0),
        ({"answers.toml": "present"}, [review("written.commands", 3, current=False)], Cause.REVIEW_STALE, 0),
        ({"answers.toml": "present"}, [review("written.commands", 9)], Cause.WAITING_FOR_REVIEW, 0),
        ({"answers.toml": "present"}, [review("written.commands", 3, reviewer=" ")], Cause.WAITING_FOR_REVIEW, 0),
        ({"answers.toml": "present"}, [review("written.commands", 1)], None, Fraction(2, 3)),
        ({"answers.toml": "present"}, [review("written.commands", 1), review("written.commands", 3)], None, 2),
    ],
)
def test_written_work_is_known_only_through_a_named_person_who_read_it(
    files_of_run: Mapping[str, str], reviews: list[Review], cause: Cause | None, earned: Fraction
) -> None:
    """Without a current review of these bytes it is unexecuted; with one, points by level, met at the highest."""
    record = one(mapped([], RUBRIC, run={"files": files_of_run}, reviews=reviews), "written.commands")
    assert (record.cause, record.earned) == (cause, earned)
    assert (record.verdict is Verdict.MET) == (earned == record.points)


@pytest.mark.parametrize(
    ("claim", "standing"),
    [
        ("command='python3 -m student'\nobserved='total 30000, then 70000'\nstatus='executed'", Standing.SUPPORTED),
        ("command='python3 -m student'\nobserved='total 130000'\nstatus='executed'", Standing.NOT_SUPPORTED),
        ("command='python3 -m student'\nobserved='x'\nstatus='unexecuted'", Standing.NOT_CHECKABLE),
        ("command='aws deploy'\nobserved='fine'\nstatus='executed'", Standing.NOT_CHECKABLE),
        ("command='python3 -m student demo'\nobserved='fine'\nstatus='executed'", Standing.NOT_CHECKABLE),
    ],
)
def test_a_noted_command_stands_beside_what_was_seen(claim: str, standing: Standing) -> None:
    """Supported if the same ran here and its numbers are there; not checkable if nothing here ran the same."""
    held = [passed(RUBRIC.get("drill.queue_drill").tests[0]), failed(RUBRIC.control_test)]
    record = one(mapped(held, RUBRIC, answers=f"[[run]]\n{claim}\n".encode()), "written.commands")
    assert [entry.standing for entry in record.claims] == [standing]


@few
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_may_be_handed_in_as_answers(content: bytes) -> None:
    """A hostile answers.toml changes nothing and raises nothing."""
    assert len(mapped([], RUBRIC, answers=content)) == len(RUBRIC.criteria)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"{", "cut off"),
        (b"[]", "not a JSON object"),
        (b"{}", "no list of tests"),
        (b'{"tests": 3}', "no list of tests"),
        (b'{"tests": [{"name": "x"}]}', "node id"),
        (b"[" * 100_000, "too deeply"),
        (b"\xff\xfe\x00", "not JSON"),
    ],
)
def test_a_file_that_is_no_report_is_refused_in_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    """The sentence names the file and why it is no report."""
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(report.ReportError) as caught:
        report.read(path)
    assert words in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_summary_that_disagrees_with_the_tests_is_said_and_not_believed() -> None:
    """The tests count; the summary is a cross-check."""
    held = report.parse(json.dumps({"tests": [failed(NODES[0])], "summary": {"passed": 1, "total": 1}}).encode())
    assert any("passed 1, not 0" in doubt for doubt in held.doubts)
    assert one(map_report(held, RUBRIC), "ledger.new_event_is_applied").verdict is not Verdict.MET
