"""The table of docs/architecture.md names every kind of entry of the board, and when it ends."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from svcserver.board.kinds import FOR_EVER, Kind
from svcserver.board.quota import Quota

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
NAMED = re.compile(r"`(\w+)` (?:(\d+) (s|min|h|d)|(never))")


def kinds() -> Iterator[Kind[object]]:
    """Every one that a module makes, also for a quota."""
    for module in pkgutil.walk_packages(svcserver.__path__, "svcserver."):
        if ".migrations." in module.name:
            continue  # only alembic can import those
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kind):
                yield value
            elif isinstance(value, Quota):
                yield value.kind


def told() -> dict[str, float]:
    """Kinds of the table with the seconds that its entries live."""
    text = PAGE.read_text().partition("\n| kept |")[2].partition("\n\n")[0]
    found = {}
    for name, number, unit, never in NAMED.findall(text):
        assert name not in found, f"{name} is there twice"
        found[name] = FOR_EVER if never else float(number) * SECONDS[unit]
    return found


class BoardTableTests(SynchronousTestCase):
    def test_each_kind_stands_there_with_its_time_to_live(self) -> None:
        lives = {one.name: one.lives_s for one in kinds()}
        self.assertGreater(len(lives), 30)
        self.assertEqual(told(), lives)
