"""No hostile submission wins: the corpus is sound, one attack of each group is tried, and a win would be noticed."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from grader import attack, hostile, leftovers, owntests, plain
from grader.hostile import Attack, Pack
from grader.runner import Judge
from grader.trial import Trial
from rubric import criteria, evidence, feedback, gradebook
from rubric import report as reports

CORPUS = hostile.load()
SAMPLE = (
    "report.written_then_gone", "runner.conftest", "wire.stolen_request_id", "wire.reimport_in_call",
    "processes.daemon", "files.writes_outside",
    "network.tcp", "database.journal_that_names", "reading.every_file", "own_tests.names_from_model_answer",
    "archives.leads_out", "claims.everything_executed",
)  # fmt: skip


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    """A warm judge and what it says about honest work."""
    with Judge(include_hidden=True) as judge, closing(leftovers.Listener()) as listener:
        yield Trial(judge, listener)


def test_the_corpus_is_sound() -> None:
    """Enough attacks, each with an id and a title of its own, over every file that a student hands in."""
    assert len(CORPUS) >= 70
    for column in ([one.id for one in CORPUS], [one.title for one in CORPUS]):
        assert [name for name, count in Counter(column).items() if count > 1] == []
    files = {one.file for one in CORPUS}
    assert files >= {"conflict.py", "ledger.py", "retry.py", "review.py", "tests/test_mine.py", "answers.toml"}
    assert {one.pack for one in CORPUS} == set(Pack)
    assert set(SAMPLE) <= {one.id for one in CORPUS}


@pytest.mark.parametrize("one", CORPUS, ids=lambda one: one.id)
def test_an_attack_changes_the_honest_work(one: Attack) -> None:
    """Each brings something, its code is Python, and it spoils only criteria that there are."""
    made = hostile.contents(one)
    honest = {f"student/{name}": data for name, data in hostile.honest(tests=one.own_tests).items()}
    assert made != honest or one.entries
    assert "@" + "MARK@" not in "".join(map(str, made))
    if one.file.endswith(".py"):
        ast.parse(made[f"student/{one.file}"], one.file)
    known = {part for each in criteria.load().criteria for part in (each.id, each.id.partition(".")[0])}
    assert set(one.spoils) <= known


@pytest.mark.parametrize("one", [one for one in CORPUS if one.id in SAMPLE], ids=lambda one: one.id)
def test_an_attack_gains_nothing_and_leaves_nothing(trial: Trial, one: Attack) -> None:
    """Handed in, graded, and looked for afterwards."""
    got = trial.hand_in(one)
    assert trial.watch.left(frozenset({trial.judge.pid})) == []
    assert trial.gains(one, got) == []


def test_tampering_is_a_verdict_of_its_own(trial: Trial) -> None:
    """Bytes on the grader's own channel leave the points as they are, and a person must look, with the fact."""
    rubric = criteria.load()
    phase = {"outcome": "passed"}
    tests = [
        {"nodeid": rubric.control_test, "outcome": "failed", "setup": phase, "call": {"outcome": "failed"},
         "teardown": phase, "metadata": {"criterion": None, "cause": "wrong_answer"}},
        {"nodeid": rubric.get("ledger.new_event_is_applied").tests[0], "outcome": "failed", "setup": phase,
         "call": {"outcome": "failed"}, "teardown": phase, "metadata": {"cause": "protocol_violation"}},
    ]  # fmt: skip
    report = reports.parse(json.dumps({"exitcode": 1, "summary": {"failed": 2, "total": 2}, "tests": tests}).encode())
    row = gradebook.graded(feedback.build(evidence.map_report(report, rubric), rubric), key="ada")
    assert row.status is gradebook.RowStatus.NEEDS_ATTENTION and row.earned == 0
    assert "own channel at L1" in row.reason and "a person must look" in row.reason
    one = next(one for one in CORPUS if one.id == "wire.sprayed_frames")
    assert trial.hand_in(one).signs == ("bytes on the grader's own channel",)


def test_a_win_would_be_noticed(trial: Trial) -> None:
    """Honest work that mends a mistake, and text that is carried out, are both told apart from nothing."""
    mended = """
def check_replay(stored, event):
    if stored not in (None, fingerprint(event)):
        raise OperationConflict("x")
    return "duplicate" if stored else "new"
"""
    better = Attack(id="x", title="mends it", file="conflict.py", code=mended)
    assert "conflict.check_replay_alone met" in trial.gains(better, trial.hand_in(better))
    tells = 'def check_replay(stored, event):\n    raise ValueError("@MARK@ found something")\n'
    loud = Attack(
        id="y", title="tells", file="conflict.py", code=tells, spoils=("conflict", "ledger", "review", "drill")
    )
    assert "it found what it looked for" in trial.gains(loud, trial.hand_in(loud))


def test_what_is_left_would_be_noticed(trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with the mark is found where submissions might write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{hostile.MARK}-left").touch()
    assert trial.watch.left(frozenset({trial.judge.pid})) == [f"file {tmp_path / (hostile.MARK + '-left')}"]


def test_names_of_own_tests_do_not_carry_anything_out() -> None:
    """Of tests that demand too much only the hand-out's own names are shown."""
    assert owntests._shown(["test_Model_answer_to_task_1", "test_conflict"]) == [
        "test_conflict",
        "Another of your tests",
    ]
    assert owntests._shown([]) == []


@pytest.mark.parametrize(
    ("facts", "won", "words"),
    [
        (
            {"report": '{"tests": [{"nodeid": "a.py::b", "outcome": "passed"}]}', "code": 1},
            True,
            "1 failing tests passed",
        ),
        ({"report": "{}", "code": 0}, True, "exit code 0"),
        ({"report": "", "code": 1}, False, "no report"),
        ({"report": "", "code": None, "ended": False}, False, "hung"),
        (
            {"report": "{}", "output": "".join(hostile.SECRETS["a hidden test"]), "code": 1},
            True,
            "a hidden test was read",
        ),
    ],
)
def test_a_plain_run_is_judged_by_what_it_left(facts: dict[str, object], won: bool, words: str) -> None:
    """Points that were forged, texts that were read and runs that were lost are told apart."""
    judged = plain.judged({"ended": True, **facts}, frozenset())
    assert judged.won is won and words in judged.words


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    """Only what is between the marks is written anew."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{attack.TABLE[0]}\nold\n{attack.TABLE[1]}\nafter\n", encoding="utf-8")
    attack.write_table(page, [])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text


def test_a_broken_corpus_is_named(tmp_path: Path) -> None:
    """The file with the mistake is in the sentence."""
    (tmp_path / "bad.toml").write_text("[[attacks]]\nid = 1\n", encoding="utf-8")
    with pytest.raises(hostile.CorpusError, match=r"bad\.toml"):
        hostile.load(tmp_path)
    assert msgspec.structs.fields(Attack)[0].name == "id"
