"""`nox -s selfcheck`: the grader judges what is known, and must judge it right.

Untouched stubs are unexecuted, the model answers meet everything that can be met without a reviewer, every known
mistake fails the criteria named for it, every correct variant meets all, the sample class has its golden evidence.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader import assemble, catalogue, facts, intake, pool
from grader.catalogue import Entry
from rubric import criteria, evidence, feedback, files, gradebook, report, terminal
from rubric.criteria import Kind, Rubric
from rubric.evidence import Evidence, Status, Verdict
from rubric.gradebook import ClassRow

README = assemble.PACKAGE / "README.md"
_SAMPLE = re.compile(r"(<!-- sample: grade -->)\n.*?(<!-- /sample -->)", re.DOTALL)
GOLDEN = assemble.PACKAGE / "fixtures" / "evidence"
SAMPLE = assemble.PACKAGE / "fixtures" / "submissions"
SEED = 20_261_130
"""Of the self-check's runs: golden evidence holds inputs that were drawn from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    files: dict[str, bytes]


@dataclass(slots=True, kw_only=True)
class Judged:
    """Everything that was judged: records by key, and what was found wrong about them, in sentences."""

    rubric: Rubric
    records: dict[str, tuple[Evidence, ...]] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    rows: list[ClassRow] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def failed(self, key: str) -> set[str]:
        """The codes of the criteria that were executed and not met."""
        return {self.rubric.get(one.criterion).code for one in self.records[key] if one.verdict is Verdict.NOT_MET}

    def unmet(self, key: str) -> set[str]:
        """The codes of the executable criteria that were not executed and met."""
        return {
            self.rubric.get(one.criterion).code
            for one in self.records[key]
            if self.rubric.get(one.criterion).kind is Kind.EXECUTED and one.verdict is not Verdict.MET
        }


def selfcheck(console: Console, *, record: bool) -> int:
    """Judge all of it and say what was found; returns 0 when everything was judged right, else 1."""
    rubric = criteria.load()
    model = catalogue.reference()
    mistakes, variants = catalogue.load(catalogue.MISTAKES), catalogue.load(catalogue.VARIANTS)
    stubs = {name: data for name in model if (data := assemble.stub(name)) is not None}
    solutions = {"stubs": stubs, "reference": model}
    solutions |= {entry.id: catalogue.written(entry, model) for entry in (*mistakes, *variants)}
    work = [
        pool.Work(key=key, files=assemble.workspace(_Files(files=held)), seed=SEED) for key, held in solutions.items()
    ]
    uploads = {upload.key: intake.read(upload) for upload in intake.find(SAMPLE)}
    sample = {key: one for key, one in uploads.items() if isinstance(one, intake.Submission)}
    work += [
        pool.Work(key=f"sample/{key}", files=assemble.workspace(one), seed=facts.seed_of(SEED, one.digest))
        for key, one in sample.items()
    ]
    judged = Judged(rubric=rubric)
    judged.wrong += [f"the sample {key} was refused: {one.reason}" for key, one in uploads.items() if key not in sample
                     and isinstance(one, intake.Refusal)]  # fmt: skip
    _judge(judged, work, sample, console)
    _check_ends(judged)
    caught = _check_mistakes(judged, mistakes)
    passing = _check_variants(judged, variants)
    golden = _check_sample(judged, sample, record=record)
    _check_readme(judged, record=record)
    alone = _alone(judged, mistakes)
    _say(console, f"untouched stubs: {len(judged.unmet('stubs'))} criteria unexecuted, 0 points")
    executable = sum(one.points for one in rubric.criteria if one.kind is Kind.EXECUTED)
    earned = sum(one.earned for one in judged.records["reference"])
    _say(console, f"model answers: {earned} of {executable} points that need no reviewer")
    _say(console, f"mutants caught {caught}/{len(mistakes)}")
    _say(console, f"variants passing {passing}/{len(variants)}")
    _say(console, f"sample class: {golden} of {len(uploads)} as recorded" + (", recorded anew" if record else ""))
    _say(console, f"criteria that alone catch some mutant: {' '.join(alone) or 'none'}")
    rest = [one.code for one in rubric.criteria if one.kind is Kind.EXECUTED and one.code not in alone]
    _say(console, f"criteria that catch nothing alone: {' '.join(rest) or 'none'}")
    for sentence in judged.wrong:
        _say(console, f"WRONG: {sentence}")
    _say(console, "self-check passed" if not judged.wrong else f"self-check failed: {len(judged.wrong)} findings")
    return 1 if judged.wrong else 0


