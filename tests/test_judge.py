"""What the judge makes of known code: real sandboxes, real kills, one report for each submission."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import pytest

from grader import assemble, catalogue, histories
from grader.histories import Fault, Step
from rubric import criteria, evidence, report
from rubric.criteria import Kind
from rubric.evidence import Cause, Evidence, Status, Verdict, map_report

if TYPE_CHECKING:
    from tests.conftest import Judged, JudgeIt

RUBRIC = criteria.load()
EXECUTED = {one.code for one in RUBRIC.criteria if one.kind is Kind.EXECUTED}
SWEEPS = ("L5", "L6", "L10", "V12")
MODEL = catalogue.reference()
SAMPLE = assemble.PACKAGE / "fixtures" / "submissions"
STUBS = {name: assemble.stub(name) for name in (*assemble.STUBS, "tests/test_mine.py")}
OWN = MODEL["tests/test_mine.py"].decode()


def edited(name: str, old: str, new: str) -> dict[str, bytes]:
    """One model answer with one place changed."""
    text = MODEL[name].decode()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {name}"
    return {name: text.replace(old, new).encode()}


def own_test(conflict: str = "", timeouts: str = "") -> dict[str, bytes]:
    """The model answer's test file, with the bodies of its two tests replaced where given."""
    head, rest = OWN.split("    def test_conflict")
    first, second = rest.split("    def test_three_timeouts")
    for body, kept in ((conflict, first), (timeouts, second)):
        name = "test_conflict" if kept is first else "test_three_timeouts"
        head += f"    def {name}(self):\n        {body}\n\n" if body else f"    def {name}{kept}"
    return {"tests/test_mine.py": head.encode()}


NO_TESTS = {"tests/test_mine.py": None}
"""Own tests are run on many pieces of code, and take most of the time."""
BROKEN_TESTS = {"tests/test_mine.py": b"import unittest\nimport nothing_of_the_kind\n"}
CANNOT_FAIL = own_test(conflict="self.assertTrue(True)")
WEAK_AND_DEMANDING = own_test(
    conflict="""ledger.apply_event(self.db, A, effects.credit)
        try:
            ledger.apply_event(self.db, {**A, "amount_cents": 1}, effects.credit)
        except Exception:
            pass
        self.assertEqual(store.inspect(self.path)["totals"], {"north": 30_000})""",
    timeouts="self.assertEqual(str(retry.bounded_retry(lambda: 1)), 'one')",
)


def marker_first() -> dict[str, bytes]:
    """The sample submission that commits its receipt before the effect."""
    return {"ledger.py": (SAMPLE / "marker-before-effect" / "ledger.py").read_bytes()}


def ideas(one: Judged, code: str) -> set[str]:
    """The mistakes that a criterion about own tests says were not noticed."""
    words = "Your tests do not notice this mistake: "
    return {text.removeprefix(words) for text in one.records[code].seen if text.startswith(words)}


def test_the_model_answers_meet_every_criterion_that_can_be_executed(judged: JudgeIt) -> None:
    """All met, none unknown but the written work, and every fault of the sweeps was reached."""
    one = judged()
    assert one.codes("met") == EXECUTED
    assert one.codes("not met") == set()
    for code in SWEEPS:
        counts = one.records[code].counts
        noun = "interleavings" if code == "L6" else "kill_points"
        assert counts[noun] == counts[f"{noun}_executed"] > 0


def test_the_control_test_fails_in_every_run(judged: JudgeIt) -> None:
    """Stubs, model answers, a wrong solution: the control test is there and fails in each, for its own reason."""
    for changed in ({}, STUBS, marker_first()):
        control = judged(changed).test(RUBRIC.control_test)
        assert (control["outcome"], control["call"]["outcome"]) == ("failed", "failed")
        assert control["metadata"]["cause"] == "wrong_answer"


