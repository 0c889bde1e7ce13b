"""The activity feed and the live pages."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, cast

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import EngineInfo
from svcserver.board.engine import BoardAway
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.kernel import backups, host_history, host_state
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.host_history import STEP_S, HostHistory
from svcserver.kernel.host_state import HostFault, HostState, MachineSample, ServiceState
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.feed import (
    LINES,
    LOOK,
    MAX_EVENTS,
    Feed,
    FeedLine,
    Snapshot,
    Spot,
    changes,
)
from svcserver.metagame.owner.dashboard.overview import CHECKED_S
from svcserver.metagame.owner.dashboard.routes import EVENTS
from svcserver.metagame.owner.dashboard.wire import HistoryRange
from svcserver.metagame.owner.management.acts import StatusReports
from svcserver.metagame.owner.management.rules import Placed
from svcserver.metagame.play.presence.rules import Place
from svcserver.web.eventstream import EVERY_S
from tests.support.game import Game
from tests.support.proves import proves

CITY, MENU = Spot(Place.CITY), Spot(Place.MENU)
HUNT = Spot(Place.HUNT, "h 7777", "Gnasher")


class ChangesTests(SynchronousTestCase):
    def test_players_in_the_same_hunt_share_one_line(self) -> None:
        before = {"Ada": CITY, "Bo": CITY, "Cleo": CITY}
        after = {"Ada": HUNT, "Bo": HUNT, "Cleo": Spot(Place.HUNT, "h 7778", "Gnasher")}
        wanted = [(["Ada", "Bo"], "began a hunt: Gnasher"), (["Cleo"], "began a hunt: Gnasher")]
        self.assertEqual(changes(before, after), wanted)

    def test_arrivals_and_departures_are_events(self) -> None:
        self.assertEqual(changes({}, {"Ada": MENU}), [(["Ada"], "came online")])
        self.assertEqual(changes({"Ada": CITY}, {}), [(["Ada"], "left")])
        self.assertEqual(changes({"Ada": HUNT}, {"Ada": CITY}), [(["Ada"], "went to the city")])

    def test_an_unchanged_place_is_no_event(self) -> None:
        for spot in (CITY, HUNT, MENU):
            self.assertEqual(changes({"Ada": spot}, {"Ada": spot}), [])
        known_later = Spot(Place.HUNT)
        self.assertEqual(changes({"Ada": HUNT}, {"Ada": known_later}), [])
        self.assertEqual(changes({"Ada": known_later}, {"Ada": HUNT}), [])


class FeedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.feed, self.second_feed = (
            Feed(board) for board in [RehearsedBoard(self.clock.seconds)] * 2
        )

    def newest(self, feed: Feed) -> list[FeedLine]:
        return self.successResultOf(feed.newest())

    def take(self, feed: Feed, at: float, spots: dict[str, Spot]) -> None:
        self.successResultOf(feed.take(at, spots))

    def test_the_first_snapshot_is_no_event_and_lines_are_bounded(self) -> None:
        self.take(self.feed, 1.0, {"Ada": CITY})
        self.assertEqual(self.newest(self.feed), [])
        for number in range(MAX_EVENTS):
            self.take(self.feed, 2.0 + number, {} if number % 2 == 0 else {"Ada": CITY})
            self.take(self.feed, 2.5 + number, {"Bo": CITY})
        lines = self.newest(self.feed)
        self.assertEqual(len(lines), MAX_EVENTS)
        numbers = [line.number for line in lines]
        self.assertEqual(numbers, [*range(numbers[0], numbers[0] - MAX_EVENTS, -1)])

    def test_every_worker_shows_each_event_once(self) -> None:
        looks: list[dict[str, Spot]] = [{}, {"Ada": CITY}, {"Ada": HUNT, "Bo": HUNT}, {"Bo": CITY}]
        for number, spots in enumerate(looks):
            for more, feed in enumerate((self.feed, self.second_feed)):
                self.take(feed, number + more / 2, spots)
        # a report that took long to arrive
        self.take(self.second_feed, 2.25, {"Ada": HUNT, "Bo": HUNT})
        self.take(self.second_feed, 3.5, {"Bo": CITY})
        for feed in (self.feed, self.second_feed):
            self.assertEqual(
                [(line.who, line.what) for line in self.newest(feed)],
                [
                    (("Ada",), "left"),
                    (("Bo",), "went to the city"),
                    (("Ada", "Bo"), "began a hunt: Gnasher"),
                    (("Ada",), "came online"),
                ],
            )

    def test_a_clock_set_back_does_not_end_the_feed(self) -> None:
        self.take(self.feed, 9_000.0, {})
        self.take(self.feed, 5_000.0, {"Ada": CITY})
        self.assertEqual(len(self.newest(self.feed)), 1)

    def test_a_feed_line_about_ten_players_names_only_the_first_four(self) -> None:
        names = [f"P{number}" for number in range(10)]
        self.take(self.feed, 1.0, {})
        self.take(self.feed, 2.0, dict.fromkeys(names, CITY))
        [line] = self.newest(self.feed)
        self.assertEqual((line.who, line.count), (("P0", "P1", "P2", "P3"), 10))

    def test_the_board_stores_feed_and_snapshot_unchanged(self) -> None:
        lines = (FeedLine(1, 2.5, ("Ada",), 1, "left"),)
        self.assertEqual(LINES.decode(LINES.encode(lines)), lines)
        look = Snapshot(2.5, (("Ada", CITY), ("Bo", HUNT)))
        self.assertEqual(LOOK.decode(LOOK.encode(look)), look)

    def test_a_heartbeat_appears_in_the_feed(self) -> None:
        game, clock = Game(self), Clock()
        desk = game.parts.desk
        [feed_look, *_] = desk.watches(clock)
        feed_look.startService()  # type: ignore[no-untyped-call]
        self.addCleanup(feed_look.stopService)
        clock.advance(5)
        ann = game.player("Ann_1")
        beat = {"map": "cora_jamima", "state": "island"}
        game.browse("POST", "/heartbeat", token=ann.token, json=beat)
        game.clock.advance(5)
        clock.advance(5)
        [line] = self.newest(Feed(game.board))
        self.assertEqual((line.who, line.what), (("Ann_1",), "began a hunt"))


class LivePageTests(SynchronousTestCase):
    """The streams of the live pages."""

    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")
        self.olga = self.game.player("Olga", admin=True)
        acts = DashboardActs(self.game.ledger, list)
        desk, reports = self.game.parts.desk, self.reports()
        self.overview = desk.overview(reports)
        self.pages = desk.pages(acts, self.overview, desk.game_servers(reports))

    def reports(self) -> StatusReports:
        parts = self.game.parts
        made = self.game.settings, parts.about, parts.registration, parts.online, parts.directory
        return StatusReports(*made, NoInstances(), self.game.clock.seconds, 1_790_000_000.0)

    def shown(self, page: str) -> Any:
        look = self.pages.reader_for_page(page)
        assert look is not None
        self.game.clock.advance(EVERY_S)
        reply = self.successResultOf(Deferred.fromCoroutine(cast(Any, look())))
        return None if reply is None else json.loads(reply)

    def test_every_page_has_something_to_show(self) -> None:
        self.assertEqual(self.shown("overview")["status"]["playersOnline"], 0)
        self.assertFalse(self.shown("chat")["on"])
        self.assertEqual(self.shown("health")["samples"], [])
        log = {"fresh": True, "lines": [], "alone": True, "part": 1}
        self.assertEqual(self.shown("log"), log)
        self.assertIsNone(self.shown("beat"))
        for page in ("accounts", "moderation", "audit", "invites", "guilds", "alerts"):
            self.assertTrue(self.shown(page)["mark"])
        self.assertIsNone(self.pages.reader_for_page("nowhere"))

    @proves("svcctl backup: a damaged one is noticed")
    def test_the_overview_shows_the_last_proven_backup_and_faults(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        now = self.game.clock.seconds()
        self.look_in(folder)
        none = self.shown("overview")["backup"]
        self.assertEqual(none, {"madeAt": None, "provenAt": None, "wrong": None})
        self.game.clock.advance(3 * 86_400)
        self.assertEqual(self.shown("overview")["backup"]["wrong"], backups.NEVER)
        now = self.game.clock.seconds()
        backup = Backup("/b/one.tar.gz", now, 5, "ab", proven=now)
        backups.write(folder, Backups([backup], now))
        at = self.shown("overview")["backup"]["provenAt"]
        self.assertEqual(
            self.shown("overview")["backup"], {"madeAt": at, "provenAt": at, "wrong": None}
        )
        backups.write(folder, Backups([evolve(backup, fault="it is damaged")], now))
        self.assertEqual(self.shown("overview")["backup"]["wrong"], "one.tar.gz: it is damaged")
        self.game.clock.advance(3 * 86_400)
        backups.write(folder, Backups([backup], now))
        self.assertIn("two days", self.shown("overview")["backup"]["wrong"])

    def look_in(self, folder: Path) -> None:
        self.overview = evolve(self.overview, folder=folder)
        self.pages = evolve(self.pages, overview=self.overview.read_overview)

    @proves("a service that is frozen is down")
    def test_the_overview_shows_services_faults_and_load(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.look_in(folder)
        alone = self.shown("overview")
        self.assertEqual((alone["watched"], alone["machine"], alone["faults"]), (False, None, []))
        metagame, database = [row["name"] for row in alone["services"]][:2]
        self.assertEqual(metagame, "metagame")
        self.assertIn(database, ("SQLite", "PostgreSQL"))
        now = self.game.clock.seconds()
        state = HostState(
            now,
            (ServiceState("gateway", "down", now - 60, 2, "1.2.3"),),
            (HostFault("down", "gateway is down", "See its log lines.", now - 50),),
            (
                MachineSample(now - 60, 10.0, 1, 4, 1, 2, 5, 100),
                MachineSample(now, 20.0, 2, 4, 1, 2, 5, 100),
            ),
        )
        host_state.write(folder, state)
        shown = self.shown("overview")
        gateway = shown["services"][0]
        self.assertEqual((gateway["state"], gateway["restarts"]), ("down", 2))
        self.assertEqual([fault["title"] for fault in shown["faults"]], ["gateway is down"])
        self.assertEqual(shown["machine"]["now"]["memory_used"], 2)
        trend = {"cpu": [10.0], "memory": [25.0], "disk": [50.0], "files": [5.0]}
        self.assertEqual(shown["machine"]["trend"], trend)

    def test_the_overview_counts_the_accounts(self) -> None:
        self.assertEqual(self.shown("overview")["accounts"], 1)
        self.game.player("Ann_1")
        # accounts are counted only now and then
        self.assertEqual(self.shown("overview")["accounts"], 1)
        self.game.clock.advance(CHECKED_S)
        self.assertEqual(self.shown("overview")["accounts"], 2)

    @proves("GET DashboardHistory")
    def test_a_day_or_a_week_of_the_host_is_returned(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.look_in(folder)
        empty = self.overview.history(HistoryRange.DAY)
        self.assertEqual((empty["load"], empty["services"]), ([], []))
        now = int(self.game.clock.seconds())
        history = HostHistory()
        for ago in (2, 1, 0):
            at = (now - 3600 * ago) // STEP_S * STEP_S
            history.add(at, {"cpu": 10.0 * ago}, {"gateway": float(ago != 1)})
        host_history.write(folder, history)
        for scope, step, count, each in (("day", 900, 96, 4), ("week", 3600, 168, 1)):
            reply = self.overview.history(HistoryRange(scope))
            self.assertEqual((reply["range"], reply["stepSeconds"]), (scope, step))
            self.assertLess(now - step, reply["since"] + step * (count - 1))
            [cpu], [gateway] = reply["load"], reply["services"]
            self.assertEqual((cpu["name"], gateway["name"]), ("cpu", "gateway"))
            self.assertEqual(cpu["values"][-2 * each - 1 :: each], [20.0, 10.0, 0.0])
            self.assertEqual(gateway["values"][-2 * each - 1 :: each], [1.0, 0.0, 1.0])
            self.assertEqual(len(gateway["values"]), count)

    @proves("GET DashboardHistory")
    def test_the_route_of_the_history_knows_two_ranges(self) -> None:
        for query, status in (("", 200), ("?range=week", 200), ("?range=hour", 400)):
            page = self.game.browse("GET", f"/svc/api/DashboardHistory{query}", key=self.olga.key)
            self.assertEqual(page.status, status, query)

    def test_the_overview_shows_maintenance_mode(self) -> None:
        self.assertIsNone(self.shown("overview")["maintenance"])
        body = {"On": True, "Reason": "update"}
        self.game.browse("POST", "/svc/api/DashboardDrain", key=self.olga.key, json=body)
        self.assertEqual(self.shown("overview")["maintenance"]["reason"], "update")

    def test_the_overview_survives_the_loss_of_live_state(self) -> None:
        board: Any = self.game.board
        info = EngineInfo("8.1.0", 60)
        self.patch(board, "engine_info", lambda: succeed(info))
        [row] = [row for row in self.shown("overview")["services"] if row["name"] == "Valkey"]
        self.assertEqual((row["state"], row["version"]), ("ready", "8.1.0"))
        self.game.clock.advance(CHECKED_S)

        def away(*args: object, **more: object) -> Deferred[Any]:
            return fail(BoardAway())

        self.patch(board, "engine_info", away)
        self.patch(board, "transact", away)
        shown = self.shown("overview")
        self.assertEqual([fault["title"] for fault in shown["faults"]], ["Valkey does not answer"])
        self.assertEqual((shown["status"], shown["feed"]), (None, None))

    @proves("GET DashboardEvents")
    def test_the_route_needs_a_live_page_and_the_accept_header(self) -> None:
        for query, accept in (
            ("page=overview", "*/*"),
            ("page=nowhere", "text/event-stream"),
            ("", "text/event-stream"),
        ):
            path = f"/svc/api/DashboardEvents?{query}"
            page = self.game.browse("GET", path, key=self.olga.key, headers={"Accept": accept})
            self.assertEqual(page.status, 400, query)

    def test_the_log_is_for_owners(self) -> None:
        hella = self.game.player("Hella")
        body = {"Account": "Hella", "Role": "helper"}
        role = "/svc/api/DashboardRole"
        self.game.browse("POST", role, key=self.olga.key, json=body)
        path = "/svc/api/DashboardEvents?page=log"
        page = self.game.browse("GET", path, key=hella.key, headers={"Accept": EVENTS})
        self.assertEqual(page.status, 403)


class NoInstances:
    """A source without game servers."""

    async def place(self, players: object) -> Placed:
        return Placed([], {})
