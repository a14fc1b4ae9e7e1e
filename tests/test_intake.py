"""Uploads as people really send them: what is meant is found and said, what is unsafe is refused in a sentence."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import shutil
import socket
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader import assemble, intake
from grader.intake import Fault, Refusal, Submission
from grader.member import Limits

ROOT = Path(__file__).resolve().parent.parent
MODEL = {
    path.relative_to(ROOT / "reference").as_posix(): path.read_bytes()
    for path in sorted((ROOT / "reference").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
}
DIGEST = intake.digest(MODEL)
SMALL = Limits(
    file_bytes_max=8_000, submission_bytes_max=30_000, archive_bytes_max=200_000, unpacked_bytes_max=300_000,
    entries_max=40, tests_max=3, folder_depth_max=4,
)  # fmt: skip
Names = Mapping[str, bytes]


def under(folder: str, files: Names = MODEL) -> dict[str, bytes]:
    """The files with a folder in front of their names."""
    return {f"{folder}/{name}": data for name, data in files.items()}


def zipped(path: Path, files: Names, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """An ordinary zip."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tarred(path: Path, files: Names, mode: str = "w:gz") -> Path:
    """An ordinary tar."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]  # any mode, by the test's wish
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def laid_out(path: Path, files: Names) -> Path:
    """A plain folder."""
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def read(path: Path, limits: Limits | None = None) -> Submission | Refusal:
    """What intake makes of one upload."""
    return intake.read(intake.Upload(key="ada", source=path), limits)


def taken(path: Path, limits: Limits | None = None) -> Submission:
    """The submission, where none may be refused."""
    one = read(path, limits)
    assert isinstance(one, Submission), one
    return one


def refused(path: Path, fault: Fault, limits: Limits | None = None) -> Refusal:
    """The refusal, in whole sentences with advice, where nothing may be taken."""
    one = read(path, limits)
    assert isinstance(one, Refusal), one
    assert one.fault is fault, one.reason
    for text in (one.reason, one.advice):
        assert text[0].isupper() or text[0].isdigit()
        assert text.endswith(".")
        assert text.isprintable()
        assert len(text) < 400
    return one


def said(one: Submission) -> str:
    """All notes."""
    return "\n".join(one.notes)


# What is meant is found.


@pytest.mark.parametrize("pack", [zipped, tarred, laid_out])
@pytest.mark.parametrize("folder", ["", "student", "hw1/student", "Ana Müller – 2. Versuch/student"])
def test_the_work_is_found_however_it_was_packed(
    tmp_path: Path, pack: Callable[[Path, Names], Path], folder: str
) -> None:
    """Zip, tar.gz or folder, with no, one or two folders around it: the same files and the same digest."""
    one = taken(pack(tmp_path / "upload", under(folder) if folder else MODEL))
    assert one.files == MODEL
    assert one.digest == DIGEST
    assert one.states["ledger.py"] == "present"
    assert one.states["resource_plan.md"] == "missing"
    assert one.notes == ()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("layout", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_kind_of_tar_is_read_whatever_it_is_called(tmp_path: Path, mode: str, layout: int) -> None:
    """What a file is called says nothing: a tar.gz named .zip is read as what it is."""
    with tarfile.open(tmp_path / "upload.zip", mode, format=layout) as archive:  # type: ignore[call-overload]
        for name, data in under("student").items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert taken(tmp_path / "upload.zip").digest == DIGEST


def test_a_single_file_is_a_submission_of_one_file(tmp_path: Path) -> None:
    """Who uploads ledger.py alone is graded on ledger.py; the rest is missing, never filled in."""
    (tmp_path / "ledger.py").write_bytes(MODEL["ledger.py"])
    one = taken(tmp_path / "ledger.py")
    assert set(one.files) == {"ledger.py"}
    assert {one.states[name] for name in ("conflict.py", "retry.py", "review.py")} == {"missing"}


@pytest.mark.parametrize(
    "junk",
    [
        "__MACOSX/._ledger.py",
        "__MACOSX/student/._ledger.py",
        ".DS_Store",
        "student/._ledger.py",
        "student/__pycache__/ledger.cpython-311.pyc",
        "student/.git/ledger.py",
        ".idea/workspace.xml",
        "student/ledger.py~",
        "Thumbs.db",
        "venv/lib/ledger.py",
    ],
)
def test_what_systems_leave_behind_is_no_work(tmp_path: Path, junk: str) -> None:
    """Leftovers are overlooked before anyone asks which folder or file is meant, and are not worth a note."""
    one = taken(zipped(tmp_path / "u.zip", {**under("student"), junk: b"\0\5\x16\7"}))
    assert one.digest == DIGEST
    assert one.notes == ()


@pytest.mark.parametrize("separators", ["hw1\\student\\", "hw1\\student/", "student\\"])
def test_backslashes_of_windows_zips_are_folders(tmp_path: Path, separators: str) -> None:
    """A zip made on Windows holds the same work."""
    files = {separators + name.replace("/", "\\"): data for name, data in MODEL.items()}
    assert taken(zipped(tmp_path / "u.zip", files)).digest == DIGEST


@pytest.mark.parametrize(
    "name",
    ["ledger (1).py", "ledger-2.py", "ledger_1.py", "ledger-1-1.py", "Ledger.py", "ledger - Copy.py",
     "ledger copy 2.py", "ledger.py.txt", "LEDGER.PY"],
)  # fmt: skip
def test_a_name_that_a_browser_or_lms_changed_is_taken_and_said(tmp_path: Path, name: str) -> None:
    """The file that is meant is graded, and a note says which one that was."""
    files = {(name if key == "ledger.py" else key): data for key, data in MODEL.items()}
    one = taken(zipped(tmp_path / "u.zip", files))
    assert one.digest == DIGEST
    assert one.notes == (f"{name} was taken as ledger.py.",)


def test_the_exact_name_wins_and_then_the_highest_number(tmp_path: Path) -> None:
    """Of several the one with the plain name is graded, else the latest; the others are named as left out."""
    files = {**MODEL, "ledger (3).py": b"three", "retry-2.py": b"two", "retry-10.py": b"ten"}
    del files["retry.py"]
    one = taken(zipped(tmp_path / "u.zip", files))
    assert one.files["ledger.py"] == MODEL["ledger.py"]
    assert one.files["retry.py"] == b"ten"
    assert "ledger (3).py was left out" in said(one)
    assert "retry-2.py was left out" in said(one)


@pytest.mark.parametrize("names", [("Ledger.py", "LEDGER.py"), ("ledger (1).py", "ledger-1.py")])
def test_two_files_for_one_name_are_refused_by_name(tmp_path: Path, names: tuple[str, str]) -> None:
    """Nobody could tell which is meant, so nobody guesses."""
    files = {name: data for name, data in MODEL.items() if name != "ledger.py"}
    reason = refused(zipped(tmp_path / "u.zip", {**files, names[0]: b"a", names[1]: b"b"}), Fault.AMBIGUOUS).reason
    assert names[0] in reason
    assert names[1] in reason


def test_the_same_name_twice_in_one_zip_is_refused(tmp_path: Path) -> None:
    """A zip can hold one name twice; readers disagree on which counts."""
    with zipfile.ZipFile(tmp_path / "u.zip", "w") as archive:
        for name, data in MODEL.items():
            archive.writestr(name, data)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("ledger.py", b"other")
    refused(tmp_path / "u.zip", Fault.AMBIGUOUS)


def test_two_folders_that_could_both_be_the_work_are_named(tmp_path: Path) -> None:
    """Two attempts in one zip are never mixed: both are named and the student chooses."""
    files = {**under("attempt 1"), **under("attempt 2", {"ledger.py": b"new"})}
    reason = refused(zipped(tmp_path / "u.zip", files), Fault.AMBIGUOUS).reason
    assert "attempt 1/" in reason
    assert "attempt 2/" in reason


def test_the_whole_checkout_zipped_is_the_work_in_its_student_folder(tmp_path: Path) -> None:
    """Who packs everything, fixtures and lab included, is graded on student/."""
    files = under("redelivery-lab/student", {**assemble.given(), **MODEL})
    files |= under(
        "redelivery-lab/fixtures", {name: (ROOT / "fixtures" / name).read_bytes() for name in assemble.FIXTURES}
    )
    assert taken(zipped(tmp_path / "u.zip", files)).digest == DIGEST


def test_work_too_deep_in_folders_is_refused_with_the_place(tmp_path: Path) -> None:
    """Three folders are more than an accident."""
    assert "a/b/c" in refused(zipped(tmp_path / "u.zip", under("a/b/c")), Fault.AMBIGUOUS).reason


def test_further_test_files_are_taken_up_to_the_limit(tmp_path: Path) -> None:
    """Own tests may be more than one file; those past the limit are named, and test_mine.py always stays."""
    more = {f"tests/test_{letter}.py": b"" for letter in "abcd"}
    one = taken(laid_out(tmp_path / "u", {**MODEL, **more}), SMALL)
    assert [name for name in one.files if name.startswith("tests/")] == [
        "tests/test_a.py",
        "tests/test_b.py",
        "tests/test_mine.py",
    ]
    assert "Only 3 test files are taken" in said(one)


def test_a_test_file_beside_the_work_is_taken_and_said(tmp_path: Path) -> None:
    """test_mine.py in the top folder is the test file that is meant."""
    files = {("test_mine.py" if name == "tests/test_mine.py" else name): data for name, data in MODEL.items()}
    one = taken(zipped(tmp_path / "u.zip", files))
    assert one.digest == DIGEST
    assert "test_mine.py was taken as tests/test_mine.py." in one.notes


def test_foreign_files_are_named_as_left_out(tmp_path: Path) -> None:
    """What is not part of the lab has no effect, and the student learns it; odd names are shown, never obeyed."""
    odd = [
        "-rf.py",
        "$(touch pwned).py",
        "a\nb.py",
        "\x1b[31m.py",
        "CON.py",
        "photo.png",
        "conftest.py",
        "sub/ledger.pyx",
    ]
    one = taken(laid_out(tmp_path / "u", {**MODEL, **dict.fromkeys(odd, b"x")}))
    assert one.digest == DIGEST
    assert "Not part of the lab and left out: " in said(one)
    assert "photo.png" in said(one)
    assert all(note.isprintable() for note in one.notes)
    assert not list(ROOT.glob("pwned*"))


# States of a file.


def test_every_state_of_a_file_is_told_apart(tmp_path: Path) -> None:
    """Missing, empty, as handed out (whatever the line ends) and present are four things."""
    stub = assemble.stub("retry.py")
    assert stub is not None
    files = {"ledger.py": MODEL["ledger.py"], "conflict.py": b" \n", "retry.py": stub.replace(b"\n", b"\r\n") + b"\r\n"}
    states = taken(laid_out(tmp_path / "u", files)).states
    assert {name: states[name] for name in assemble.STUBS} == {
        "ledger.py": "present", "conflict.py": "empty", "retry.py": "unchanged stub", "review.py": "missing",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"# ok\n# Gr\xfc\xdfe\n", 2),
        ("# umlaut ü".encode("utf-16"), 1),
        (b"x = 1\n\n\n\x96", 4),
    ],
)
def test_a_file_that_is_not_utf8_is_kept_with_a_note_naming_the_line(tmp_path: Path, data: bytes, line: int) -> None:
    """The bytes stay as they came, the other files are graded, and the note says how to mend it."""
    one = taken(laid_out(tmp_path / "u", {**MODEL, "retry.py": data}))
    assert one.files["retry.py"] == data
    assert f"retry.py is not UTF-8 text (line {line}): open it and save it as UTF-8." in one.notes


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbfx = 1\n", b"# -*- coding: latin-1 -*-\n# \xfc\n", b"x = 1\r\n", b"x = 1\ry = 2", "x = 'ü'".encode()]
)  # fmt: skip
def test_what_python_reads_gets_no_note(tmp_path: Path, data: bytes) -> None:
    """Byte order mark, declared encoding, any line ends: all fine."""
    assert taken(laid_out(tmp_path / "u", {**MODEL, "retry.py": data})).notes == ()


def test_a_changed_given_file_is_reported_and_an_equal_one_is_not(tmp_path: Path) -> None:
    """Line ends apart, given files must be the package's own; a changed or added one is named."""
    given_files = assemble.given()
    same = {name: data.replace(b"\n", b"\r\n") for name, data in given_files.items()}
    assert taken(laid_out(tmp_path / "same", {**same, **MODEL})).changed_given == ()
    changed = {**given_files, "lab/store.py": b"changed", "lab/added.py": b"x", **MODEL}
    one = taken(laid_out(tmp_path / "changed", changed))
    assert one.changed_given == ("lab/added.py", "lab/store.py")
    assert one.digest == DIGEST