@pytest.mark.parametrize("outcome", ["passed", "skipped", "absent", "xfailed", "setup only"])
def test_a_control_test_that_does_not_fail_voids_the_run(judged: JudgeIt, outcome: str) -> None:
    """Whatever else the report says, nothing of it counts: neither 0 nor 100, a person must look."""
    forged = copy.deepcopy(judged().report)
    control = next(one for one in forged["tests"] if one["nodeid"] == RUBRIC.control_test)
    if outcome == "absent":
        forged["tests"].remove(control)
    elif outcome == "setup only":
        del control["call"]
        control["outcome"] = "passed"
    else:
        control["outcome"] = control["call"]["outcome"] = outcome
    records = map_report(report.parse(json.dumps(forged).encode()), RUBRIC)
    executable = [one for one in records if RUBRIC.get(one.criterion).kind is Kind.EXECUTED]
    assert {one.status for one in executable} == {Status.UNEXECUTED}
    assert {one.cause for one in executable} == {Cause.TAMPERING_SUSPECTED}
    assert evidence.total(records).earned == 0


def test_untouched_stubs_are_unexecuted_everywhere(judged: JudgeIt) -> None:
    """Nobody fails for what they have not written yet: each criterion is open, and says which function is missing."""
    one = judged(STUBS)
    for code in EXECUTED:
        record = one.records[code]
        assert (record.status, record.verdict) == (Status.UNEXECUTED, Verdict.UNKNOWN), code
        assert record.cause is Cause.STUB_NOT_WRITTEN
        assert "is not written yet" in record.seen[0]


def test_a_missing_file_leaves_its_own_criteria_open_and_no_others(judged: JudgeIt) -> None:
    """What needs the file is open as not submitted; the rest is judged as ever, and nothing is failed for it."""
    one = judged({"review.py": None, **BROKEN_TESTS})
    unknown = EXECUTED & one.codes("unknown") - {"T1", "T2"}
    assert one.codes("not met") == set()
    assert {code for code in EXECUTED if code[0] == "V"} <= unknown <= {code for code in EXECUTED if code[0] in "VDR"}
    assert {one.records[code].cause for code in unknown} == {Cause.NOT_SUBMITTED}
    assert all(one.records[code].seen == ("student/review.py was not handed in.",) for code in unknown)


def test_a_missing_file_is_named_by_all_that_build_on_it(judged: JudgeIt) -> None:
    """Without conflict.py the ledger cannot be imported: the missing file is the reason, not the file that needs it."""
    record = judged({"conflict.py": None, **NO_TESTS}).records["L1"]
    assert (record.cause, record.seen) == (Cause.NOT_SUBMITTED, ("student/conflict.py was not handed in.",))


def test_a_file_that_does_not_import_is_told_by_error_and_line(judged: JudgeIt) -> None:
    """A syntax error leaves the criteria of that file open, with the line, and the other files are judged."""
    one = judged({**edited("retry.py", "def bounded_retry(", "def bounded_retry"), **NO_TESTS})
    assert one.records["R1"].cause is Cause.DOES_NOT_IMPORT
    assert one.records["R1"].seen[0].startswith("student/retry.py could not be imported: SyntaxError in line ")
    assert {"L1", "C1", "C5"} <= one.codes("met")
    assert one.codes("not met") == set()


def test_every_wrong_end_has_a_cause_of_its_own(judged: JudgeIt) -> None:
    """A dead process, a flood of output and an unexpected error are three things, each executed and not met."""
    retry = MODEL["retry.py"].decode()
    retry += "\n\ndef classify(error):\n    import os\n    os._exit(0)\n"
    retry += "\n\ndef bounded_retry(operation, max_attempts=3):\n    while True:\n        print('x' * 65536)\n"
    broken = edited("ledger.py", "    validate(event)\n", "    raise KeyError(7)\n")
    one = judged({"retry.py": retry.encode(), **broken, **NO_TESTS})
    for code, cause in (("R4", Cause.WORKER_DIED), ("R1", Cause.FLOOD), ("L1", Cause.EXCEPTION)):
        record = one.records[code]
        assert (record.status, record.verdict, record.cause) == (Status.EXECUTED, Verdict.NOT_MET, cause)


