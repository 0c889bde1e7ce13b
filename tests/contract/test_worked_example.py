"""The worked example in docs/architecture.md is a feature that works exactly as printed."""

from __future__ import annotations

import re
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.tables import METADATA
from svcserver.metagame.composition import Metagame
from tests.metagame.attempts.base import CASES, GameFixture

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
ROW = "POST /greeting"


def printed() -> list[str]:
    """Return the page's Python code blocks."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


class WorkedExampleTests(SynchronousTestCase):
    def test_the_printed_feature_works_as_its_page_describes(self) -> None:
        feature, use = printed()
        names: dict[str, Any] = {"__name__": "worked_example"}
        exec(compile(feature, str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102 - our own page
        self.addCleanup(METADATA.remove, names["GREETINGS"])
        self.patch_features(names["greetings"])
        exec(use, names)  # noqa: S102
        self.addCleanup(CASES.pop, ROW)
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(names["GreetingTests"]).run(result)
        self.assertEqual((result.testsRun, result.errors, result.failures), (1, [], []))
        afresh, case = CASES[ROW]
        fixture = GameFixture(self)
        ann, line, same = case(fixture)
        for status in (200, afresh):
            self.assertEqual(fixture.ask(ann, line, same).status, status)
        self.assertEqual(fixture.ask(ann, line, {"text": "x" * 65}).status, 400)
        self.assertEqual(fixture.game.browse("POST", "/greeting", json=same).status, 401)

    def patch_features(self, factory: Any) -> None:
        """Add the example's one line to ``composition.py``."""
        real = Metagame.features

        def features(game: Metagame) -> Iterator[Any]:
            yield from real(game)
            yield from factory(game)

        self.patch(Metagame, "features", features)
