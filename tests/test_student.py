"""The student's side: what the hand-out's commands print, with the stubs as shipped and with the model answers."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric import criteria, hints
from student.lab import drill, effects, errors, store
from student.lab.lease_queue import LEASE_TICKS, LeaseQueue

if TYPE_CHECKING:
    from tests.conftest import Command, Ran

BARE = (
    "-I",
    "-S",
    "-c",
    "import sys; sys.path.insert(0, '.'); import runpy; runpy.run_module('student', {}, '__main__')",
)
"""Python without site-packages and without the environment's say: nothing but the standard library is there."""
FIXTURE_SHA256 = "c2506f37433dcdc4a0826b6ff94322747f58b6301d9643d224e56d1bce1e5023"


def log_lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of work/runs.jsonl."""
    return [json.loads(line) for line in (folder / "student/work/runs.jsonl").read_text(encoding="utf-8").splitlines()]


def last(trace: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Queue state, deliveries, effects and receipts at the end of a trace."""
    return tuple(trace[-1][name] for name in ("queue", "deliveries", "effects", "receipts"))


def test_the_drill_prints_the_numbers_of_the_exercise(run: Command, solved: Path) -> None:
    """A stays when B fails, then B is applied, A comes twice more as a duplicate and negative C is rejected."""
    done = run("-m", "student", cwd=solved)
    assert done.code == 0
    assert json.loads(done.out) == {
        "after_failure_cents": 30_000,
        "rerun": {"applied": 1, "duplicate": 2, "rejected": 1},
        "total_cents": 70_000,
        "unique_applied": 2,
    }


def test_the_demo_prints_four_traces_one_object_a_case(run: Command, solved: Path) -> None:
    """Normal, doubled, reused and lost: each ends settled, with the counts of the exercise."""
    done = run("-m", "student", "demo", cwd=solved)
    traces = {one["case"]: one["trace"] for one in map(json.loads, done.out.splitlines())}
    assert list(traces) == ["normal", "duplicate-effect", "reuse-effect", "early-ack"]
    assert {case: (len(trace), *last(trace)) for case, trace in traces.items()} == {
        "normal": (4, "settled", 1, 1, 1),
        "duplicate-effect": (7, "settled", 2, 2, 0),
        "reuse-effect": (7, "settled", 2, 1, 1),
        "early-ack": (4, "settled", 1, 0, 0),
    }
    assert "reuses" in traces["reuse-effect"][5]["event"]
    assert "not_available" in traces["early-ack"][3]["event"]
    assert "not" not in done.out.replace("not_available", "")
    assert "model interruptions" in done.err


@pytest.mark.parametrize("case", drill.CASES)
def test_one_case_prints_its_own_trace(run: Command, solved: Path, case: str) -> None:
    """`case NAME` prints the very trace that the demo has under this name."""
    demo = run("-m", "student", "demo", cwd=solved).out.splitlines()
    assert json.loads(run("-m", "student", "case", case, cwd=solved).out) in map(json.loads, demo)


@pytest.mark.parametrize(
    ("command", "stub"),
    [
        ([], "ledger.apply_event"),
        (["demo"], "ledger.apply_event"),
        (["case", "normal"], "ledger.apply_event"),
        (["case", "reuse-effect"], "ledger.apply_event"),
    ],
)
def test_an_untouched_stub_is_named_without_a_traceback(
    run: Command, hand_out: Path, command: list[str], stub: str
) -> None:
    """Whoever runs a command before writing the code reads which function is missing and where, and gets code 3."""
    done = run("-m", "student", *command, cwd=hand_out)
    assert done.code == 3
    assert f"Not written yet: {stub}" in done.err
    assert "student/ledger.py" in done.err
    assert "Traceback" not in done.out + done.err
    assert log_lines(hand_out)[-1]["result"] == {"unexecuted": f"stub not written: {stub}"}


@pytest.mark.parametrize("case", ["duplicate-effect", "early-ack"])
def test_the_two_failures_can_be_watched_before_anything_is_written(run: Command, hand_out: Path, case: str) -> None:
    """What goes wrong without a receipt runs on given code alone, so it works on the first day."""
    assert run("-m", "student", "case", case, cwd=hand_out).code == 0


