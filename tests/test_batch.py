"""A class through real judges: broken uploads, killed judges, killed runs, full disks. Nobody is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grader import batch, catalogue, intake
from grader.batch import BatchError, Done, Summary
from grader.record import Ledger, folder_name
from grader.slot import JUDGE

if TYPE_CHECKING:
    from tests.conftest import Command

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "fixtures" / "submissions"
STUB = {"retry.py": (ROOT / "student/retry.py").read_bytes()}
VOLATILE = {"run.json", "run.db"}


def a_class(folder: Path, **submissions: dict[str, bytes]) -> Path:
    """A folder of submissions, one a name."""
    for name, files in submissions.items():
        for path, data in files.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_bytes(data)
    return folder


def graded(uploads: Path, folder: Path, *, jobs: int = 2, judge: str = JUDGE) -> tuple[Summary, list[Done]]:
    """The finished run, and what was reported while it went on."""
    heard: list[Done] = []
    summary = batch.grade(intake.find(uploads), folder, jobs=jobs, seed=7, report=heard.append, judge=judge)
    return summary, heard


def run_json(folder: Path, key: str) -> dict[str, Any]:
    """What run.json of a submission holds."""
    found: dict[str, Any] = json.loads((folder / key / "run.json").read_bytes())
    return found


def steady(folder: Path) -> dict[str, bytes]:
    """Every file of a run that must not change from run to run."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in VOLATILE
    }


def whole(folder: Path) -> bool:
    """No temporary file or folder is left, and each JSON file can be read."""
    for path in folder.rglob("*"):
        assert not path.name.startswith("."), path
        if path.suffix == ".json":
            json.loads(path.read_bytes())
    return True


def test_broken_uploads_are_rows_with_reasons_and_the_others_are_graded(tmp_path: Path) -> None:
    """Between two good ones: cut off, empty, another assignment, a link. All are there, none stops it."""
    uploads = a_class(tmp_path / "class", ada=STUB, zoe=STUB, other={"hw3.py": b"def area(): ..."})
    (uploads / "cut.zip").write_bytes(b"PK\3\4")
    (uploads / "nothing").mkdir()
    (uploads / "linked").symlink_to("/etc")
    (uploads / "con").mkdir()
    summary, heard = graded(uploads, tmp_path / "run")
    assert [one.key for one in summary.done] == ["ada", "con", "cut", "linked", "nothing", "other", "zoe"]
    assert sorted(one.key for one in heard) == [one.key for one in summary.done]
    assert {one.key for one in summary.attention} == {"con", "cut", "linked", "nothing", "other"}
    for one in summary.attention:
        assert one.fault is not None
        run = json.loads((one.folder / "run.json").read_bytes())
        assert (run["status"], run["reason"]) == ("needs_attention", one.reason)
        assert not (one.folder / "report.json").exists()
    for key in ("ada", "zoe"):
        assert run_json(tmp_path / "run", key)["isolation"] == "full"
        assert json.loads((tmp_path / "run" / key / "report.json").read_bytes())["tests"]
    assert (tmp_path / "run/ada/report.json").read_bytes() != b""
    assert whole(tmp_path / "run")


def test_a_submission_whose_judge_is_killed_is_graded_on_the_next(tmp_path: Path) -> None:
    """Killed in mid-run, once, whether pytest or the process around it: graded all the same, as if nothing had been."""
    uploads = a_class(tmp_path / "class", ada=STUB, ben=STUB, cem=STUB, dora=STUB)
    (tmp_path / "run").mkdir()
    plan = {"ada": ["judge"], "ben": ["slot"], "cem": ["judge", "slot"], "dora": ["slot", "slot"]}
    (tmp_path / "run/kills.json").write_text(json.dumps(plan), encoding="utf-8")
    summary, _ = graded(uploads, tmp_path / "run", judge="judges:Killed")
    assert [one.key for one in summary.done] == ["ada", "ben", "cem", "dora"]
    assert [one.key for one in summary.attention] == ["cem", "dora"]
    for key in ("ada", "ben"):
        assert run_json(tmp_path / "run", key)["status"] == "graded"
    for key in ("cem", "dora"):
        reason = run_json(tmp_path / "run", key)["reason"]
        assert reason.startswith("Not graded, through no fault of the submission: ")
        assert "2 times" in reason
        assert not (tmp_path / "run" / key / "report.json").exists()


