"""The facts of a run that stand beside its report, in run.json: what was handed in, how it was run, what to look at."""

from __future__ import annotations

import hashlib
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from grader import assemble
from grader.intake import Refusal, Submission

FORMAT_VERSION = 1
_DECIDES = (".py", ".toml", ".json", ".ini", ".bpf")
_DECIDE_NOTHING = (("fixtures", "submissions"), ("fixtures", "evidence"), ("student", "work"))
SEED_BITS = 32


class Ran(Protocol):
    """How a submission was run; `wall_s` in seconds."""

    @property
    def wall_s(self) -> float: ...
    @property
    def isolation(self) -> str: ...
    @property
    def python(self) -> str: ...


@cache
def engine(root: Path = assemble.PACKAGE) -> str:
    """sha256 (hex) over everything of ours that decides a report: grader, given files, fixtures, the Python version."""
    total = hashlib.sha256(sys.version.encode())
    files = [path for part in ("grader", "student", "fixtures") for path in (root / part).rglob("*")]
    for path in sorted(files):
        inside = path.relative_to(root)
        if path.suffix in _DECIDES and inside.parts[:2] not in _DECIDE_NOTHING and path.is_file():
            total.update(f"{inside.as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def seed_of(run_seed: int, digest: str) -> int:
    """The seed of one submission: the same bytes in the same run draw the same inputs, whoever sent them."""
    return int.from_bytes(hashlib.sha256(f"{run_seed}:{digest}".encode()).digest()[: SEED_BITS // 8], "big")


def now() -> str:
    """The present time, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_json(
    one: Submission | Refusal, *, seed: int, ran: Ran | None, started: str, reason: str | None
) -> dict[str, object]:
    """What run.json holds; `reason` None means graded. Facts that change from run to run live here alone."""
    sent = one if isinstance(one, Submission) else None
    return {
        "format_version": FORMAT_VERSION,
        "submission": one.key,
        "digest": sent.digest if sent else "",
        "seed": seed,
        "isolation": ran.isolation if ran else "full",
        "started": started,
        "wall_s": round(ran.wall_s, 3) if ran else 0.0,
        "python": ran.python if ran else "",
        "notes": list(one.notes),
        "changed_given": list(sent.changed_given) if sent else [],
        "status": "graded" if reason is None else "needs_attention",
        "reason": reason,
        "files": dict(sent.states) if sent else {},
    }
