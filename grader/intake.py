"""Intake: from a folder of uploads to one Submission or one Refusal a student.

`find` names the uploads, `read` turns one into files in memory. What a student did by accident (a folder too
many, a browser's "ledger (1).py") is put right and said; what cannot be read is refused in plain words.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader import assemble
from grader.archive import Fault, Limits, Member, Refused, Zip, folder_members, is_junk, shown

__all__ = ["Fault", "IntakeError", "Limits", "Refusal", "Submission", "Upload", "find", "read"]

EDITABLE = (*assemble.STUBS, *assemble.WRITTEN)
LEVELS_MAX = 2  # folders around the wanted files, such as hw1/student/
FUNCTIONS = {
    "conflict.py": ("operation_key", "fingerprint", "check_replay"),
    "ledger.py": ("validate", "apply_event"),
    "retry.py": ("classify", "bounded_retry"),
    "review.py": ("record_rejection", "decide", "handle_delivery"),
}
_OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zipx")
_TAIL = re.compile(r"(?P<stem>.*?)(?P<tail>(?:-\d{1,4}|_\d{1,4}| ?\(\d{1,4}\)| - copy| copy(?: \d{1,4})?)+)", re.I)
_TEST_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}\.py")
_AGAIN = "Hand in the folder student/ with your files (`nox -s submit` packs it)."


class IntakeError(Exception):
    """The path given holds nothing to grade; the text is one sentence for the instructor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One student's upload: a folder or a file. `key` names the student in every output."""

    key: str
    source: Path
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The editable files of one student, keyed by name relative to student/; `digest` is over exactly these."""

    key: str
    source: Path
    files: dict[str, bytes]
    notes: tuple[str, ...]
    digest: str
    changed_given: tuple[str, ...]
    states: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An upload that was not graded, why, and what the student can do about it."""

    key: str
    source: Path
    fault: Fault
    reason: str
    advice: str
    notes: tuple[str, ...] = ()


