"""docs/owners/configuration.md has every variable that is read, its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import NOTHING, fields
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist.settings import Settings as Allowlist
from svcserver.chat.settings import Settings as Chat
from svcserver.content.settings import Settings as Content
from svcserver.deploy.settings import Settings as Deploy
from svcserver.gateway.settings import AllowlistSettings as Doorkeeper
from svcserver.gateway.settings import Settings as Gateway
from svcserver.metagame.settings import Settings as Metagame
from svcserver.relay.settings import Settings as Relay
from svcserver.stack.backups import BackupSettings
from svcserver.stack.service import Settings as Stack
from tests.support.proves import proves

PAGE = Path(__file__).resolve().parents[2] / "docs" / "owners" / "configuration.md"
SECTIONS: dict[str, tuple[type[Any], ...]] = {
    "Metagame": (Metagame, Chat),
    "Deploy server": (Deploy,),
    "Gateway": (Gateway, Doorkeeper),
    "Allowlist helper": (Allowlist,),
    "Content server": (Content,),
    "Launcher relay": (Relay,),
    "Stack": (Stack, BackupSettings),
}
NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")


def rows(column: int = 1) -> dict[str, dict[str, str]]:
    """Section to variable to what a column of its row says: that of the default, or another."""
    found: dict[str, dict[str, str]] = {name: {} for name in SECTIONS}
    section = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
            [section] = [one for one in SECTIONS if title.startswith(one)]
        if not line.startswith("| ") or line.startswith("| Name"):
            continue
        names, *cells = (cell.strip() for cell in line.split("|")[1:])
        for name in names.split(", "):
            assert NAME.fullmatch(name), f"{section}: {name} is no variable's whole name"
            assert name not in found[section], f"{section}: {name} stands there twice"
            found[section][name] = cells[column - 1]
    return found


class ConfigurationPageTests(SynchronousTestCase):
    @proves("every variable is documented with its default, and no other")
    def test_every_variable_is_there_and_no_other(self) -> None:
        page = rows()
        for section, shapes in SECTIONS.items():
            read = {one.metadata["name"] for shape in shapes for one in fields(shape)}
            self.assertEqual(read - set(page[section]), set(), f"{section}: read, not on the page")
            self.assertEqual(set(page[section]) - read, set(), f"{section}: on the page, not read")

    @proves("every variable is documented with its default, and no other")
    def test_the_defaults_are_the_ones_of_the_code(self) -> None:
        page, wrong = rows(), []
        for section, shapes in SECTIONS.items():
            for shape in shapes:
                for one in fields(shape):
                    name = one.metadata["name"]
                    said = page[section][name]
                    if not fits(one, said):
                        wrong.append(f"{section} {name}: {said}")
        self.assertEqual(wrong, [])

    @proves("every variable is documented with its default, and no other")
    def test_each_has_a_sentence_of_what_it_is_for(self) -> None:
        """The page of docs/reference that is written from the code takes it from here."""
        silent = [
            name for section in rows(3).values() for name, says in section.items() if not says
        ]
        self.assertEqual(silent, [])


def fits(one: Any, said: str) -> bool:
    """Whether the words of the default column mean the code's default."""
    default, read = one.default, one.metadata["read"]
    word = said.split(",")[0].split(" (")[0].strip("`")
    if default is NOTHING:
        return word in ("none", "required")
    if isinstance(default, bool):
        return said.startswith("on; `") if default else said.startswith("off")
    if default in (None, "") or default == () or (default == 0 and word != "0"):
        return word.split(" =")[0] in ("unset", "none", "empty", "off") or not word
    for text in (word, said.strip("`"), said.split(" ")[0].strip("`,")):
        try:
            if read(text) == default:
                return True
        except ValueError:
            continue
    return False