def test_unwritten_tests_are_skipped_and_not_counted_as_passed(run: Command, hand_out: Path) -> None:
    """The template's two tests say that they are not written; the log says skipped."""
    done = run("-m", "student", "test", cwd=hand_out)
    assert "not written yet" in done.err
    assert log_lines(hand_out)[-1]["result"] == {"run": 2, "skipped": 2, "not passed": 0}


def test_own_tests_that_fail_give_code_one(run: Command, solved: Path) -> None:
    """`test` passes on the model answers and fails when the code counts one call too many."""
    assert run("-m", "student", "test", cwd=solved).code == 0
    retry = solved / "student/retry.py"
    retry.write_text(retry.read_text(encoding="utf-8").replace("max_attempts: int = 3", "max_attempts: int = 4"))
    done = run("-m", "student", "test", cwd=solved)
    assert done.code == 1
    assert log_lines(solved)[-1]["result"]["not passed"] == 1


def test_every_run_is_noted_with_prediction_and_fixture(run: Command, solved: Path) -> None:
    """A line a run: when, which command, whether a prediction stood there, both digests, and what came out."""
    for command in ([], ["demo"], ["case", "normal"], ["test"]):
        run("-m", "student", *command, cwd=solved)
    lines = log_lines(solved)
    words = ["", " demo", " case normal", " test"]
    assert [line["command"] for line in lines] == [f"python3 -m student{word}" for word in words]
    fixture = hashlib.sha256((solved / "fixtures/deliveries.json").read_bytes()).hexdigest()
    for line in lines:
        assert set(line) == {"time", "command", "predicted", "prediction_sha256", "fixture_sha256", "result"}
        assert line["predicted"] is True
        assert line["fixture_sha256"] == fixture
    assert len({line["prediction_sha256"] for line in lines}) == 1
    assert lines[0]["result"]["total_cents"] == 70_000


def test_a_first_run_without_prediction_is_said_and_noted(run: Command, hand_out: Path) -> None:
    """Guessing comes first; who runs without a guess is told so, kindly, and the log keeps it."""
    done = run("-m", "student", cwd=hand_out)
    assert "[prediction]" in done.err
    assert log_lines(hand_out)[0]["predicted"] is False


@pytest.mark.parametrize(
    "answers", ["not toml [", "prediction = 3\n", "[prediction]\na = ''\n", "[prediction.b]\nc = 1\n"]
)
def test_a_broken_answers_file_stops_no_run(run: Command, solved: Path, answers: str) -> None:
    """Whatever answers.toml holds, the drill runs and the log says that no prediction was there."""
    (solved / "student/answers.toml").write_text(answers, encoding="utf-8")
    assert run("-m", "student", cwd=solved).code == 0
    assert log_lines(solved)[0]["predicted"] is False


def test_no_temporary_folder_is_left(run: Command, solved: Path, hand_out: Path, tmp_path: Path) -> None:
    """After each command, also one that met a stub, the folder for temporary files is as empty as before."""
    place = tmp_path / "scratch"
    place.mkdir()
    for folder in (solved, hand_out):
        for command in ([], ["demo"], ["case", "reuse-effect"], ["test"]):
            run("-m", "student", *command, cwd=folder, TMPDIR=str(place))
    assert list(place.iterdir()) == []


def test_the_original_deliveries_are_fixed(root: Path) -> None:
    """Numbers in texts and reports belong to these very bytes."""
    assert hashlib.sha256(drill.FIXTURE.read_bytes()).hexdigest() == FIXTURE_SHA256
    assert root / "fixtures/deliveries.json" == drill.FIXTURE


def test_practice_copy_can_be_changed_and_the_original_stays(run: Command, solved: Path) -> None:
    """The first run leaves a copy in work/; a drill over a changed copy gives other numbers; it stays changed."""
    run("-m", "student", cwd=solved)
    copy = solved / "student/work/deliveries.json"
    original = (solved / "fixtures/deliveries.json").read_bytes()
    assert copy.read_bytes() == original
    copy.write_bytes(original.replace(b"30000", b"10000"))
    done = run("-m", "student", "--deliveries", copy, cwd=solved)
    assert json.loads(done.out)["total_cents"] == 50_000
    run("-m", "student", cwd=solved)
    assert b"10000" in copy.read_bytes()
    assert (solved / "fixtures/deliveries.json").read_bytes() == original


