"""The owner starts, stops, restarts and lists game servers; frozen game servers are ended."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.console import LAST_LINES
from svcserver.deploy.family import UdpSocket, udp_sockets
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.deploy.freeze_watch import CHECK_S, FreezeDetector, freeze_watch, unread_bytes
from svcserver.deploy.hunts import GameServerKind, Launch
from svcserver.deploy.orders import Program
from svcserver.deploy.owner_actions import OwnerActions
from svcserver.deploy.supervisor import KILL_AFTER_S
from svcserver.kernel.refusals import Conflict, Malformed, Missing
from tests.deploy.supervised import CITY, HUNT, SupervisorCase, owners_browser
from tests.support.proves import proves


class OwnerActionsTests(SupervisorCase):
    def setUp(self) -> None:
        self.output = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.supervisor = self.make(program=Program("/srv/game", output=self.output))
        self.actions = OwnerActions(self.supervisor)
        self.addCleanup(self.end_all)  # which closes the files of their output

    def end_all(self) -> None:
        for child in self.spawner.children:
            if not child.process.over:
                child.end()

    @proves("svcctl gameserver list, start, stop, restart, console")
    def test_stopped_city_stays_down_until_it_is_requested(self) -> None:
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        stopping = Deferred.fromCoroutine(self.actions.stop(city.id))
        self.successResultOf(stopping)
        self.supervisor.watch()
        self.assertEqual(self.supervisor.records(), [])
        self.successResultOf(self.ask(self.supervisor, CITY))
        self.assertEqual(len(self.supervisor.records()), 1)

    def test_restarted_city_keeps_its_port_and_is_killed_if_deaf(self) -> None:
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        self.spawner.children[0].deaf = True  # type: ignore[attr-defined]
        again = Deferred.fromCoroutine(self.actions.restart(city.id))
        self.assertNoResult(again)
        self.clock.advance(KILL_AFTER_S)
        fresh = self.successResultOf(again)
        self.assertNotEqual(fresh.id, city.id)
        self.assertEqual(fresh.port, city.port)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_impossible_actions_are_refused_with_a_reason(self) -> None:
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        for call, refusal in (
            (self.actions.restart(hunt.id), Conflict),
            (self.actions.start("hunt"), Malformed),
            (self.actions.stop("nobody"), Missing),
        ):
            self.failureResultOf(Deferred.fromCoroutine(call), refusal)
        self.assertRaises(Missing, self.actions.console, "nobody")
        city = self.successResultOf(Deferred.fromCoroutine(self.actions.start("city")))
        same = self.successResultOf(Deferred.fromCoroutine(self.actions.start("city")))
        self.assertEqual(same.id, city.id)

    def test_the_output_of_an_ended_server_stays_and_is_listed(self) -> None:
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        child = self.spawner.children[0]
        child.process.outReceived(b"fatal error: no map\n")
        child.end()
        self.assertEqual(self.supervisor.records(), [])
        part = self.actions.output_after(hunt.id, "")
        self.assertEqual((part["lines"], part["ended"]), (["fatal error: no map"], True))
        self.assertEqual(self.actions.console(hunt.id), ["fatal error: no map"])
        page = owners_browser(self, self.supervisor)("GET", "/gameservers/history")
        [launch] = page.json["launches"]
        self.assertEqual((launch["id"], launch["hasOutput"]), (hunt.id, True))

    def test_console_has_the_last_lines_without_secrets(self) -> None:
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        self.assertEqual(self.actions.console(hunt.id), [])
        lines = [f"line {number}\x1b[31m" for number in range(9_000)]
        file = self.output / f"hunt-{hunt.port}.log"
        file.write_text("\n".join([*lines, "key " + "ab" * 32, "x" * 9_000]))
        shown = self.actions.console(hunt.id)
        self.assertEqual((len(shown), len(shown[-1])), (LAST_LINES, 1_000))
        self.assertEqual(shown[-2], "key <redacted>")
        self.assertNotIn("\x1b", "".join(shown))

    def test_owner_routes_answer_with_messages(self) -> None:
        browse = owners_browser(self, self.supervisor)
        page = browse("POST", "/gameservers/handle", json={"Act": "start", "Kind": "city"})
        self.assertEqual(page.status, 200)
        page = browse("GET", f"/gameservers/console?id={page.json['id']}")
        self.assertEqual(page.json, {"lines": []})
        page = browse("POST", "/gameservers/handle", json={"Act": "stop", "Id": "nobody"})
        self.assertEqual(
            (page.status, page.json["message"]), (404, "no such game server is running")
        )
        self.assertEqual(browse("POST", "/gameservers/handle", json={"Act": "x"}).status, 400)

    def test_metagame_reports_servers_with_player_heartbeats(self) -> None:
        browse = owners_browser(self, self.supervisor)
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        page = browse("POST", "/gameservers/heard", json={"Ids": [city.id, "nobody"]})
        self.assertEqual(page.json, {"known": 1})
        self.assertEqual(self.supervisor.fleet.last_heartbeats, {city.id: self.clock.seconds()})
        for odd in ({}, {"Ids": "x"}, {"Ids": [7]}, {"Ids": ["x"] * 1_001}, {"Ids": ["x" * 65]}):
            self.assertEqual(browse("POST", "/gameservers/heard", json=odd).status, 400, odd)
        self.assertEqual(len(self.supervisor.fleet.last_heartbeats), 1)


def server(name: str, port: int) -> GameServer:
    return GameServer(name, port, Launch(GameServerKind.CITY, "/Game/Maps/x"), 1, 0.0)


class FrozenTests(SynchronousTestCase):
    @proves(
        "deploy: a game server that reads nothing any more is ended, a city or dojo started again"
    )
    def test_server_is_frozen_when_its_unread_bytes_only_grow(self) -> None:
        detector, lives, frozen = FreezeDetector(60.0), server("lives", 1), server("frozen", 2)
        named = []
        for number in range(30):
            waiting = {"lives": 500 if number % 5 else 100, "frozen": 100 * number + 1}
            named += [
                (server.id, number * CHECK_S)
                for server in detector.check([lives, frozen], waiting, {}, number * CHECK_S)[0]
            ]
        self.assertEqual(named[0], ("frozen", 60.0))
        self.assertEqual({name for name, _ in named}, {"frozen"})

    def test_server_that_reads_again_is_not_frozen(self) -> None:
        detector, city = FreezeDetector(60.0), server("a", 1)
        for at in range(0, 60, 5):
            self.assertEqual(detector.check([city], {"a": at + 1}, {}, at), ([], []))
        self.assertEqual(detector.check([city], {}, {}, 60.0), ([], []))
        self.assertEqual(detector.check([city], {"a": 10}, {}, 61.0), ([], []))

    @proves("deploy: a game server whose players are heard is not frozen")
    def test_heartbeats_delay_the_end_of_a_frozen_server(self) -> None:
        detector, city = FreezeDetector(60.0), server("a", 1)
        ended, spared = [], []
        for at in range(0, 200, 5):
            heartbeats = {"a": min(at, 100.0)}  # their last heartbeat comes at 100
            frozen_now, spared_now = detector.check([city], {"a": at + 1}, heartbeats, at)
            ended += [at for _ in frozen_now]
            spared += [at for _ in spared_now]
        self.assertEqual((spared, ended[0]), ([60], 160))
        detector = FreezeDetector(60.0)
        for at in range(0, 100, 5):  # the last heartbeat came long before the freeze
            if detector.check([city], {"a": at + 1}, {"a": -90.0}, at)[0]:
                break
        self.assertEqual(at, 60)

    def test_only_own_public_sockets_on_the_port_count(self) -> None:
        city, hunt, hidden = server("city", 8777), server("hunt", 8775), server("hidden", 8774)
        owned = {"city": {1, 2, 3, 4, 5, 6}, "hunt": {9}, "hidden": None}
        loopback6 = "00000000000000000000000001000000"
        mapped = "0000000000000000FFFF00000A00000A"
        sockets = [
            UdpSocket("00000000", 8777, 1, 1),
            UdpSocket("0" * 32, 8777, 10, 2),
            UdpSocket("0100007F", 8777, 100, 3),  # 127.0.0.1
            UdpSocket(mapped, 8777, 1_000, 4),
            UdpSocket(loopback6, 8777, 10_000, 5),  # players do not use this address
            UdpSocket("0200007F", 8777, 10_000, 6),
            UdpSocket("x", 8777, 10_000, 6),
            UdpSocket("00000000", 8777, 10_000, 7),  # a socket of another program
            UdpSocket("00000000", 8776, 10_000, 1),
            UdpSocket("00000000", 8775, 0, 9),
            UdpSocket("00000000", 8774, 10_000, 8),
        ]
        result = unread_bytes(sockets, [city, hunt, hidden], lambda server: owned[server.id])
        self.assertEqual(result, {"city": 1_111})

    @given(st.text())
    def test_odd_socket_table_is_no_error(self, text: str) -> None:
        unread_bytes(udp_sockets([text]), [server("a", 8777)], lambda server: {1})

    def test_freeze_watch_ends_the_server_and_pings_all(self) -> None:
        clock, ended, pinged = Clock(), [], []
        fleet = Fleet(8770, 8779)
        city = fleet.servers["a"] = server("a", 8777)
        grows = iter(range(1, 100))
        line = "h\n1: 00000000:2249 0:0 07 0:{:X} 0 0 0 0 5"
        watch = freeze_watch(
            clock,
            FreezeDetector(20.0),
            fleet,
            ended.append,
            lambda server: {5},
            lambda: [line.format(next(grows))],
            pinged.append,
        )
        watch.startService()
        clock.advance(CHECK_S)
        for _ in range(5):  # heartbeats keep it running
            fleet.note_heartbeats(["a", "another"], clock.seconds())
            clock.advance(CHECK_S)
        self.assertEqual((ended, fleet.last_heartbeats), ([], {"a": 25.0}))
        clock.pump([CHECK_S] * 3)
        self.assertEqual((ended, pinged), ([city], [8777] * 9))
        fleet.ended("a")
        self.assertEqual(fleet.last_heartbeats, {})
        watch.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])
