"""Party members and entries, which expire at exact seconds. Spec: 1 §3, §4 Matchmaking."""

from attrs import evolve, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.play.matches import Match, MatchState, Server
from svcserver.metagame.play.matchmaking import store
from svcserver.metagame.play.matchmaking.launching import Launching
from tests.metagame.play.matchmaking.live import BoardMatchmaker

HUNT, HUNT_B = (LaunchRequest("ISLAND", "", name) for name in ("Hunt_A", "Hunt_B"))
CITY = LaunchRequest("CITY", "", "")
SERVER, ELSEWHERE = Server("203.0.113.9", 8775), Server("203.0.113.9", 8774)


@frozen
class Party:
    id: str
    leader: str
    members: tuple[str, ...]


PARTY = Party("party", "ann", ("ann", "bob", "cat"))


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.matches = BoardMatchmaker()

    def join(self, player: str, now: float = 0.0, request: LaunchRequest = HUNT) -> Match:
        return self.matches.join(player, request, PARTY, now).match

    def alone(self, player: str, now: float = 0.0, request: LaunchRequest = HUNT) -> Match:
        return self.matches.join(player, request, None, now).match

    def send(self, *players: str, server: Server = SERVER, now: float = 0.0) -> None:
        for player in players:
            entry = self.matches.entry(player, now)
            assert entry is not None
            self.matches.ready(entry.match, server, 0.0)
            self.matches.sent(player, now)


class PartyTests(Case):
    def test_the_last_hunt_is_followed_for_ten_minutes(self) -> None:
        match = self.join("ann")
        self.matches.ready(match, SERVER, 0.0)
        for player in ("ann", "bob"):
            self.assertIs(self.join(player, 599.0), match)
        self.matches.leave("bob")
        self.assertRaises(Malformed, self.join, "bob", 600.0)
        self.assertIsNot(self.join("ann", 600.0), match)

    def test_a_leader_back_from_the_city_gets_a_new_match(self) -> None:
        first = self.join("ann")
        self.send("ann", "bob", "cat")
        for player in ("bob", "cat"):
            self.join(player, 300.0, CITY)
            self.send(player, server=ELSEWHERE, now=300.0)
        self.assertEqual(self.join("ann", 310.0, CITY).players, ["ann"])
        self.send("ann", server=ELSEWHERE, now=310.0)
        again = self.join("ann", 320.0)
        self.assertIsNot(again, first)
        self.assertEqual((again.players, again.server), (["ann", "bob", "cat"], None))

    def test_a_member_back_from_the_city_returns_to_the_running_hunt(self) -> None:
        match = self.join("ann")
        self.send("ann", "bob", now=1.0)
        self.join("bob", 60.0, CITY)
        self.send("bob", server=ELSEWHERE, now=60.0)
        self.assertIs(self.join("bob", 100.0), match)
        self.send("bob", now=120.0)
        sent = self.matches.last_sent("bob")
        assert sent is not None
        self.assertEqual((sent.server, sent.hunt_id, sent.at), (SERVER, "Hunt_A", 120.0))
        self.assertIsNotNone(self.matches.of_party("party", 179.0))

    def test_rejoining_the_partys_hunt_ends_the_players_other_match(self) -> None:
        match = self.join("ann")
        self.matches.asking(match, 0.0)
        self.matches.left_party("party", ("bob",))
        alone = self.alone("bob", 1.0, HUNT_B)
        self.assertIs(self.join("bob", 2.0), match)
        self.assertTrue(alone.is_gone)
        self.assertEqual(match.players, ["ann", "bob", "cat"])

    def test_a_leaders_cancel_spares_members_in_another_match(self) -> None:
        self.matches.asking(self.join("ann"), 0.0)
        city = self.join("bob", 1.0, CITY)
        self.matches.cancel("ann", PARTY)
        self.assertIsNone(self.matches.entry("cat", 1.0))
        entry = self.matches.entry("bob", 1.0)
        self.assertIs(None if entry is None else entry.match, city)

    def test_a_late_party_member_can_follow_the_hunt_for_ten_minutes(self) -> None:
        match = self.join("ann")
        self.matches.ready(match, SERVER, 0.0)
        late = Party("party", "ann", ("ann", "bob", "cat", "dan"))
        self.assertIs(self.matches.join("dan", HUNT, late, 599.0).match, match)
        self.assertIn("dan", match.players)
        self.assertRaises(Malformed, self.matches.join, "eve", HUNT, late, 600.0)

    def test_the_ten_minutes_begin_with_the_hunt(self) -> None:
        match = self.join("ann", 1000.0)
        self.matches.ready(match, SERVER, 0.0)
        late = Party("party", "ann", ("ann", "bob", "cat", "dan"))
        self.assertIs(self.join("bob", 1599.0), match)
        self.assertIs(self.matches.join("dan", HUNT, late, 1599.0).match, match)

    def test_a_hunt_that_everybody_left_is_no_hunt_of_the_party(self) -> None:
        self.join("ann")
        for player in PARTY.members:
            self.assertIsNotNone(self.matches.of_party("party", 0.0))
            self.matches.leave(player)
        self.assertIsNone(self.matches.of_party("party", 0.0))

    def test_a_waiting_hunt_is_followed_however_long_it_waits(self) -> None:
        match = self.join("ann")
        self.assertIs(self.join("bob", 3000.0), match)

    def test_a_leader_never_sent_anywhere_goes_to_the_city_alone(self) -> None:
        self.assertEqual(self.join("ann", request=CITY).players, ["ann"])

    def test_a_return_hunt_leads_to_the_city_in_any_mode(self) -> None:
        for hunt in ("", "ShatteredIsles_ReturnTo_City", "ShatteredIsles_TrainingDojo"):
            match = self.join("ann", request=LaunchRequest("ISLAND", "", hunt))
            self.assertEqual((match.players, match.expects), (["ann"], False), hunt)

    def test_the_leader_takes_players_of_the_same_server_to_the_city(self) -> None:
        (
            self.alone("ann", request=CITY),
            self.alone("bob", request=CITY),
            self.alone("cat", request=CITY),
        )
        self.send("ann", "bob")
        self.send("cat", server=ELSEWHERE)
        match = self.join("ann", 1.0, CITY)
        self.assertEqual((match.players, match.expects), (["ann", "bob"], False))
        self.assertEqual(match.request().players, ())

    def test_only_a_waiting_party_member_can_follow(self) -> None:
        match = self.join("ann")
        self.assertIs(self.matches.follow("bob", match.id, PARTY, 1.0).match, match)
        for player, candidate, group in (
            ("bob", "other", PARTY),
            ("bob", match.id, None),
            ("eve", match.id, PARTY),
        ):
            self.assertRaises(Missing, self.matches.follow, player, candidate, group, 1.0)
        match.asking_until = 1e9
        self.matches.leave("bob")  # still expected, but no longer a candidate
        self.assertIn("bob", match.players)
        self.assertRaises(Missing, self.matches.follow, "bob", match.id, PARTY, 1.0)
        self.alone("cat", request=CITY)
        self.assertRaises(Missing, self.matches.follow, "cat", match.id, PARTY, 1.0)

    def test_a_leaders_cancel_ends_the_wait_of_all(self) -> None:
        self.join("ann")
        self.matches.cancel("ann", PARTY)
        self.assertIsNone(self.matches.of_party("party", 0.0))
        for player in PARTY.members:
            self.assertIsNone(self.matches.entry(player, 0.0))
        match = self.join("ann")
        self.matches.ready(match, SERVER, 0.0)
        self.matches.cancel("ann", PARTY)
        self.assertIsNone(self.matches.of_party("party", 0.0))
        self.assertIsNotNone(self.matches.entry("ann", 0.0))  # it is resolved

    def test_the_poll_shows_a_hunt_until_a_minute_after_the_last_was_sent(self) -> None:
        match = self.join("ann")
        self.send("ann", now=10.0)
        self.send("bob", now=20.0)
        self.assertIsNotNone(self.matches.of_party("party", 79.0))
        self.assertIsNone(self.matches.of_party("party", 80.0))
        self.send("ann", now=90.0)  # ann already knew the address
        self.assertEqual((match.sent_at, match.told), (20.0, {"ann", "bob"}))

    def test_no_player_is_sent_without_a_server(self) -> None:
        self.alone("ann")
        self.matches.sent("ann", 0.0)
        self.assertIsNone(self.matches.last_sent("ann"))