def plain_usage(done: Ran) -> bool:
    """Exit code 2, words on standard error, no traceback."""
    return done.code == 2 and bool(done.err.strip()) and "Traceback" not in done.err and not done.out


@pytest.mark.parametrize(
    "command", [["case"], ["case", "nothing"], ["dmeo"], ["--deliveries"], ["--deliveries", "nowhere.json"]]
)
def test_wrong_usage_is_said_in_words(run: Command, solved: Path, command: list[str]) -> None:
    """A mistyped command, case or file is exit code 2 and a sentence."""
    assert plain_usage(run("-m", "student", *command, cwd=solved))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"deliveries": 3}', '{"deliveries": []}', "\xff", "{"])
def test_a_broken_practice_copy_is_said_in_words(run: Command, solved: Path, text: str) -> None:
    """Who breaks the practice copy while changing it is told which file cannot be read as deliveries."""
    (solved / "mine.json").write_bytes(text.encode("latin-1"))
    done = run("-m", "student", "--deliveries", "mine.json", cwd=solved)
    assert plain_usage(done), done.err
    assert "mine.json" in done.err


def test_the_student_side_needs_the_standard_library_alone(run: Command, solved: Path) -> None:
    """Without site-packages and without environment variables every command works."""
    for command in ([], ["demo"], ["case", "normal"], ["test"]):
        done = run(*BARE, *command, cwd=solved)
        assert done.code == 0, done.err


def test_no_file_of_the_student_hides_a_module_of_the_library(root: Path) -> None:
    """A file called queue.py or types.py would break other people's imports."""
    names = {path.stem for path in (root / "student").rglob("*.py")} - {"__init__", "__main__"}
    assert names.isdisjoint(sys.stdlib_module_names)


def test_hints_are_those_of_the_rubric(root: Path) -> None:
    """HINTS.md is made from the rubric, so a hint is changed in one place."""
    assert (root / "student/HINTS.md").read_text(encoding="utf-8") == hints.markdown(criteria.load())


@pytest.fixture
def queue(tmp_path: Path) -> Any:
    """A queue with one message."""
    it = LeaseQueue(tmp_path / "queue.db")
    it.create()
    it.send({"any": ["json", None, 1.5]})
    with closing(it):
        yield it


def test_a_lease_keeps_others_away_for_five_ticks(queue: LeaseQueue) -> None:
    """Received at 0, the message is not to be had at 4 and comes again at 5, as delivery 2."""
    first = queue.receive(0)
    assert (first.message_id, first.attempt, first.body) == (1, 1, {"any": ["json", None, 1.5]})
    for tick in range(LEASE_TICKS):
        with pytest.raises(errors.NotAvailable, match=r"^not_available$"):
            queue.receive(tick)
    assert queue.states() == [("in flight", 1)]
    assert queue.receive(LEASE_TICKS).attempt == 2


def test_an_acknowledgement_at_the_last_tick_counts_and_one_at_tick_five_is_lost(queue: LeaseQueue) -> None:
    """The lease ends before tick 5; what comes then is refused, and what came at 4 settles."""
    first = queue.receive(0)
    with pytest.raises(errors.DeliveryLost, match=r"^delivery_lost"):
        queue.acknowledge(first, 5)
    assert queue.states() == [("in flight", 1)]
    queue.acknowledge(first, 4)
    assert queue.states() == [("settled", 1)]
    with pytest.raises(errors.NotAvailable):
        queue.receive(100)


def test_an_old_receipt_stays_refused_after_the_second_delivery(queue: LeaseQueue) -> None:
    """Only the newest delivery can be acknowledged: at 6 the first is lost and the second settles the message."""
    first, second = queue.receive(0), queue.receive(5)
    with pytest.raises(errors.DeliveryLost):
        queue.acknowledge(first, 6)
    queue.acknowledge(second, 6)
    assert queue.states() == [("settled", 2)]
    for delivery in (first, second):
        with pytest.raises(errors.DeliveryLost):
            queue.acknowledge(delivery, 7)


