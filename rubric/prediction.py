"""What a machine can say of a prediction: how complete it is, where it differs, and what the student's own log says.

None of it earns points, and none of it proves that the prediction came first: the log is the student's own.
"""

import hashlib
import json
import tomllib
from typing import Any

from rubric.criteria import Prediction
from rubric.visible import visible

BYTES_MAX = 64 * 1024
LINES_MAX = 2_000
SHOWN_MAX = 40  # characters of one guess


def facts(answers: bytes, log: bytes | None, wanted: Prediction) -> tuple[str, ...]:
    """Sentences about the prediction in the bytes of an answers.toml; whatever is in them, this raises nothing."""
    guessed = _prediction(answers)
    if guessed is None:
        return ()
    boxes = {name: _box(guessed, name) for name in wanted.expected}
    cases = {name: _case(guessed, name) for name in wanted.cases}
    filled = [name for name, value in boxes.items() if value is not None]
    filled += [name for name, row in cases.items() if row is not None]
    total = len(boxes) + len(cases)
    if not filled:
        return ("No box of the prediction is filled in.",)
    other = [
        f"{name} (predicted {_shown(boxes[name])}, the lab shows {right})"
        for name, right in wanted.expected.items()
        if boxes[name] is not None and (type(boxes[name]) is not int or boxes[name] != right)
    ]
    other += [
        f"{name} (predicted {_shown(cases[name])})"
        for name, right in wanted.cases.items()
        if cases[name] is not None and cases[name] != list(right)
    ]
    said = f"It differs from what the lab shows in: {'; '.join(other)}." if other else "It agrees with the lab."
    return (f"Prediction: {len(filled)} of {total} boxes filled in.", said, _order(guessed, log))


def _prediction(answers: bytes) -> dict[str, Any] | None:
    try:
        text = answers[: BYTES_MAX + 1].decode("utf-8-sig")
        found = tomllib.loads(text).get("prediction") if len(answers) <= BYTES_MAX else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _box(guessed: dict[str, Any], name: str) -> Any:
    """One box by its dotted name; None where it is empty."""
    value: Any = guessed
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value == "" else value


def _case(guessed: dict[str, Any], name: str) -> list[Any] | None:
    row = _box(guessed, f"cases.{name}")
    return row if isinstance(row, list) and any(cell != "" for cell in row) else None


def _shown(value: Any) -> str:
    return visible(str(value), limit=SHOWN_MAX)


def _order(guessed: dict[str, Any], log: bytes | None) -> str:
    """What the log of runs says about which came first. It is the student's own log."""
    first = _first_run(log)
    if first is None:
        return "No log of runs was handed in, so nothing is known about what came first."
    if not first.get("predicted"):
        return "By the log handed in, the first run came before the prediction (the log is the student's own)."
    # The same text as the student's side makes, so that both have one digest.
    digest = hashlib.sha256(json.dumps(guessed, sort_keys=True, default=str).encode()).hexdigest()
    if first.get("prediction_sha256") == digest:
        return "By the log handed in, it is unchanged since before the first run (the log is the student's own)."
    return "By the log handed in, it was changed after the first run (the log is the student's own)."


def _first_run(log: bytes | None) -> dict[str, Any] | None:
    for line in (log or b"").split(b"\n")[:LINES_MAX]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("command"), str) and "test" not in found["command"]:
            return found
    return None
