"""``Spec: 1 §4 Parties`` in a docstring leads somewhere: a section of the specification's page.

What is named behind the section (a heading, a row, a field) stands in that section's text.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributors" / "specification.md"
# up to the end of its sentence, which may be on a later line
_POINTER = re.compile(r"Spec: (.*?)(?:\.(?=[\s\"'`]|\Z)|[`\"]|\n\s*\n|\Z)", re.DOTALL)
_PLACE = re.compile(r"(?:([123]) )?§(\d+(?:\.\d+)?)(.*)", re.DOTALL)
_OURS = re.compile(r"\(chosen\)|is ours|^docs/")  # not of the specification, and said so


def pointers(source: str) -> Iterator[tuple[str, str]]:
    """Each section that a source file points to, and what it names there ("" for the whole)."""
    for pointer in _POINTER.findall(source):
        part, section = "", ""
        for word in re.split(r"[,;()]", re.sub(r"\s*\n\s*#?\s*", " ", pointer)):
            name = word.strip()
            found = _PLACE.match(name)
            if found is not None:
                part = found[1] or part
                section, name = f"{part} §{found[2]}", found[3].strip()
            if section and not _OURS.search(name) and (name or found is not None):
                yield section, name.strip('"')


def sections() -> dict[str, str]:
    """The text of each section of the page, in small letters."""
    parts = re.split(r"^### ([123] §\d+)(.*)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        parts[at]: " ".join((parts[at + 1] + parts[at + 2]).lower().split())
        for at in range(0, len(parts), 3)
    }


def lost(source: str, known: dict[str, str]) -> list[tuple[str, str]]:
    """The pointers of a source file that lead nowhere."""
    return [
        (section, name) for section, name in pointers(source) if not _stands(section, name, known)
    ]


def _stands(section: str, name: str, known: dict[str, str]) -> bool:
    whole, dot, item = section.partition(".")
    text = known.get(whole)
    return text is not None and name.lower() in text and (not dot or f" {item}. " in text)


class SpecificationTests(SynchronousTestCase):
    def test_every_pointer_leads_to_what_stands_there(self) -> None:
        known, count = sections(), 0
        for file in sorted((ROOT / "svcserver").rglob("*.py")):
            source = file.read_text()
            count += len(list(pointers(source)))
            self.assertEqual(lost(source, known), [], file.relative_to(ROOT))
        self.assertGreater(count, 200)

    def test_a_pointer_to_nothing_is_found(self) -> None:
        known = sections()
        self.assertEqual(lost('"""Spec: 1 §4 Parties, Guilds; 2 §4 Chat, §8."""', known), [])
        for pointer in (
            "1 §9.4",
            "1 §4 Fishing",
            "2 §11",
            "1 §4 Parties, nonsense",
            "1 §4 Par\n  ties",
        ):
            self.assertEqual(len(lost(f'"""Says. Spec: {pointer}."""', known)), 1, pointer)

    def test_every_section_has_an_anchor_of_its_own(self) -> None:
        text = PAGE.read_text()
        anchors = re.findall(r"^\(([\w-]+)\)=\n#", text, re.MULTILINE)
        self.assertEqual(len(anchors), len(set(anchors)))
        self.assertEqual(len(anchors), len(re.findall(r"^#{2,4} ", text, re.MULTILINE)))