def _judge(
    judged: Judged, work: Sequence[pool.Work], sample: Mapping[str, intake.Submission], console: Console
) -> None:
    with tempfile.TemporaryDirectory(prefix="selfcheck-") as folder:
        for number, one in enumerate(pool.graded(work, Path(folder), jobs=os.cpu_count() or 1), 1):
            key = one.work.key
            if one.run.reason is not None:
                judged.wrong.append(f"{key} was not graded: {one.run.reason}")
                held = report.Report(tests=())
            else:
                held = report.read(one.report)
            submission = sample.get(key.removeprefix("sample/")) if key.startswith("sample/") else None
            run, beside = None, dict[str, bytes]()
            if submission is not None:
                run = facts.run_json(submission, seed=one.work.seed, ran=one.run, started="", reason=one.run.reason)
                beside = intake.written(submission)
            answers, log = beside.get("answers.toml"), beside.get("runs.jsonl")
            judged.records[key] = evidence.map_report(held, judged.rubric, run=run, answers=answers, log=log)
            judged.nodes[key] = {test.nodeid for test in held.tests}
            if submission is not None:
                judged.rows.append(gradebook.graded(feedback.build(judged.records[key], judged.rubric, run)))
            if number % 20 == 0 or number == len(work):
                _say(console, f"  judged {number} of {len(work)}")


def _check_ends(judged: Judged) -> None:
    """Stubs, model answers, and the two lists of tests: the rubric's and those that ran."""
    rubric = judged.rubric
    for one in judged.records["stubs"]:
        if one.status is not Status.UNEXECUTED or one.earned:
            judged.wrong.append(f"untouched stubs: {one.criterion} is {one.status}, with {one.earned} points")
    unmet = judged.unmet("reference")
    if unmet:
        judged.wrong.append(f"the model answers do not meet {' '.join(sorted(unmet))}")
    listed = {node for one in rubric.criteria for node in one.tests} | {rubric.control_test}
    ran = judged.nodes["reference"]
    judged.wrong += [f"the rubric lists {node}, which did not run" for node in sorted(listed - ran)]
    judged.wrong += [f"{node} ran, and no criterion of the rubric lists it" for node in sorted(ran - listed)]


def _check_mistakes(judged: Judged, mistakes: Sequence[Entry]) -> int:
    caught = 0
    for entry in mistakes:
        missing = set(entry.criteria) - judged.failed(entry.id)
        caught += bool(judged.failed(entry.id)) and not missing
        if missing or not entry.criteria:
            judged.wrong.append(f"{entry.id} ({entry.idea}) does not fail {' '.join(sorted(missing)) or 'anything'}")
    return caught


def _check_variants(judged: Judged, variants: Sequence[Entry]) -> int:
    judged.wrong += [
        f"{entry.id} is right ({entry.idea}) and does not meet {' '.join(sorted(judged.unmet(entry.id)))}"
        for entry in variants
        if judged.unmet(entry.id)
    ]
    return sum(not judged.unmet(entry.id) for entry in variants)


def _check_sample(judged: Judged, sample: Mapping[str, intake.Submission], *, record: bool) -> int:
    right = 0
    for key in sample:
        content = files.json_bytes({"submission": key, "records": judged.records[f"sample/{key}"]})
        path = GOLDEN / f"{key}.json"
        if record:
            path.parent.mkdir(exist_ok=True)
            files.write(path, content)
        same = path.is_file() and path.read_bytes() == content
        right += same
        if not same:
            judged.wrong.append(f"the sample {key} differs from {path.relative_to(assemble.PACKAGE)}")
    return right


def _check_readme(judged: Judged, *, record: bool) -> None:
    """The README shows the class table of the sample class as the package prints it."""
    text = io.StringIO()
    console = Console(file=text, width=80, color_system=None, legacy_windows=False)
    terminal.class_table(sorted(judged.rows, key=lambda row: row.key), console)
    table = "\n".join(line.rstrip() for line in text.getvalue().splitlines())
    held = README.read_text(encoding="utf-8")
    shown = _SAMPLE.sub(lambda match: f"{match[1]}\n```\n{table.strip(chr(10))}\n```\n{match[2]}", held)
    if record:
        files.write(README, shown.encode("utf-8"))
    elif shown != held:
        judged.wrong.append("README.md shows another class table than the package prints")


def _alone(judged: Judged, mistakes: Sequence[Entry]) -> list[str]:
    """The criteria that are the only one to catch some known mistake, in the rubric's order."""
    single = {code for entry in mistakes if len(judged.failed(entry.id)) == 1 for code in judged.failed(entry.id)}
    return [one.code for one in judged.rubric.criteria if one.code in single]


def _say(console: Console, sentence: str) -> None:
    console.print(Text(sentence), soft_wrap=True)
