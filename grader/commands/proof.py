"""`nox -s proof`: how rarely the judge is wrong, in numbers, written to docs/proof.md and quoted by the README.

Every known mistake and every correct variant, every small change that a mutation tool makes to the model answers, and
twenty runs of some of them, are judged by the same grader that judges students.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader import assemble, catalogue, operators, pool
from grader.catalogue import Entry
from grader.commands.selfcheck import SEED, Judged
from grader.operators import Equivalent, Mutant
from rubric import criteria, evidence, files, report
from rubric.criteria import Kind

PAGE = assemble.PACKAGE / "docs" / "proof.md"
README = assemble.PACKAGE / "README.md"
MARKED = re.compile(r"(?<=<!-- proof -->\n).*?(?=<!-- /proof -->)", re.DOTALL)
RUNS = 20
REPEATED = 10
"""How many known mistakes are judged RUNS times, besides the model answers."""
SAY_EVERY = 20
HEAD = """# How rarely the judge is wrong

Written by `nox -s proof`; do not edit. All of it was judged by the grader that judges students, in its sandbox."""
MEANING = """A known mistake counts as caught when a criterion was executed and not met. The proof also asks for more:
each must fail all the criteria that the catalogue names for it, every listed equivalent must still be generated and not
be caught, and the model answers must meet everything."""
GENERATED = """Made by cosmic-ray's operators, and by our own for statements, arguments, elements, texts and SQL, from
the four files of the model answers. Left out: annotations, type variables, docstrings, imports."""
LIMITS = """- That no wrong solution passes. Catalogue and operators hold mistakes that somebody or something thought
  of; a new kind of mistake may pass.
- Anything about two mistakes at once: every entry changes the model answers in one respect.
- That the sandbox holds; attacks are tried by another command.
- Anything about written work, which a person reads.
- Anything about T1 and T2, which judge a student's own tests: no entry changes those.
- That another machine, seed or Python gives the same figures; `nox -s proof` repeats them on yours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is judged. `whole` is False for a selection, of which nothing is written."""

    mistakes: tuple[Entry, ...]
    variants: tuple[Entry, ...]
    mutants: tuple[Mutant, ...]
    equivalents: tuple[Equivalent, ...]
    repeated: tuple[str, ...]
    runs: int
    whole: bool


@dataclass(slots=True, kw_only=True)
class Seen:
    """What came of it: for every key the evidence of each of its runs, as bytes."""

    judged: Judged
    runs: dict[str, list[bytes]] = field(default_factory=dict)

    def caught(self, key: str) -> tuple[str, ...]:
        """The codes of the criteria that were executed and not met, in the rubric's order."""
        failed = self.judged.failed(key) if key in self.judged.records else set()
        return tuple(one.code for one in self.judged.rubric.criteria if one.code in failed)

    def unmet(self, key: str) -> set[str]:
        """The codes of the executable criteria that were not executed and met."""
        return self.judged.unmet(key) if key in self.judged.records else set()

    def passes(self, key: str) -> bool:
        """Everything that can be executed was executed and met."""
        return key in self.judged.records and not self.judged.unmet(key)

    def identical(self, key: str, runs: int) -> int:
        """How many of the runs gave the bytes that most of them gave."""
        return Counter(self.runs.get(key, [])).most_common(1)[0][1] if self.runs.get(key) else 0


def proof(console: Console, *, only: str, every: int) -> int:
    """Judge all of it and write the page; returns 0 when nothing was found, else 1.

    `only` selects one file of the model answers and `every` every so manieth of its changes: a trial, not a proof.
    """
    plan = planned(only=only, every=every)
    model = catalogue.reference()
    solutions = {"reference": model}
    solutions |= {entry.id: catalogue.written(entry, model) for entry in (*plan.mistakes, *plan.variants)}
    solutions |= {one.key: model | {one.file: one.code.encode()} for one in plan.mutants}
    keys = [*solutions, *(key for _ in range(plan.runs - 1) for key in plan.repeated)]
    _say(
        console,
        f"{len(plan.mistakes)} known mistakes, {len(plan.variants)} correct variants, {len(plan.mutants)} generated "
        f"changes, {plan.runs} runs of {len(plan.repeated)}: {len(keys)} runs",
    )
    seen = Seen(judged=Judged(rubric=criteria.load()))
    _judge(seen, keys, solutions, console)
    wrong = found(plan, seen)
    lines = headline(plan, seen)
    for sentence in (*lines, *(f"WRONG: {one}" for one in wrong)):
        _say(console, sentence)
    if plan.whole:
        files.write(PAGE, page(plan, seen, wrong).encode())
        files.write(README, MARKED.sub(lambda _: "\n".join(lines) + "\n", README.read_text("utf-8")).encode())
        _say(console, f"written: {PAGE.relative_to(assemble.PACKAGE)} and the figures in {README.name}")
    else:
        _say(console, "a selection: nothing was written")
    _say(console, "proof passed" if not wrong else f"proof failed: {len(wrong)} findings")
    return 1 if wrong else 0


