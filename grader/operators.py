"""Small wrong changes to a file of the model answers: cosmic-ray's operators as a library, and a few of our own.

cosmic-ray changes comparisons, numbers, conditions, handlers and loops. Our own operators have the same two methods and
change what matters most here: statements, arguments, elements, texts and SQL.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

from grader import catalogue

EQUIVALENTS = catalogue.HERE / "equivalents.toml"
SQL = (
    (" AND ", " OR "),
    (" IMMEDIATE", ""),
    (" + 1", " - 1"),
    (", 1)", ", 2)"),
    ("= ?", "<> ?"),
    ("INSERT INTO", "INSERT OR IGNORE INTO"),
    ("INSERT INTO", "INSERT OR REPLACE INTO"),
    ("COMMIT", "ROLLBACK"),
    ("ROLLBACK", "COMMIT"),
)
"""What is replaced by what inside a statement, one place at a time."""
SQL_WORDS = ("BEGIN", "COMMIT", "ROLLBACK", "SELECT", "INSERT", "ON CONFLICT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One changed file. `before` and `after` are the lines that differ, joined by one space; `code` is the whole."""

    file: str
    line: int
    operator: str
    before: str
    after: str
    code: str

    @property
    def key(self) -> str:
        """A name for one run: no two mutants share it."""
        return f"{self.file}:{self.line} {self.operator} {self.after}"


class Equivalent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that no test can or need notice. `unpromised`: it can be seen, and the task promises nothing about it."""

    file: str
    before: str
    after: tuple[str, ...]
    reason: str  # one that can be checked
    unpromised: bool = False

    def fits(self, mutant: Mutant) -> bool:
        """Whether the mutant is one of these."""
        return mutant.file == self.file and mutant.before == self.before and mutant.after in self.after


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    equivalents: tuple[Equivalent, ...]


class Operator(Protocol):
    """As cosmic-ray has it: the places where a node can be changed, and the changed node. Nodes are parso's."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One value for each change that can be made to the node."""

    def mutate(self, node: Any, index: int) -> Any:
        """The node after that change."""


def equivalents() -> tuple[Equivalent, ...]:
    """The list of equivalents. Raises CatalogueError."""
    try:
        return msgspec.toml.decode(EQUIVALENTS.read_bytes(), type=_File).equivalents
    except (OSError, msgspec.DecodeError) as error:
        raise catalogue.CatalogueError(f"{EQUIVALENTS.name}: {error}") from error


def mutants(file: str, source: str) -> tuple[Mutant, ...]:
    """Every change of every operator to the source, without those to types, docstrings and imports, each once."""
    seen = {_meaning(source)}
    made = []
    nodes = list(ast_nodes(get_ast(source)))
    for name, operator in _operators():
        for occurrence in range(sum(len(list(operator.mutation_positions(node))) for node in nodes)):
            code = mutate_code(source, operator, occurrence)
            meaning = _meaning(code)
            if meaning not in seen:
                seen.add(meaning)
                line, before, after = _difference(source, code)
                made.append(Mutant(file=file, line=line, operator=name, before=before, after=after, code=code))
    return tuple(sorted(made, key=lambda one: (one.line, one.operator, one.after)))


def _operators() -> Iterator[tuple[str, Operator]]:
    provider = OperatorProvider()
    yield from ((name, provider[name]()) for name in provider if not provider[name].arguments())
    yield from ((kind.__name__, kind()) for kind in (RemoveStatement, RemoveCall, RemoveElement))
    yield from ((kind.__name__, kind()) for kind in (RemoveArgument, ReplaceArgument, ReplaceText, ReplaceSql))


def _meaning(source: str) -> str:
    """What runs: the syntax tree without annotations, type variables and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.arg():
                node.annotation = None
            case ast.AnnAssign():
                node.annotation = ast.Constant(value=None)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            node.body = [one for one in node.body if not _says_nothing(one)]
    return ast.dump(tree)


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, or a type variable or what a change has left of one: nothing of it is used while code runs."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
    return False


def _difference(source: str, code: str) -> tuple[int, str, str]:
    """The number of the first line that differs, and the lines that differ, before and after."""
    old, new = source.splitlines(), code.splitlines()
    first = next(n for n in range(len(old)) if old[n] != new[n])
    last = next((n for n in range(len(old)) if n >= len(new) or old[~n] != new[~n]), 0)
    last = min(last, len(old) - first - 1, len(new) - first - 1)
    return first + 1, _joined(old[first : len(old) - last]), _joined(new[first : len(new) - last])


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


class RemoveStatement:
    """`pass` in place of a statement; imports and docstrings stay."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One for each line that does something."""
        if node.type == "simple_stmt" and node.children[0].type not in ("import_name", "import_from", "string"):
            yield node.start_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Keep the line's indentation."""
        first = node.children[0]
        node.children[0] = _leaf("pass", first.get_first_leaf())
        return node


