"""What a student says happened (answers.toml), set beside what was seen. Nothing claimed counts as executed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from rubric.criteria import Claim, Rubric
from rubric.visible import visible

BYTES_MAX = 64 * 1024
NOTED_MAX = 20  # commands that are looked at
COMMAND_MAX = 200  # characters kept
OBSERVED_MAX = 2_000


class Standing(StrEnum):
    """How a student's claim stands beside what was seen."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    NOT_CHECKABLE = "not checkable here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """Something the student says happened. Never counted as executed."""

    command: str
    observed: str
    standing: Standing
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One [[run]] block: a command, what it showed, and the status the student gave it."""

    command: str
    observed: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What could be read. `trouble` is one sentence for the student, "" when all was read."""

    noted: tuple[Noted, ...] = ()
    trouble: str = ""


def read(content: bytes) -> Answers:
    """Read the bytes of an answers.toml; whatever is in them, this raises nothing."""
    if len(content) > BYTES_MAX:
        return Answers(trouble=f"answers.toml is larger than {BYTES_MAX // 1024} KiB, so it was not read.")
    try:
        document = msgspec.toml.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        where = re.search(r"line (\d+)", str(error))
        place = f" at line {where.group(1)}" if where else ""
        return Answers(trouble=f"answers.toml is not valid TOML{place}, so the commands you noted were not read.")
    blocks = document.get("run", []) if isinstance(document, dict) else []
    if not isinstance(blocks, list):
        return Answers(trouble="In answers.toml, write each command as a [[run]] block of its own.")
    noted = tuple(noted for block in blocks[:NOTED_MAX] if (noted := _noted(block)) is not None)
    more = len(blocks) - NOTED_MAX
    return Answers(noted=noted, trouble=f"The last {more} [[run]] blocks were not read." if more > 0 else "")


def _noted(block: Any) -> Noted | None:
    """A block with a command about which anything is said; None for the template's empty one."""
    if not isinstance(block, dict):
        return None
    command, observed, status = (_text(block.get(name)) for name in ("command", "observed", "status"))
    if not command or (not observed and status != "executed"):
        return None
    return Noted(command=command, observed=observed, status=status)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def beside(answers: Answers, rubric: Rubric, met: Callable[[str], bool | None]) -> tuple[Claimed, ...]:
    """Each noted command beside what was seen. `met` says of a criterion id: executed and met, not met, or unknown."""
    known = {_words(claim.command): claim for claim in rubric.claims}
    claimed = []
    for noted in answers.noted:
        standing, because = _standing(noted, known.get(_words(noted.command)), rubric, met)
        claimed.append(
            Claimed(
                command=visible(noted.command, limit=COMMAND_MAX),
                observed=visible(noted.observed, lines=True, limit=OBSERVED_MAX),
                standing=standing,
                because=because,
            )
        )
    return tuple(claimed)


def _words(command: str) -> str:
    """The command without what makes no difference: spaces, a prompt, python for python3."""
    words = command.split()
    if words and words[0] in ("$", ">", "%"):
        words = words[1:]
    if words and re.fullmatch(r"python(3(\.\d+)?)?|py", words[0]):
        words[0] = "python3"
    return " ".join(words)


def _standing(
    noted: Noted, claim: Claim | None, rubric: Rubric, met: Callable[[str], bool | None]
) -> tuple[Standing, str]:
    if noted.status != "executed":
        return Standing.NOT_CHECKABLE, "You did not mark this command as executed."
    if claim is None:
        return Standing.NOT_CHECKABLE, "This command is not one that is run again here."
    code = rubric.get(claim.criterion).code
    seen = met(claim.criterion)
    if seen is None:
        return Standing.NOT_CHECKABLE, f"The check that runs the same ({code}) was not executed."
    if not noted.observed:
        return Standing.NOT_CHECKABLE, "You noted no outcome."
    if not seen:
        return Standing.NOT_SUPPORTED, f"The same was run here ({code}), and it did not come out as expected."
    missing = [number for number in claim.numbers if not re.search(rf"(?<![\d.]){number}(?!\d)", noted.observed)]
    if missing:
        numbers = " and ".join(str(number) for number in missing)
        return Standing.NOT_SUPPORTED, f"The same was run here ({code}); what you noted does not show {numbers}."
    return Standing.SUPPORTED, f"The same was run here ({code}), and it came out as expected."
