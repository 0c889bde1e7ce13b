"""What a run has found out so far, so that the next one goes on where it ended.

One file of verdicts for each source file, in ``.mutation/``. It counts only while the code that
it was made of is the same, whatever its comments say; ``--again`` begins anew, for tests that have
changed since.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field

from tests.mutation.mutants import Mutant
from tests.mutation.table import ROOT

KEPT = ROOT / ".mutation"


def names_of(mutants: Sequence[Mutant]) -> list[str]:
    """A name of each that no other of the file has: two faults of a function may look alike."""
    seen: Counter[tuple[tuple[str, ...], str, str]] = Counter()
    names = []
    for one in mutants:
        key = (one.scope, one.before, one.after)
        seen[key] += 1
        names.append(f"{seen[key]}\t{'.'.join(one.scope)}\t{one.before}\t{one.after}")
    return names


@define
class Record:
    """The verdicts on the mutants of one file, by their names."""

    file: str
    names: list[str]
    verdicts: dict[str, str] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        if not self._path.is_file():
            return
        first, *lines = self._path.read_text().splitlines()
        if first == self._digest:
            said = (line.split("\t", 1) for line in lines)
            self.verdicts = {name: verdict for verdict, name in said}

    @property
    def _path(self) -> Path:
        return KEPT / f"{self.file.replace('/', '.')}.tsv"

    @property
    def _digest(self) -> str:
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()

    def forget(self) -> None:
        """Begin anew."""
        self.verdicts.clear()
        self._path.unlink(missing_ok=True)

    def add(self, name: str, verdict: str) -> None:
        """Keep one verdict at once: a run may be ended at any time."""
        KEPT.mkdir(exist_ok=True)
        if not self.verdicts:
            self._path.write_text(f"{self._digest}\n")
        self.verdicts[name] = verdict
        with self._path.open("a") as kept:
            kept.write(f"{verdict}\t{name}\n")