# Nothing, or not our thing.


@pytest.mark.parametrize(
    ("files", "fault", "words"),
    [
        ({}, Fault.NOTHING_SUBMITTED, "no files"),
        ({"__MACOSX/._x": b"", ".DS_Store": b""}, Fault.NOTHING_SUBMITTED, "no files"),
        ({"student/lab/store.py": b"", "student/__init__.py": b""}, Fault.NOTHING_SUBMITTED, "None of your own files"),
        ({"essay.pdf": b"%PDF"}, Fault.NOTHING_SUBMITTED, "essay.pdf"),
        ({"inner.zip": b"PK"}, Fault.UNREADABLE, "another zip"),
        ({"hw3.py": b"def area(): ..."}, Fault.OTHER_ASSIGNMENT, "hw3.py"),
        ({"homework.ipynb": b"{}"}, Fault.OTHER_ASSIGNMENT, "homework.ipynb"),
        ({"retry.py": b"def fetch(url): ...", "crawler.py": b""}, Fault.OTHER_ASSIGNMENT, "crawler.py"),
        ({**MODEL, "VERSION": b"an older lab 0.0"}, Fault.OTHER_ASSIGNMENT, "an older lab 0.0"),
    ],
)
@pytest.mark.parametrize("pack", [zipped, laid_out])
def test_nothing_and_other_work_are_told_apart(
    tmp_path: Path, pack: Callable[[Path, Names], Path], files: Names, fault: Fault, words: str
) -> None:
    """No files, only junk, a document, a zip in a zip, another assignment: each has its own sentence and no score."""
    (tmp_path / "u").mkdir()
    assert words in refused(pack(tmp_path / ("u" if pack is laid_out else "u.zip"), files), fault).reason


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an empty file"),
        (b"\0" * 5000, "an empty file"),
        (b"<!DOCTYPE html><html>Sign in", "a web page"),
        (b"  <html>", "a web page"),
        (b"Rar!\x1a\7", "a RAR archive"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"%PDF-1.7", "a PDF"),
        (b"PK\3\4" + b"x" * 100, "cut off"),
        (b"hello", "something else"),
    ],
)
def test_a_file_that_is_no_archive_is_called_what_it_is(tmp_path: Path, data: bytes, words: str) -> None:
    """The sentence says what the file seems to be, whatever it is called."""
    (tmp_path / "u.zip").write_bytes(data)
    assert words in refused(tmp_path / "u.zip", Fault.UNREADABLE).reason


