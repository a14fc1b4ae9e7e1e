"""One attack tried: handed in, graded, looked for afterwards, and a neighbour's work graded after it.

An attack wins when a criterion is met that the same work without it does not meet, when it costs the work a criterion
that it does not break itself, when a secret text comes out, or when the next submission is graded otherwise.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias

from grader import assemble, catalogue, hostile, intake, leftovers, plain
from grader.hostile import Attack
from grader.runner import Judge, Outcome
from rubric import criteria, evidence
from rubric import report as reports
from rubric.evidence import Cause, Evidence, Verdict

SEED = 20
Verdicts: TypeAlias = Mapping[str, Verdict]
_SIGNS = {
    Cause.TAMPERING_SUSPECTED: "the control test did not fail",
    Cause.PROTOCOL_VIOLATION: "bytes on the grader's own channel",
    Cause.DATABASE_UNREADABLE: "the ledger is not the given one any more",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What came of one upload. `shown`: all text of report and records; `hidden`: what hidden criteria's records say.

    A sweep's history is shown on purpose, whatever is in its rows, so it does not belong to `hidden`.
    """

    verdicts: Verdicts
    signs: tuple[str, ...]
    shown: str
    hidden: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One attack here and in the plain run; `won` and `left` are empty when it came to nothing."""

    attack: Attack
    won: tuple[str, ...]
    left: tuple[str, ...]
    came: str
    wall_s: float
    plainly: plain.Plain | None = None


class Trial:
    """One warm judge and what it says about honest work. To be used by the thread that made it."""

    def __init__(self, judge: Judge, listener: leftovers.Listener) -> None:
        self.judge = judge
        self.rubric = criteria.load()
        self.folder = Path(tempfile.mkdtemp(prefix="redelivery-attack-"))
        self.bases = {tests: self.grade(hostile.honest(tests=tests)).verdicts for tests in (False, True)}
        self.neighbour = self.grade(hostile.neighbour()).verdicts
        self.watch = leftovers.Watch(judge.pid, listener)

    def grade(self, files: dict[str, bytes], notes: Sequence[str] = ()) -> Graded:
        """Grade one submission's files and map its report to what is known about each criterion."""
        with tempfile.TemporaryDirectory(dir=self.folder) as out:
            workspace = assemble.workspace(SimpleNamespace(files=files))
            run = self.judge.grade(workspace, Path(out), key="attack", seed=SEED)
            if run.kind is not Outcome.GRADED:
                return Graded(
                    verdicts={}, signs=(run.reason or "no reason",), shown=run.reason or "", refused="not graded"
                )
            report = reports.read(Path(out, "report.json"))
            records = evidence.map_report(report, self.rubric, answers=files.get("answers.toml"))
            text = Path(out, "report.json").read_text(encoding="utf-8") + repr(records) + "\n".join(notes)
        secret = {one.id for one in self.rubric.criteria if one.shown is criteria.Shown.HIDDEN}
        return Graded(
            verdicts={one.criterion: one.verdict for one in records},
            signs=_signs(records),
            shown=text,
            hidden=repr([one for one in records if one.criterion in secret and one.history is None]),
        )

    def hand_in(self, attack: Attack) -> Graded:
        """What the batch does with an upload: read it, and grade it unless it is refused."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            one = intake.read(intake.Upload(key="attack", source=hostile.upload(attack, Path(folder))))
            if isinstance(one, intake.Refusal):
                return Graded(verdicts={}, signs=(), shown=one.reason + one.advice, refused=one.reason)
            return self.grade(one.files, one.notes)

    def attempt(self, attack: Attack, known: frozenset[int], plainly: plain.Plainly | None) -> Tried:
        """Try one attack, look for what it left, grade the neighbour's work after it."""
        started = time.monotonic()
        got = self.hand_in(attack)
        left = self.watch.left(known)
        won = self.gains(attack, got)
        after = self.grade(hostile.neighbour())
        won += [f"the next submission: {one}" for one in _changes(self.neighbour, after.verdicts)]
        if hostile.MARK in after.shown:
            won.append("its text stands in the next submission's report")
        came = f"refused: {got.refused}" if got.refused else "; ".join(got.signs) or "nothing gained"
        wall_s = time.monotonic() - started
        beside = plainly.run(attack) if plainly is not None else None
        return Tried(attack=attack, won=tuple(won), left=tuple(left), came=came, wall_s=wall_s, plainly=beside)

    def gains(self, attack: Attack, got: Graded) -> list[str]:
        """In words, what the attack has won; the honest criteria that it lost for no reason count as won too."""
        won = [f"{secret} was shown" for secret, parts in hostile.SECRETS.items() if "".join(parts) in got.shown]
        if f"{hostile.MARK} found" in got.shown or f"{hostile.MARK}_found" in got.shown:
            won.append("it found what it looked for")
        if f"{hostile.MARK} saw" in got.hidden:
            won.append("hidden inputs were shown")
        if attack.refused:
            return won if got.refused else [*won, "intake took it"]
        if got.refused:
            return [*won, f"not graded: {got.refused} {' '.join(got.signs)}"]
        base = self.bases[attack.own_tests]
        for criterion, verdict in got.verdicts.items():
            before = base[criterion]
            if verdict is Verdict.MET and before is not Verdict.MET:
                won.append(f"{criterion} met")
            elif verdict is not before and not {criterion, criterion.partition(".")[0]} & set(attack.spoils):
                won.append(f"{criterion}: {before} became {verdict}")
        return won

    def close(self) -> list[str]:
        """Grade the model answers once more; in words, what they do not meet after everything that came before."""
        verdicts = self.grade(catalogue.reference()).verdicts
        judged = [one.id for one in self.rubric.criteria if one.tests]
        return [f"{name}: {verdicts[name]}" for name in judged if verdicts[name] is not Verdict.MET]


def _signs(records: Sequence[Evidence]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_SIGNS[one.cause] for one in records if one.cause in _SIGNS))


def _changes(before: Verdicts, after: Verdicts) -> list[str]:
    return [f"{name} became {after.get(name)}" for name in before if after.get(name) is not before[name]]
