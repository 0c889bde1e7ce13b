from typing import Any

from sqlalchemy import func, insert, select
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import datafiles
from svcserver.metagame.access.acting import MAX_PAIRS, Acting
from svcserver.metagame.belongings.housekeeping import housekeeping
from svcserver.metagame.belongings.shop.store import PURCHASE_TOKENS
from svcserver.metagame.rows import Call, Caller
from tests.support.belongings import Owner
from tests.support.game import Game
from tests.support.ledger import InstantLedger
from tests.support.proves import proves


class Broken:
    """A ledger whose disk is full."""

    def write(self, work: Any, scope: Any = None) -> Deferred[Any]:
        return fail(OSError("no space left"))

    read_snapshot = write


class HousekeepingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(10_000)

    def test_housekeeping_runs_at_start_and_hourly_until_it_stops(self) -> None:
        ledger = InstantLedger()
        service = housekeeping(ledger, self.clock, self.clock.seconds)
        self.expire(ledger, "a")
        service.startService()
        self.assertEqual(self.left(ledger), 0)
        self.expire(ledger, "b")
        self.clock.advance(3599)
        self.assertEqual(self.left(ledger), 1)
        self.clock.advance(1)
        self.assertEqual(self.left(ledger), 0)
        service.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_failed_round_is_logged_and_the_next_round_runs(self) -> None:
        service = housekeeping(Broken(), self.clock, self.clock.seconds)
        service.startService()
        self.clock.advance(3600)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 2)
        service.stopService()

    def expire(self, ledger: InstantLedger, name: str) -> None:
        row = {
            "token_hash": name,
            "account_id": "UID-a",
            "character_id": "c",
            "sku": "s",
            "offer_hash": "h",
            "created_at": 0,
            "expires_at": 1,
            "redeemed_at": None,
        }
        ledger.run(lambda tx: tx.execute(insert(PURCHASE_TOKENS), row))

    def left(self, ledger: InstantLedger) -> int:
        count = select(func.count()).select_from(PURCHASE_TOKENS)
        rows: int = ledger.run(lambda tx: tx.execute(count).scalar_one())
        return rows


class StartTests(SynchronousTestCase):
    def test_a_bad_data_file_ends_the_start_with_one_line(self) -> None:
        read = datafiles.read_json

        def broken(package: str, name: str) -> Any:
            return {} if name == "catalogue.json" else read(package, name)

        self.patch(datafiles, "read_json", broken)
        with self.assertRaises(SystemExit) as caught:
            Game(self)
        line = str(caught.exception)
        self.assertTrue(line.startswith("svc-metagame: "), line)
        self.assertIn("catalogue.json", line)
        self.assertNotIn("\n", line)


class RelayedTests(SynchronousTestCase):
    def test_the_memory_for_logged_account_pairs_is_bounded(self) -> None:
        acting = Acting(lambda: 0.0)
        for number in range(MAX_PAIRS + 10):
            caller = Caller("UID-other", game_server=True)
            call = Call(caller, None, None)  # type: ignore[arg-type]
            self.assertEqual(acting.writes(call, f"UID-{number}"), f"UID-{number}")
        self.assertEqual(len(acting._throttle), MAX_PAIRS)

    @proves("a game server that names one account and forwards another")
    def test_a_mismatch_is_logged_once_a_minute_over_all_routes(self) -> None:
        game = Game(self)
        ann, bob = Owner.of(game, "Ann_1"), game.player("Bob_1")
        account, character = ann.player.id, ann.character
        with capturedLogs() as events:
            for path, body in (
                ("/inventory", {"accountId": account, "characterId": character}),
                (f"/loadout/{account}/{character}/0", {"data": "{}"}),
                (f"/progression/{account}", {}),
                (f"/entitlementv2/{account}", {"entitlement": "X"}),
            ):
                page = ann.by_server("POST", path, body, token=bob.token)
                self.assertEqual(page.status, 200, path)
        lines = [event for event in events if event.get("forwarded") == bob.id]
        self.assertEqual([event["named"] for event in lines], [account])