def test_a_cut_off_upload_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    """A zip or tar.gz that lost its end is never graded in part."""
    whole = {
        "zip": zipped(tmp_path / "whole.zip", MODEL).read_bytes(),
        "tar.gz": tarred(tmp_path / "whole.tar.gz", MODEL).read_bytes(),
    }
    for ending, data in whole.items():
        for cut in range(0, len(data) - 30, len(data) // 23):
            (tmp_path / f"u.{ending}").write_bytes(data[:cut])
            refused(tmp_path / f"u.{ending}", Fault.UNREADABLE)


def test_a_zip_with_a_damaged_file_names_it(tmp_path: Path) -> None:
    """A byte changed in a stored member is found by its checksum."""
    path = zipped(tmp_path / "u.zip", MODEL, zipfile.ZIP_STORED)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"BEGIN IMMEDIATE", b"BEGIN IMMEDIATF", 1))
    assert "ledger.py" in refused(path, Fault.UNREADABLE).reason


def test_a_locked_zip_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """An encrypted zip is called locked, and the advice is one without a password."""
    path = zipped(tmp_path / "u.zip", MODEL)
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\1\2")
    while at >= 0:
        data[at + 8] |= 1
        at = data.find(b"PK\1\2", at + 4)
    path.write_bytes(data)
    one = refused(path, Fault.UNREADABLE)
    assert "password" in one.reason
    assert "password" in one.advice


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_rare_compression_is_refused(tmp_path: Path, compression: int) -> None:
    """Those two ask for memory by the archive's own word."""
    refused(zipped(tmp_path / "u.zip", MODEL, compression), Fault.UNREADABLE)


