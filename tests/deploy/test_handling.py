"""One game server started, stopped, restarted, read; and one that is frozen."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.family import UdpSocket, udp_sockets
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.deploy.frozen import LOOK_S, Freezes, Look, freeze_watch, unread
from svcserver.deploy.handling import LAST_LINES, Handling
from svcserver.deploy.hunts import Kind, Launch
from svcserver.deploy.supervisor import KILL_AFTER_S, Program
from svcserver.kernel.refusals import Conflict, Malformed, Missing
from tests.deploy.supervised import CITY, HUNT, SupervisorCase, owners_browser
from tests.support.proves import proves


class HandlingTests(SupervisorCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.output = Path(scratch.name)
        self.supervisor = self.make(program=Program("/srv/game", output=self.output))
        self.handling = Handling(self.supervisor)
        self.addCleanup(self.end_all)  # which closes the files of their output

    def end_all(self) -> None:
        for child in self.spawner.children:
            if not child.process.over:
                child.end()

    @proves("svcctl gameserver list, start, stop, restart, console")
    def test_a_stopped_city_stays_so_until_somebody_asks_for_it(self) -> None:
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        stopping = Deferred.fromCoroutine(self.handling.stop(city.id))
        self.successResultOf(stopping)
        self.supervisor.watch()
        self.assertEqual(self.supervisor.records(), [])
        self.successResultOf(self.ask(self.supervisor, CITY))
        self.assertEqual(len(self.supervisor.records()), 1)

    def test_a_restarted_city_has_its_port_and_a_deaf_one_is_killed(self) -> None:
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        self.spawner.children[0].deaf = True  # type: ignore[attr-defined]
        again = Deferred.fromCoroutine(self.handling.restart(city.id))
        self.assertNoResult(again)
        self.clock.advance(KILL_AFTER_S)
        fresh = self.successResultOf(again)
        self.assertNotEqual(fresh.id, city.id)
        self.assertEqual(fresh.port, city.port)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_cannot_be_done_is_said(self) -> None:
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        for call, refusal in (
            (self.handling.restart(hunt.id), Conflict),
            (self.handling.start("hunt"), Malformed),
            (self.handling.stop("nobody"), Missing),
        ):
            self.failureResultOf(Deferred.fromCoroutine(call), refusal)
        self.assertRaises(Missing, self.handling.console, "nobody")
        city = self.successResultOf(Deferred.fromCoroutine(self.handling.start("city")))
        same = self.successResultOf(Deferred.fromCoroutine(self.handling.start("city")))
        self.assertEqual(same.id, city.id)

    def test_its_console_has_the_last_lines_without_secrets(self) -> None:
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        self.assertEqual(self.handling.console(hunt.id), [])
        lines = [f"line {number}\x1b[31m" for number in range(9_000)]
        file = self.output / f"hunt-{hunt.port}.log"
        file.write_text("\n".join([*lines, "key " + "ab" * 32, "x" * 9_000]))
        shown = self.handling.console(hunt.id)
        self.assertEqual((len(shown), len(shown[-1])), (LAST_LINES, 1_000))
        self.assertEqual(shown[-2], "key <redacted>")
        self.assertNotIn("\x1b", "".join(shown))

    def test_the_routes_answer_in_words(self) -> None:
        browse = owners_browser(self, self.supervisor)
        page = browse("POST", "/gameservers/handle", json={"Act": "start", "Kind": "city"})
        self.assertEqual(page.status, 200)
        page = browse("GET", f"/gameservers/console?id={page.json['id']}")
        self.assertEqual(page.json, {"lines": []})
        page = browse("POST", "/gameservers/handle", json={"Act": "stop", "Id": "nobody"})
        self.assertEqual((page.status, page.json["message"]), (404, "no such game server runs"))
        self.assertEqual(browse("POST", "/gameservers/handle", json={"Act": "x"}).status, 400)

    def test_the_metagame_says_on_which_of_them_players_were_heard(self) -> None:
        browse = owners_browser(self, self.supervisor)
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        page = browse("POST", "/gameservers/heard", json={"Ids": [city.id, "nobody"]})
        self.assertEqual(page.json, {"known": 1})
        self.assertEqual(self.supervisor.fleet.heard, {city.id: self.clock.seconds()})
        for odd in ({}, {"Ids": "x"}, {"Ids": [7]}, {"Ids": ["x"] * 1_001}, {"Ids": ["x" * 65]}):
            self.assertEqual(browse("POST", "/gameservers/heard", json=odd).status, 400, odd)
        self.assertEqual(len(self.supervisor.fleet.heard), 1)


def server(name: str, port: int) -> GameServer:
    return GameServer(name, port, Launch(Kind.CITY, "/Game/Maps/x"), 1, 0.0)


class FrozenTests(SynchronousTestCase):
    @proves(
        "deploy: a game server that reads nothing any more is ended, a city or dojo started again"
    )
    def test_what_only_grows_is_frozen_and_what_comes_and_goes_lives(self) -> None:
        freezes, lives, frozen = Freezes(60.0), server("lives", 1), server("frozen", 2)
        named = []
        for number in range(30):
            waiting = {"lives": 500 if number % 5 else 100, "frozen": 100 * number + 1}
            named += [
                (one.id, number * LOOK_S)
                for one in freezes.look([lives, frozen], waiting, {}, number * LOOK_S).frozen
            ]
        self.assertEqual(named[0], ("frozen", 60.0))
        self.assertEqual({name for name, _ in named}, {"frozen"})

    def test_a_long_hitch_is_forgiven(self) -> None:
        freezes, one = Freezes(60.0), server("a", 1)
        for at in range(0, 60, 5):
            self.assertEqual(freezes.look([one], {"a": at + 1}, {}, at), Look([], []))
        self.assertEqual(freezes.look([one], {}, {}, 60.0), Look([], []))
        self.assertEqual(freezes.look([one], {"a": 10}, {}, 61.0), Look([], []))

    @proves("deploy: a game server whose players are heard is not frozen")
    def test_whose_players_are_heard_is_left_alone_until_they_were_silent_as_long(self) -> None:
        freezes, one = Freezes(60.0), server("a", 1)
        ended, spared = [], []
        for at in range(0, 200, 5):
            heard = {"a": min(at, 100.0)}  # their last heartbeat comes at 100
            found = freezes.look([one], {"a": at + 1}, heard, at)
            ended += [at for _ in found.frozen]
            spared += [at for _ in found.spared]
        self.assertEqual((spared, ended[0]), ([60], 160))
        freezes = Freezes(60.0)
        for at in range(0, 100, 5):  # heard of long before it froze: that is no sign of life now
            if freezes.look([one], {"a": at + 1}, {"a": -90.0}, at).frozen:
                break
        self.assertEqual(at, 60)

    def test_only_its_own_sockets_where_players_come_count(self) -> None:
        city, hunt, hidden = server("city", 8777), server("hunt", 8775), server("hidden", 8774)
        owned = {"city": {1, 2, 3, 4, 5, 6}, "hunt": {9}, "hidden": None}
        loopback6 = "00000000000000000000000001000000"
        mapped = "0000000000000000FFFF00000A00000A"
        sockets = [
            UdpSocket("00000000", 8777, 1, 1),
            UdpSocket("0" * 32, 8777, 10, 2),
            UdpSocket("0100007F", 8777, 100, 3),  # 127.0.0.1
            UdpSocket(mapped, 8777, 1_000, 4),
            UdpSocket(loopback6, 8777, 10_000, 5),  # no player comes there
            UdpSocket("0200007F", 8777, 10_000, 6),
            UdpSocket("x", 8777, 10_000, 6),
            UdpSocket("00000000", 8777, 10_000, 7),  # another program's
            UdpSocket("00000000", 8776, 10_000, 1),
            UdpSocket("00000000", 8775, 0, 9),
            UdpSocket("00000000", 8774, 10_000, 8),
        ]
        found = unread(sockets, [city, hunt, hidden], lambda one: owned[one.id])
        self.assertEqual(found, {"city": 1_111})

    @given(st.text())
    def test_a_strange_table_is_no_error(self, text: str) -> None:
        unread(udp_sockets([text]), [server("a", 8777)], lambda one: {1})

    def test_the_watch_ends_it_and_pings_all(self) -> None:
        clock, ended, pinged = Clock(), [], []
        fleet = Fleet(8770, 8779)
        one = fleet.servers["a"] = server("a", 8777)
        grows = iter(range(1, 100))
        line = "h\n1: 00000000:2249 0:0 07 0:{:X} 0 0 0 0 5"
        watch = freeze_watch(
            clock,
            Freezes(20.0),
            fleet,
            ended.append,
            lambda one: {5},
            lambda: [line.format(next(grows))],
            pinged.append,
        )
        watch.startService()
        clock.advance(LOOK_S)
        for _ in range(5):  # players on it are heard, and so it is left alone
            fleet.hear(["a", "another"], clock.seconds())
            clock.advance(LOOK_S)
        self.assertEqual((ended, fleet.heard), ([], {"a": 25.0}))
        clock.pump([LOOK_S] * 3)
        self.assertEqual((ended, pinged), ([one], [8777] * 9))
        fleet.ended("a")
        self.assertEqual(fleet.heard, {})
        watch.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])