def test_the_same_files_and_seed_give_the_same_evidence(judged: JudgeIt) -> None:
    """Another seed draws other inputs, and the verdicts stay."""
    again = {**marker_first(), **NO_TESTS}
    assert judged(again).records == judged({**again, "resource_plan.md": b"other bytes, same code"}).records
    other = judged(again, seed=2)
    assert {code: one.verdict for code, one in other.records.items()} == {
        code: one.verdict for code, one in judged(again).records.items()
    }


# Sweeps


def test_a_marker_before_the_effect_is_shown_in_at_most_two_steps(judged: JudgeIt) -> None:
    """Each sweep that finds it gives its shortest history, with a code that can be read back."""
    one = judged(marker_first())
    found = {code: one.records[code] for code in SWEEPS if one.records[code].verdict is Verdict.NOT_MET}
    assert {"L5", "L10", "V12"} <= set(found)
    for code, record in found.items():
        assert record.history is not None, code
        assert 1 <= len(record.history.steps) <= 2
        assert len(histories.parse(record.history.code)) <= 2
        assert record.history.code in record.seen[0]
    assert found["L5"].history is not None
    assert histories.parse(found["L5"].history.code)[-1].fault is Fault.KILLED


def test_kill_points_are_counted_one_for_each_statement(judged: JudgeIt) -> None:
    """One more statement in the student's transaction is one more place to be killed at in each delivery."""
    begin = '    db.execute("BEGIN IMMEDIATE")\n'
    changed = edited("ledger.py", begin, f'{begin}    db.execute("SELECT 1")\n')
    more = judged({**changed, **NO_TESTS}).records["L5"]
    plain = judged().records["L5"]
    assert more.verdict is Verdict.MET
    assert more.counts["kill_points"] == more.counts["kill_points_executed"]
    assert more.counts["kill_points"] == plain.counts["kill_points"] + 4


def test_who_takes_the_statement_hook_away_is_not_executed(judged: JudgeIt) -> None:
    """Without the hook no kill can be placed: the sweeps are partly run, never met, and the rest stands.

    Taken away after the effect it would hide the one place where a receipt without its effect can be seen.
    """
    effect = "            effect(db, event)\n"
    one = judged({**edited("ledger.py", effect, f"{effect}            db.set_trace_callback(None)\n"), **CANNOT_FAIL})
    for code in SWEEPS:
        record = one.records[code]
        assert (record.status, record.cause) == (Status.UNEXECUTED, Cause.PARTLY_RUN), code
        assert "could not all be seen" in record.seen[0]
        assert "trace callback" in record.seen[0]
    assert EXECUTED - one.codes("met") == {*SWEEPS, "T1"}


# The students' own tests


def test_a_weak_test_names_what_it_misses_and_gets_part_of_the_points(judged: JudgeIt) -> None:
    """A test that looks at the total alone overlooks what changes no total; what it does notice counts."""
    one = judged(WEAK_AND_DEMANDING)
    record = one.records["T1"]
    assert record.verdict is Verdict.NOT_MET
    assert ideas(one, "T1")
    assert 0 < record.earned < record.points
    assert record.counts["ideas_noticed"] == record.counts["ideas"] - len(ideas(one, "T1")) > 0


def test_a_test_that_fails_on_correct_code_is_told_first(judged: JudgeIt) -> None:
    """It demands more than the task, so what it 'notices' does not count."""
    record = judged(WEAK_AND_DEMANDING).records["T2"]
    assert record.verdict is Verdict.NOT_MET
    assert record.seen[0].startswith("test_three_timeouts fails on correct code")
    assert record.earned == 0


def test_a_test_that_cannot_fail_notices_nothing(judged: JudgeIt) -> None:
    """It passes on everything, so each idea is named as missed and no points are earned."""
    effect = "            effect(db, event)\n"
    one = judged({**edited("ledger.py", effect, f"{effect}            db.set_trace_callback(None)\n"), **CANNOT_FAIL})
    assert len(ideas(one, "T1")) == one.records["T1"].counts["ideas"] > 0
    assert one.records["T1"].earned == 0


