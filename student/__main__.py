"""The commands of the lab: `python3 -m student` from the folder that holds `student`. Standard library only."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
import tomllib
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from student.lab import drill

HERE = Path(__file__).resolve().parent
WORK = HERE / "work"
STUB = "Not written yet: {stub}\nOpen student/{module}.py: its docstrings say what is asked."
UNFINISHED = 3
"""Exit code when a stub is not written yet."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 tests did not pass, 2 usage, 3 stub not written."""
    about = "Redelivery lab. Without a command: the drill."
    parser = argparse.ArgumentParser(prog="python3 -m student", description=about)
    parser.add_argument("--deliveries", type=Path, default=None, help="drill over another file, as your practice copy")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("demo", help="the four traces, one JSON object a case")
    case = commands.add_parser("case", help="one trace")
    case.add_argument("name", choices=drill.CASES)
    commands.add_parser("test", help="your own tests in student/tests")
    asked = parser.parse_args(arguments)
    if asked.command == "test":
        return _test()
    steps: dict[str | None, Callable[[], Any]] = {
        None: lambda: _drill(asked.deliveries),
        "demo": _demo,
        "case": lambda: _case(asked.name),
    }
    words = " ".join(["python3 -m student", *filter(None, (asked.command, getattr(asked, "name", None)))])
    try:
        result = steps[asked.command]()
    except NotImplementedError as error:
        stub, colon, _ = str(error).partition(":")
        module, dot, _ = stub.partition(".")
        if not (colon and dot):
            raise
        _tell(STUB.format(stub=error, module=module))
        _log(words, {"unexecuted": f"stub not written: {stub}"})
        return UNFINISHED
    except drill.NoDeliveries as error:
        _tell(f"{error} Mend it, or leave --deliveries out.")
        return 2
    _log(words, result)
    return 0


def _drill(deliveries: Path | None) -> dict[str, Any]:
    if not _predicted():
        _tell("Note: [prediction] in student/answers.toml is empty. Guess first: wrong guesses cost nothing.")
    copy = WORK / "deliveries.json"
    try:
        if not copy.exists():  # to be changed at will; the original stays as it is
            WORK.mkdir(exist_ok=True)
            copy.write_bytes(drill.FIXTURE.read_bytes())
    except OSError as error:
        _tell(f"There is no practice copy of the deliveries: {error.strerror}.")
    result = drill.queue_drill(deliveries=deliveries or drill.FIXTURE)
    print(json.dumps(result, indent=2))
    return result


def _demo() -> list[Any]:
    _tell("Left-out acknowledgements model interruptions here; nothing is killed, and this is no cloud queue.")
    shown = []
    for trace in drill.demo():
        print(json.dumps(trace))
        shown.append(trace)
    return shown


def _case(name: str) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="redelivery-") as folder:
        trace = drill.run_case(folder, name)
    print(json.dumps({"case": name, "trace": trace}, indent=2))
    return trace


def _test() -> int:
    tests = unittest.defaultTestLoader.discover(str(HERE / "tests"), top_level_dir=str(HERE.parent))
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    seen = {"run": result.testsRun, "skipped": len(result.skipped), "not passed": len(result.failures + result.errors)}
    _log("python3 -m student test", seen)
    return 0 if result.wasSuccessful() else 1


def _prediction() -> dict[str, Any]:
    try:
        found = tomllib.loads((HERE / "answers.toml").read_text(encoding="utf-8")).get("prediction", {})
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _predicted() -> bool:
    return any(value not in ("", None) for key, value in _prediction().items() if not isinstance(value, dict))


def _log(command: str, result: Any) -> None:
    """Add a line to work/runs.jsonl. It is your own record: a grader can compare it, not prove it."""
    prediction = json.dumps(_prediction(), sort_keys=True, default=str).encode()
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "predicted": _predicted(),
        "prediction_sha256": hashlib.sha256(prediction).hexdigest(),
        "fixture_sha256": _fixture_sha256(),
        "result": result,
    }
    try:
        WORK.mkdir(exist_ok=True)
        with open(WORK / "runs.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
    except OSError as error:
        _tell(f"The run was not noted in {WORK / 'runs.jsonl'}: {error.strerror}.")


def _fixture_sha256() -> str | None:
    try:
        return hashlib.sha256(drill.FIXTURE.read_bytes()).hexdigest()
    except OSError:
        return None


def _tell(sentence: str) -> None:
    """Words for the reader, kept apart from the result on standard output."""
    print(sentence, file=sys.stderr)


def _as_a_command() -> int:
    """`main` for a terminal: a reader that leaves early, as `| head -1` does, is no error."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(_as_a_command())
