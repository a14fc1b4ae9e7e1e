"""Proves that no hostile submission wins: every attack of the corpus is handed in, graded, and looked for afterwards.

What winning is, `trial.py` says. Beside it the same attack meets a plain pytest run in one process; the table of both
is written into a document.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from grader import hostile, leftovers, plain
from grader.hostile import Attack
from grader.runner import Judge
from grader.trial import Trial, Tried

JUDGES = 2
TABLE = ("<!-- attacks -->", "<!-- /attacks -->")


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
                trial = Trial(judge, listener)
                while True:
                    with lock:
                        if not waiting:
                            break
                        number, attack = waiting.pop(0)
                    tried[number] = one = trial.attempt(attack, frozenset(known), plainly)
                    with lock:
                        print(_line(one, len(tried), len(attacks)), flush=True)
                wrong.extend(trial.close())
                trial.folder.rmdir()
        except BaseException as error:
            ready.abort()
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=serve) for _ in range(judges)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listener.close()
    return [tried[number] for number in sorted(tried)], wrong


def _line(one: Tried, number: int, total: int) -> str:
    outcome = "; ".join([*(f"WON: {what}" for what in one.won), *(f"LEFT: {what}" for what in one.left)]) or one.came
    beside = f" | plain: {one.plainly.words}" if one.plainly else ""
    return f"[{number:2}/{total}] {one.attack.id:<38} {one.wall_s:4.1f} s  {outcome[:160]}{beside}"


def table(tried: Sequence[Tried]) -> str:
    """The comparison as Markdown."""
    rows = ["| attack | plain pytest | here |", "|---|---|---|"]
    for one in tried:
        came = "; ".join((*one.won, *one.left)) or f"held ({one.came})"
        cells = (one.attack.title, one.plainly.words if one.plainly else "", came)
        rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    beside = [one.plainly for one in tried if one.plainly]
    won, lost = sum(1 for one in beside if one.won), sum(1 for one in beside if one.lost)
    here = sum(1 for one in tried if one.won or one.left)
    summary = (
        f"Of {len(tried)} attacks {won} win against plain pytest, and {lost} more cost it the report or leave something"
    )
    return "\n".join([*rows, "", f"{summary} behind. Here {here} do."])


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
    for trouble in wrong:
        print(f"afterwards: {trouble}")
    if options.table and not wrong:
        write_table(options.table, tried)
    won, left = (sum(map(bool, column)) for column in ([one.won for one in tried], [one.left for one in tried]))
    print(f"{len(tried)} attacks, {won} won, {left} left anything behind")
    return 1 if won or left or wrong or len(tried) < len(attacks) or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