class RemoveCall:
    """`name` in place of `name.strip()`: a method call without arguments is left out."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """Only at the end of an expression."""
        trailers = [one.get_code() for one in node.children[-2:]] if node.type == "atom_expr" else []
        if len(trailers) == 2 and trailers[0].startswith(".") and trailers[1] == "()":
            yield node.start_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Leave out the name and the parentheses."""
        del node.children[-2:]
        return node


class RemoveElement:
    """One element of a tuple or list less; one stays."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One for each element."""
        if node.type in ("testlist_comp", "testlist") and _commas(node):
            yield from node.children[::2]

    def mutate(self, node: Any, index: int) -> Any:
        """Leave it out together with its comma; the last one that stays keeps a comma, so a tuple stays a tuple."""
        comma = node.children[1]
        _drop(node, index)
        if len(node.children) == 1:
            node.children.append(comma)
        return node


class RemoveArgument:
    """One keyword argument of a call less; without one that has no default, any call would fail."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One for each keyword argument of a call with several."""
        yield from self._keywords(node)

    def mutate(self, node: Any, index: int) -> Any:
        """Leave it out together with its comma."""
        _drop(node, list(self._keywords(node))[index])
        return node

    def _keywords(self, node: Any) -> Iterator[int]:
        if node.type == "arglist" and node.parent.type == "trailer":
            yield from (n for n, one in enumerate(node.children[::2]) if "=" in [x.get_code() for x in _children(one)])


class ReplaceArgument:
    """None in place of one argument of a call."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One for each argument that is not unpacked."""
        yield from self._arguments(node)

    def mutate(self, node: Any, index: int) -> Any:
        """Keep a keyword's name."""
        argument = list(self._arguments(node))[index]
        value = argument.children[-1] if argument.type == "argument" else argument
        siblings = value.parent.children
        at = next(n for n, one in enumerate(siblings) if one is value)
        siblings[at] = _leaf("None", value.get_first_leaf())
        return node

    def _arguments(self, node: Any) -> Iterator[Any]:
        if node.type != "trailer" or node.children[0].value != "(" or len(node.children) != 3:
            return
        inner = node.children[1]
        for one in inner.children[::2] if inner.type == "arglist" else [inner]:
            if not one.get_code().strip().startswith("*") and "comp_for" not in str(_children(one)):
                yield one


class ReplaceText:
    """Another text in place of a text that is neither SQL nor a docstring."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One for each plain text."""
        if node.type == "string" and node.parent.type != "simple_stmt" and not _is_sql(node):
            yield node.start_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The same text with a letter before and after it."""
        node.value = f"{node.value[0]}X{node.value[1:-1]}X{node.value[-1]}"
        return node


class ReplaceSql:
    """Another word, number or sign inside a piece of SQL."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """One for each place of each replacement."""
        yield from self._changed(node)

    def mutate(self, node: Any, index: int) -> Any:
        """The text with that one replacement."""
        node.value = list(self._changed(node))[index]
        return node

    def _changed(self, node: Any) -> Iterator[str]:
        if node.type != "string" or not _is_sql(node):
            return
        for old, new in SQL:
            parts = node.value.split(old)
            for at in range(1, len(parts)):
                yield old.join(parts[:at]) + new + old.join(parts[at:])


def _is_sql(node: Any) -> bool:
    return bool(node.value[1:-1].startswith(SQL_WORDS))


def _commas(node: Any) -> bool:
    return all(getattr(one, "value", "") == "," for one in node.children[1::2])


def _children(node: Any) -> list[Any]:
    return list(getattr(node, "children", ()))


def _drop(node: Any, index: int) -> None:
    """Leave out an element with the comma after it, or before it where none comes after."""
    start = index * 2
    if start == len(node.children) - 1:
        del node.children[start - 1 :]
        return
    prefix = node.children[start].get_first_leaf().prefix
    del node.children[start : start + 2]
    if start < len(node.children):
        node.children[start].get_first_leaf().prefix = prefix


def _leaf(text: str, place: Any) -> Any:
    return parso.python.tree.Keyword(text, place.start_pos, prefix=place.prefix)
