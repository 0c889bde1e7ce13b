"""The worked example of docs/architecture.md is a feature that works as it is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.service import Metagame
from tests.support.game import Game

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


class WorkedExampleTests(SynchronousTestCase):
    def test_the_printed_feature_answers_as_the_page_says(self) -> None:
        feature, use = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        names: dict[str, Any] = {"__name__": "worked_example", "Game": Game, "test": self}
        exec(feature, names)  # noqa: S102 - our own page
        opened = self.patch_features(names["Greetings"])
        exec(use, names)  # noqa: S102
        self.assertTrue(opened)
        page, game, ann = names["page"], names["game"], names["ann"]
        self.assertEqual((page.status, page.json), (200, {"text": "Hello Bob, says Ann_1"}))
        again = game.browse("GET", "/greeting/Ann_1", token=ann.token)
        self.assertEqual((again.status, again.json["code"]), (409, "409"))
        self.assertEqual(game.browse("GET", "/greeting/Bob").status, 401)
        self.assertEqual(game.browse("HEAD", "/GREETING/Bob", token=ann.token).status, 200)

    def patch_features(self, feature: Any) -> list[str]:
        """The one line in ``service.py``."""
        real, opened = Metagame.features, []

        def features(game: Metagame) -> Iterator[Any]:
            opened.append("greetings")
            yield from real(game)
            yield feature(game.directory)

        self.patch(Metagame, "features", features)
        return opened
