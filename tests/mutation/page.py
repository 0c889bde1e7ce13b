"""The page of results, ``docs/contributors/mutants.md``: written from the records of the runs.

What is known of a survivor is said on the page, behind it, by whoever looked at it; it stays
there as long as the mutant survives. A file without a record keeps its place on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from tests.mutation.mutants import mutants_of
from tests.mutation.records import Record, names_of
from tests.mutation.running import SURVIVED
from tests.mutation.table import ROOT, targets

PAGE = ROOT / "docs" / "contributors" / "mutants.md"
BEGIN = "## Results\n"
UNKNOWN = "Not looked at yet."
_ROW = re.compile(r"\| `(svcserver/[^`]+)` \| (\d+) of (\d+) \([^|]*\| (\d+) \|")
_FILE = re.compile(r"\*\*(svcserver/.+)\*\*")
_SURVIVOR = re.compile(r"(\* .+?: `.*` → `.*`\.) (.+)")


@frozen
class Result:
    """Of one file: how many died, of how many tried, of all; the survivors, each with its why."""

    file: str
    killed: int
    tried: int
    every: int
    survivors: tuple[tuple[str, str], ...] = ()


def write_page() -> None:
    """Write the results anew; what stands above them stays."""
    text = PAGE.read_text()
    old = read(text)
    known = {(one.file, fault): why for one in old.values() for fault, why in one.survivors}
    results = [found for file in targets() if (found := recorded(file, known) or old.get(file))]
    PAGE.write_text(text[: text.index(BEGIN)] + shown(results))


def read(text: str) -> dict[str, Result]:
    """The results that a page tells, by file."""
    survivors: dict[str, list[tuple[str, str]]] = {}
    file = ""
    for line in text.splitlines():
        if head := _FILE.fullmatch(line):
            file = head[1]
        elif fault := _SURVIVOR.fullmatch(line):
            survivors.setdefault(file, []).append((fault[1], fault[2]))
    return {
        name: Result(name, int(killed), int(tried), int(every), tuple(survivors.get(name, ())))
        for name, killed, tried, every in _ROW.findall(text)
    }


def recorded(file: str, known: dict[tuple[str, str], str]) -> Result | None:
    """What the record of a file tells, with the reasons that are known; None without one."""
    found = mutants_of((ROOT / file).read_text())
    names = names_of(found)
    verdicts = Record(file, names).verdicts
    if not found:
        return Result(file, 0, 0, 0)
    tried = [one for one, name in zip(found, names, strict=True) if name in verdicts]
    if not tried:
        return None
    alive = [one for one, name in zip(found, names, strict=True) if verdicts.get(name) == SURVIVED]
    said = [
        f"* {'.'.join(one.scope) or 'module'}: `{one.before}` → `{one.after}`." for one in alive
    ]
    whys = tuple((fault, known.get((file, fault), UNKNOWN)) for fault in said)
    return Result(file, len(tried) - len(alive), len(tried), len(found), whys)


def shown(results: list[Result]) -> str:
    """The part of the page from its heading on."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: list[Result]) -> Iterator[str]:
    killed, tried = sum(one.killed for one in results), sum(one.tried for one in results)
    yield from (BEGIN, "| file | killed | of all |", "|---|---|---|")
    for one in results:
        share = f"{100 * one.killed // one.tried} %" if one.tried else "nothing to break"
        yield f"| `{one.file}` | {one.killed} of {one.tried} ({share}) | {one.every} |"
    yield f"\nTogether {killed} of {tried}: {100 * killed / max(1, tried):.1f} %.\n"
    yield "## Survivors\n"
    yield "`before` → `after`, and why no test can or need tell them apart."
    for one in results:
        if one.survivors:
            yield f"\n**{one.file}**\n"
            yield from (" ".join(fault) for fault in one.survivors)
