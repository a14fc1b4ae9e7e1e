"""What a worker is told when student code calls back: how an effect writes and fails, what an operation gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """An error that an effect or an operation raises: its class by name ("sub:X" is a fresh subclass) and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """An operation that itself retries: the answers of the inner operation, one a call."""

    answers: tuple[Any, ...]


@dataclass(slots=True, kw_only=True)
class Effect:
    """What an effect does when it is called: it writes, and fails the first `times` calls."""

    write: str = "credit"
    error: Error | None = None
    times: int = 0
    after_writing: bool = True
    called: int = 0

    def answer(self) -> dict[str, Any]:
        """The next call's orders for the worker."""
        self.called += 1
        if self.error is None or self.called > self.times:
            return {"write": self.write}
        error = [self.error.name, self.error.text]
        return {"write": self.write, "raise": error} if self.after_writing else {"write": "nothing", "raise": error}


def answers(operation: list[Any]) -> Iterator[dict[str, Any]]:
    """The answers of an operation, one a call; the last one is repeated for ever."""
    queue: list[Any] = list(operation)
    while True:
        first = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(first, Nested):
            yield {"nested": True}
            inner = answers(list(first.answers))
            yield from inner  # all further calls: the outer operation's next call gets what the inner one would
        elif isinstance(first, Error):
            yield {"raise": [first.name, first.text]}
        else:
            yield {"value": first}