class DueTests(Case):
    def test_a_queue_is_due_twenty_seconds_after_its_last_joiner(self) -> None:
        match = self.alone("ann")
        self.alone("bob", 5.0)
        self.assertIs(self.matches.due(match, 25.0), False)
        self.assertIs(self.matches.due(match, 25.1), True)
        self.assertEqual(match.request(), LaunchRequest("ISLAND", "", "Hunt_A", ("ann", "bob")))
        self.assertIsNot(self.alone("cat", 25.2), match)  # closed

    def test_a_match_is_not_due_once_it_is_requested_ready_or_empty(self) -> None:
        match = self.alone("ann", request=CITY)
        self.assertIs(self.matches.due(match, 0.0), True)
        self.matches.asking(match, 0.0)
        self.assertIs(self.matches.due(match, 0.0), False)
        self.matches.ready(match, SERVER, 0.0)
        self.assertIs(self.matches.due(match, 0.0), False)
        waiting = self.alone("bob")
        self.matches.leave("bob")
        self.assertTrue(waiting.is_gone)

    def test_capacity_is_asked_for_every_ten_seconds_for_five_minutes(self) -> None:
        match = self.alone("ann", request=CITY)
        self.matches.asking(match, 0.0)
        self.matches.refused(match, 1.0)
        self.assertIs(self.matches.due(match, 9.9), False)
        self.assertIs(self.matches.due(match, 10.0), True)
        self.matches.asking(match, 295.0)
        self.matches.refused(match, 296.0)  # the first refusal counts
        self.assertIs(self.matches.due(match, 300.9), False)
        self.assertIs(match.state, MatchState.MATCHING)
        self.assertIs(self.matches.due(match, 301.0), False)
        self.assertIs(match.state, MatchState.FAILED)


