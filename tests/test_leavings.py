"""Whatever process of ours is killed in the middle of a run, nothing of it lives on, and the next run tidies up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader import assemble

VICTIMS = ("grade", "slot", "judge", "fork", "bubblewrap", "template")
DRIVER = """
import ctypes, os, pathlib, select, signal, subprocess, sys, tempfile, time

victim, sample, out = sys.argv[1:]
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans become children of this process, so none can slip away


def table():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                line = pathlib.Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").replace("\\0", " ")
                state, parent = pathlib.Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            found[int(name)] = (int(parent), state, line)
    return found


def below(root, processes):
    layer, found = {root}, {}
    while layer:
        layer = {pid for pid, (parent, state, _) in processes.items() if parent in layer and state != "Z"}
        found |= {pid: processes[pid] for pid in layer}
    return found


def is_victim(pid, held):
    parent, _, line = held[pid]
    inside = "-c import sys; sys.path.insert" in line
    if victim == "grade":
        return any("judge.py" in one[2] for one in held.values())
    if victim == "slot":
        return "spawn_main" in line and any(one[0] == pid for one in held.values())
    if victim == "judge":
        return "judge.py" in line and "judge.py" not in held.get(parent, (0, "", ""))[2]
    if victim == "fork":
        return "judge.py" in line and "judge.py" in held.get(parent, (0, "", ""))[2]
    if victim == "bubblewrap":
        return "bwrap" in line and not inside or "bwrap --args" in line
    return inside and "bwrap" not in line


def run():
    return subprocess.Popen([sys.executable, "-m", "grader", "grade", sample, "--out", out, "--jobs", "1"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


seen = set()
process = run()
killed = None
while killed is None and process.poll() is None:
    held = below(os.getpid(), table())
    seen |= set(held)
    for pid in sorted(held):
        if (victim == "grade") != (pid == process.pid):
            continue
        if is_victim(pid, held):
            os.kill(pid, signal.SIGKILL)
            killed = pid
            break
process.wait()
end = time.monotonic() + 20
left = {}
while time.monotonic() < end:
    left = below(os.getpid(), table())
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
    if not left:
        break
print("killed" if killed else "no such process was seen")
print("left:", sorted(one[2][:60] for one in left.values()))
code = run().wait()
print("next run:", code)
own = [p for p in pathlib.Path(tempfile.gettempdir()).glob("redelivery-*") if any(str(pid) in p.name for pid in seen)]
groups = [p for p in pathlib.Path("/sys/fs/cgroup").glob("**/redelivery-*") if int(p.name.split("-")[1]) in seen]
print("files:", own, "groups:", groups)
"""


@pytest.mark.parametrize("victim", VICTIMS)
def test_after_a_kill_nothing_lives_on_and_the_next_run_tidies_up(victim: str, tmp_path: Path) -> None:
    """The command, the slot, the judge, its fork, bubblewrap, the template: killed for real, once each."""
    sample = assemble.PACKAGE / "fixtures" / "submissions" / "retries-everything"
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, victim, str(sample), str(tmp_path / "run")],
        cwd=assemble.PACKAGE, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["killed", "left: []", "next run: 0", "files: [] groups: []"], done.stderr
