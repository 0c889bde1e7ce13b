"""Every small fault that a source file can have. Pure.

Left alone: annotations, docstrings, Protocols, texts with a blank in them, which are prose for
people, and ``init=False`` of a field, which only keeps a name out of a constructor that nobody
calls with it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from attrs import frozen

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}
SKIPPED = ("annotation", "returns")
REMOVABLE = ast.Raise | ast.Delete | ast.AugAssign

Path = tuple[tuple[str, int], ...]  # the way down from the module: field and place in it


@frozen
class Mutant:
    """One fault: where it is, the node before it, and the node after."""

    way: Path
    line: int
    scope: tuple[str, ...]  # the classes and functions around, outermost first
    before: str
    after: str
    node: ast.AST

    def __str__(self) -> str:
        where = ".".join(self.scope) or "module"
        return f"{self.line}\t{where}\t{self.before}\t{self.after}"


def mutants_of(source: str) -> list[Mutant]:
    """All of them, in the order of the source."""
    tree = ast.parse(source)
    found = list(_walk(tree, (), ()))
    return sorted(found, key=lambda one: (one.line, one.way, one.after))


def apply(source: str, mutant: Mutant) -> ast.Module:
    """The file with that one fault."""
    tree = ast.parse(source)
    holder: ast.AST = tree
    for name, place in mutant.way[:-1]:
        holder = _child(holder, name, place)
    name, place = mutant.way[-1]
    old = getattr(holder, name)
    if isinstance(old, list):
        old[place] = mutant.node
    else:
        setattr(holder, name, mutant.node)
    return ast.fix_missing_locations(tree)


def _child(node: ast.AST, name: str, place: int) -> ast.AST:
    found = getattr(node, name)
    one = found[place] if isinstance(found, list) else found
    assert isinstance(one, ast.AST)
    return one


def _walk(node: ast.AST, way: Path, scope: tuple[str, ...]) -> Iterator[Mutant]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if _is_protocol(node):
            return
        scope = (*scope, node.name)
    for name, value in ast.iter_fields(node):
        if name in SKIPPED or (name == "body" and _is_type_checking(node)):
            continue
        for place, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST):
                continue
            here = (*way, (name, place))
            yield from _faults(node, child, here, scope)
            if not (_is_docstring(child) or _is_all(child) or _is_init(child)):
                yield from _walk(child, here, scope)


def _faults(holder: ast.AST, node: ast.AST, way: Path, scope: tuple[str, ...]) -> Iterator[Mutant]:
    line = getattr(node, "lineno", 0) or getattr(holder, "lineno", 0)
    shown = holder if isinstance(node, ast.operator | ast.cmpop | ast.boolop) else node
    for replacement in _replacements(node):
        after = copy.deepcopy(holder) if shown is holder else replacement
        if shown is holder:
            name, place = way[-1]
            if isinstance(getattr(after, name), list):
                getattr(after, name)[place] = replacement
            else:
                setattr(after, name, replacement)
        yield Mutant(way, line, scope, _text(shown), _text(after), replacement)


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand there instead."""
    swap = SWAPS.get(type(node))
    if swap is not None:
        yield swap()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, REMOVABLE) or _is_call(node) or _is_store(node):
        yield ast.Pass()


def _constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str) and " " not in value:
        yield ast.Constant(value + "X")


def _is_call(node: ast.AST) -> bool:
    """A call (or an awaited one) whose result nobody takes."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)


def _is_store(node: ast.AST) -> bool:
    """A change of something that others see; a lost local name would only be a NameError."""
    return isinstance(node, ast.Assign) and isinstance(
        node.targets[0], ast.Attribute | ast.Subscript
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_all(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and _text(node.targets[0]) == "__all__"


def _is_init(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "init"


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _text(node.test) == "TYPE_CHECKING"


def _is_protocol(node: ast.AST) -> bool:
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(_text(base).startswith("Protocol") for base in bases)


def _text(node: ast.AST) -> str:
    """The source of it on one short line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:87]}..."