class Silent:
    """A fake deploy server that never answers."""

    async def launch(self, request: LaunchRequest, match_id: str) -> Server:
        await Deferred()
        raise AssertionError("it never answers")


class WaitTests(Case):
    def test_a_cancelled_wait_is_dropped_before_the_launch_is_decided(self) -> None:
        clock = Clock()
        launching = Launching(self.matches.matches, Silent(), clock)  # type: ignore[arg-type]
        match = self.alone("ann", request=CITY)
        request = self.matches.asking(match, 0.0)
        launching.start(match.id, request)
        others = [*clock.getDelayedCalls()]  # the sign of life of the launch
        first, left = launching.wait(match.id, 1.5), launching.wait(match.id, 1.5)
        left.cancel()
        self.failureResultOf(left, CancelledError)
        self.assertEqual(len(clock.getDelayedCalls()), len(others) + 1)
        self.assertNoResult(first)
        clock.advance(1.5)
        self.successResultOf(first)
        self.assertEqual(launching._running, {match.id: {}})
        self.assertEqual(clock.getDelayedCalls(), others)


class MemoryTests(Case):
    def test_a_player_is_forgotten_after_an_hour_without_requests(self) -> None:
        self.alone("ann"), self.alone("bob")
        self.matches.entry("bob", 100.0)
        self.assertIsNone(self.matches.entry("ann", 3600.0))
        self.assertIsNotNone(self.matches.entry("bob", 3699.0))
        self.assertIsNone(self.matches.entry("bob", 3699.0 + 3600.0))

    def test_a_forgotten_player_is_removed_from_the_queue(self) -> None:
        match = self.alone("ann")
        self.alone("bob", 3000.0)
        self.assertIs(self.alone("cat", 3600.0), match)
        self.assertEqual(match.players, ["bob", "cat"])

    def test_the_last_server_is_known_for_an_hour_or_as_a_candidate(
        self,
    ) -> None:
        self.alone("ann", request=CITY), self.alone("bob", request=CITY)
        self.send("ann", "bob")
        self.alone("bob", 3000.0)
        self.matches.entry("ann", 0.0)
        self.matches.live.now = 3599.0
        self.assertIsNotNone(self.matches.last_sent("ann"))
        self.assertIsNotNone(self.matches.last_sent("bob"))
        self.matches.live.now = 7300.0
        self.assertIsNone(self.matches.last_sent("ann"))

    def test_an_expired_match_takes_no_player_along(self) -> None:
        match = self.join("ann")
        self.matches.live.do(lambda transaction: transaction.drop(store.MATCHES, match.id))
        self.assertIsNone(self.matches.entry("ann", 1.0))
        self.assertIsNone(self.matches.of_party("party", 1.0))
        self.assertEqual(self.join("ann", 1.0).players, ["ann", "bob", "cat"])
        queue = self.alone("dan")
        self.matches.live.do(lambda transaction: transaction.drop(store.MATCHES, queue.id))
        self.assertEqual(self.alone("eve").players, ["eve"])

    def test_a_partys_hunt_is_forgotten_after_an_hour(self) -> None:
        self.join("ann")
        self.alone("dan", 3599.0)
        self.assertIsNotNone(self.matches.of_party("party", 3599.0))
        self.alone("dan", 3660.0)
        self.assertIsNone(self.matches.of_party("party", 3660.0))

    def test_a_partys_hunt_that_runs_is_forgotten_an_hour_after_its_start(self) -> None:
        match = self.join("ann", 1000.0)
        self.matches.ready(match, SERVER, 0.0)
        self.alone("dan", 4599.0)
        self.assertIsNotNone(self.matches.of_party("party", 4599.0))
        self.alone("dan", 4660.0)
        self.assertIsNone(self.matches.of_party("party", 4660.0))

    def test_every_table_is_bounded(self) -> None:
        for name in ("MATCHES", "PLACES", "PARTY_HUNTS", "SENT", "QUEUES"):
            self.patch(store, name, evolve(getattr(store, name), most=3))
        for number in range(9):
            party = Party(f"party-{number}", f"p{number}", (f"p{number}", f"q{number}"))
            self.matches.join(f"p{number}", HUNT, party, 0.0)
            self.send(f"p{number}", f"q{number}")
        for number in range(9):
            self.alone(f"r{number}", request=LaunchRequest("ISLAND", "", f"Hunt_{number}"))
        for kind in (store.MATCHES, store.PLACES, store.PARTY_HUNTS, store.SENT, store.QUEUES):
            self.assertEqual(self.matches.live.board.held(kind), 3, kind.name)
        self.assertIsNotNone(self.matches.entry("r8"))
        self.assertIsNone(self.matches.entry("r0"))
