"""A game with two players, and helpers that build inventory requests."""

from typing import Any

from sqlalchemy import select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.belongings.inventory.store import ITEM_LOG
from tests.support.belongings import Owner
from tests.support.game import Game

EMPTY = {
    "createdInstancedItems": [],
    "updatedInstancedItems": [],
    "updatedStackedItems": [],
    "removedInstancedItems": [],
}


def sword(version: Any = 1, data: Any = "{}", name: str = "i-1", **more: Any) -> dict[str, Any]:
    return {
        "catalogId": "WP_EB_TRAINING",
        "instanceId": name,
        "itemData": data,
        "updateVersion": version,
        **more,
    }


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **environ: str) -> None:
        self.game = Game(self, **environ)
        self.ann, self.bob = Owner.of(self.game, "Ann_1"), Owner.of(self.game, "Bob_1")

    def log_lines(self) -> list[tuple[Any, ...]]:
        columns = (ITEM_LOG.c.caller, ITEM_LOG.c.source, ITEM_LOG.c.transaction_id)
        statement = select(*columns).order_by(ITEM_LOG.c.id)
        rows = self.game.ledger.run(lambda tx: tx.execute(statement).all())
        return [tuple(row) for row in rows]
