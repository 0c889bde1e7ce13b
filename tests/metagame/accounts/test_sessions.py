"""Ending an account's sessions, inside or outside the running metagame. Spec: 1 §5."""

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.waiting import at_once
from svcserver.kernel.counters import Counters
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.signals import SessionsEnded
from svcserver.metagame.access.tokens import InvalidToken
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.login import LoginActs
from svcserver.metagame.accounts.networks import Networks
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sessions import CLOCKS_DIFFER_S, EVERY_S, session_watch
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.composition import Metagame
from tests.support.game import Game
from tests.support.isolates import isolates

TOKEN = "/account/api/oauth/token"


class SlowLook:
    """A directory whose first key lookup waits for ``release``."""

    def __init__(self, real: Directory) -> None:
        self.real, self.first = real, Deferred[None]()
        self.waiting = self.first

    def account_of_key(self, key: str) -> Deferred[Account | None]:
        account = self.real.account_of_key(key)
        waiting, self.waiting = self.waiting, succeed(None)
        return waiting.addCallback(lambda _: account)

    def release(self) -> None:
        self.first.callback(None)


class SessionCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")
        self.ended: list[SessionsEnded] = []
        self.game.parts.news.sessions_ended.connect(self.ended.append)

    def status(self, token: str) -> int:
        return self.game.browse("GET", "/accountinfo", token=token).status

    def end(self, account_id: str) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.game.parts.sessions.end(account_id)))

    def end_beside(self, account_id: str, behind_s: float = 0) -> None:
        """End sessions in another process, as ``svcctl`` does.

        The clock of that process is ``behind_s`` seconds behind.
        """
        at = self.game.clock.seconds() - behind_s
        self.game.ledger.run(lambda tx: rules.end_sessions(SqlAccounts(tx), account_id, at))

    def log_in(self, key: str) -> str:
        page = self.game.browse("POST", TOKEN, json={"exchange_code": key})
        return str(page.json["access_token"])


class EndingTests(SessionCase):
    def test_ending_sessions_revokes_all_tokens_of_that_account_only(self) -> None:
        again = self.log_in(self.ann.key)
        self.assertEqual(self.status(again), 200)
        self.end(self.ann.id)
        self.assertEqual([self.status(token) for token in (self.ann.token, again)], [401, 401])
        self.assertEqual(self.status(self.bob.token), 200)
        self.assertEqual([token.account_id for token in self.ended], [self.ann.id])

    def test_another_metagame_refuses_ended_sessions_at_once(self) -> None:
        game, http = self.game, None
        second = Metagame(
            game.settings,
            game.ledger,
            game.board,
            game.clock,
            game.parts.wall_clock,
            http,
            Counters(),
        )
        self.assertEqual(second.tokens.verify(self.ann.token), self.ann.id)
        self.end(self.ann.id)
        self.assertRaises(InvalidToken, second.tokens.verify, self.ann.token)
        self.assertEqual(second.tokens.verify(self.bob.token), self.bob.id)

    def test_a_login_in_the_same_second_works(self) -> None:
        self.end(self.ann.id)
        self.assertEqual(self.status(self.log_in(self.ann.key)), 200)
        self.assertEqual(self.status(self.ann.token), 401)

    def test_a_login_before_the_news_works_and_ends_old_tokens(self) -> None:
        self.end_beside(self.ann.id)
        token = self.log_in(self.ann.key)
        self.assertEqual(self.status(self.ann.token), 401)
        self.assertEqual(len(self.ended), 1)
        self.successResultOf(self.game.parts.sessions.refresh())
        self.assertEqual(self.status(token), 200)
        self.assertEqual(len(self.ended), 1)

    def test_a_token_made_by_an_admin_after_the_end_works(self) -> None:
        admin = self.game.player("Olga", admin=True)
        self.end_beside(self.ann.id)
        page = self.game.browse(
            "POST",
            "/svc/api/GenerateJWTForUserId",
            json={"UserId": self.ann.id},
            key=admin.key,
        )
        self.successResultOf(self.game.parts.sessions.refresh())
        self.assertEqual(self.status(page.json["JWT"]), 200)

    @isolates("accounts/sessions: end")
    def test_two_ends_in_one_second_revoke_a_login_between_them(self) -> None:
        self.end(self.ann.id)
        between = self.log_in(self.ann.key)
        self.end(self.ann.id)
        self.assertEqual(self.status(between), 401)

    def networks(self) -> Networks:
        return Networks(self.game.ledger, self.game.clock.seconds)

    def test_a_login_with_a_key_replaced_meanwhile_gets_no_token(self) -> None:
        slow = SlowLook(self.game.parts.directory)
        acts = LoginActs(slow, self.game.parts.tokens, Counters(), self.networks())
        pending = Deferred.fromCoroutine(acts.log_in(self.ann.key))
        self.game.ledger.run(lambda tx: SqlAccounts(tx).replace_key(self.ann.id, "UUK_new"))
        self.end(self.ann.id)
        slow.release()
        self.failureResultOf(pending, Malformed)

    def test_a_login_overtaken_by_a_session_end_is_read_again(self) -> None:
        slow = SlowLook(self.game.parts.directory)
        acts = LoginActs(slow, self.game.parts.tokens, Counters(), self.networks())
        pending = Deferred.fromCoroutine(acts.log_in(self.ann.key))
        self.end(self.ann.id)
        slow.release()
        self.assertEqual(self.status(self.successResultOf(pending)[0]), 200)

    def test_a_development_server_takes_the_id_again_after_an_end(self) -> None:
        self.game = Game(self, AUTH_MODE="NONE")
        self.ann = self.game.player("Ann_1")
        self.end(self.ann.id)
        self.assertEqual(self.status(self.log_in(self.ann.id)), 200)
        self.assertEqual(self.status(self.ann.token), 401)

    def test_ending_the_sessions_of_an_unknown_account_fails(self) -> None:
        self.failureResultOf(
            Deferred.fromCoroutine(self.game.parts.sessions.end("UID-nobody")), Missing
        )

    def test_ended_sessions_remove_the_player_from_online_and_party(self) -> None:
        parts = self.game.parts
        party = at_once(
            parts.parties.transact_with_rules(lambda live: live.invite(self.bob.id, self.ann.id))
        )
        [invite] = at_once(
            parts.parties.transact_with_rules(lambda live: live.invites_to(self.ann.id))
        )
        at_once(parts.parties.transact_with_rules(lambda live: live.accept(invite)))
        self.game.browse("POST", "/heartbeat", json={"map": "m"}, token=self.ann.token)
        self.game.browse("POST", "/heartbeat", json={"map": "m"}, token=self.bob.token)
        self.end(self.ann.id)
        self.assertEqual([place.account_id for place in at_once(parts.online.all())], [self.bob.id])
        self.assertIsNone(at_once(parts.parties.party_of(self.ann.id)))
        left = at_once(parts.parties.transact_with_rules(lambda live: live.get(party.id)))
        assert left is not None
        self.assertEqual(left.members, (self.bob.id,))