# Unsafe uploads.

OUTSIDE = [
    "../x.py",
    "a/../../x.py",
    "/etc/x.py",
    "..\\..\\x.py",
    "C:\\Windows\\x.py",
    "C:/x.py",
    "\\\\host\\x.py",
    "student/..",
    "..",
]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_name_that_points_outside_refuses_the_upload(
    tmp_path: Path, pack: Callable[[Path, Names], Path], name: str
) -> None:
    """Even beside right work: whoever makes such an archive must look at it first."""
    reason = refused(pack(tmp_path / "u", {**MODEL, name: b"x"}), Fault.UNSAFE).reason
    assert "outside" in reason


def test_a_name_cut_by_a_nul_is_refused(tmp_path: Path) -> None:
    """zipfile cuts names at a NUL; the name as written is what counts."""
    path = zipped(tmp_path / "u.zip", {**MODEL, "ledger.pyXtxt": b"x"})
    path.write_bytes(path.read_bytes().replace(b"ledger.pyXtxt", b"ledger.py\0txt"))
    refused(path, Fault.UNSAFE)


@pytest.mark.parametrize("target", ["/etc/passwd", "ledger.py", "../../grader", "."])
def test_links_are_refused_wherever_they_lead(tmp_path: Path, target: str) -> None:
    """In a folder, a tar (hard links too) and a zip; nothing is read through them."""
    folder = laid_out(tmp_path / "folder", MODEL)
    (folder / "extra").symlink_to(target)
    assert "link" in refused(folder, Fault.UNSAFE).reason
    with zipfile.ZipFile(zipped(tmp_path / "u.zip", MODEL), "a") as archive:
        info = zipfile.ZipInfo("extra")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, target)
    assert "link" in refused(tmp_path / "u.zip", Fault.UNSAFE).reason
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        with tarfile.open(tarred(tmp_path / "u.tar", MODEL, "w"), "a") as tar:
            linked = tarfile.TarInfo("extra")
            linked.type, linked.linkname = kind, target
            tar.addfile(linked)
        assert "link" in refused(tmp_path / "u.tar", Fault.UNSAFE).reason


