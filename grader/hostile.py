"""The corpus of hostile submissions, read as data: honest work with one attack in it, packed as an upload.

The honest part is the model answers with two known mistakes, so that there is something to win everywhere: a conflict
is called a duplicate, and the last TimeoutError comes out of the retry.
"""

from __future__ import annotations

import io
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from grader import catalogue

CORPUS = Path(__file__).resolve().parent / "attacks"
MARK = "magpie"
"""Stands in every name and text that an attack leaves or carries out, so that it is known wherever it turns up."""
SECRETS = {
    "a hidden test": ("heron", "-quartz"),
    "the environment": ("kestrel", "-slate"),
    "another submission": ("otter", "-cobalt"),
    "a model answer": ("Model ans", "wer to task"),
}
"""Texts that no submission may see, in two parts, so that the part of the corpus that looks for them does not match."""
ENVIRONMENT = "REDELIVERY_STAFF_TOKEN"
PORT = 39_741
_MISTAKES = ("m27", "m36")
_TOKENS = {
    "@MARK@": MARK,
    "@PORT@": str(PORT),
    "@SECRETS@": "tuple(map(''.join, " + repr(tuple(SECRETS.values())) + "))",
}


_IDLE_TESTS = b"""import unittest


class MyTests(unittest.TestCase):
    def test_conflict(self):
        self.assertTrue(True)

    def test_three_timeouts(self):
        self.assertTrue(True)
"""


class CorpusError(Exception):
    """An entry cannot be read or made: one sentence that names it."""


class Pack(StrEnum):
    """How the submission is handed in."""

    FOLDER = "folder"
    ZIP = "zip"
    TAR = "tar"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing in an archive beside the honest work: text, a link, a special file, or many equal bytes."""

    name: str
    text: str = ""
    link: str = ""
    hard: bool = False
    special: str = ""  # fifo or device, in a tar
    megabytes: int = 0


class Attack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hostile submission. `spoils`: criteria (or first parts of them) that it breaks itself; others stay."""

    id: str
    title: str  # what it tries, in one sentence
    file: str = ""
    code: str = ""  # put behind the honest code of `file`, or in its place
    replaces: bool = False
    files: dict[str, str] = {}  # more files, by path in the upload
    pack: Pack = Pack.FOLDER
    entries: tuple[Entry, ...] = ()
    refused: bool = False  # intake must say no
    spoils: tuple[str, ...] = ()
    group: str = ""

    @property
    def own_tests(self) -> bool:
        """It goes through the student's own tests, which are run for it alone: they take as long as all the others."""
        return self.file.startswith("tests/")


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attacks: tuple[Attack, ...]


def load(folder: Path = CORPUS) -> tuple[Attack, ...]:
    """All attacks, by group and then as they stand. Raises CorpusError."""
    found: list[Attack] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            text = path.read_text(encoding="utf-8")
            found += [
                msgspec.structs.replace(one, group=path.stem) for one in msgspec.toml.decode(text, type=_File).attacks
            ]
        except (OSError, msgspec.DecodeError) as error:
            raise CorpusError(f"{path.name}: {error}") from error
    return tuple(found)


def honest(*, tests: bool = False) -> dict[str, bytes]:
    """The work that every attack is added to. `tests`: with own tests in it, which notice nothing."""
    files = catalogue.reference()
    known = {one.id: one for one in catalogue.load(catalogue.MISTAKES)}
    for name in _MISTAKES:
        files = catalogue.written(known[name], files)
    kept = {name: data.replace(b"Model answer", b"My answer") for name, data in files.items()}
    del kept["tests/test_mine.py"]
    return kept | ({"tests/test_mine.py": _IDLE_TESTS} if tests else {})


def neighbour() -> dict[str, bytes]:
    """Somebody else's submission, half done and honest, with a text in it that nobody else may read."""
    files = honest()
    secret = "".join(SECRETS["another submission"])
    return {"conflict.py": files["conflict.py"], "retry.py": files["retry.py"] + f"\n# {secret}\n".encode()}


def filled(text: str) -> str:
    """The text of an attack with the corpus's names in it."""
    for token, value in _TOKENS.items():
        text = text.replace(token, value)
    return text


def contents(attack: Attack) -> dict[str, bytes]:
    """Path in the upload -> bytes, without what only an archive can hold."""
    files = {f"student/{name}": data for name, data in honest(tests=attack.own_tests).items()}
    if attack.file:
        name = f"student/{attack.file}"
        before = b"" if attack.replaces else files.get(name, b"") + b"\n\n"
        files[name] = before + filled(attack.code).encode("utf-8", "surrogatepass")
    return files | {filled(name): filled(text).encode("utf-8", "surrogatepass") for name, text in attack.files.items()}


def upload(attack: Attack, folder: Path) -> Path:
    """Write the upload into an empty folder of ours and give its path."""
    files = contents(attack)
    if attack.pack is Pack.FOLDER:
        return _laid_out(attack, files, folder / "upload")
    path = folder / f"upload.{attack.pack}"
    path.write_bytes(_zip(attack, files) if attack.pack is Pack.ZIP else _tar(attack, files))
    return path


def _laid_out(attack: Attack, files: dict[str, bytes], root: Path) -> Path:
    for name, data in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    for entry in attack.entries:
        target = root / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if entry.link:
            target.symlink_to(entry.link)
        else:
            target.write_bytes(filled(entry.text).encode())
    return root


def _zip(attack: Attack, files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # two members of one name are meant
        for name, data in files.items():
            archive.writestr(name, data)
        for entry in attack.entries:
            info = zipfile.ZipInfo(filled(entry.name))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (0o120777 if entry.link else 0o100644) << 16
            with archive.open(info, "w", force_zip64=True) as member:
                for part in _parts(entry):
                    member.write(part)
    return made.getvalue()


def _tar(attack: Attack, files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    kinds = {"fifo": tarfile.FIFOTYPE, "device": tarfile.CHRTYPE}
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for entry in attack.entries:
            info = tarfile.TarInfo(filled(entry.name))
            data = b"".join(_parts(entry))
            if entry.special:
                info.type, info.devmajor, info.devminor = kinds[entry.special], 1, 5
            elif entry.link:
                info.type, info.linkname = (tarfile.LNKTYPE if entry.hard else tarfile.SYMTYPE), entry.link
            else:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return made.getvalue()


def _parts(entry: Entry) -> Iterator[bytes]:
    yield (entry.link or filled(entry.text)).encode()
    for _ in range(entry.megabytes):
        yield bytes(1 << 20)
