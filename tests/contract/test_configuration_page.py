"""docs/owners/configuration.md lists exactly the variables that are read, with their defaults."""

import json
import re
from pathlib import Path
from typing import Any

from attrs import NOTHING, fields
from twisted.trial.unittest import SynchronousTestCase

from docs.variables import OWNERS_PAGE, SERVICES, catalogue, described
from tests.support.proves import proves

SETTINGS = Path(__file__).parents[2] / "svcserver/metagame/owner/settings/data/settings.json"
NAMED_SECRET = re.compile(r"_SECRET$|PRIVKEY|PASSPHRASE|API_KEY")
NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")


def rows() -> dict[str, dict[str, tuple[str, str]]]:
    """Map each section to its variables, and each variable to its default and purpose."""
    settings: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in SERVICES}
    for section, name, *cells in described(OWNERS_PAGE.read_text("utf-8")):
        assert NAME.fullmatch(name), f"{section}: {name} is no variable's whole name"
        assert name not in settings[section], f"{section}: {name} stands there twice"
        default, effect = cells
        settings[section][name] = default, effect
    return settings


class ConfigurationPageTests(SynchronousTestCase):
    @proves("every variable is documented with its default, and no other")
    def test_the_page_lists_exactly_the_variables_that_are_read(self) -> None:
        page = rows()
        for section, shapes in SERVICES.items():
            read = {field.metadata["name"] for shape in shapes for field in fields(shape)}
            self.assertEqual(read - set(page[section]), set(), f"{section}: read, not on the page")
            self.assertEqual(set(page[section]) - read, set(), f"{section}: on the page, not read")

    @proves("every variable is documented with its default, and no other")
    def test_documented_defaults_equal_the_defaults_in_the_code(self) -> None:
        page, wrong = rows(), []
        for section, shapes in SERVICES.items():
            for shape in shapes:
                for field in fields(shape):
                    name = field.metadata["name"]
                    text, _ = page[section][name]
                    if not fits(field, text):
                        wrong.append(f"{section} {name}: {text}")
        self.assertEqual(wrong, [])

    @proves("GET DashboardSettings")
    def test_the_settings_page_has_the_texts_of_this_page(self) -> None:
        made = catalogue(OWNERS_PAGE.read_text("utf-8"))
        again = f"run: .venv/bin/python -m docs.variables > {SETTINGS}"
        self.assertEqual(SETTINGS.read_text("utf-8"), made, again)

    @proves("GET DashboardSettings")
    def test_settings_named_like_secrets_are_marked_secret(self) -> None:
        shown = [
            setting["name"]
            for section in json.loads(SETTINGS.read_text("utf-8"))["sections"]
            for setting in section["settings"]
            if not setting["secret"] and NAMED_SECRET.search(setting["name"])
        ]
        self.assertEqual(shown, [])


def fits(field: Any, cell: str) -> bool:
    """Return whether the page's default for a variable is the code's default."""
    default, read = field.default, field.metadata["read"]
    word = cell.split(",")[0].split(" (")[0].strip("`")
    if default is NOTHING:
        return word in ("none", "required")
    if isinstance(default, bool):
        return cell.startswith("on; `") if default else cell.startswith("off")
    if default in (None, "") or default == () or (default == 0 and word != "0"):
        return word.split(" =")[0] in ("unset", "none", "empty", "off") or not word
    for text in (word, cell.strip("`"), cell.split(" ")[0].strip("`,")):
        try:
            if read(text) == default:
                return True
        except ValueError:
            continue
    return False
