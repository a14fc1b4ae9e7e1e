"""HINTS.md for the students: the rubric's hint ladders, one for each criterion, grouped by task."""

from rubric.criteria import Kind, Rubric

TASKS = {
    "conflict": "Task 1: conflict.py",
    "ledger": "Task 2: ledger.py",
    "retry": "Task 3: retry.py",
    "review": "Task 4: review.py",
    "drill": "The drill",
    "tests": "Task 5: your own tests",
    "written": "Task 6: the written work",
}
RUNGS = ("The question", "The concept", "Try it")
HEAD = """# Hints

One ladder for each criterion: read the first line, think, and read on only when you are still stuck. The codes are those of the
feedback. Where to read is at the end of each ladder.
"""  # noqa: E501 - Markdown of the handout, one paragraph a line


def markdown(rubric: Rubric) -> str:
    """All ladders as Markdown, in the order of the tasks."""
    parts = [HEAD]
    for task, heading in TASKS.items():
        parts.append(f"\n## {heading}\n")
        for criterion in rubric.criteria:
            if criterion.id.partition(".")[0] != task:
                continue
            parts.append(f"\n### {criterion.code}: {criterion.title}\n\n")
            parts += [f"{at}. **{RUNGS[min(at, 3) - 1]}.** {hint}\n" for at, hint in enumerate(criterion.hints, 1)]
            if criterion.kind is Kind.EXECUTED:
                parts.append(f"\nRead: {criterion.read}\n")
    return "".join(parts)
