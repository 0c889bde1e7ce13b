"""The cache of names in memory: it saves database reads and never shows an old name for long."""

from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.rehearsed import RehearsedBoard
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.signals import Renamed
from svcserver.metagame.accounts.names import MOST, KnownNames
from tests.support.game import Game, Player


class NamesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")
        self.directory = self.game.parts.directory
        self.reads = 0
        read = self.directory.ledger.read_snapshot

        def counted(work: Any) -> Any:
            self.reads += 1
            return read(work)

        self.patch(self.directory.ledger, "read_snapshot", counted)

    def names(self, *players: Player) -> list[str]:
        names = self.successResultOf(self.directory.names([player.id for player in players]))
        return [names.get(AccountId(player.id), "") for player in players]

    def rename(self, player: Player, name: str) -> None:
        admin = self.game.player("Olga", admin=True)
        sent = {"UserId": player.id, "NewUsername": name}
        page = self.game.browse("POST", "/svc/api/RenameUser", key=admin.key, json=sent)
        self.assertEqual(page.status, 200, page.body)

    def test_only_names_missing_from_the_cache_are_read(self) -> None:
        self.assertEqual(self.names(self.ann), ["Ann_1"])
        self.assertEqual(self.names(self.ann, self.bob), ["Ann_1", "Bob_1"])
        self.assertEqual(self.reads, 2)
        self.assertEqual(self.names(self.bob, self.ann), ["Bob_1", "Ann_1"])
        self.assertEqual(self.reads, 2)

    def test_polls_of_a_party_ask_the_database_for_nothing(self) -> None:
        page = self.game.browse("POST", "/party", token=self.ann.token, json={})
        self.reads = 0
        again = self.game.browse("POST", "/party", token=self.ann.token, json={})
        self.assertEqual((again.status, again.json, self.reads), (200, page.json, 0))

    def test_a_new_name_shows_at_once(self) -> None:
        self.names(self.ann)
        self.rename(self.ann, "Ada_1")
        self.assertEqual(self.names(self.ann), ["Ada_1"])

    def test_an_unknown_account_is_looked_up_again_each_time(self) -> None:
        names = self.successResultOf(self.directory.names(["nobody"]))
        self.assertEqual((names, self.reads), ({}, 1))
        self.successResultOf(self.directory.names(["nobody"]))
        self.assertEqual(self.reads, 2)

    def test_the_name_of_an_account_is_read_again_after_its_sessions_end(self) -> None:
        self.names(self.ann)
        ended = self.game.parts.sessions.end(self.ann.id)
        self.successResultOf(Deferred.fromCoroutine(ended))
        self.reads = 0
        self.assertEqual((self.names(self.ann), self.reads), (["Ann_1"], 1))

    def test_a_deleted_account_has_no_name_any_more(self) -> None:
        admin = self.game.player("Olga", admin=True)
        self.names(self.ann)
        sent = {"Account": self.ann.id, "Reason": "asked for it"}
        page = self.game.browse("POST", "/svc/api/DashboardDelete", key=admin.key, json=sent)
        self.assertEqual(page.status, 200, page.body)
        self.assertEqual(self.names(self.ann), [""])

    def test_a_cached_name_is_read_again_after_a_minute(self) -> None:
        self.names(self.ann)
        self.game.clock.advance(59.9)
        self.names(self.ann)
        self.assertEqual(self.reads, 1)
        self.game.clock.advance(0.1)
        self.names(self.ann)
        self.assertEqual(self.reads, 2)


class AwayTests(SynchronousTestCase):
    def test_a_rename_drops_the_cached_name_while_the_board_is_down(self) -> None:
        self.patch(RehearsedBoard, "shared", True)
        game = Game(self)
        ann = game.player("Ann_1")
        directory = game.parts.directory
        self.successResultOf(directory.names([ann.id]))
        self.patch(game.board, "transact", lambda work, near=(): fail(Unavailable("away")))
        game.parts.news.renamed.send(Renamed(ann.id, "Ada_1"))
        self.assertEqual(directory.known.among([ann.id]), {})


class KnownTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.known = KnownNames(lambda: 0.0)

    def test_a_read_during_which_a_name_changed_is_not_kept(self) -> None:
        before = self.known.changes
        self.known.forget_renamed(Renamed("a", "Ada"))
        self.known.keep({"a": "Ann"}, before)
        self.assertEqual(self.known.among(["a"]), {})
        self.known.keep({"a": "Ada"}, self.known.changes)
        self.assertEqual(self.known.among(["a", "b"]), {"a": "Ada"})

    def test_nothing_is_kept_when_news_may_have_been_missed(self) -> None:
        before = self.known.changes
        self.known.keep({"a": "Ann"}, before)
        self.known.forget_all()
        self.known.keep({"b": "Bob"}, before)
        self.assertEqual(self.known.among(["a", "b"]), {})

    def test_the_repr_of_the_name_cache_shows_no_names(self) -> None:
        self.known.keep({"a": "Ann"}, 0)
        self.assertNotIn("Ann", repr(self.known))

    def test_the_name_cache_never_exceeds_its_limit(self) -> None:
        self.known.keep({str(number): "x" for number in range(MOST + 10)}, 0)
        self.assertLessEqual(len(self.known.among(map(str, range(MOST + 10)))), MOST)