class ClockTests(SessionCase):
    """The system clock was set back, and the running metagame's own clock stays hours ahead."""

    BEHIND_S = 7_200

    def refresh(self) -> None:
        self.successResultOf(self.game.parts.sessions.refresh())

    def test_old_tokens_end_with_the_news_although_the_clock_is_behind(self) -> None:
        self.end_beside(self.ann.id, self.BEHIND_S)
        self.refresh()
        self.assertEqual([self.status(player.token) for player in (self.ann, self.bob)], [401, 200])
        again = self.log_in(self.ann.key)
        self.refresh()
        self.assertEqual(self.status(again), 200)
        self.end_beside(self.ann.id, self.BEHIND_S)
        self.refresh()
        self.assertEqual(self.status(again), 401)

    def test_a_login_before_the_refresh_ends_the_old_session_and_counts(self) -> None:
        self.end_beside(self.ann.id, self.BEHIND_S)
        again = self.log_in(self.ann.key)
        self.refresh()
        self.assertEqual([self.status(token) for token in (self.ann.token, again)], [401, 200])

    def test_a_login_after_the_end_of_a_session_survives_a_restart(self) -> None:
        self.end_beside(self.ann.id, self.BEHIND_S)
        self.refresh()
        again = self.log_in(self.ann.key)
        self.game = Game(self, ledger=self.game.ledger)
        self.game.ledger.run(self.game.parts.sessions.load)
        self.assertEqual([self.status(token) for token in (self.ann.token, again)], [401, 200])

    def test_a_clock_that_is_days_ahead_hides_no_end(self) -> None:
        self.end_beside(self.ann.id, behind_s=3 * 86_400)
        self.refresh()
        self.assertEqual([self.status(player.token) for player in (self.ann, self.bob)], [401, 200])

    @isolates("accounts/sessions: _correct")
    def test_a_later_end_of_sessions_elsewhere_is_not_overwritten(self) -> None:
        self.end_beside(self.ann.id, self.BEHIND_S)
        self.game.ledger.run(self.game.parts.sessions.load)
        again = self.log_in(self.ann.key)
        self.end_beside(self.ann.id, self.BEHIND_S)
        self.refresh()
        self.assertEqual(self.status(again), 401)

    def test_a_clock_far_ahead_keeps_nobody_out(self) -> None:
        self.end_beside(self.ann.id, -self.BEHIND_S)
        again = self.log_in(self.ann.key)
        self.assertEqual([self.status(token) for token in (self.ann.token, again)], [401, 200])


class WatchTests(SessionCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.watch = session_watch(self.game.parts.sessions, self.clock)

    def test_sessions_ended_by_another_process_end_within_a_second(self) -> None:
        self.watch.startService()
        self.end_beside(self.ann.id)
        self.assertEqual(self.status(self.ann.token), 200)
        self.clock.advance(EVERY_S)
        self.assertEqual(self.status(self.ann.token), 401)
        self.assertEqual([news.account_id for news in self.ended], [self.ann.id])
        self.watch.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_lost_database_is_logged_once_a_minute_and_retried(self) -> None:
        read = self.game.ledger.read_snapshot
        self.game.ledger.read_snapshot = lambda work: fail(OSError("gone"))  # type: ignore[method-assign]
        self.watch.startService()
        for _ in range(10):
            self.clock.advance(EVERY_S)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.game.ledger.read_snapshot = read  # type: ignore[method-assign]
        self.end_beside(self.ann.id)
        self.clock.advance(EVERY_S)
        self.assertEqual(self.status(self.ann.token), 401)
        self.watch.stopService()

    def test_only_epochs_that_can_still_matter_are_read(self) -> None:
        self.end_beside(self.ann.id)
        self.game.clock.advance(86_402 + CLOCKS_DIFFER_S)
        self.successResultOf(self.game.parts.sessions.refresh())
        self.assertEqual(self.ended, [])
