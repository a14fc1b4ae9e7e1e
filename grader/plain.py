"""The comparison: the same attacks against a plain `pytest --json-report` run that shares its process with them.

The whole of it, pytest and submission, runs in one bubblewrap of its own, so that whatever wins there harms nobody.
`python -m grader.plain` is the process that starts these; root needs one for the mounts that show the interpreter.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grader import assemble, hostile, sandbox
from grader.hostile import Attack

WALL_S = 7.0
_PARTS = Path(__file__).resolve().parent / "attacks" / "plain"
_UID = 65_300
_LIMITS = ("--nproc=128", "--as=1073741824", "--fsize=67108864", "--cpu=8", "--nofile=256", "--core=0")
_SLOW_BYTES = 8 * 1024 * 1024
_BIND, _REC = 4096, 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """What an attack came to in the plain run. `won`: points or secrets; `lost`: no report, or something left."""

    won: bool
    lost: bool
    words: str


class Plainly:
    """The process that makes plain runs, and what honest work comes to there."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grader.plain"],
            cwd=assemble.PACKAGE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._passed: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        facts = self._ask({f"student/{name}": data for name, data in hostile.honest().items()})
        self._passed = _passed(facts.get("report", ""))
        if not self._passed:
            raise sandbox.Unavailable(f"the plain run does not work here: {facts}"[:600])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, attack: Attack) -> Plain:
        """The attack in a plain run. What is only an archive has nothing to run there."""
        if attack.refused:
            return Plain(won=False, lost=False, words="no upload step")
        facts = self._ask(
            hostile.contents(attack) | {one.name: hostile.filled(one.text).encode() for one in attack.entries}
        )
        return judged(facts, self._passed)

    def _ask(self, files: Mapping[str, bytes]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        texts = {name: data.decode("latin-1") for name, data in files.items()}
        self._process.stdin.write(json.dumps(texts).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or b"{}")
        return answer if isinstance(answer, dict) else {}


def judged(facts: Mapping[str, Any], honest: frozenset[str]) -> Plain:
    """What the facts of a plain run mean, beside the tests that pass on the honest work."""
    report, output = str(facts.get("report", "")), str(facts.get("output", ""))
    forged = _passed(report) - honest
    hidden = [name for name, said in _outcomes(report).items() if said in ("skipped", "xfailed") and name not in honest]
    won = [f"{len(forged)} failing tests passed"] if forged else []
    won += [f"{len(hidden)} failing tests skipped"] if hidden else []
    if not forged and facts.get("code") == 0:
        won.append("exit code 0")
    shown = report + output
    won += [f"{name} was read" for name, parts in hostile.SECRETS.items() if "".join(parts) in shown]
    if facts.get("connections"):
        won.append("a connection to the outside")
    lost = [f"{facts['processes']} processes left"] if facts.get("processes") else []
    lost += [f"{len(facts['files'])} files left or changed"] if facts.get("files") else []
    if not facts.get("ended"):
        lost.append("hung: no report")
    elif not report:
        lost.append("no report")
    elif len(_outcomes(report)) < len(honest):
        lost.append("tests never ran")
    elif facts.get("size", 0) > _SLOW_BYTES:
        lost.append(f"a report of {facts['size'] >> 20} MiB")
    elif len(_passed(report) & honest) < len(honest) and facts.get("lost_honest"):
        lost.append("honest tests lost")
    words = ("won: " + ", ".join(won) + ("; " if lost else "") if won else "") + ", ".join(lost)
    return Plain(won=bool(won), lost=bool(lost) and not won, words=words or "held")


def _outcomes(report: str) -> dict[str, str]:
    try:
        tests = json.loads(report)["tests"]
        return {str(test["nodeid"]).rpartition("/")[2]: str(test["outcome"]) for test in tests}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _passed(report: str) -> frozenset[str]:
    return frozenset(name for name, outcome in _outcomes(report).items() if outcome == "passed")


def _command(stage: sandbox.Stage, packages: Path) -> list[str]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    line = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent"]
    line += ["--new-session", "--clearenv", "--hostname", "plain", "--uid", "1000", "--gid", "1000"]
    variables = {
        "LC_ALL": "C.UTF-8", "HOME": "/home", "PATH": "/opt/python/bin", "LD_LIBRARY_PATH": "/opt/python/lib",
        "PYTHONPATH": "/packages", hostile.ENVIRONMENT: "".join(hostile.SECRETS["the environment"]),
    }  # fmt: skip
    for name, value in variables.items():
        line += ["--setenv", name, value]
    line += ["--ro-bind", str(stage.python.binary), f"/opt/python/bin/{version}"]
    line += ["--ro-bind", str(stage.python.library), f"/opt/python/lib/{version}"]
    for library, name in stage.shared():
        line += ["--ro-bind", str(library), f"/opt/python/lib/{name}"]
    line += ["--ro-bind", str(packages), "/packages", *sandbox._libraries(), "--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/home", "/class"):
        line += ["--size", str(64 << 20), "--perms", "0777", "--tmpfs", place]
    whole = ["prlimit", *_LIMITS, "--"]
    if os.getuid() == 0:
        whole += ["setpriv", f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups", "--"]
    inside = (_PARTS / "inside.py").read_text(encoding="utf-8")
    return [*whole, sandbox.bubblewrap(), *line, f"/opt/python/bin/{version}", "-B", "-c", inside]


def _packages(stage: sandbox.Stage) -> Path:
    """The folder with pytest in it, as the unprivileged user can reach it."""
    held = Path(sysconfig.get_path("purelib"))
    if stage.folder is None:
        return held
    shown = stage.folder / "packages"
    shown.mkdir()
    if ctypes.CDLL(None).mount(str(held).encode(), str(shown).encode(), None, _BIND | _REC, None):
        raise sandbox.Unavailable(f"{held} could not be bind-mounted for the plain run")
    return shown


def main() -> int:
    """Serve: a line of files in, a line of facts out."""
    stage = sandbox.Stage()
    line = _command(stage, _packages(stage))
    own = {path.name: path.read_text(encoding="utf-8") for path in sorted(_PARTS.glob("test_*.py"))}
    given = {f"student/{name}": data.decode("latin-1") for name, data in assemble.given().items()}
    other = hostile.neighbour()["retry.py"].decode("latin-1")
    for asked in sys.stdin:
        job = {"given": given, "files": json.loads(asked), "tests": own, "other": other, "mark": hostile.MARK,
               "port": hostile.PORT, "wall_s": WALL_S}  # fmt: skip
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/") as process:
            try:
                said, _ = process.communicate(json.dumps(job).encode(), timeout=WALL_S + 5)
            except subprocess.TimeoutExpired:
                process.kill()  # the sandbox dies with it
                said = b""
        lines = said.splitlines()
        sys.stdout.write((lines[-1].decode("ascii", "replace") if lines else "{}") + "\n")
        sys.stdout.flush()
    stage.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
