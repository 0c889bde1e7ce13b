"""A game with a player and a game server, and access to the event log."""

from typing import Any

from sqlalchemy import select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.ledger import ACROSS
from svcserver.metagame.accounts.eventlog import PROGRESSION_EVENTS
from tests.support.browser import Page
from tests.support.game import GAME_SERVER_KEY, Game


class Achieving(SynchronousTestCase):
    """The base case: ``server`` sends requests as a game server, ``asks`` sends Ann's requests."""

    environ: dict[str, str] = {}  # noqa: RUF012 - overridden per case

    def setUp(self) -> None:
        """Create a new game."""
        self.game = Game(self, **self.environ)
        self.ann = self.game.player("Ann_1")
        self.ben = self.game.player("Ben_1")

    def server(self, method: str, path: str, **sent: Any) -> Page:
        """Send a request with the game-server key."""
        return self.game.browse(method, path, game_server=GAME_SERVER_KEY, **sent)

    def asks(self, method: str, path: str, **sent: Any) -> Page:
        """Send a request with Ann's token."""
        return self.game.browse(method, path, token=self.ann.token, **sent)

    def events(self) -> list[tuple[str, int, str]]:
        """Return (account, status, note) of each event log row, in order."""
        table = PROGRESSION_EVENTS.c
        wanted = select(table.account_id, table.status, table.note).order_by(table.id)
        return [tuple(row) for row in self.game.ledger.run(lambda tx: tx.execute(wanted).all())]

    def run_twice(self) -> None:
        """Run every write twice and roll back the first run, as a ledger sometimes does."""
        ledger, write = self.game.ledger, self.game.ledger.write

        def again(work: Any, scope: Any = ACROSS) -> Any:
            with ledger.engine.connect() as tx:
                work(tx)
                tx.rollback()
            return write(work, scope)

        self.patch(ledger, "write", again)

    def check_marks(self, method: str, path: str, *, own: bool = False, **sent: Any) -> None:
        """Check that a request without a token gets 401, and one without permission gets 403.

        If ``own`` is true, a player has permission only for the player's own data; otherwise no
        player has permission.
        """
        self.assertEqual(self.game.browse(method, path, **sent).status, 401)
        token = self.ben.token if own else self.ann.token
        refused = self.game.browse(method, path, token=token, **sent)
        self.assertEqual((refused.status, refused.body), (403, b""))
