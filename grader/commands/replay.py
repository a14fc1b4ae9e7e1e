"""`nox -s replay -- CODE`: one history, step by step, on the files in student/."""

from __future__ import annotations

import functools
import os
import random
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing

import pytest

from grader import assemble, histories, intake, sandbox
from grader.commands import own
from grader.faults import Player
from grader.histories import CodeError, History, code
from grader.lab import Lab
from grader.session import BudgetSpent, Session
from grader.whole import WholePlayer

WIDTH = 78


def spoken(text: str) -> None:
    """Print a line on any screen: what its encoding lacks is escaped."""
    coding = sys.stdout.encoding or "ascii"
    print(text.encode(coding, "backslashreplace").decode(coding))


def replay(words: list[str], say: Callable[[str], None] = spoken) -> int:
    """Play the history that the code stands for; returns the exit code: 0 played, 1 our fault, 2 no such code."""
    try:
        history = histories.parse(" ".join(words))
    except CodeError as error:
        say(f"This is no replay code: {error}.")
        return 2
    one = own.submission()
    if isinstance(one, intake.Refusal):
        say(f"{one.reason} {one.advice}")
        return 2
    files = assemble.workspace(one)
    try:
        with closing(sandbox.Stage()) as stage:
            _play(Session(functools.partial(sandbox.start, stage, files, slot=os.getpid() % 4000)), history, say)
    except sandbox.Unavailable:
        say("(practice: without a sandbox, in a plain process)")
        try:
            _play(Session(functools.partial(sandbox.practice, files)), history, say)
        except sandbox.Unavailable as problem:
            say(f"It could not be played, through no fault of your code: {problem}.")
            return 1
    return 0


def _play(session: Session, history: History, say: Callable[[str], None]) -> None:
    lab = Lab(session, random.Random(0), shown=True)
    player: Player | WholePlayer = WholePlayer(lab) if history[0].whole_worker else Player(lab)
    player.watch = _Watch(say)
    _say(say, f"Replay of {code(history)}: " + "; then ".join(step.words for step in history) + ".")
    try:
        finding = player.play(history)
    except (pytest.skip.Exception, BudgetSpent):
        say("")
        _say(say, f"Not executed: {lab.seen[0] if lab.seen else 'the time for one submission was used up'}")
        return
    except AssertionError as problem:  # the lab's own way of saying that a file could not be read
        say("")
        _say(say, str(problem))
        return
    finally:
        session.close()
    say("")
    for number, text in enumerate(player.steps, 1):
        _say(say, f"{number}. {text}", indent="   ")
    say("")
    if finding is None:
        _say(say, f"{code(history)}: nothing wrong was seen in this history. Others were not played.")
    else:
        _say(say, finding.sentence)


class _Watch:
    """Prints each statement, and what a fresh connection sees whenever that has changed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.state = ""

    def __call__(self, statement: str, state: str) -> None:
        if state != self.state:
            _say(self.say, f"a fresh connection {'now ' if self.state else ''}sees {state}", indent="        ")
            self.state = state
        _say(self.say, statement, indent="     ")


def _say(say: Callable[[str], None], text: str, indent: str = "") -> None:
    first = indent[:-2] if len(indent) > 3 else ""
    say(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=indent))