def test_the_template_is_unexecuted(judged: JudgeIt) -> None:
    """Two skipped tests are two tests that are not written, not two that are wrong."""
    one = judged(STUBS)
    for code in ("T1", "T2"):
        assert (one.records[code].status, one.records[code].cause) == (Status.UNEXECUTED, Cause.STUB_NOT_WRITTEN)


def test_own_tests_that_do_not_import_are_unexecuted(judged: JudgeIt) -> None:
    """A test file that cannot be imported is told by its error, and costs nothing else."""
    one = judged({"review.py": None, **BROKEN_TESTS})
    for code in ("T1", "T2"):
        assert one.records[code].cause is Cause.DOES_NOT_IMPORT
        assert "student/tests/test_mine.py could not be imported: ModuleNotFoundError" in one.records[code].seen[0]


def test_own_tests_are_judged_on_our_code_not_on_the_students(judged: JudgeIt) -> None:
    """Right tests beside wrong code keep their points."""
    assert {"T1", "T2"} <= judged(marker_first()).codes("met")


# What a report may hold


def test_no_report_holds_a_secret_for_the_student(judged: JudgeIt) -> None:
    """Of hidden tests no steps are kept, and no fact of any test has a path, the canary or a traceback in it."""
    for changed in ({}, marker_first(), STUBS):
        for test in judged(changed).report["tests"]:
            facts = json.dumps(test.get("metadata") or {})
            assert not any(word in facts for word in ("heron-quartz", "grader/", str(assemble.PACKAGE), "Traceback"))
            if test["nodeid"].startswith("hidden/"):
                assert (test.get("metadata") or {}).get("steps", []) == []


def test_every_record_is_there_whatever_was_handed_in(judged: JudgeIt) -> None:
    """One record a criterion, in each run."""
    everything: list[dict[str, Evidence]] = [judged(changed).records for changed in ({}, STUBS, marker_first())]
    assert {tuple(records) for records in everything} == {tuple(one.code for one in RUBRIC.criteria)}


# Replay codes


@pytest.mark.parametrize(
    "text", ["A30", "A30 k5 A30", "a1 x B999 w3 b40 v400", "W", "W k9", "  A30   k5 ", "z7 Z7", "x3 A30"]
)
def test_a_code_that_is_read_is_written_the_same(text: str) -> None:
    """Codes survive being typed from a page."""
    assert histories.code(histories.parse(text)) == " ".join(text.split())


def test_a_code_reads_as_events_and_faults() -> None:
    """A capital letter is north, a small one south, amounts are thousands of cents."""
    killed, south = histories.parse("A30 k5 a31")
    assert killed == Step(letter="A", amount=30, fault=Fault.KILLED, at=5)
    assert killed.event == {"tenant": "north", "event_id": "A", "amount_cents": 30_000}
    assert south.event == {"tenant": "south", "event_id": "A", "amount_cents": 31_000}
    assert killed.plain.fault is Fault.NONE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A30 q5x A30", "word 2, 'q5x'"),
        ("A30 k5 A3O", "word 3, 'A3O'"),
        ("k5 A30", "word 1, 'k5'"),
        ("x", "word 1, 'x'"),
        ("A30 k5 x", "word 3, 'x'"),
        ("A30 k0", "word 2, 'k0'"),
        ("A30 w999", "word 2, 'w999'"),
        ("A0", "word 1, 'A0'"),
        ("W x", "word 2, 'x'"),
        ("W w3", "word 2, 'w3'"),
        ("W A30", "cannot be mixed"),
        ("", "empty"),
        ("   ", "empty"),
        (" ".join(["A30"] * 13), "13 deliveries"),
        ("A1000", "word 1, 'A1000'"),
        ("é30", "word 1, 'é30'"),
        ("A３0", "word 1"),
        ("A30 " + "y" * 500, "word 2, 'yyyyyyyyyyyyyyyyyyyy'"),
        ("A30 \x1b[2J", "word 2, '\\x1b[2J'"),
    ],
)
def test_a_mistyped_code_names_the_word(text: str, words: str) -> None:
    """Whoever mistypes reads which word is wrong, and what one looks like."""
    with pytest.raises(histories.CodeError) as caught:
        histories.parse(text)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
