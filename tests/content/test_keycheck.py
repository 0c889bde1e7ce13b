"""The key check: two caches, one request per key at a time, and no key stored in memory."""

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred

from svcserver.content import keycheck
from svcserver.content.keycheck import KeyCheck, KeyOwner
from svcserver.kernel.counters import Counted
from svcserver.kernel.refusals import Unauthenticated, Unavailable
from tests.content.support import ANN, BOB, DeskCase
from tests.support.proves import proves

PLAYER = KeyOwner("UID-ann", "ann")


class KeyCheckTests(DeskCase):
    def setUp(self) -> None:
        super().setUp()
        self.keys: KeyCheck = self.desk.keys

    def player_of(self, key: str | None = ANN) -> Deferred[KeyOwner]:
        requests = Deferred.fromCoroutine(self.keys.player_of(key))
        self.flush()
        return requests

    @proves("key check through the metagame, both caches", "limit: Content auth cache")
    def test_an_accepted_key_is_kept_for_its_time(self) -> None:
        self.assertEqual(self.successResultOf(self.player_of()), PLAYER)
        self.clock.advance(299)
        self.successResultOf(self.player_of())
        self.assertEqual(len(self.metagame.requests), 1)
        self.clock.advance(1)
        self.successResultOf(self.player_of())
        self.assertEqual(len(self.metagame.requests), 2)

    @proves("key check through the metagame, both caches", "limit: Content auth cache")
    def test_a_refused_key_is_kept_for_thirty_seconds(self) -> None:
        for status in (401, 403):
            self.metagame.status, self.metagame.requests = status, []
            key = f"UUK_{status}"
            self.failureResultOf(self.player_of(key), Unauthenticated)
            self.clock.advance(29)
            self.failureResultOf(self.player_of(key), Unauthenticated)
            self.assertEqual(len(self.metagame.requests), 1)
            self.clock.advance(1)
            self.failureResultOf(self.player_of(key), Unauthenticated)
            self.assertEqual(len(self.metagame.requests), 2)
        # each try counts for an owner under attack, wherever the answer came from; no key is none
        self.failureResultOf(self.player_of(None), Unauthenticated)
        counted = self.keys.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"account_key": 6})

    @proves("key check through the metagame, both caches", "limit: Content auth cache")
    def test_with_zero_seconds_accepted_keys_are_asked_about_every_time(self) -> None:
        self.keys.accepted_s = 0
        self.successResultOf(self.player_of())
        self.successResultOf(self.player_of())
        self.assertEqual(len(self.metagame.requests), 2)

    @proves("content: 503 auth_unavailable")
    def test_an_invalid_reply_of_the_metagame_is_unavailable_and_not_kept(self) -> None:
        answers = [b"", b"x", b"[]", b'{"UserId":7}', b'{"UserId":""}', b"{}", b"x" * 100_000]
        for self.metagame.body in answers:
            self.failureResultOf(self.player_of(), Unavailable)
        self.metagame.body = None
        for self.metagame.status in (204, 302, 404, 429, 500, 503):
            self.failureResultOf(self.player_of(), Unavailable)
        self.metagame.status = None
        self.assertEqual(self.successResultOf(self.player_of()), PLAYER)

    @proves("key check through the metagame, both caches")
    def test_requests_with_one_key_share_one_question(self) -> None:
        self.metagame.silent = True
        requests = [self.player_of() for _ in range(5)]
        another = self.player_of(BOB)
        self.assertEqual(sorted(self.metagame.requests), [ANN, BOB])
        self.metagame.release()
        self.flush()
        self.assertEqual([self.successResultOf(item) for item in requests], [PLAYER] * 5)
        self.assertEqual(self.successResultOf(another).name, "bob")

    def test_a_client_that_leaves_takes_no_answer_from_the_others(self) -> None:
        self.metagame.silent = True
        first, second = self.player_of(), self.player_of()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.metagame.release()
        self.flush()
        self.assertEqual(self.successResultOf(second), PLAYER)

    def test_when_all_leave_the_answer_is_kept_for_the_next(self) -> None:
        self.metagame.silent = True
        first = self.player_of()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.metagame.release()
        self.flush()
        self.metagame.silent = False
        self.successResultOf(self.player_of())
        self.assertEqual(len(self.metagame.requests), 1)

    def test_a_question_without_an_answer_ends_after_five_seconds(self) -> None:
        self.metagame.silent = True
        requests = self.player_of()
        self.clock.advance(4.9)
        self.assertNoResult(requests)
        self.clock.advance(0.1)
        self.failureResultOf(requests, Unavailable)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_only_so_many_questions_are_open_at_once(self) -> None:
        self.patch(keycheck, "MAX_ASKING", 2)
        self.metagame.silent = True
        open_ones = [self.player_of("a"), self.player_of("b")]
        self.failureResultOf(self.player_of("c"), Unavailable)
        for item in open_ones:
            self.assertNoResult(item)
        self.metagame.release()
        self.flush()
        for item in open_ones:
            self.failureResultOf(item, Unauthenticated)

    @proves("key check through the metagame, both caches")
    def test_the_cache_has_a_bound_and_holds_no_key(self) -> None:
        self.patch(keycheck, "MAX_KEPT", 3)
        self.keys = evolve(self.keys)
        for number in range(6):
            self.failureResultOf(self.player_of(f"UUK_{number}"), Unauthenticated)
        self.assertEqual(len(self.keys._cache), 3)
        self.assertNotIn("UUK_", repr(self.keys._cache))

    @proves("key check through the metagame, both caches")
    def test_no_key_and_keys_of_odd_shape_are_refused_without_a_question(self) -> None:
        for key in (None, "", "a b", "x" * 257, "\x1f", "é"):
            self.failureResultOf(self.player_of(key), Unauthenticated)
        self.failureResultOf(self.player_of("x" * 256), Unauthenticated)
        self.assertEqual(len(self.metagame.requests), 1)