def digest(files: dict[str, bytes]) -> str:
    """sha256 (hex) over names and bytes; the same files give the same digest, zipped or not."""
    total = hashlib.sha256()
    for name, data in sorted(files.items()):
        total.update(f"{name}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()


def find(path: Path, limits: Limits | None = None) -> list[Upload]:
    """The uploads of a class folder, one a student, sorted by key; a lone submission is a class of one.

    Raises IntakeError when there is no such path, or nothing in it that could be an upload.
    """
    del limits  # looking at names costs nothing; the caps are for reading
    try:
        if not path.exists():
            raise IntakeError(f"There is no folder {shown(str(path), 200)}.")
        if path.is_file():
            if path.suffix.casefold() != ".zip":
                raise IntakeError(f"{shown(str(path), 200)} is a file; give a folder of submissions or one .zip.")
            return [Upload(key=_text(path.stem), source=path)]
        if not path.is_dir():
            raise IntakeError(f"{shown(str(path), 200)} is neither a folder nor a .zip.")
        children = sorted(child for child in path.iterdir() if _is_upload(child))
        if _holds_stub(path) or [child.name for child in children if child.is_dir() and _holds_stub(child)] == [
            "student"
        ]:
            return [Upload(key=_text(path.resolve().name), source=path)]
    except OSError as error:
        raise IntakeError(f"{shown(str(path), 200)} cannot be read: {error.strerror}.") from error
    if not children:
        raise IntakeError(f"{shown(str(path), 200)} is empty: it holds no submission (a folder or a .zip a student).")
    return _named(children)


def _is_upload(child: Path) -> bool:
    if is_junk(child.name) or child.name.startswith("."):
        return False
    ending = child.suffix.casefold()
    return child.is_symlink() or child.is_dir() or ending == ".zip" or ending in _OTHER_ARCHIVES


def _holds_stub(folder: Path) -> bool:
    return any((folder / name).is_file() for name in assemble.STUBS)


def _text(name: str) -> str:
    """A file name as text that can be written as UTF-8, whatever bytes it has."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _named(children: Iterable[Path]) -> list[Upload]:
    """Two uploads never share a key: where names without ending are equal, the whole file names are kept."""
    plain = {
        child: _text(child.name if child.is_dir() and not child.is_symlink() else child.stem) for child in children
    }
    often = Counter(plain.values())
    taken: set[str] = set()
    uploads = []
    for child, key in plain.items():
        notes: tuple[str, ...] = ()
        if often[key] > 1:
            notes = (f"More than one upload is called {shown(key)}; each is graded on its own.",)
            key = _text(child.name)
        while key in taken:
            key += "+"
        taken.add(key)
        uploads.append(Upload(key=key, source=child, notes=notes))
    return sorted(uploads, key=lambda upload: upload.key)


def read(upload: Upload, limits: Limits | None = None) -> Submission | Refusal:
    """One upload as files in memory, or the reason why not. A broken upload is a value here, never an exception."""
    limits = limits or Limits()
    try:
        if upload.source.is_symlink():
            raise Refused(Fault.UNSAFE, "The upload is a link, which is never followed.", _AGAIN)
        if upload.source.is_dir():
            return _Reading(upload, list(folder_members(upload.source, limits)), limits).submission()
        with Zip(upload.source, limits) as archive:
            return _Reading(upload, list(archive.members()), limits).submission()
    except Refused as refused:
        return _refusal(upload, refused.fault, refused.reason, refused.advice)
    except OSError as error:
        reason = f"The upload cannot be read on this machine: {error.strerror or type(error).__name__}."
        return _refusal(upload, Fault.UNREADABLE, reason, "Someone must look at the file that was uploaded.")


def _refusal(upload: Upload, fault: Fault, reason: str, advice: str) -> Refusal:
    return Refusal(key=upload.key, source=upload.source, fault=fault, reason=reason, advice=advice, notes=upload.notes)


def _wanted(name: str) -> tuple[str, tuple[int, ...]] | None:
    """Which editable file a file name stands for, and the numbers of its tail; None for any other name."""
    plain = name.casefold().strip()
    if plain.endswith(".txt"):
        plain = plain.removesuffix(".txt")
    if plain in EDITABLE:
        return plain, ()
    stem, dot, ending = plain.rpartition(".")
    match = _TAIL.fullmatch(stem)
    if match and match["stem"] + dot + ending in EDITABLE:
        return match["stem"] + dot + ending, tuple(int(number) for number in re.findall(r"\d+", match["tail"])) or (1,)
    return None


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _place(folder: str) -> str:
    return shown(folder) + "/" if folder else "the top folder"


class _Reading:
    """One upload being read: finds the folder that holds the work, then takes the wanted files from it."""

    def __init__(self, upload: Upload, members: list[Member], limits: Limits) -> None:
        self.upload = upload
        self.members = members
        self.limits = limits
        self.notes = list(upload.notes)
        self.bytes_read = 0

    def submission(self) -> Submission:
        root = self.root()
        inside = [m for m in self.members if not root or m.path.startswith(root + "/")]
        below = {id(m): m.path[len(root) + 1 :] if root else m.path for m in inside}
        chosen = self.choose([(below[id(m)], m) for m in inside])
        self.refuse_other_version(below.items(), inside)
        files = {name: self.bytes_of(member) for name, member in chosen.items()}
        self.refuse_other_assignment(files, [path for path in below.values() if path.endswith(".py")])
        changed = self.changed_given([(below[id(m)], m) for m in inside])
        taken = {id(member) for member in chosen.values()}
        self.note_left_out([m.path for m in self.members if id(m) not in taken], root)
        return Submission(
            key=self.upload.key,
            source=self.upload.source,
            files=dict(sorted(files.items())),
            notes=tuple(self.notes),
            digest=digest(files),
            changed_given=changed,
            states=_states(files),
        )

    def root(self) -> str:
        """The one folder that holds the work; raises Refused for none and for two that could both be meant."""
        found: dict[str, set[str]] = {}
        deep = ""
        for member in self.members:
            folder, name = _split(member.path)
            wanted = _wanted(name)
            if wanted is None:
                continue
            if folder and folder.count("/") + 1 > LEVELS_MAX:
                deep = folder
            else:
                found.setdefault(folder, set()).add(wanted[0])
        code = {folder: names.intersection(assemble.STUBS) for folder, names in found.items()}
        candidates = sorted(folder for folder in found if code[folder]) or sorted(found)
        if not candidates:
            raise self.nothing(deep)
        for top in candidates:
            others = [folder for folder in candidates if folder != top]
            under = all(not top or folder.startswith(top + "/") for folder in others)
            if others and under and all(len(found[top]) > len(found[folder]) for folder in others):
                self.notes.append(
                    f"The files in {_place(top)} were graded; more of the same name in "
                    f"{', '.join(map(_place, others))} were left out."
                )
                return top
        if len(candidates) > 1:
            raise Refused(
                Fault.AMBIGUOUS,
                f"Two folders could be the work: {' and '.join(map(_place, candidates[:4]))}.",
                "Hand in one of them only.",
            )
        return candidates[0]

    def nothing(self, deep: str) -> Refused:
        if not self.members:
            return Refused(Fault.NOTHING_SUBMITTED, "Nothing was submitted: the upload holds no files.", _AGAIN)
        names = [member.path for member in self.members]
        listed = ", ".join(shown(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
        if deep:
            return Refused(
                Fault.AMBIGUOUS,
                f"The lab's files lie too deep in the upload, in {_place(deep)}",
                "Hand in the folder student/ itself.",
            )
        if any(name.casefold().endswith(".zip") for name in names):
            return Refused(
                Fault.UNREADABLE, f"The upload holds another zip in place of the files: {listed}.", "Zip once only."
            )
        if any(name.casefold().endswith((".py", ".ipynb")) for name in names):
            return Refused(
                Fault.OTHER_ASSIGNMENT,
                f"This looks like another assignment: it holds {listed}, and none of {', '.join(assemble.STUBS)}.",
                _AGAIN,
            )
        return Refused(
            Fault.NOTHING_SUBMITTED,
            f"None of this lab's files was submitted: the upload holds only {listed}.",
            _AGAIN,
        )

    def choose(self, inside: list[tuple[str, Member]]) -> dict[str, Member]:
        """Editable name -> the member to take for it; says so whenever the member has another name."""
        offers: dict[str, list[tuple[bool, tuple[int, ...], str, Member]]] = {}
        tests: dict[str, list[tuple[str, Member]]] = {}
        for path, member in inside:
            folder, name = _split(path)
            wanted = _wanted(name)
            if not folder and wanted:
                offers.setdefault(wanted[0], []).append((name == wanted[0], wanted[1], name, member))
            elif folder.casefold() == "tests" and _TEST_NAME.fullmatch(name) and name != "__init__.py":
                tests.setdefault("tests/" + name, []).append((path, member))
            elif not folder and name == "test_mine.py":
                offers.setdefault("tests/test_mine.py", []).append((False, (), name, member))
        chosen = {name: self.best(name, held) for name, held in offers.items()}
        for name in self.first_tests(sorted(tests)):
            if len(tests[name]) > 1:
                raise self.twice(tests[name][0][0])
            path, chosen[name] = tests[name][0]
            if not path.startswith("tests/"):
                self.notes.append(f"{shown(path)} was taken as {name}.")
        return chosen

    def best(self, name: str, offers: list[tuple[bool, tuple[int, ...], str, Member]]) -> Member:
        exact, tail, given_name, member = max(offers, key=lambda offer: offer[:2])
        if sum(offer[:2] == (exact, tail) for offer in offers) > 1:
            raise self.twice(*(offer[2] for offer in offers if offer[:2] == (exact, tail)))
        if not exact:
            self.notes.append(f"{shown(given_name)} was taken as {name}.")
        for other in offers:
            if other[3] is not member:
                self.notes.append(f"{shown(other[2])} was left out, because {shown(given_name)} is there.")
        return member

    def twice(self, *names: str) -> Refused:
        listed = " and ".join(dict.fromkeys(map(shown, names)))
        return Refused(
            Fault.AMBIGUOUS,
            f"The upload holds more than one file for one name: {listed}.",
            "Keep the one that is meant and hand in again.",
        )

    def first_tests(self, names: list[str]) -> list[str]:
        names.sort(key=lambda name: (name != "tests/test_mine.py", name))
        if len(names) > self.limits.tests_max:
            left = ", ".join(map(shown, names[self.limits.tests_max :][:5]))
            self.notes.append(f"Only {self.limits.tests_max} test files are taken; left out: {left} and any after it.")
        return names[: self.limits.tests_max]

    def bytes_of(self, member: Member) -> bytes:
        """The whole content, under both caps; announced sizes are never trusted."""
        data = member.read(self.limits.file_bytes_max + 1)
        if len(data) > self.limits.file_bytes_max:
            raise Refused(
                Fault.TOO_LARGE,
                f"{shown(member.path)} is larger than {self.limits.file_bytes_max // 1024} KiB.",
                "Hand in your own code and text only.",
            )
        self.bytes_read += len(data)
        if self.bytes_read > self.limits.submission_bytes_max:
            raise Refused(
                Fault.TOO_LARGE,
                f"The files are larger than {self.limits.submission_bytes_max // 1024 // 1024} MiB together.",
                "Hand in your own code and text only.",
            )
        return data

    def refuse_other_version(self, paths: Iterable[tuple[int, str]], inside: list[Member]) -> None:
        by_id = dict(paths)
        for member in inside:
            if by_id[id(member)] == "VERSION":
                mark = member.read(200)
                if mark.strip() != (assemble.stub("VERSION") or b"").strip():
                    raise Refused(
                        Fault.OTHER_ASSIGNMENT,
                        "This looks like another assignment, or an older version of this one: it is marked "
                        f"“{shown(mark.decode('utf-8', 'replace').strip(), 40)}”.",
                        "Copy your work into the present hand-out and hand that in.",
                    )

    def refuse_other_assignment(self, files: dict[str, bytes], code: list[str]) -> None:
        """Same file name, other exercise: one stub at most, without its functions, beside foreign code."""
        stubs = [name for name in assemble.STUBS if files.get(name)]
        foreign = sorted(path for path in code if "/" not in path and not _wanted(path) and path not in _GIVEN_TOP)
        if len(stubs) > 1 or not foreign or not any(name.endswith(".py") for name in files):
            return
        if all(any(function.encode() not in files[name] for function in FUNCTIONS[name]) for name in stubs):
            raise Refused(
                Fault.OTHER_ASSIGNMENT,
                f"This looks like another assignment: it holds {', '.join(map(shown, foreign[:5]))}, and "
                f"{' and '.join(stubs) or 'no stub file'} without this lab's functions.",
                _AGAIN,
            )

    def changed_given(self, inside: list[tuple[str, Member]]) -> tuple[str, ...]:
        """Given files that differ from the package's own (line ends apart); reported, never used."""
        own = assemble.given()
        changed = set()
        for path, member in inside:
            if path.endswith(".py") and assemble.is_given(path):
                try:
                    data = member.read(self.limits.file_bytes_max)
                except Refused:
                    data = b""
                if _lines(data) != _lines(own.get(path, b"")) or path not in own:
                    changed.add(path)
        return tuple(sorted(map(shown, changed)))

    def note_left_out(self, paths: list[str], root: str) -> None:
        own = assemble.given()
        expected = {*own, "README.md", "HINTS.md", *(f"fixtures/{name}" for name in assemble.FIXTURES)}
        left = [path for path in paths if path.removeprefix(root + "/") not in expected]
        if left:
            listed = ", ".join(shown(path) for path in sorted(left)[:20]) + (", …" if len(left) > 20 else "")
            self.notes.append(f"Not part of the lab and left out: {listed}")


_GIVEN_TOP = frozenset(("__init__.py", "__main__.py", "test_mine.py", "setup.py", "noxfile.py", "conftest.py"))


def _lines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip()


def _states(files: dict[str, bytes]) -> dict[str, str]:
    """Each editable file: present, missing, empty, or unchanged stub (as handed out, line ends apart)."""
    states = {}
    for name in sorted({*EDITABLE, "tests/test_mine.py", *files}):
        data = files.get(name)
        stub = assemble.stub(name)
        if data is None:
            states[name] = "missing"
        elif not data.strip():
            states[name] = "empty"
        elif stub is not None and _lines(data) == _lines(stub):
            states[name] = "unchanged stub"
        else:
            states[name] = "present"
    return states
