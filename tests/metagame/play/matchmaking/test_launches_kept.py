"""The records of players' launches, and a launch whose worker crashed."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.memory import MemoryTransaction, Tables
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.matches import Match, MatchState, Server
from svcserver.metagame.play.matchmaking import launches
from svcserver.metagame.play.matchmaking.launches import LaunchLimits
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.rules import ASKED_S, Matchmaker
from svcserver.metagame.play.matchmaking.store import (
    LAUNCH_ON,
    LAUNCHES_OF,
    MATCHES,
    BoardMatches,
    LiveMatches,
)
from tests.metagame.play.matchmaking.base import Deploy
from tests.support.live import TestBoard


class BookTests(SynchronousTestCase):
    """Launch records in one transaction, whose time the test changes."""

    def setUp(self) -> None:
        self.tables = Tables()
        self.start()

    def start(self, cooldown_s: float = 60.0) -> None:
        self.transaction = MemoryTransaction(0.0, self.tables, [])
        self.stored = BoardMatches(self.transaction)
        self.launches = LaunchLimits(self.stored, cooldown_s)

    def match(self, *players: str, now: float = 0.0, mode: str = "ISLAND") -> Match:
        made = Match(self.stored.new_id(), mode, "Hunt_A", "", [*players], True, now)
        made.asking_until = 1e9
        self.stored.add(made)
        return made

    def runs(self, match: Match, port: int, host: str = "h") -> None:
        self.launches.begun(match)
        match.asking_until, match.state, match.ready_at = (
            0.0,
            MatchState.IN_PROGRESS,
            self.transaction.now,
        )
        match.server = Server(host, port)
        self.launches.ready(match, match.server)

    def in_the_way(self, match: Match, now: float) -> dict[str, Match]:
        self.transaction.now = now
        return self.launches.in_the_way(match)

    def test_a_launch_ends_when_its_port_goes_to_another_launch(self) -> None:
        self.runs(self.match("ann"), 1)
        self.assertEqual(list(self.in_the_way(self.match("ann"), 1.0)), ["ann"])
        self.runs(self.match("bob"), 1, "another machine")
        self.assertEqual(self.in_the_way(self.match("ann"), 1.0), {})

    def test_ended_and_hour_old_launches_do_not_count(self) -> None:
        old, ended, young = self.match("ann"), self.match("bob"), self.match("cat", now=100.0)
        for port, match in enumerate((old, ended, young)):
            self.runs(match, port)
        ended.ended = True
        for now, expected in ((3599.0, [old, young]), (3600.0, [young])):
            self.transaction.now = now
            running = self.launches.running(self.match("ann", "bob", "cat", now=now))
            self.assertEqual(running, expected)

    def test_board_entries_are_bounded_and_expire(self) -> None:
        for kind in (LAUNCHES_OF, LAUNCH_ON, MATCHES):
            self.assertLessEqual(kind.most, 100_000)
            self.assertLessEqual(kind.lives_s, 7200)

    def test_servers_are_looked_for_by_port(self) -> None:
        first, second = self.match("ann"), self.match("ann")
        self.runs(first, 1), self.runs(second, 2)
        self.assertEqual(self.launches.running(self.match("ann")), [first, second])
        launches.end_those_not_on([first, second], {2})
        self.assertEqual((first.ended, second.ended), (True, False))

    def test_a_partys_launch_counts_for_members_that_joined_later(self) -> None:
        first, second, third = self.match("ann"), self.match("cat"), self.match("cat")
        first.party_id, second.party_id = "p", "p"
        self.runs(first, 1)
        self.assertEqual(self.in_the_way(second, 1.0), {"cat": first})
        self.assertEqual(self.in_the_way(third, 1.0), {})

    def test_a_world_and_a_book_without_a_bound_count_nothing(self) -> None:
        city = self.match("ann")
        city.expects = False
        self.runs(city, 1)
        self.assertEqual(self.transaction.written, {})
        self.start(0.0)
        self.runs(self.match("ann"), 1)
        self.assertEqual(self.stored.held("ann"), [])
        self.assertEqual(self.in_the_way(self.match("ann"), 1.0), {})

    def test_a_pending_launch_counts_but_is_not_running(self) -> None:
        pending = self.match("ann")
        self.launches.begun(pending)
        self.assertEqual(self.launches.running(self.match("ann")), [])
        self.assertEqual(self.in_the_way(self.match("ann"), 1.0), {"ann": pending})
        self.assertEqual(self.in_the_way(pending, 1.0), {})

    def test_only_hour_old_launches_are_forgotten(self) -> None:
        old, young, newest = (self.match("ann", now=now) for now in (0.0, 3000.0, 3600.0))
        self.runs(old, 1), self.runs(young, 2)
        self.transaction.now = 3600.0
        self.launches.begun(newest)
        self.assertEqual(self.stored.held("ann"), [young, newest])


class DeadAskerTests(SynchronousTestCase):
    """A launch whose requesting process crashes while another process shares the board."""

    def setUp(self) -> None:
        self.live = TestBoard()
        self.matches = LiveMatches(self.live.board)

        def work(rules: Matchmaker) -> str:
            match = rules.join("ann", LaunchRequest("CITY", "", ""), None).match
            assert rules.begin(match) is not None
            return match.id

        self.match_id = self.successResultOf(self.matches.transact(work))

    def begin(self, at: float) -> LaunchRequest | None:
        self.live.now = at
        begun = self.matches.on_match(self.match_id, lambda rules, match: rules.begin(match))
        return self.successResultOf(begun)

    def test_a_launch_with_signs_of_life_is_not_requested_again(self) -> None:
        self.assertIsNone(self.begin(ASKED_S - 0.1))
        still = self.matches.on_match(self.match_id, lambda rules, match: rules.still_asking(match))
        self.successResultOf(still)
        self.assertIsNone(self.begin(2 * ASKED_S - 0.2))

    def test_after_a_requesters_crash_another_requests_the_match_once(self) -> None:
        self.assertIsNotNone(self.begin(ASKED_S))
        self.assertIsNone(self.begin(ASKED_S))

    def test_a_player_can_leave_a_match_whose_requester_crashed(self) -> None:
        self.live.now = ASKED_S
        self.successResultOf(self.matches.transact(lambda rules: rules.leave("ann")))
        gone = self.matches.on_match(self.match_id, lambda rules, match: match)
        self.assertIsNone(self.successResultOf(gone))

    def test_a_worker_sends_signs_of_life_for_its_request(self) -> None:
        clock, deploy = Clock(), Deploy()
        deploy.hold = True
        client = DeployClient(deploy, clock, "127.0.0.1:61001", 600.0)
        launching = Launching(self.matches, client, clock)
        launching.start(self.match_id, LaunchRequest("CITY", "", ""))
        for at in range(60):
            self.assertIsNone(self.begin(at + 1.0))
            clock.advance(1)
        self.assertEqual(deploy.ids, [self.match_id])
        deploy.held[0].callback(deploy.answer)
        known = self.matches.on_match(self.match_id, lambda rules, match: match.server)
        self.assertEqual(self.successResultOf(known), Server("203.0.113.9", 8775))
        self.assertEqual(clock.getDelayedCalls(), [])
