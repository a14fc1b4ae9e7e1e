"""The sandbox: what must be closed is closed, a broken one is told apart in words, and nothing of it stays behind."""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import assemble, cgroups, probe, sandbox
from grader.child import Kind
from grader.session import Session

BWRAP = sandbox.bubblewrap()
FILES = {f"student/{name}": data for name, data in assemble.given().items()} | {
    f"student/{name}": (assemble.PACKAGE / "reference" / name).read_bytes() for name in assemble.STUBS
}
EVENT = {"tenant": "north", "event_id": "A", "amount_cents": 1}


def shim(folder: Path, script: str) -> str:
    """A program that stands in for bubblewrap, readable for the user that the grader drops to."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user can reach."""
    place = Path("/var/tmp") / f"redelivery-shim-{os.getpid()}"
    place.mkdir(mode=0o755)
    yield place
    shutil.rmtree(place)


def attempt(script: str, folder: Path, *, hello_s: float = 10.0) -> str:
    """Start a sandbox with a program in place of bubblewrap; the words in which that fails."""
    code = (
        "import sys, functools; sys.path.insert(0, sys.argv[1])\n"
        "from grader import sandbox, probe\n"
        "from grader.session import Session\n"
        "try:\n"
        "    stage = sandbox.Stage(bwrap=sys.argv[2])\n"
        "    session = Session(functools.partial(sandbox.start, stage, {}, slot=3000), hello_s=float(sys.argv[3]))\n"
        "    try:\n"
        "        session.fresh_scratch()\n"
        "    finally:\n"
        "        session.close(); stage.close()\n"
        "except sandbox.Unavailable as problem:\n"
        "    print(problem)\n"
        "else:\n"
        "    print('started')\n"
    )
    path = shim(folder, script) if script else str(folder / "nowhere")
    line = [sys.executable, "-c", code, str(assemble.PACKAGE), path, str(hello_s)]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROVE = """
import sys
sys.path.insert(0, sys.argv[1])
from grader import probe, sandbox
stage = sandbox.Stage(bwrap=sys.argv[2])
try:
    probe.prove(stage)
    print("tight")
except sandbox.Unavailable as problem:
    print(problem)
stage.close()
"""


def proved(bwrap: str) -> str:
    """What the probe says of the sandbox that this program makes."""
    line = [sys.executable, "-c", PROVE, str(assemble.PACKAGE), bwrap]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_probe_finds_this_machine_s_sandbox_tight() -> None:
    """Honest code works in the sandbox, and none of the probe's attempts to get out succeeds."""
    assert proved(BWRAP) == "tight"


def test_the_probe_finds_a_hole(folder: Path) -> None:
    """With one folder of the machine too many in it, the sandbox is refused, and the hole is named."""
    hole = shim(folder, f'fd="$2"; shift 2; exec {BWRAP} --ro-bind /etc /etc --args "$fd" "$@"')
    assert proved(hole) == "the sandbox is not tight, so nothing is graded: a submission could see /etc"


