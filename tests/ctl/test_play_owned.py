"""Simulated players on a metagame in memory, who log in again and must notice missing items."""

import re
from collections.abc import Coroutine
from typing import Any

from sqlalchemy import delete, insert, select, text
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.play import checks, looting, owned, together
from svcserver.ctl.play.looting import HuntServer
from svcserver.ctl.play.player import CURRENCY, SEASON, Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.timings import Timings
from svcserver.ctl.play.wire import HttpWire
from svcserver.db.tables import METADATA
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.wire import browsing

EVERYTHING = frozenset({"balance", "progression", "guild", "links"})


class EarningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, STORE="free")
        self.http: Any = browsing(self.game.door)
        self.server = HuntServer(self.wire(), GAME_SERVER_KEY)
        self.ada, self.bo = self.come("Ada_1"), self.come("Bo_1")

    def wire(self) -> HttpWire:
        wire = HttpWire(Clock(), "http://svc.invalid")
        wire._http = self.http
        return wire

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        done = Deferred.fromCoroutine(work)
        self.flush(done)
        return self.successResultOf(done)

    def flush(self, done: Deferred[Any]) -> None:
        for _ in range(100):
            if done.called:
                return
            self.http.flush()

    def come(self, name: str, key: str = "") -> Player:
        player = Player(Clock(), self.wire(), name, key=key)
        if not key:
            self.do(player.register())
        self.do(player.log_in())
        self.do(player.load())
        return player

    def hunt(self, player: Player, number: int) -> None:
        self.do(self.server.loot(player, number))
        self.do(looting.repair(player))
        self.do(self.server.reward(player, number))
        self.do(looting.arm(player, number))
        self.do(player.save(2_000))

    def evening(self) -> None:
        """Play two hunts, make a purchase and add friends."""
        for number in (1, 2):
            self.hunt(self.ada, number)
        self.do(together.shop(self.ada))
        self.do(together.befriend(self.ada, self.bo))
        self.do(together.link(self.ada, self.bo))
        self.do(together.found_guild(self.ada, [self.bo], self.server.wire, GAME_SERVER_KEY))

    def look(self) -> None:
        """Log in again as Ada and compare her belongings with what she earned."""
        fresh = self.come(self.ada.name, self.ada.key)
        self.do(owned.compare(fresh, self.ada, EVERYTHING))
        checks._same_document(fresh, self.ada)
        with self.game.ledger.engine.begin() as tx:  # read as svcctl does, without the metagame
            owned.stored(tx, self.ada)

    def steal(self, words: str, **values: Any) -> None:
        held = {"who": self.ada.account, "which": self.ada.character}
        wanted = {name: value for name, value in held.items() if f":{name}" in words}
        with self.game.ledger.engine.begin() as tx:
            tx.execute(text(words), wanted | values)

    def rows(self, name: str, new: Any = None) -> Any:
        """Return a table's rows; if ``new`` is given, replace the rows with ``new``."""
        table = METADATA.tables[name]
        with self.game.ledger.engine.begin() as tx:
            if new is not None:
                tx.execute(delete(table))
                tx.execute(insert(table), new)
            return [dict(row._mapping) for row in tx.execute(select(table))]

    def test_everything_that_a_player_earned_is_found_again(self) -> None:
        self.evening()
        self.look()
        earned = self.ada.earned
        self.assertEqual(earned.transactions, 5)  # two of loot, two repairs, one purchase
        self.assertGreater(earned.stacks[CURRENCY], 0)
        self.assertGreater(earned.tracks[SEASON], 2 * looting.GRANT - 1)

    def test_every_lost_or_changed_possession_is_reported(self) -> None:
        thefts = [
            (
                "UPDATE item_stacks SET quantity = quantity * 2 WHERE character_id = :which",
                "stacks",
            ),
            ("DELETE FROM item_stacks WHERE character_id = :which", "stacks"),
            ("DELETE FROM item_instances WHERE character_id = :which", "single items"),
            ("DELETE FROM item_log WHERE character_id = :which", "transactions"),
            ("UPDATE progression_tracks SET progress = progress - 1", "experience"),
            ("DELETE FROM progression_objectives WHERE account_id = :who", "objectives"),
            ("UPDATE hunt_passes SET progression_id = 'MasteryTrack_Behemoth'", "hunt pass"),
            ("DELETE FROM bounties WHERE account_id = :who", "bounties"),
            ("UPDATE loadouts SET active_index = 0", "loadout slots"),
            ("UPDATE loadout_elements SET data = :data", "loadout"),
            ("DELETE FROM friendships", "friends"),
            ("DELETE FROM guild_members WHERE account_id <> :who", "guild"),
            ("DELETE FROM slayer_links WHERE account_id = :who", "slayer links"),
            ("UPDATE character_saves SET data = :data WHERE id > 0", "document"),
        ]
        self.evening()
        for words, what in thefts:
            [name] = re.findall(r"(?:UPDATE|DELETE FROM) (\w+)", words)
            before = self.rows(name)
            # a saved character is stored as a string, a loadout as an object
            data = b'"another"' if name == "character_saves" else b'{"slot_index":0}'
            self.steal(words, **({"data": data} if ":data" in words else {}))
            with self.assertRaises((PlayFailed, self.failureException), msg=words) as raised:
                self.look()
            self.assertIn(what, str(raised.exception), words)
            self.rows(name, before)
        self.look()

    def test_a_repeated_transaction_that_counts_twice_is_seen_at_once(self) -> None:
        class Forgetful(HuntServer):
            async def request_for_player(
                self, player: Player, method: str, path: str, sent: Any = None
            ) -> Any:
                return {"updatedStackedItems": []}

        server = Forgetful(self.wire(), GAME_SERVER_KEY)
        done = Deferred.fromCoroutine(server.loot(self.ada, 2))
        self.assertIn("but the host reported", str(self.failureResultOf(done, PlayFailed).value))

    def test_a_failed_write_counts_for_nothing(self) -> None:
        self.ada.character = "another"
        done = Deferred.fromCoroutine(self.server.loot(self.ada, 1))
        self.flush(done)
        self.failureResultOf(done, PlayFailed)
        self.assertEqual((self.ada.earned.transactions, self.ada.earned.stacks), (0, {}))


class TimingsTests(SynchronousTestCase):
    def test_timings_have_median_p99_and_worst_of_a_hundred(self) -> None:
        timings = Timings()
        for number in range(1, 101):
            timings.note("save", number / 1000)
        [figure] = timings.figures()
        self.assertEqual(
            (figure.count, figure.median_ms, figure.p99_ms, figure.worst_ms), (100, 50, 99, 100)
        )
