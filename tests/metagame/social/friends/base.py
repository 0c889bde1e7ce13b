"""Players with friends lists."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.social.friends.rules import Friendship
from svcserver.metagame.social.friends.store import SqlFriends
from tests.support.game import Game, Player

FRIENDS = "/friends/api/public/friends/"
BLOCKS = "/friends/api/public/blocklist/"


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob, self.cat = (self.game.player(name) for name in ("Ann", "Bob", "Cat"))
        self.news: list[Any] = []
        news = self.game.parts.news
        for signal in (news.blocked, news.unfriended, news.friend_accepted):
            signal.connect(self.news.append)

    def friend(self, method: str, by: Player, whom: str) -> int:
        path = f"{FRIENDS}{by.id}/{whom}"
        return self.game.browse(method, path, token=by.token).status

    def block(self, method: str, by: Player, whom: str) -> int:
        path = f"{BLOCKS}{by.id}/{whom}"
        return self.game.browse(method, path, token=by.token).status

    def list_of(self, who: Player, pending: bool = True) -> Any:
        query = "?includePending=true" if pending else ""
        return self.game.browse("GET", FRIENDS + who.id + query, token=who.token).json

    def befriend(self, first: Player, second: Player) -> None:
        self.assertEqual(self.friend("POST", first, second.id), 204)
        self.assertEqual(self.friend("POST", second, first.id), 204)

    def fill(self, who: Player, count: int, *, status: str, sent: bool) -> None:
        """Insert friend rows for accounts that exist only as ids."""

        def work(tx: Any) -> None:
            for number in range(count):
                stranger = f"UID-x{number}"
                asker, recipient = (who.id, stranger) if sent else (stranger, who.id)
                SqlFriends(tx).add(Friendship(asker, recipient, status, 1))

        self.game.ledger.run(work)
