"""A player's request for a new key, and the player's latest hunts."""

from sqlalchemy import select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.signals import SentToHunt
from svcserver.metagame.owner.passports.hunts import HUNTS, MAX_HUNTS
from svcserver.metagame.owner.passports.wire import NewKeyRequest
from tests.support.game import Game
from tests.support.proves import proves

NEW = "UUK_" + "1a" * 24


class NewKeyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    def renew(self, old: str, new: object = NEW) -> int:
        body = {"UUK": new}
        return self.game.browse("POST", "/launcher/new-key", key=old, json=body).status

    def known(self, key: str) -> int:
        return self.game.browse("GET", "/svc/api/GetUserInfo", key=key).status

    @proves("POST /launcher/new-key | account key")
    def test_a_new_key_replaces_the_old_key_and_its_sessions(self) -> None:
        self.assertEqual(self.renew(self.ann.key), 200)
        self.assertEqual((self.known(NEW), self.known(self.ann.key)), (200, 401))
        self.game.clock.advance(2)
        page = self.game.browse("GET", "/character", token=self.ann.token)
        self.assertEqual(page.status, 401)
        self.assertEqual(self.renew(self.ann.key), 401)
        self.assertEqual(self.game.browse("POST", "/launcher/new-key").status, 401)

    def test_only_a_well_formed_unused_key_is_accepted(self) -> None:
        for bad in ("", "UUK_short", NEW.upper(), NEW + "0", 7, None, "password"):
            self.assertEqual(self.renew(self.ann.key, bad), 400, bad)
        self.assertEqual(self.renew(self.bob.key), 200)
        self.assertEqual(self.renew(self.ann.key), 409)
        self.assertEqual((self.known(NEW), self.known(self.ann.key)), (200, 200))

    def test_the_repr_hides_the_key(self) -> None:
        self.assertNotIn(NEW, repr(NewKeyRequest(NEW)))

    def test_new_keys_are_throttled(self) -> None:
        tries = [self.renew(self.ann.key, f"UUK_{n:048x}") for n in range(2)]
        self.assertEqual(tries, [200, 401])
        for n in range(5):
            self.assertEqual(self.renew(f"UUK_{n:048x}", f"UUK_{n + 1:048x}"), 200)
        self.assertEqual(self.renew(f"UUK_{5:048x}", NEW), 429)


class HuntTests(SynchronousTestCase):
    def test_the_latest_hunts_are_kept(self) -> None:
        game = Game(self)
        ann = game.player("Ann_1")
        for number in range(MAX_HUNTS + 5):
            game.parts.news.sent_to_hunt.send(SentToHunt(ann.id, f"Hunt_{number}"))
            game.clock.advance(60)
        hunts = game.browse("GET", "/launcher/hunter", key=ann.key).json["hunts"]
        self.assertEqual(len(hunts), MAX_HUNTS)
        self.assertEqual([hunt["title"] for hunt in hunts[:2]], ["Hunt_14", "Hunt_13"])
        self.assertEqual(hunts[0]["at"] - hunts[1]["at"], 60_000)

    def test_each_player_has_their_own_latest_hunts(self) -> None:
        game = Game(self)
        ann, bob = game.player("Ann_1"), game.player("Bob_1")
        game.parts.news.sent_to_hunt.send(SentToHunt(bob.id, "Hunt_of_Bob"))
        for number in range(MAX_HUNTS + 5):
            game.parts.news.sent_to_hunt.send(SentToHunt(ann.id, f"Hunt_{number}"))
        rows = game.ledger.run(lambda tx: tx.execute(select(HUNTS.c.account_id)).scalars().all())
        self.assertEqual((rows.count(ann.id), rows.count(bob.id)), (MAX_HUNTS, 1))
        [hunts] = game.browse("GET", "/launcher/hunter", key=bob.key).json["hunts"]
        self.assertEqual(hunts["title"], "Hunt_of_Bob")
