"""The worked example of docs/architecture.md is a feature that works as it is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.tables import METADATA
from svcserver.metagame.composition import Metagame
from tests.support.game import Game

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def printed() -> list[str]:
    """The page's blocks of Python."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


class WorkedExampleTests(SynchronousTestCase):
    def test_the_printed_feature_answers_as_the_page_says(self) -> None:
        feature, use = printed()
        names: dict[str, Any] = {"__name__": "worked_example", "Game": Game, "test": self}
        exec(compile(feature, str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102 - our own page
        self.addCleanup(METADATA.remove, names["GREETINGS"])
        self.patch_features(names["greetings"])
        exec(use, names)  # noqa: S102
        page, game, ann = names["page"], names["game"], names["ann"]
        self.assertEqual((page.status, page.json), (200, {"text": "Good hunting"}))
        same, long = {"text": "Good hunting"}, {"text": "x" * 65}
        again = game.browse("POST", "/greeting", json=same, token=ann.token)
        self.assertEqual((again.status, again.json["code"]), (409, "409"))
        self.assertEqual(game.browse("POST", "/greeting", json=long, token=ann.token).status, 400)
        self.assertEqual(game.browse("POST", "/greeting", json=same).status, 401)

    def patch_features(self, factory: Any) -> None:
        """The one line in ``composition.py``."""
        real = Metagame.features

        def features(game: Metagame) -> Iterator[Any]:
            yield from real(game)
            yield from factory(game)

        self.patch(Metagame, "features", features)