def test_who_needed_attention_is_run_again_and_the_graded_are_not(tmp_path: Path) -> None:
    """The same command later: unchanged and graded is kept, our fault and changed work is run, a removed one stays."""
    uploads = a_class(tmp_path / "class", ada=STUB, ben=STUB, cem=STUB)
    place = tmp_path / "run"
    place.mkdir()
    (place / "kills.json").write_text(json.dumps({"ben": ["slot", "slot"]}), encoding="utf-8")
    first, _ = graded(uploads, place, judge="judges:Killed")
    assert [one.key for one in first.attention] == ["ben"]
    before = steady(place)

    (uploads / "cem/ledger.py").write_bytes(b"def changed(:\n")
    again, heard = graded(uploads, place)
    assert {one.key: one.fresh for one in heard} == {"ada": False, "ben": True, "cem": True}
    assert again.attention == ()
    assert (place / "ada/report.json").read_bytes() == before["ada/report.json"]
    assert run_json(place, "cem")["digest"] != run_json(place, "ada")["digest"]

    (place / "ada/report.json").write_bytes(b"{}")  # a result that is not the recorded one is none
    _, heard = graded(uploads, place)
    assert [one.key for one in heard if one.fresh] == ["ada"]
    assert again.seed == first.seed == 7


def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(run: Command, tmp_path: Path) -> None:
    """SIGKILL in the middle, then the same command: report, evidence, feedback, pages and gradebook byte for byte."""
    model = catalogue.reference()
    wrong = (SAMPLES / "marker-before-effect/ledger.py").read_bytes()
    uploads = a_class(
        tmp_path / "class", ada=STUB, ben={"conflict.py": model["conflict.py"]}, cem={"retry.py": model["retry.py"]},
        dora={"conflict.py": model["conflict.py"], "ledger.py": wrong, "answers.toml": model["answers.toml"]},
    )  # fmt: skip
    (uploads / "broken.zip").write_bytes(b"PK\3\4")
    arguments = ["-m", "grader", "grade", uploads, "--seed", "7", "--out"]
    assert run(*arguments, tmp_path / "a", "--jobs", "2").code == 1

    with subprocess.Popen(
        [sys.executable, *map(str, arguments), str(tmp_path / "b"), "--jobs", "1"], cwd=ROOT, stdout=subprocess.PIPE
    ) as killed:
        assert killed.stdout is not None
        lines = [killed.stdout.readline() for _ in range(2)]  # the broken one, and one that was graded
        killed.kill()
    assert lines[1].startswith(b"[2/5]")
    assert len(list((tmp_path / "b").glob("*/report.json"))) < 4
    assert not (tmp_path / "b/gradebook.csv").exists()

    done = run("-m", "grader", "grade", uploads, "--out", tmp_path / "b", "--jobs", "2")  # the seed is remembered
    assert done.code == 1
    assert "(unchanged, kept)" in done.out
    assert steady(tmp_path / "b") == steady(tmp_path / "a")
    assert set(steady(tmp_path / "a")) >= {"gradebook.csv", "class.html", "dora/evidence.json"}
    assert whole(tmp_path / "b")


def test_a_run_folder_in_use_is_refused(run: Command, tmp_path: Path) -> None:
    """Two runs never write into one folder: the second says so and touches nothing."""
    uploads = a_class(tmp_path / "class", ada=STUB)
    (tmp_path / "run").mkdir()
    ledger = Ledger(tmp_path / "run")
    done = run("-m", "grader", "grade", uploads, "--out", tmp_path / "run")
    ledger.close()
    assert (done.code, done.out) == (1, "")
    assert done.err.strip().endswith("is being graded by another process.")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.db"]


