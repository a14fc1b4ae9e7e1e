"""Finding the work in an upload: the one folder that holds it, and the file that is meant for each editable name.

What a student did by accident (a folder too many, a browser's "ledger (1).py") is put right and said.
"""

from __future__ import annotations

import re

from grader import assemble
from grader.member import Fault, Limits, Member, Refused, shown

EDITABLE = (*assemble.STUBS, *assemble.WRITTEN)
LEVELS_MAX = 2  # folders around the wanted files, such as hw1/student/
HAND_IN = "Hand in the folder student/ with your files (`nox -s submit` packs it)."
_TAIL = re.compile(r"(?P<stem>.*?)(?P<tail>(?:-\d{1,4}|_\d{1,4}| ?\(\d{1,4}\)| - copy| copy(?: \d{1,4})?)+)", re.I)
_TEST_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}\.py")

Offer = tuple[bool, tuple[int, ...], str, Member]


def wanted(name: str) -> tuple[str, tuple[int, ...]] | None:
    """Which editable file a file name stands for, and the numbers of its tail; None for any other name."""
    plain = name.casefold().strip().removesuffix(".txt")
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


class Layout:
    """How one upload is laid out; raises Refused where nobody could tell what is meant.

    `chosen`: editable name -> the member to take for it. `inside`: (path in the work's folder, member).
    `paths`: the same for all members, those outside with their whole path. `notes`: sentences for the student.
    """

    def __init__(self, members: list[Member], limits: Limits) -> None:
        self.notes: list[str] = []
        self._tests_max = limits.tests_max
        self._members = members
        root = self._root()
        prefix = root + "/" if root else ""
        self.inside = [(m.path.removeprefix(prefix), m) for m in members if m.path.startswith(prefix)]
        self.paths = [(m.path.removeprefix(prefix), m) for m in members]
        self.chosen = self._choose()

    def _root(self) -> str:
        """The one folder that holds the work; raises Refused for none and for two that could both be meant."""
        found: dict[str, set[str]] = {}
        deep = ""
        for member in self._members:
            folder, name = _split(member.path)
            stands_for = wanted(name)
            if stands_for is None:
                continue
            if folder and folder.count("/") + 1 > LEVELS_MAX:
                deep = folder
            else:
                found.setdefault(folder, set()).add(stands_for[0])
        code = {folder: names.intersection(assemble.STUBS) for folder, names in found.items()}
        candidates = sorted(folder for folder in found if code[folder]) or sorted(found)
        if not candidates:
            raise self._nothing(deep)
        for top in candidates:
            others = [folder for folder in candidates if folder != top]
            under = all(not top or folder.startswith(top + "/") for folder in others)
            if others and under and all(len(found[top]) > len(found[folder]) for folder in others):
                places = ", ".join(map(_place, others))
                self.notes.append(
                    f"The files in {_place(top)} were graded; those of the same name in {places} were not."
                )
                return top
        if len(candidates) > 1:
            raise Refused(
                Fault.AMBIGUOUS,
                f"{len(candidates)} folders could be the work: {', '.join(map(_place, candidates[:4]))}"
                + (", …." if len(candidates) > 4 else "."),
                "Hand in one of them only (the zip of a whole class must be unpacked before it is graded).",
            )
        return candidates[0]

    def _nothing(self, deep: str) -> Refused:
        """The reason for an upload without any editable file."""
        names = [member.path for member in self._members]
        if not names:
            return Refused(Fault.NOTHING_SUBMITTED, "Nothing was submitted: the upload holds no files.", HAND_IN)
        given = ("/VERSION", "/README.md", "/HINTS.md", *("/" + name for name in assemble.given()))
        names = [name for name in names if not f"/{name}".endswith(given)]
        if not names:
            reason = "None of your own files was submitted: the upload holds files of the hand-out only."
            return Refused(Fault.NOTHING_SUBMITTED, reason, HAND_IN)
        listed = ", ".join(shown(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
        if deep:
            reason = f"The lab's files lie too deep in the upload, in {_place(deep)}."
            return Refused(Fault.AMBIGUOUS, reason, "Hand in the folder student/ itself.")
        endings = [name.casefold().rpartition(".")[2] for name in names]
        if "zip" in endings:
            reason = f"The upload holds another zip in place of the files: {listed}."
            return Refused(Fault.UNREADABLE, reason, "Zip once only.")
        if "py" in endings or "ipynb" in endings:
            reason = f"This looks like another assignment: it holds {listed}, and none of {', '.join(assemble.STUBS)}."
            return Refused(Fault.OTHER_ASSIGNMENT, reason, HAND_IN)
        reason = f"None of this lab's files was submitted: the upload holds only {listed}."
        return Refused(Fault.NOTHING_SUBMITTED, reason, HAND_IN)

    def _choose(self) -> dict[str, Member]:
        offers: dict[str, list[Offer]] = {}
        tests: dict[str, list[tuple[str, Member]]] = {}
        for path, member in self.inside:
            folder, name = _split(path)
            stands_for = wanted(name)
            if not folder and stands_for:
                offers.setdefault(stands_for[0], []).append((name == stands_for[0], stands_for[1], name, member))
            elif folder.casefold() == "tests" and _TEST_NAME.fullmatch(name) and name != "__init__.py":
                tests.setdefault("tests/" + name, []).append((path, member))
            elif path.casefold() == assemble.LOG:
                offers.setdefault(assemble.LOG, []).append((True, (), name, member))
            elif not folder and name == "test_mine.py":
                offers.setdefault("tests/test_mine.py", []).append((False, (), name, member))
        chosen = {name: self._best(name, held) for name, held in offers.items()}
        for name in self._first_tests(sorted(tests)):
            if len(tests[name]) > 1:
                raise _twice(*(path for path, _ in tests[name]))
            path, chosen[name] = tests[name][0]
            if not path.startswith("tests/"):
                self.notes.append(f"{shown(path)} was taken as {name}.")
        return chosen

    def _best(self, name: str, offers: list[Offer]) -> Member:
        """The exact name before any other, then the highest number at the end of the name."""
        exact, tail, given_name, member = max(offers, key=lambda offer: offer[:2])
        equals = [offer[2] for offer in offers if offer[:2] == (exact, tail)]
        if len(equals) > 1:
            raise _twice(*equals)
        if not exact:
            self.notes.append(f"{shown(given_name)} was taken as {name}.")
        for other in offers:
            if other[3] is not member:
                self.notes.append(f"{shown(other[2])} was left out, because {shown(given_name)} is there.")
        return member

    def _first_tests(self, names: list[str]) -> list[str]:
        names.sort(key=lambda name: (name != "tests/test_mine.py", name))
        if len(names) > self._tests_max:
            left = ", ".join(map(shown, names[self._tests_max :][:5]))
            self.notes.append(f"Only {self._tests_max} test files are taken; left out: {left} and any after it.")
        return names[: self._tests_max]


def _twice(*names: str) -> Refused:
    listed = " and ".join(dict.fromkeys(map(shown, names)))
    return Refused(
        Fault.AMBIGUOUS,
        f"The upload holds more than one file for one name: {listed}.",
        "Keep the one that is meant and hand in again.",
    )