def test_messages_come_in_the_order_they_were_sent(queue: LeaseQueue) -> None:
    """The first free message is handed out, also when an earlier one is leased."""
    queue.send("second")
    assert [queue.receive(0).message_id, queue.receive(1).message_id] == [1, 2]
    assert queue.receive(5).message_id == 1
    with pytest.raises(errors.NotAvailable):
        queue.receive(5)
    assert queue.receive(6).message_id == 2


@pytest.mark.parametrize("raised", [errors.NotAvailable, None])
def test_receiving_leaves_no_transaction_open(
    queue: LeaseQueue, tmp_path: Path, raised: type[Exception] | None
) -> None:
    """Another connection can write at once, whether a message was handed out or none was there."""
    queue.receive(0)
    if raised:
        with pytest.raises(raised):
            queue.receive(1)
    with closing(sqlite3.connect(tmp_path / "queue.db", timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotAvailable, "not_available"),
        (errors.DeliveryLost, "delivery_lost"),
        (errors.InvalidEvent, "invalid_event"),
        (errors.OperationConflict, "operation_conflict"),
        (errors.InterruptedTransaction, "interrupted_transaction"),
    ],
)
def test_every_error_of_the_lab_is_told_by_its_code(error: type[errors.LabError], code: str) -> None:
    """`str(error)` is the code, with the detail behind a colon, and all are ValueErrors."""
    assert (str(error()), str(error("why")), error.code) == (code, f"{code}: why", code)
    assert issubclass(error, ValueError)


def test_exhausted_retries_are_no_timeout() -> None:
    """An outer retry must not take it for something that may pass."""
    exhausted = errors.RetriesExhausted(3)
    assert exhausted.attempts == 3
    assert not isinstance(exhausted, (TimeoutError, errors.LabError))


def test_the_ledger_commits_by_itself_until_told_otherwise(tmp_path: Path) -> None:
    """`store.connect` gives autocommit: the trap that the README names is the trap that is there."""
    store.create(tmp_path / "ledger.db")
    event = {"tenant": "north", "event_id": "A", "amount_cents": 5}
    with closing(store.connect(tmp_path / "ledger.db")) as db:
        with pytest.raises(errors.InterruptedTransaction):
            effects.interrupted(effects.credit)(db, event)
        assert store.inspect(tmp_path / "ledger.db")["totals"] == {"north": 5}
        db.execute("BEGIN IMMEDIATE")
        effects.credit(db, event)
        assert store.inspect(tmp_path / "ledger.db")["totals"] == {"north": 5}
        db.execute("ROLLBACK")


def test_making_the_tables_again_keeps_the_rows(tmp_path: Path) -> None:
    """`create` is for the first start and for every later one."""
    path = tmp_path / "ledger.db"
    store.create(path)
    with closing(store.connect(path)) as db:
        effects.store_draft(db, drill.DRAFT)
    store.create(path)
    assert store.inspect(path) == {"receipts": 0, "effects": 1, "rejections": 0, "decisions": 0, "totals": {}}


def test_the_drill_keeps_its_files_where_it_is_told(run: Command, solved: Path) -> None:
    """With a folder given, ledger.db and queue.db stay there to be looked at; all four messages are settled."""
    say = "from pathlib import Path; from student.lab import queue_drill; queue_drill(Path('.'))"
    assert run("-c", say, cwd=solved).code == 0
    with closing(LeaseQueue(solved / "queue.db")) as queue:
        assert queue.states() == [("settled", 1)] * 4
    assert store.inspect(solved / "ledger.db")["rejections"] == 1


@pytest.mark.parametrize("command", [[], ["case", "normal"]])
def test_a_log_that_cannot_be_written_costs_no_result(run: Command, solved: Path, command: list[str]) -> None:
    """Where work/ is a file, the result is printed all the same, with a sentence about the log."""
    (solved / "student/work").write_bytes(b"")
    done = run("-m", "student", *command, cwd=solved)
    assert done.code == 0
    assert json.loads(done.out)
    assert "was not noted" in done.err
    assert "Traceback" not in done.err


def test_a_reader_that_leaves_early_is_no_traceback(solved: Path) -> None:
    """`python3 -m student demo | head -1` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "student", "demo"], cwd=solved, stdout=gone, stderr=subprocess.PIPE
        )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr
