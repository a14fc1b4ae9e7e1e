"""The catalogue of known mistakes and correct variants: small named edits to the model answers, read as data."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
MISTAKES = HERE / "mutants.toml"
VARIANTS = HERE / "variants.toml"
REFERENCE = HERE.parent / "reference"


class CatalogueError(Exception):
    """An entry does not fit the model answers (any more): one sentence that names it."""


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replace `old`, which must occur once, by `new`; in the entry's file unless another is named."""

    old: str
    new: str
    file: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known mistake, or one correct variant. `criteria`: codes that must fail, and may not be all that do."""

    id: str
    idea: str  # what was thought or written, in a sentence a student would recognise
    file: str
    code: str = ""  # functions that replace those of the same name; whatever else it holds is put before them
    edits: tuple[Edit, ...] = ()
    criteria: tuple[str, ...] = ()
    wheat: bool = False  # the students' own tests must pass on it


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mutants: tuple[Entry, ...]


def load(path: Path) -> tuple[Entry, ...]:
    """The entries of a catalogue file. Raises CatalogueError."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).mutants
    except (OSError, msgspec.DecodeError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error


def reference() -> dict[str, bytes]:
    """The model answers by name relative to student/: code, tests and written work."""
    return {
        path.relative_to(REFERENCE).as_posix(): path.read_bytes()
        for path in sorted(REFERENCE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def written(entry: Entry, files: dict[str, bytes]) -> dict[str, bytes]:
    """The model answers with the entry's edits in them. Raises CatalogueError where one does not fit."""
    texts = {name: data.decode() for name, data in files.items() if name.endswith(".py")}
    if entry.code:
        texts[entry.file] = _replaced(texts[entry.file], entry)
    for edit in entry.edits:
        name = edit.file or entry.file
        if texts[name].count(edit.old) != 1:
            raise CatalogueError(f"{entry.id}: {edit.old!r} occurs {texts[name].count(edit.old)} times in {name}")
        texts[name] = texts[name].replace(edit.old, edit.new)
    for name, text in texts.items():
        try:
            ast.parse(text, name)
        except SyntaxError as error:
            raise CatalogueError(f"{entry.id}: {name} would not be Python any more: {error}") from error
    changed = {name: text.encode() for name, text in texts.items()}
    if changed == {name: files[name] for name in changed}:
        raise CatalogueError(f"{entry.id} changes nothing")
    return files | changed


def _replaced(text: str, entry: Entry) -> str:
    lines = text.splitlines(keepends=True)
    places = {
        node.name: (min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) - 1, node.end_lineno or 0)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    above, functions = [], {}
    for node in ast.parse(entry.code).body:
        source = ast.unparse(node) + "\n"
        if isinstance(node, ast.FunctionDef) and node.name in places:
            functions[node.name] = source
        else:
            above.append(source + "\n")
    if not functions:
        raise CatalogueError(f"{entry.id}: its code replaces no function of {entry.file}")
    for name, (start, end) in sorted(places.items(), key=lambda place: -place[1][0]):
        if name in functions:
            lines[start:end] = [functions[name]]
    first = min(start for start, _ in places.values())
    return "".join([*lines[:first], *above, *lines[first:]])