BROKEN = {
    "refuses": ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "user namespaces are forbidden"),
    "too old": ("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", "too old"),
    "dies at once": ("exit 3", "ended with code 3"),
    "hangs": ("exec sleep 60", "hangs"),
    "missing": ("", "bubblewrap is missing"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_kind_of_broken_bubblewrap_is_told_apart(name: str, folder: Path) -> None:
    """Refuses, too old, dies, hangs, missing: each in words that say what to do, and never as a student's fault."""
    script, words = BROKEN[name]
    assert words in attempt(script, folder, hello_s=1.0 if name == "hangs" else 10.0)


def test_a_sandbox_that_dies_later_is_our_fault() -> None:
    """When the sandbox goes away in the middle, the next call is Unavailable: no answer is made up for the student."""
    stage = sandbox.Stage()
    session = Session(functools.partial(sandbox.start, stage, FILES, slot=3001))
    try:
        session.fresh_scratch()
        assert session.box is not None
        first = session.box._first
        assert first is not None
        signal.pidfd_send_signal(first, signal.SIGKILL)
        select.select([first], [], [])
        with pytest.raises(sandbox.Unavailable, match="stopped answering"):
            session.fresh_scratch()
    finally:
        session.close()
        stage.close()


def test_nothing_is_left_of_a_sandbox_after_its_end() -> None:
    """Closing waits until the first process inside is gone, and with it everything else in there."""
    stage = sandbox.Stage()
    session = Session(functools.partial(sandbox.start, stage, FILES, slot=3002))
    session.fresh_scratch()
    workers = [session.spawn() for _ in range(3)]
    assert workers[0].call("apply", {"event": EVENT}, lambda n, d: {"write": "credit"}, "f").kind is Kind.RETURNED
    assert session.box is not None
    first = session.box._first
    assert first is not None
    watched = os.dup(first)
    session.close()
    stage.close()
    assert select.select([watched], [], [], 0)[0], "the first process inside has not ended"
    os.close(watched)


def test_the_probe_has_attempts_that_a_plain_process_can_do() -> None:
    """The probe is no test that cannot fail: without a sandbox its attempts succeed (those that harm nothing)."""
    namespace: dict[str, object] = {}
    exec(compile(probe._SOURCE, "probe", "exec"), namespace)
    attempts = namespace["ATTEMPTS"]
    assert isinstance(attempts, dict)
    for name in ("open a network socket", "see /etc", "read the environment", "see /proc"):
        attempts[name]()


def test_a_control_group_caps_what_a_sandbox_holds_where_one_can_be_made() -> None:
    """All processes of a sandbox are in the group, its caps are set, and it is gone after the end."""
    stage = sandbox.Stage()
    if stage.group is None:
        assert not os.access("/sys/fs/cgroup/memory", os.W_OK)
        stage.close()
        return
    session = Session(functools.partial(sandbox.start, stage, FILES, slot=3003))
    session.fresh_scratch()
    session.spawn()
    folders = stage.group.folders
    inside = [(folder / "cgroup.procs").read_text().split() for folder in folders]
    limits = [path.read_text().strip() for folder in folders for path in folder.glob("*.limit_in_bytes")]
    session.close()
    stage.close()
    assert all(len(held) >= 3 for held in inside), "bubblewrap, the template and a worker are in the group"
    assert str(cgroups.MEMORY_BYTES_MAX) in limits or not limits
    assert [folder for folder in folders if folder.exists()] == []


LATER = f'{BWRAP} "$@" & inner=$!; (sleep 0.6; kill -9 $inner) & wait $inner'
GRADED_BY = {
    "refuses": ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "user namespaces are forbidden"),
    "too old": ("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", "too old"),
    "dies at once": ("exit 3", "ended with code 3"),
    "dies later": (LATER, ""),
}


@pytest.mark.parametrize("name", GRADED_BY)
def test_with_a_broken_bubblewrap_nobody_is_graded_and_nobody_gets_a_zero(
    name: str, folder: Path, tmp_path: Path
) -> None:
    """A whole grading run over a broken sandbox ends with exit code 1 and its cause; no points stand anywhere."""
    script, words = GRADED_BY[name]
    shim(folder, script)
    sample = assemble.PACKAGE / "fixtures" / "submissions" / "reference-like"
    done = subprocess.run(
        [sys.executable, "-m", "grader", "grade", str(sample), "--out", str(tmp_path / "run")],
        cwd=assemble.PACKAGE, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1, said
    assert words in said
    if name != "dies later":
        assert "nothing more was graded" in said
        assert not (tmp_path / "run" / "gradebook.csv").exists()
        return
    # It died in the middle: what had been executed stands, the rest is open through our fault, and a person must look.
    assert "needs attention" in said
    records = json.loads((tmp_path / "run" / "reference-like" / "evidence.json").read_bytes())["records"]
    assert [one["criterion"] for one in records if one["verdict"] == "not met"] == []
    assert {one["cause"] for one in records if one["verdict"] == "unknown"} == {"grader_fault", "waiting_for_review"}