def test_interrupted_runs_end_with_a_sentence_and_nothing_half_written(tmp_path: Path) -> None:
    """Ctrl-C: exit code 130, what was recorded is whole, nothing temporary and no judge is left."""
    uploads = tmp_path / "class"
    for number in range(6):
        shutil.copytree(SAMPLES / "half-done", uploads / f"s{number}")
        (uploads / f"s{number}/retry.py").write_text(f"# {number}\n", encoding="utf-8")
    arguments = [sys.executable, "-m", "grader", "grade", str(uploads), "--out", str(tmp_path / "run"), "--jobs", "1"]
    with subprocess.Popen(
        arguments,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "BATCH_MARK": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"[1/6]")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert err.count(b"\n") == 1
    assert b"nothing recorded is lost" in err
    assert out.count(b"\n") < 5
    assert whole(tmp_path / "run")
    assert left_running(str(tmp_path)) == []


def left_running(mark: str) -> list[int]:
    """Processes that were started with this mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"BATCH_MARK={mark}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def test_a_full_disk_is_one_sentence(tmp_path: Path, root: Path) -> None:
    """On a disk of 100 kB nobody gets a zero: the run stops, says what is full, and what is there is whole."""
    uploads = a_class(tmp_path / "class", ada=STUB, ben=STUB)
    place = tmp_path / "small"
    place.mkdir()
    # Who is not root mounts it in a user namespace of their own, and gives the rights for that up again.
    ordinary = os.getuid() != 0
    namespaces = ["--user", "--map-current-user", "--keep-caps"] if ordinary else []
    drop = "setpriv --ambient-caps=-all --inh-caps=-all --" if ordinary else ""
    said = f"{sys.executable} -m grader grade {uploads} --out {place}/run --jobs 1"
    shell = f"mount -t tmpfs -o size=100k none {place} && {drop} {said}; echo code $?; ls -A {place}/run"
    done = subprocess.run(
        ["unshare", *namespaces, "--mount", "sh", "-c", shell], cwd=root, capture_output=True, text=True, check=False
    )
    assert "code 1" in done.stdout
    assert done.stderr.strip().count("\n") == 0
    assert "No space left on device" in done.stderr or "full" in done.stderr
    assert "the same command goes on later" in done.stderr
    assert ".work" not in done.stdout.split()


def test_a_file_size_limit_is_one_sentence(tmp_path: Path, root: Path) -> None:
    """The same where only files of 16 kB may be written."""
    uploads = a_class(tmp_path / "class", ada=STUB)
    said = f"ulimit -f 16; exec {sys.executable} -m grader grade {uploads} --out {tmp_path}/run"
    done = subprocess.run(["bash", "-c", said], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob("*/report.json"))


@pytest.mark.parametrize(
    ("judge", "why"), [("NoSandbox", "bubblewrap is not installed"), ("Broken", "no module named")]
)
def test_without_a_judge_nobody_gets_a_zero(tmp_path: Path, judge: str, why: str) -> None:
    """No sandbox, or a judge that never comes up: the run ends at once with the reason, and no row is written."""
    uploads = a_class(tmp_path / "class", ada=STUB, ben=STUB)
    heard: list[Done] = []
    with pytest.raises(BatchError, match=f"^No judge comes up, so nothing more was graded: .*{why}"):
        batch.grade(intake.find(uploads), tmp_path / "run", jobs=2, report=heard.append, judge=f"judges:{judge}")
    assert heard == []
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.db"]


def test_the_same_bytes_get_the_same_inputs_whoever_sends_them(tmp_path: Path) -> None:
    """Two students with equal files have equal reports apart from times, and a row each."""
    uploads = a_class(tmp_path / "class", ada=STUB, ben=STUB)
    graded(uploads, tmp_path / "run", jobs=1)
    seeds = {run_json(tmp_path / "run", key)["seed"] for key in ("ada", "ben")}
    assert len(seeds) == 1


@pytest.mark.parametrize(
    "key", ["ada", "a b", "../x", "CON", "gradebook.csv", "", ".", "Zoë", "x" * 300, "a/b", "\x1b"]
)
def test_every_key_has_a_folder_name_that_any_system_takes(key: str) -> None:
    """Short, plain, never a way out of the run folder, never a name of ours or of Windows."""
    name = folder_name(key)
    assert name.isascii()
    assert 0 < len(name) < 80
    assert not set(name) & set("/\\ \x1b")
    assert name[0] != "."
    assert name.casefold() not in {"con", "gradebook.csv", "class.html", "run.db"}
    assert folder_name(key) == name
    assert folder_name(key, {name.casefold()}) != name or name != key
