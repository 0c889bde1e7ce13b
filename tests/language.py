"""The rules of the house style that a program can check, for ``make check``.

python -m tests.language            # every fault that tests/language.txt does not excuse
python -m tests.language PATH ...   # every fault below these paths, excused or not
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = ("bench", "docs", "packaging", "simulation", "svcserver", "tests", "twisted")
PAGES = ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
GENERATED = frozenset({"_build", "reference"})  # folders below docs/
EXCEPTIONS = Path("tests/language.txt")  # a line each: "name: reason"
FIRST_WORDS = frozenset(
    {"As", "By", "From what", "Of", "That", "What", "Whether", "Where", "Who", "Whose"}
)
IDENTIFIERS = frozenset(
    {
        "asked",
        "found",
        "given",
        "heard",
        "kept",
        "lost",
        "one",
        "other",
        "said",
        "seen",
        "told",
        "wish",
        "wishes",
    }
)
LONGEST = 35  # words of a sentence in the documentation

CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
PARAGRAPH = re.compile(r"(\n(?=\s*\n|\s*(?:[-*+>|#:]|\d+\.)\s))")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|:\n")
CODE_OR_LINK = re.compile(r"`[^`]*`|\]\([^)]*\)")
WORD = re.compile(r"\w[\w'\u2019.-]*")

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fault:
    """A breach of one rule; tests/language.txt can excuse it by its ``name``."""

    name: str
    line: int
    text: str


def scopes(tree: ast.Module) -> Iterator[tuple[str, Scope]]:
    """Yield the module and each class and function in it with its qualified name."""
    pending: list[tuple[str, Scope]] = [("", tree)]
    while pending:
        name, scope = pending.pop()
        yield name, scope
        for node in inside(scope):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                pending.append((f"{name}.{node.name}".lstrip("."), node))


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, but not the nodes of scopes nested in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from inside(node)


def bindings(scope: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a scope assigns, defines or takes as a parameter, and its line."""
    for node in inside(scope):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield name, node.lineno
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield name, node.lineno


def code_faults(path: Path) -> Iterator[Fault]:
    """Yield the faults of a module's docstrings and identifiers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for qualified, scope in scopes(tree):
        place = f"{path.as_posix()}::{qualified or '<module>'}"
        line = getattr(scope, "lineno", 1)
        if text := ast.get_docstring(scope):
            summary, _, _ = text.partition("\n\n")
            if "\n" in summary:
                yield Fault(place, line, "the summary of the docstring has more than one line")
            if re.match(rf"({'|'.join(sorted(FIRST_WORDS))})\b", summary):
                yield Fault(place, line, f"the docstring begins with {summary.split()[0]}")
        for name, at in bindings(scope):
            if name.lstrip("_").lower() in IDENTIFIERS:
                yield Fault(f"{place}.{name}", at, f"{name} says nothing: name the thing")


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence of a page's prose and lists, and the line of its paragraph."""
    prose = CODE_BLOCK.sub(lambda code: "\n" * code[0].count("\n"), markdown)
    line = 1
    for paragraph in PARAGRAPH.split(prose):
        if not paragraph.lstrip().startswith(("|", "#", ":::")):
            for sentence in SENTENCE_END.split(CODE_OR_LINK.sub(" code ", paragraph)):
                yield line, sentence
        line += paragraph.count("\n")


def page_faults(path: Path) -> Iterator[Fault]:
    """Yield the sentences of a page that are too long."""
    for line, sentence in sentences(path.read_text(encoding="utf-8")):
        words = WORD.findall(sentence)
        if len(words) > LONGEST:
            yield Fault(
                f"{path.as_posix()}: {' '.join(words[:6])}",
                line,
                f"a sentence of {len(words)} words",
            )


def faults(roots: list[str]) -> Iterator[tuple[Path, Fault]]:
    """Yield every fault below the given paths."""
    for root in map(Path, roots):
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if GENERATED.intersection(path.parts):
                continue
            check = {".py": code_faults, ".md": page_faults}.get(path.suffix)
            for fault in check(path) if check else ():
                yield path, fault


def main(paths: list[str]) -> int:
    """Print the faults and return the exit status."""
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines() if not paths else []
    excused = {line.rpartition(": ")[0] for line in lines if not line.startswith("#")}
    count = 0
    for path, fault in faults(paths or [*CODE, *PAGES]):
        if fault.name not in excused:
            print(f"{path}:{fault.line}: {fault.name.rpartition('::')[2]}: {fault.text}")
            count += 1
    if count:
        print(
            f"{count} faults: mend them, or excuse one in {EXCEPTIONS} as name: reason",
            file=sys.stderr,
        )
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
