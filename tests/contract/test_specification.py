"""``Spec: 1 §4 Parties`` in a docstring leads somewhere: a section of the specification's page."""

import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributors" / "specification.md"
_POINTER = re.compile(r"Spec: ([^`\n]*)")
_SECTION = re.compile(r"(?:([12]) )?§(\d)")


def pointers() -> Iterator[tuple[str, str, str]]:
    """File, part and section of everything that a source file points to."""
    for file in sorted((ROOT / "svcserver").rglob("*.py")):
        for pointer in _POINTER.findall(file.read_text()):
            part = ""
            for number, section in _SECTION.findall(pointer):
                part = number or part
                yield file.relative_to(ROOT).as_posix(), part, section


class SpecificationTests(SynchronousTestCase):
    def test_every_pointer_leads_to_a_section(self) -> None:
        sections = set(re.findall(r"^## ([12]) §(\d)", PAGE.read_text(), re.MULTILINE))
        found = list(pointers())
        self.assertGreater(len(found), 100)
        self.assertEqual([one for one in found if one[1:] not in sections], [])

    def test_every_section_has_an_anchor_of_its_own(self) -> None:
        text = PAGE.read_text()
        anchors = re.findall(r"^\(([\w-]+)\)=\n#", text, re.MULTILINE)
        self.assertEqual(len(anchors), len(set(anchors)))
        self.assertEqual(len(anchors), len(re.findall(r"^#{1,3} ", text, re.MULTILINE)) - 1)
