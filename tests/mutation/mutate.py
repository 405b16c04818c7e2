"""The mutants of a module: its syntax tree with one small fault each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {"min": "max", "max": "min", "all": "any", "any": "all", "maximum": "minimum", "minimum": "maximum"}
PLAIN = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """One fault: the lines it is on, what it is, and where it is in the module's tree."""

    first: int
    last: int
    what: str
    source: str
    number: int
    place: int

    def tree(self) -> ast.Module:
        """The whole module with it."""
        tree = ast.parse(self.source)
        node = next(one for at, one in enumerate(ast.walk(tree)) if at == self.number)
        list(_changes(node))[self.place][1]()
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.first}: {self.what}"


Change = tuple[str, Callable[[], None]]
"""What is changed, and the call that does it in the tree at hand."""


def mutants(source: str, left_out: Collection[str] = ()) -> list[Mutant]:
    """Every mutant of a module's functions but those `left_out`, in the order of the text; no annotations, no texts."""
    tree = ast.parse(source)
    inside = _bodies(tree, left_out)
    found: list[Mutant] = []
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in inside:
            continue
        for place, (what, _) in enumerate(_changes(node)):
            first = getattr(node, "lineno", 0)
            whole = node.test if isinstance(node, ast.If | ast.While) else node
            last = first if isinstance(node, ast.For) else getattr(whole, "end_lineno", first)
            found.append(Mutant(first, last, what, source, number, place))
    return sorted(found, key=lambda one: (one.first, one.what))


def _bodies(tree: ast.Module, left_out: Collection[str]) -> set[int]:
    """Nodes, by id, in the bodies of functions; no annotation, and no ``strict=True``, an assertion."""
    found: set[int] = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef):
            for part in one.body:
                found.update(map(id, ast.walk(part)))
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef) and one.name in left_out:
            found.difference_update(map(id, ast.walk(one)))
        for name in ("annotation", "returns"):
            if (part := getattr(one, name, None)) is not None:
                found.difference_update(map(id, ast.walk(part)))
        if isinstance(one, ast.keyword) and one.arg == "strict":
            found.discard(id(one.value))
    return found


def _changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in COMPARE[type(operator)]:
                yield _named(node, f"{_word(operator)} is {other.__name__}"), _setter(node.ops, place, other())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        other_op = ARITHMETIC[type(node.op)]
        if not any(isinstance(side, ast.JoinedStr) for side in (getattr(node, "left", None), node)):
            yield _named(node, f"{_word(node.op)} is {other_op.__name__}"), _attribute(node, "op", other_op())
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        for value in (node.value + 1, node.value - 1):
            yield f"{node.value} is {value}", _attribute(node, "value", value)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield f"{node.value} is {not node.value}", _attribute(node, "value", not node.value)
    elif isinstance(node, ast.BoolOp):
        other_bool = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _named(node, f"{_word(node.op)} is {_word(other_bool)}"), _attribute(node, "op", other_bool)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _named(node, "not is gone"), _double(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _named(node, "- is gone"), _attribute(node, "op", ast.UAdd())
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield f"{node.id} is {NAMES[node.id]}", _attribute(node, "id", NAMES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield f".{node.attr} is .{NAMES[node.attr]}", _attribute(node, "attr", NAMES[node.attr])
    elif isinstance(node, ast.Return) and not (node.value is None or _is_none(node.value)):
        yield _named(node, "returns None"), _attribute(node, "value", ast.Constant(None))
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        if not (isinstance(node.test, ast.Constant) and node.test.value is True):
            yield f"if {_short(node.test)}: always", _attribute(node, "test", ast.Constant(True))
        yield f"if {_short(node.test)}: never", _attribute(node, "test", ast.Constant(False))
    for body in ("body", "orelse"):
        rows = getattr(node, body, None)
        if isinstance(rows, list):
            yield from _deleted(rows)


def _deleted(rows: list[ast.stmt]) -> Iterator[Change]:
    """Statements left out; a docstring is no statement, and the lines are those of the statement itself."""
    for place, one in enumerate(rows):
        text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if isinstance(one, PLAIN) and not text:
            yield f"line {one.lineno} is gone: {_short(one)}", _setter(rows, place, ast.Pass())


def _double(node: ast.UnaryOp) -> Callable[[], None]:
    def change() -> None:
        node.operand = ast.UnaryOp(ast.Not(), node.operand)

    return change


def _attribute(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _setter(rows: list, place: int, value: ast.AST) -> Callable[[], None]:  # type: ignore[type-arg]
    def change() -> None:
        rows[place] = value

    return change


def _word(node: ast.AST) -> str:
    return type(node).__name__


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _named(node: ast.AST, what: str) -> str:
    return f"{_short(node)}: {what}"


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."
