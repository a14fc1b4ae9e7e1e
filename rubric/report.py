"""What ran: a pytest-json-report file, ours or anyone's, read with bounds and without trust in its details."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BYTES_MAX = 32 * 1024 * 1024
TESTS_MAX = 20_000
FACTS_MAX = 100  # sentences, steps or counts kept of one test
TEXT_MAX = 8_000  # characters kept of one sentence


class ReportError(Exception):
    """The file is no report that can be read: one sentence that names the file and what to do. Exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """One step that a test took and what it saw."""

    did: str
    saw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the grader's test left about itself; whatever had the wrong type is not there."""

    criterion: str = ""
    cause: str = ""
    seen: tuple[str, ...] = ()
    steps: tuple[Did, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    replay: str = ""  # the code of the shortest failing history, "" without one
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One entry of the report. Outcomes are pytest's words; a phase that is not there is ""."""

    nodeid: str
    outcome: str
    setup: str = ""
    call: str = ""
    teardown: str = ""
    facts: Facts | None = None  # None in a report without metadata

    @property
    def passed(self) -> bool:
        """Passed in every phase: an entry cut off in mid-run says "passed" and has no call phase."""
        return self.outcome == self.setup == self.call == self.teardown == "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All entries in their order. `doubts` are sentences about a summary that does not agree with the entries."""

    tests: tuple[Test, ...]
    doubts: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        """Whether the grader's own plugin took part; a foreign report has no metadata at all."""
        return any(test.facts is not None for test in self.tests)


def read(path: Path) -> Report:
    """Read the report in that file; raises ReportError, one sentence, when it is none or cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ReportError(f"The report {path} cannot be read ({error.strerror}); name a file that is there.") from error
    if len(content) > BYTES_MAX:
        raise ReportError(f"The report {path} is larger than {BYTES_MAX // 1024**2} MiB; it is hardly a report.")
    try:
        return parse(content)
    except ValueError as error:
        raise ReportError(
            f"The file {path} is no report of pytest-json-report ({error}); make one with pytest --json-report."
        ) from error


def parse(content: bytes) -> Report:
    """The report in those bytes; raises ValueError with a few words on why it is none."""
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError("it is not JSON, or was cut off") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    entries = document.get("tests", [] if "exitcode" in document and "summary" in document else None)
    if not isinstance(entries, list):
        raise ValueError("it has no list of tests")
    if len(entries) > TESTS_MAX:
        raise ValueError(f"it has more than {TESTS_MAX} tests")
    tests = tuple(test for entry in entries if (test := _test(entry)) is not None)
    if entries and not tests:
        raise ValueError("none of its tests has a node id and an outcome")
    return Report(tests=tests, doubts=_doubts(tests, len(entries), document.get("summary")))


def _test(entry: Any) -> Test | None:
    """One entry, or None when it has no node id or no outcome."""
    if not isinstance(entry, dict):
        return None
    nodeid, outcome = entry.get("nodeid"), entry.get("outcome")
    if not isinstance(nodeid, str) or not isinstance(outcome, str):
        return None
    return Test(
        nodeid=nodeid,
        outcome=outcome,
        setup=_phase(entry, "setup"),
        call=_phase(entry, "call"),
        teardown=_phase(entry, "teardown"),
        facts=_facts(entry["metadata"]) if isinstance(entry.get("metadata"), dict) else None,
    )


def _phase(entry: dict[str, Any], name: str) -> str:
    phase = entry.get(name)
    return _text(phase.get("outcome")) if isinstance(phase, dict) else ""


def _facts(metadata: dict[str, Any]) -> Facts:
    """The grader's facts, each one only if it has the type it should have."""
    counts = metadata.get("counts")
    history = metadata.get("history")
    if not isinstance(history, dict) or not _text(history.get("code")):
        history = {}
    return Facts(
        criterion=_text(metadata.get("criterion")),
        cause=_text(metadata.get("cause")),
        seen=_texts(metadata.get("seen")),
        steps=tuple(
            Did(did=_text(step["did"]), saw=_text(step.get("saw")))
            for step in _list(metadata.get("steps"))
            if isinstance(step, dict) and _text(step.get("did"))
        ),
        counts={
            name[:TEXT_MAX]: number
            for name, number in list(counts.items() if isinstance(counts, dict) else ())[:FACTS_MAX]
            if type(number) is int and abs(number) < 2**63
        },
        replay=_text(history.get("code")),
        history=_texts(history.get("steps")),
    )


def _list(value: Any) -> list[Any]:
    return value[:FACTS_MAX] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in _list(value) if _text(one))


def _doubts(tests: tuple[Test, ...], entries: int, summary: Any) -> tuple[str, ...]:
    """Where the summary and the entries disagree. The entries count; the summary is a cross-check."""
    doubts = []
    if entries != len(tests):
        doubts.append(f"{entries - len(tests)} entries of the report could not be read and were left out.")
    twice = sum(times > 1 for times in Counter(test.nodeid for test in tests).values())
    if twice:
        doubts.append(f"{twice} tests are in the report more than once; the worst entry counts.")
    if not isinstance(summary, dict):
        return (*doubts, "The report has no summary to compare its tests with.")
    held = Counter(test.outcome for test in tests) + Counter(total=len(tests))
    wrong = []
    for name in ("total", "passed", "failed", "skipped", "error"):
        said = summary.get(name, 0)
        if said != held[name]:
            said = said if isinstance(said, int) and abs(said) < 10**9 else "something else"
            wrong.append(f"{name} {said}, not {held[name]}")
    if wrong:
        doubts.append(f"The report's summary disagrees with its tests ({'; '.join(wrong)}); the tests count.")
    return tuple(doubts)