def planned(*, only: str = "", every: int = 1) -> Plan:
    """What is to be judged; raises CatalogueError."""
    model = catalogue.reference()
    names = [name for name in assemble.STUBS if not only or name == only]
    if not names:
        raise catalogue.CatalogueError(f"--only is one of {', '.join(assemble.STUBS)}, not {only!r}")
    made = [one for name in names for one in operators.mutants(name, model[name].decode())]
    whole = not only and every == 1
    mistakes = catalogue.load(catalogue.MISTAKES)
    return Plan(
        mistakes=mistakes if whole else (),
        variants=catalogue.load(catalogue.VARIANTS) if whole else (),
        mutants=tuple(made[::every]),
        equivalents=tuple(one for one in operators.equivalents() if one.file in names),
        repeated=("reference", *(entry.id for entry in mistakes[:: len(mistakes) // REPEATED][:REPEATED]))
        if whole
        else (),
        runs=RUNS if whole else 1,
        whole=whole,
    )


def found(plan: Plan, seen: Seen) -> list[str]:
    """What the judge got wrong, or what no longer holds, in sentences."""
    wrong = list(seen.judged.wrong)
    if not seen.passes("reference"):
        wrong.append("the model answers do not meet everything")
    for entry in plan.mistakes:
        missing = set(entry.criteria) - set(seen.caught(entry.id))
        if missing or not entry.criteria:
            wrong.append(f"{entry.id} ({entry.idea}) does not fail {' '.join(sorted(missing)) or 'anything'}")
    wrong += [f"{one.id} is right ({one.idea}) and does not meet everything" for one in plan.variants
              if not seen.passes(one.id)]  # fmt: skip
    for one in plan.mutants:
        listed, caught = any(same.fits(one) for same in plan.equivalents), seen.caught(one.key)
        place = f"{one.file}:{one.line} {one.operator}: {one.before} -> {one.after}"
        if listed and caught:
            wrong.append(f"{place} stands on the list of equivalents, and fails {' '.join(caught)}")
        elif not listed and not caught:
            left = () if seen.passes(one.key) else ("; it leaves unexecuted:", *sorted(seen.unmet(one.key)))
            wrong.append(" ".join((f"{place} survives", *left)))
    if plan.whole:
        wrong += [f"{one.file}: {one.before} -> {after} stands on the list of equivalents, and is not generated"
                  for one, after in stale(plan.mutants, plan.equivalents)]  # fmt: skip
    for key in plan.repeated:
        if seen.identical(key, plan.runs) < plan.runs:
            wrong.append(f"{key}: {plan.runs} runs did not give the same evidence")
    return wrong


def stale(mutants: Iterable[Mutant], listed: Iterable[Equivalent]) -> list[tuple[Equivalent, str]]:
    """What the list of equivalents holds and no operator generates."""
    made = {(one.file, one.before, one.after) for one in mutants}
    return [(one, after) for one in listed for after in one.after if (one.file, one.before, after) not in made]


def headline(plan: Plan, seen: Seen) -> list[str]:
    """The figures, a line each."""
    caught = sum(bool(seen.caught(one.id)) for one in plan.mistakes)
    passing = sum(seen.passes(one.id) for one in plan.variants)
    equivalent = [one for one in plan.mutants if any(same.fits(one) for same in plan.equivalents)]
    noticed = sum(bool(seen.caught(one.key)) for one in plan.mutants)
    rest = len(plan.mutants) - noticed - sum(not seen.caught(one.key) for one in equivalent)
    lines = []
    if plan.whole:
        identical = sum(seen.identical(key, plan.runs) for key in plan.repeated)
        total = len(plan.repeated) * plan.runs
        accepted, rejected = len(plan.mistakes) - caught, len(plan.variants) - passing
        lines = [
            f"- known mistakes caught: {caught} of {len(plan.mistakes)} (**false accepts: {accepted}**)",
            f"- correct variants accepted: {passing} of {len(plan.variants)} (**false rejects: {rejected}**)",
        ]
    lines.append(
        f"- generated changes to the model answers: {len(plan.mutants)}; caught {noticed}, equivalent or about nothing"
        f" promised {len(equivalent)}, **survivors {rest}**"
    )
    if plan.whole:
        lines.append(
            f"- repeated runs with the same bytes of evidence: {identical} of {total}"
            f" ({plan.runs} each of the model answers and {len(plan.repeated) - 1} known mistakes)"
        )
    return lines


def page(plan: Plan, seen: Seen, wrong: Sequence[str]) -> str:
    """The whole of docs/proof.md: the same for the same facts, without dates or durations."""
    rubric = seen.judged.rubric
    executed = [one for one in rubric.criteria if one.kind is Kind.EXECUTED]
    known = _alone({entry.id: seen.caught(entry.id) for entry in plan.mistakes})
    made = _alone({one.key: seen.caught(one.key) for one in plan.mutants})
    failing = {code for entry in plan.mistakes for code in seen.caught(entry.id)}
    failing |= {code for one in plan.mutants for code in seen.caught(one.key)}
    silent = [one.code for one in executed if one.code not in failing]
    operator_names = Counter(re.sub(r"_.*", "", one.operator) for one in plan.mutants)
    parts = [
        HEAD,
        "## Figures",
        "\n".join(headline(plan, seen)),
        MEANING,
        *(["## Findings", "\n".join(f"- {_cell(one)}" for one in wrong)] if wrong else []),
        "## Criteria that alone catch something",
        "Without this criterion, these would pass. Known mistakes by id, generated changes by number.",
        _table(
            ("criterion", "checks", "known mistakes it alone catches", "generated changes it alone catches"),
            [(one.code, one.title, " ".join(known.get(one.code, ())) or "-", str(len(made.get(one.code, ()))))
             for one in executed if one.code in known or one.code in made],
        ),
        "Criteria that catch nothing alone: "
        + (" ".join(one.code for one in executed if one.code not in known and one.code not in made) or "none")
        + ". They show the same mistake from another side, and with another sentence.",
        "Criteria that nothing here fails: " + (" ".join(silent) or "none") + ".",
        "## Known mistakes",
        "The ids are those of `grader/mutants.toml`.",
        _table(
            ("id", "idea", "caught by", "alone by"),
            [(entry.id, entry.idea, " ".join(codes := seen.caught(entry.id)) or "**nothing**",
              codes[0] if len(codes) == 1 else "") for entry in plan.mistakes],
        ),
        "## Correct variants",
        "The ids are those of `grader/variants.toml`.",
        _table(
            ("id", "idea", "meets everything"),
            [(one.id, one.idea, "yes" if seen.passes(one.id) else "**no**") for one in plan.variants],
        ),
        "## Generated changes",
        GENERATED,
        _table(
            ("file", "generated", "caught", "equivalent or not promised"),
            [(name, str(len(of)), str(sum(bool(seen.caught(one.key)) for one in of)),
              str(sum(any(same.fits(one) for same in plan.equivalents) for one in of)))
             for name in assemble.STUBS for of in [[one for one in plan.mutants if one.file == name]]],
        ),
        _table(("operators", "generated"), [(name, str(number)) for name, number in sorted(operator_names.items())]),
        "### Equivalents",
        "No test can notice these: the changed program does the same.",
        _equivalents(one for one in plan.equivalents if not one.unpromised),
        "### Not promised",
        "A test could notice these. The hand-out promises nothing about them, so nobody may lose points for them.",
        _equivalents(one for one in plan.equivalents if one.unpromised),
        "## What this does not show",
        LIMITS,
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _alone(caught: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """For each criterion the keys that it alone catches."""
    alone: dict[str, list[str]] = {}
    for key, codes in caught.items():
        if len(codes) == 1:
            alone.setdefault(codes[0], []).append(key)
    return alone


def _equivalents(listed: Iterable[Equivalent]) -> str:
    rows = [
        (one.file, f"`{_cell(one.before)}`", "<br>".join(f"`{_cell(after)}`" for after in one.after), one.reason)
        for one in listed
    ]
    return _table(("file", "line", "becomes", "reason"), rows) if rows else "None."


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _judge(seen: Seen, keys: Sequence[str], solutions: Mapping[str, dict[str, bytes]], console: Console) -> None:
    work = [pool.Work(key=key, files=assemble.workspace(_Files(files=solutions[key])), seed=SEED) for key in keys]
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        for number, one in enumerate(pool.graded(work, Path(folder), jobs=os.cpu_count() or 1), 1):
            key = one.work.key
            if one.run.reason is not None:
                seen.judged.wrong.append(f"{key} was not graded: {one.run.reason}")
            else:
                held = report.read(one.report)
                records = evidence.map_report(held, seen.judged.rubric)
                seen.judged.records[key] = records
                seen.runs.setdefault(key, []).append(files.json_bytes(records))
            shutil.rmtree(one.report.parent)
            if number % SAY_EVERY == 0 or number == len(work):
                each = (time.monotonic() - start) / number
                left = each * (len(work) - number)
                _say(console, f"  judged {number} of {len(work)}, {1 / each:.1f} a second, {left / 60:.1f} min left")


def _say(console: Console, sentence: str) -> None:
    console.print(Text(sentence), soft_wrap=True)
