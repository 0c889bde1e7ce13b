"""The summary of ``make test``: how many tests of all parts passed, failed and were skipped.

    python -m tests.summary FOLDER SECONDS NAME=STATUS...

Each part of the run is a pytest session that exited with STATUS and wrote FOLDER/NAME.xml.
"""

import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from attrs import define, field

ROOT = Path(__file__).parents[1]


@define
class Summary:
    """The results of all parts."""

    passed: int = 0
    failed: dict[str, None] = field(factory=dict)  # node ids, in order
    skipped: dict[str, str] = field(factory=dict)  # node id: reason
    ended: list[str] = field(factory=list)  # parts that ended without a result

    def add(self, name: str, status: int, report: Path) -> None:
        """Add one part; if pytest crashed, its report may be missing or show no failure."""
        before = len(self.failed)
        if report.exists():
            for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - we wrote it
                self._add_case(case)
        if status and len(self.failed) == before:
            self.ended.append(f"the {name} part ended with status {status}")

    def _add_case(self, case: ElementTree.Element) -> None:
        node = node_id(case.get("classname", ""), case.get("name", ""))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            self.failed[node] = None
        elif skipped is not None:
            # if a whole file is skipped, pytest gives the reason in the repr of a tuple
            whole = (skipped.text or "").rpartition("Skipped: ")[2].rstrip("')")
            message = skipped.get("message", "")
            self.skipped[node] = whole if message == "collection skipped" else message
        else:
            self.passed += 1

    def lines(self, seconds: float) -> Iterator[str]:
        """Yield the lines that ``make test`` prints at its end."""
        if self.failed:
            yield "failed, each alone:"
            for node in self.failed:
                yield f"  .venv/bin/python -m pytest {shlex.quote(node)}"
        if self.skipped:
            yield "skipped:"
            for node, reason in sorted(self.skipped.items()):
                yield f"  {node}: {' '.join(reason.split())}"
        yield from self.ended
        minutes, rest = divmod(round(seconds), 60)
        counts = f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        yield f"make test: {counts} in {minutes} min {rest} s"

    @property
    def status(self) -> int:
        """Return the exit status: 1 if anything failed."""
        return 1 if self.failed or self.ended else 0


def node_id(classname: str, name: str) -> str:
    """Return pytest's id of a test; ``classname`` is the path with dots, then the class."""
    # for a file that cannot be imported, only its name is given
    words = (classname or name).split(".")
    for end in range(len(words), 0, -1):
        file = Path(*words[:end]).with_suffix(".py")
        if (ROOT / file).is_file():
            return "::".join([str(file), *words[end:], *([name] if classname else [])])
    return f"{classname}::{name}"


def main(words: Iterable[str]) -> int:
    """Print the summary."""
    folder, seconds, *parts = words
    summary = Summary()
    for part in parts:
        name, status = part.split("=")
        summary.add(name, int(status), Path(folder, f"{name}.xml"))
    print(*summary.lines(float(seconds)), sep="\n")
    return summary.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
