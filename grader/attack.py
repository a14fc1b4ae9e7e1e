"""Proves that no hostile submission wins: every attack of the corpus is handed in, graded, and looked for afterwards.

An attack wins when a criterion is met that the same work without it does not meet, when it costs the work a criterion
that it does not break itself, when a secret text comes out, or when the next submission is graded otherwise.
Beside it the same attack meets a plain pytest run in one process; the table of both is written into a document.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
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

JUDGES = 2
SEED = 20
TABLE = ("<!-- attacks -->", "<!-- /attacks -->")
Verdicts: TypeAlias = Mapping[str, Verdict]
_SIGNS = {
    Cause.TAMPERING_SUSPECTED: "the control test did not fail",
    Cause.PROTOCOL_VIOLATION: "bytes on the grader's own channel",
    Cause.DATABASE_UNREADABLE: "the ledger is not the given one any more",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What came of one upload. `shown` is all text of the report and of the records, as one."""

    verdicts: Verdicts
    signs: tuple[str, ...]
    shown: str
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


class Bench:
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
        return Graded(verdicts={one.criterion: one.verdict for one in records}, signs=_signs(records), shown=text)

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
        files = {name: data for name, data in catalogue.reference().items()}
        verdicts = self.grade(files).verdicts
        written = {one.id for one in self.rubric.criteria if not one.tests}
        return [
            f"{name}: {verdict}"
            for name, verdict in verdicts.items()
            if verdict is not Verdict.MET and name not in written
        ]


def _signs(records: Sequence[Evidence]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_SIGNS[one.cause] for one in records if one.cause in _SIGNS))


def _changes(before: Verdicts, after: Verdicts) -> list[str]:
    return [f"{name} became {after.get(name)}" for name in before if after.get(name) is not before[name]]


def run(attacks: Sequence[Attack], *, judges: int = JUDGES, compare: bool = True) -> tuple[list[Tried], list[str]]:
    """Try the attacks, in the order given, on several judges side by side; also what is wrong at the end."""
    os.environ[hostile.ENVIRONMENT] = "".join(hostile.SECRETS["the environment"])
    leftovers.adopt_orphans()
    listener = leftovers.Listener()
    waiting, lock = list(enumerate(attacks)), threading.Lock()
    tried: dict[int, Tried] = {}
    wrong: list[str] = []
    known: set[int] = set()
    ready = threading.Barrier(judges)

    def serve() -> None:
        try:
            with ExitStack() as stack:
                judge = stack.enter_context(Judge(include_hidden=True))
                plainly = stack.enter_context(plain.Plainly()) if compare else None
                known.update({judge.pid, *([plainly.pid] if plainly else [])})
                ready.wait(120)
                bench = Bench(judge, listener)
                while True:
                    with lock:
                        if not waiting:
                            break
                        number, attack = waiting.pop(0)
                    tried[number] = one = bench.attempt(attack, frozenset(known), plainly)
                    with lock:
                        print(_line(one, len(tried), len(attacks)), flush=True)
                wrong.extend(bench.close())
                bench.folder.rmdir()
        except BaseException as error:
            ready.abort()
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=serve) for _ in range(judges)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [tried[number] for number in sorted(tried)], wrong


def _line(one: Tried, number: int, total: int) -> str:
    outcome = "; ".join([*(f"WON: {what}" for what in one.won), *(f"LEFT: {what}" for what in one.left)]) or one.came
    beside = f" | plain: {one.plainly.words}" if one.plainly else ""
    return f"[{number:2}/{total}] {one.attack.id:<38} {one.wall_s:4.1f} s  {outcome[:160]}{beside}"


def table(tried: Sequence[Tried]) -> str:
    """The comparison as Markdown."""
    rows = ["| attack | plain pytest | here |", "|---|---|---|"]
    for one in tried:
        here = "; ".join((*one.won, *one.left)) or f"held ({one.came})"
        beside = one.plainly.words if one.plainly else ""
        rows.append("| " + " | ".join(cell.replace("|", "/") for cell in (one.attack.title, beside, here)) + " |")
    won = sum(1 for one in tried if one.plainly and one.plainly.won)
    lost = sum(1 for one in tried if one.plainly and one.plainly.lost)
    here = sum(1 for one in tried if one.won or one.left)
    rows += [
        "",
        f"Of {len(tried)} attacks {won} win against plain pytest and {lost} more leave no report or something behind; here {here} do.",
    ]
    return "\n".join(rows)


def write_table(path: Path, tried: Sequence[Tried]) -> None:
    """Put the table between its two marks in a document."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(TABLE[0])
    _, _, after = rest.partition(TABLE[1])
    path.write_text(f"{before}{TABLE[0]}\n{table(tried)}\n{TABLE[1]}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m grader.attack [--table FILE] [--only ID…]`."""
    parser = argparse.ArgumentParser(prog="python -m grader.attack", description=__doc__)
    parser.add_argument("--table", type=Path, help="a document with the two marks, to write the comparison into")
    parser.add_argument("--only", nargs="+", default=(), metavar="ID", help="these attacks or groups only")
    options = parser.parse_args(arguments)
    attacks = [one for one in hostile.load() if not options.only or {one.id, one.group} & set(options.only)]
    tried, wrong = run(attacks)
    for what in wrong:
        print(f"afterwards: {what}")
    if options.table and not wrong:
        write_table(options.table, tried)
    won, left = sum(1 for one in tried if one.won), sum(1 for one in tried if one.left)
    print(f"{len(tried)} attacks, {won} won, {left} left anything behind")
    return 1 if won or left or wrong or len(tried) < len(attacks) or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
