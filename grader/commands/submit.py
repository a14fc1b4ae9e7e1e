"""`nox -s submit`: packs the editable files into one zip, says what is missing, and prints the digest."""

from __future__ import annotations

import zipfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader import assemble, intake
from grader.commands import own

OUT = assemble.PACKAGE / "submission.zip"
_STAMP = (1980, 1, 1, 0, 0, 0)
"""One time for all members: the same files always make the same zip."""
_WORDS = {
    "missing": "is not there",
    "empty": "is empty",
    "unchanged stub": "is as it was handed out",
    "too large": "is too large and was left out",
}
_OPTIONAL = ("resource_plan.md",)


def submit(console: Console, out: Path = OUT) -> int:
    """Pack student/; returns the exit code: 0 packed, also when something is missing, 2 nothing to pack."""
    one = own.submission()
    if isinstance(one, intake.Refusal):
        console.print(Text(f"{one.reason} {one.advice}"))
        return 2
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(one.files.items()):
            member = zipfile.ZipInfo(f"student/{name}", _STAMP)
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(member, data)
    packed = intake.read(intake.Upload(key=own.KEY, source=out))
    if isinstance(packed, intake.Refusal) or packed.digest != one.digest:
        console.print(Text("The zip does not hold what was packed: is the disk full? Make room and do it again."))
        return 1
    for name, state in one.states.items():
        if state in _WORDS:
            optional = " (optional)" if name in _OPTIONAL else ""
            console.print(Text(f"  note: {name} {_WORDS[state]}{optional}."))
    for note in one.notes:
        console.print(Text(f"  note: {note}"), soft_wrap=True)
    console.print(Text(f"{len(one.files)} files packed into {out.name}"))
    console.print(Text(f"digest {one.digest}"), soft_wrap=True)
    return 0