def test_an_upload_that_is_itself_a_link_is_refused(tmp_path: Path) -> None:
    """Neither a link to a file nor one to a folder is followed."""
    for number, target in enumerate((laid_out(tmp_path / "real", MODEL), zipped(tmp_path / "real.zip", MODEL))):
        (tmp_path / f"link{number}").symlink_to(target)
        assert "link" in refused(tmp_path / f"link{number}", Fault.UNSAFE).reason


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [_pipe, _socket])
def test_pipes_and_sockets_are_refused_without_hanging(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file in a folder, in place of an editable file, and as the upload itself."""
    monkeypatch.chdir(tmp_path)
    folder = laid_out(tmp_path / "u", {"retry.py": MODEL["retry.py"]})
    make(folder / "ledger.py")
    assert "special file" in refused(folder, Fault.UNSAFE).reason
    make(tmp_path / "u.zip")
    one = read(tmp_path / "u.zip")
    assert isinstance(one, Refusal)
    assert one.fault in (Fault.UNSAFE, Fault.UNREADABLE)


def test_devices_in_a_tar_are_refused(tmp_path: Path) -> None:
    """A tar can name devices, pipes and sparse giants."""
    for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.GNUTYPE_SPARSE):
        with tarfile.open(tmp_path / "u.tar", "w") as tar:
            info = tarfile.TarInfo("ledger.py")
            info.type = kind
            tar.addfile(info)
        one = read(tmp_path / "u.tar")
        assert isinstance(one, Refusal), kind


# Bombs and limits.


def test_a_zip_bomb_costs_no_more_than_the_cap(tmp_path: Path) -> None:
    """A member that would be 60 MB is read to the cap and left out, whatever size it announces."""
    path = tmp_path / "u.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in MODEL.items():
            if name != "retry.py":
                archive.writestr(name, data)
        with archive.open("retry.py", "w") as stream:
            for _ in range(60):
                stream.write(bytes(1024 * 1024))
    one = taken(path)
    assert "retry.py" not in one.files
    assert one.states["retry.py"] == "too large"
    assert "retry.py is larger than 256 KiB and was left out" in said(one)


def test_a_zip_that_lies_about_sizes_is_caught(tmp_path: Path) -> None:
    """A member that announces 5 bytes and unpacks to more is not taken for 5 bytes."""
    path = zipped(tmp_path / "u.zip", {**MODEL, "retry.py": b"#" * 100_000})
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<I", 100_000), struct.pack("<I", 5)))
    refused(path, Fault.UNREADABLE)


def test_a_tar_bomb_is_refused(tmp_path: Path) -> None:
    """A tar.gz must be unpacked to be looked at, so the whole is capped."""
    with gzip.open(tmp_path / "u.tar.gz", "wb", compresslevel=1) as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            info = tarfile.TarInfo("movie.bin")
            info.size = 40 * 1024 * 1024
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    assert "grows" in refused(tmp_path / "u.tar.gz", Fault.TOO_LARGE).reason


def test_overlapping_entries_are_refused(tmp_path: Path) -> None:
    """Many names for one stretch of bytes: how forty kilobytes become gigabytes."""
    path = zipped(tmp_path / "u.zip", {"ledger.py": MODEL["ledger.py"], "retry.py": b"#" * 9})
    data = bytearray(path.read_bytes())
    second = data.rfind(b"PK\1\2")
    data[second + 42 : second + 46] = bytes(4)  # its local header is that of the first
    path.write_bytes(data)
    assert "overlap" in refused(path, Fault.UNSAFE).reason


def _many_in_zip(path: Path) -> None:
    zipped(path, dict.fromkeys((f"f{n}" for n in range(50)), b""))


def _many_in_tar(path: Path) -> None:
    tarred(path, dict.fromkeys((f"f{n}" for n in range(50)), b""))


def _many_in_folder(path: Path) -> None:
    laid_out(path, dict.fromkeys((f"f{n}" for n in range(50)), b""))


def _large_archive(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(200_001))


def _large_altogether(path: Path) -> None:
    laid_out(path, dict.fromkeys(("ledger.py", "retry.py", "conflict.py", "review.py", "writeup.md"), b"#" * 7_900))


def _every_file_large(path: Path) -> None:
    laid_out(path, {"ledger.py": b"#" * 8_001})


@pytest.mark.parametrize(
    "make", [_many_in_zip, _many_in_tar, _many_in_folder, _large_archive, _large_altogether, _every_file_large]
)
def test_every_limit_has_its_sentence(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Too many entries, too large an archive, too much altogether: refused as too large, with what to hand in."""
    make(tmp_path / "u.zip")
    assert "Hand in" in refused(tmp_path / "u.zip", Fault.TOO_LARGE, SMALL).advice


def test_a_directory_of_100_000_names_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Both by the count it announces and by the room it takes."""
    path = zipped(tmp_path / "u.zip", MODEL)
    data = path.read_bytes()
    end = data.rfind(b"PK\5\6")
    for field, value in ((10, struct.pack("<H", 60_000)), (12, struct.pack("<I", 2**31))):
        path.write_bytes(data[: end + field] + value + data[end + field + len(value) :])
        refused(path, Fault.TOO_LARGE)


def test_folders_nested_without_end_come_to_one(tmp_path: Path) -> None:
    """Deep folders are not followed for ever."""
    folder = laid_out(tmp_path / "u", MODEL)
    (folder / "/".join(["d"] * 200)).mkdir(parents=True)
    assert taken(folder).digest == DIGEST
    shutil.rmtree(folder)


def test_a_file_that_cannot_be_read_is_a_refusal(tmp_path: Path) -> None:
    """What the machine says against a file is a sentence too: here it is gone before it is read."""
    assert refused(tmp_path / "gone.zip", Fault.UNREADABLE).reason.startswith("The upload cannot be read")


# Whatever the bytes.


def seen_files(folder: Path) -> set[Path]:
    """Everything below a folder."""
    return set(folder.rglob("*"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=600), magic=st.sampled_from([b"", b"PK\3\4", b"\x1f\x8b\x08", b"ustar"]), end=st.booleans()
)
def test_random_bytes_never_raise(tmp_path: Path, data: bytes, magic: bytes, end: bool) -> None:
    """Any bytes under any name are a submission or a refusal, and nothing is written."""
    if magic == b"ustar":
        data = data[:257].ljust(257, b"\0") + magic + data[257:]
    path = tmp_path / "u.zip"
    path.write_bytes(magic + data + (b"PK\5\6" + bytes(18) if end else b""))
    before = seen_files(tmp_path)
    assert isinstance(read(path, SMALL), (Submission, Refusal))
    assert seen_files(tmp_path) == before


ARCHIVES = []
with zipfile.ZipFile(io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as _zip:
    for _name, _data in under("student").items():
        _zip.writestr(zipfile.ZipInfo(_name), _data)
    _held = _zip.fp
    assert isinstance(_held, io.BytesIO)
    _zip.close()
    ARCHIVES.append(_held.getvalue())
with tarfile.open(fileobj=(_stream := io.BytesIO()), mode="w") as _tar:
    for _name, _data in under("student").items():
        _info = tarfile.TarInfo(_name)
        _info.size = len(_data)
        _tar.addfile(_info, io.BytesIO(_data))
ARCHIVES.append(_stream.getvalue())
ARCHIVES.append(gzip.compress(_stream.getvalue(), mtime=0))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    archive=st.sampled_from(ARCHIVES),
    edits=st.lists(st.tuples(st.integers(min_value=0), st.binary(min_size=1, max_size=4)), min_size=1, max_size=6),
)
def test_damaged_archives_never_raise(tmp_path: Path, archive: bytes, edits: list[tuple[int, bytes]]) -> None:
    """A right archive with a few bytes changed anywhere is taken or refused, and nothing is written."""
    data = bytearray(archive)
    for at, new in edits:
        at %= len(data)
        data[at : at + len(new)] = new
    path = tmp_path / "u.zip"
    path.write_bytes(data)
    before = seen_files(tmp_path)
    assert isinstance(read(path), (Submission, Refusal))
    assert seen_files(tmp_path) == before


def test_reading_writes_nothing_and_changes_nothing(tmp_path: Path) -> None:
    """After every kind of upload was read, the folder holds what it held, byte for byte."""
    zipped(tmp_path / "a.zip", under("../x"))
    tarred(tmp_path / "b.tar.gz", under("student"))
    laid_out(tmp_path / "c", MODEL)
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in seen_files(tmp_path) if path.is_file()}
    for upload in intake.find(tmp_path):
        intake.read(upload)
    assert {
        path: hashlib.sha256(path.read_bytes()).digest() for path in seen_files(tmp_path) if path.is_file()
    } == before


# A class of uploads.


def keys(path: Path) -> list[str]:
    """The keys of the uploads found."""
    return [upload.key for upload in intake.find(path)]


def test_a_class_is_one_upload_a_student_sorted_by_name(tmp_path: Path) -> None:
    """Folders and archives of any kind; lists, readmes and hidden files beside them are nobody's work."""
    for name in ("cem.zip", "dora.tar.gz", "eve.TGZ", "fay.tar"):
        (tmp_path / name).write_bytes(b"")
    laid_out(tmp_path / "ben", MODEL)
    for name in ("grades.csv", "README.md", "notes.txt", ".DS_Store", "Makefile", "export.xlsx", "index.html"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "ada.zip").write_bytes(b"")
    assert keys(tmp_path) == ["ada", "ben", "cem", "dora", "eve", "fay"]


def test_two_uploads_of_one_name_are_two_students(tmp_path: Path) -> None:
    """Nobody's work replaces another's: the whole file names are kept, with a note."""
    laid_out(tmp_path / "ada", MODEL)
    zipped(tmp_path / "ada.zip", MODEL)
    (tmp_path / "ada.tar.gz").write_bytes(b"")
    uploads = intake.find(tmp_path)
    assert [upload.key for upload in uploads] == ["ada", "ada.tar.gz", "ada.zip"]
    assert all("More than one upload is called ada" in upload.notes[0] for upload in uploads)
    one = intake.read(uploads[0])
    assert isinstance(one, Submission)
    assert uploads[0].notes[0] in one.notes


def test_names_that_are_not_utf8_and_odd_names_are_keys_that_can_be_written(tmp_path: Path) -> None:
    """Every key can be encoded, no two are equal, and each upload is read."""
    for name in (b"ada\xff", b"ada\xfe", "Zoë".encode(), b"-rf", b"$(touch x)", b"a b'c\"d", b"ada\\xff"):
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
        path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
        (path / "ledger.py").write_bytes(MODEL["ledger.py"])
    uploads = intake.find(tmp_path)
    assert len({upload.key for upload in uploads}) == len(uploads) == 7
    for upload in uploads:
        upload.key.encode("utf-8")
        assert isinstance(intake.read(upload), Submission)


@pytest.mark.parametrize("folder", ["student", ".", "handed in/student"])
def test_one_submission_alone_is_a_class_of_one(tmp_path: Path, folder: str) -> None:
    """The folder student/ itself, or the one around it, is one submission and not several."""
    laid_out(tmp_path / "ada" / folder, MODEL)
    laid_out(tmp_path / "ada" / folder / "lab", {"store.py": b""})
    assert keys(tmp_path / "ada") == (["ada"] if folder != "handed in/student" else ["handed in"])


def test_a_class_inside_one_folder_is_found(tmp_path: Path) -> None:
    """Unpacking an export often makes one folder around the class."""
    laid_out(tmp_path / "Assignment 1" / "ada", MODEL)
    zipped(tmp_path / "Assignment 1" / "ben.zip", MODEL)
    laid_out(tmp_path, {"__MACOSX/._x": b"", "index.html": b""})
    assert keys(tmp_path) == ["ada", "ben"]


@pytest.mark.parametrize("name", ["nothing", "empty", "grades.csv"])
def test_a_path_without_submissions_is_one_sentence(tmp_path: Path, name: str) -> None:
    """No such path, an empty folder, a file that is no submission: said, with what to give."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "grades.csv").write_bytes(b"")
    with pytest.raises(intake.IntakeError) as caught:
        intake.find(tmp_path / name)
    text = str(caught.value)
    assert name in text
    assert text.endswith(".")
    assert text.count("\n") == 0


def test_equal_files_have_equal_digests_and_a_moved_byte_changes_it() -> None:
    """The digest is over names and bytes, so nothing can slide from one to the other."""
    assert intake.digest(dict(reversed(MODEL.items()))) == DIGEST
    assert len({intake.digest(files) for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {})}) == 4
