"""Maintenance mode: the switch, the state, and the action that follows once no player is online."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError as NobodyListens
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.transaction import transact
from svcserver.kernel import stack_request
from svcserver.kernel.recent import RECENT
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.maintenance.acts import (
    ACTING_S,
    EMPTY_S,
    Maintenance,
    maintenance_watch,
)
from svcserver.metagame.owner.maintenance.store import SqlMaintenance
from svcserver.metagame.owner.maintenance.wire import HELPER_FAILS, show_machine, show_servers
from svcserver.metagame.play.drain import Drain, Then
from svcserver.metagame.play.nodes.reports import AgentSeen
from tests.metagame.play.matchmaking.base import Reply
from tests.support.browser import Page
from tests.support.game import START, Game
from tests.support.isolates import isolates
from tests.support.proves import proves
from tests.support.real_ledger import TwoLedgers

PATH = "/svc/api/DashboardDrain"
GAME_SERVER = "/svc/api/DashboardGameServer"


class GameServers:
    """A fake of treq that returns the deploy server's list of game servers, or no reply."""

    def __init__(self) -> None:
        self.kinds: list[str] | None = ["city"]
        self.requests: list[Any] = []
        self.answer: Reply | Exception = Reply(200, {"id": "new"})
        self.on_request: Callable[[], None] = lambda: None

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        path = url.removeprefix("http://127.0.0.1:61001")
        if path != "/gameservers":
            self.requests.append((method, path, sent.get("json")))
            self.on_request()
            return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)
        assert (method, url) == ("GET", "http://127.0.0.1:61001/gameservers")
        if self.kinds is None:
            return fail(ConnectionRefusedError())
        records = [
            {"id": kind, "map": kind, "kind": kind, "expectedPlayers": [], "port": 8000}
            for kind in self.kinds
        ]
        return succeed(Reply(200, {"servers": records}))


class MaintenanceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.deploy = GameServers()
        self.game = Game(self, http=self.deploy)
        self.olga = self.game.player("Olga", admin=True)
        self.made = self.game.parts.desk.maintenance
        self.made.folder = self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = Clock()
        self.watch = maintenance_watch(self.made, self.clock)
        self.watch.startService()
        self.addCleanup(self.watch.stopService)

    def stack_runs(self) -> None:
        recent = self.folder / RECENT
        recent.write_text("[metagame] ready\n")
        os.utime(recent, (START, START))

    def switch(self, on: bool = True, key: str = "", **more: str) -> Page:
        return self.game.browse("POST", PATH, json={"On": on, **more}, key=key or self.olga.key)

    def standing(self) -> Any:
        return self.game.browse("GET", PATH, key=self.olga.key).json

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.game.clock.advance(1)
            self.clock.advance(1)

    def requested_action(self) -> str | None:
        return stack_request.take(self.folder, self.game.clock.seconds())

    @proves("POST DashboardDrain", "GET DashboardDrain")
    def test_switching_maintenance_mode_is_recorded_in_the_audit_log(self) -> None:
        self.assertEqual(
            self.standing(),
            {"drain": None, "hunts": 0, "playersOnline": 0, "empty": True, "stack": False},
        )
        page = self.switch(Reason="new version")
        self.assertEqual(page.json["drain"]["by"], "Olga")
        self.assertEqual(page.json["drain"]["reason"], "new version")
        self.deploy.kinds = ["city", "hunt", "dojo"]
        self.assertEqual((self.standing()["hunts"], self.standing()["empty"]), (1, False))
        self.assertIsNone(self.switch(on=False).json["drain"])
        rows = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"]
        self.assertEqual([row["action"] for row in rows], ["drain off", "drain on"])
        self.assertEqual(rows[1]["reason"], "new version")

    @proves("maintenance mode: once the server is empty the stack stops or restarts")
    def test_the_stack_is_asked_once_the_last_hunt_has_ended(self) -> None:
        self.stack_runs()
        self.deploy.kinds = ["city", "hunt"]
        self.assertEqual(self.switch(Then="restart").status, 200)
        self.wait(60)
        self.assertIsNone(self.requested_action())
        self.deploy.kinds = None  # no answer: the number of hunts is unknown
        self.wait(60)
        self.assertIsNone(self.requested_action())
        self.deploy.kinds = ["city"]
        self.wait(int(EMPTY_S) - 1)
        self.assertIsNone(self.requested_action())
        self.wait(4)
        self.assertEqual(self.standing()["drain"]["then"], "restarting")
        self.assertEqual(self.requested_action(), "restart")
        self.wait(60)
        self.assertIsNone(self.requested_action())

    @proves("maintenance mode: once the server is empty the stack stops or restarts")
    def test_no_hunt_begins_until_the_stack_has_acted(self) -> None:
        self.stack_runs()
        ann = self.game.player("Ann_1")
        self.switch(Then="restart")
        for _ in range(60):
            self.wait(1)
            self.assertEqual(self.joins(self.game, ann.token), 400)
        for page in (self.switch(on=False), self.switch(Then="stop")):
            self.assertEqual((page.status, page.json["error"]), (409, "acting"))
        died = self.again()  # it dies before the stack has read the request
        self.assertEqual(self.joins(died, ann.token), 400)
        self.assertEqual(self.requested_action(), "restart")
        fresh = self.again()
        self.assertIsNone(fresh.browse("GET", PATH, key=self.olga.key).json["drain"])
        self.assertEqual(self.joins(fresh, ann.token), 200)

    def test_hunts_are_allowed_again_if_the_stack_does_not_act(self) -> None:
        self.stack_runs()
        self.switch(Then="stop")
        self.wait(int(EMPTY_S + ACTING_S) - 4)
        self.assertEqual(self.standing()["drain"]["then"], "stopping")
        self.wait(10)
        self.assertIsNone(self.standing()["drain"])
        self.assertEqual(len(self.flushLoggedErrors()), 0)

    def test_hunts_are_allowed_again_if_the_stack_cannot_be_asked(self) -> None:
        self.stack_runs()
        self.switch(Then="stop")
        self.made.folder = self.folder / RECENT  # no folder at all
        self.wait(30)
        self.assertIsNone(self.standing()["drain"])

    def joins(self, game: Game, token: str) -> int:
        request = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "Hunt_B"}
        return game.browse("POST", "/candidate/join", json=request, token=token).status

    @proves("maintenance mode outlives a crash")
    def test_maintenance_mode_survives_a_restart_until_it_is_ended(self) -> None:
        self.deploy.kinds = ["city", "hunt"]
        self.switch(Reason="new disk")
        before = self.standing()["drain"]
        ann = self.game.player("Ann_1")
        fresh = self.again()
        self.assertEqual(fresh.browse("GET", PATH, key=self.olga.key).json["drain"], before)
        self.assertEqual(self.joins(fresh, ann.token), 400)
        fresh.browse("POST", PATH, json={"On": False}, key=self.olga.key)
        self.assertIsNone(self.again().browse("GET", PATH, key=self.olga.key).json["drain"])

    def again(self) -> Game:
        """Return the same host after a crash: a new board on the same database."""
        fresh = Game(self, http=self.deploy, ledger=self.game.ledger)
        fresh.parts.desk.maintenance.folder = self.folder
        watch = maintenance_watch(fresh.parts.desk.maintenance, Clock())
        watch.startService()
        self.addCleanup(watch.stopService)
        return fresh

    def test_a_switch_during_a_database_read_is_kept(self) -> None:
        ledger, made = self.game.parts.audit.ledger, self.made
        requests: list[Deferred[Any]] = []

        class Slow:
            def read_snapshot(self, work: Any) -> Deferred[Any]:
                requests.append(Deferred())
                return requests[-1]

            write = staticmethod(ledger.write)

        made.audit = Audit(Slow(), made.wall_clock)  # type: ignore[arg-type]
        self.wait(2)
        self.switch()
        requests[0].callback(None)  # as it was before
        self.assertIsNotNone(self.standing()["drain"])

    def test_only_one_of_two_workers_requests_the_restart(self) -> None:
        self.stack_runs()
        self.switch(Then="restart")
        second_worker = Game(self, http=self.deploy, ledger=self.game.ledger).parts.desk.maintenance
        second_worker.folder = self.folder
        second = Clock()
        watch = maintenance_watch(second_worker, second)
        watch.startService()
        self.addCleanup(watch.stopService)
        self.wait(30)
        self.assertEqual(self.requested_action(), "restart")
        second.advance(2)
        self.assertIsNone(self.requested_action())
        self.assertEqual(self.standing()["drain"]["then"], "restarting")

    def test_a_stop_set_to_wait_comes_when_nobody_is_online(self) -> None:
        self.stack_runs()
        ann = self.game.player("Ann_1")
        beat = {"map": "cora_jamima", "state": "island"}
        self.game.browse("POST", "/heartbeat", json=beat, token=ann.token)
        self.switch(Then="stop", Until="nobody")
        self.wait(60)
        self.assertIsNone(self.requested_action())
        self.wait(60)  # the last heartbeat counts for 90 s
        self.assertEqual(self.requested_action(), "stop")

    def test_ending_maintenance_mode_in_time_cancels_the_restart(self) -> None:
        self.stack_runs()
        self.switch(Then="restart")
        self.wait(5)
        self.switch(on=False)
        self.wait(60)
        self.assertIsNone(self.requested_action())

    def test_without_a_stack_stop_and_restart_are_refused(self) -> None:
        page = self.switch(Then="restart")
        self.assertEqual((page.status, page.json["error"]), (409, "no_stack"))
        self.assertIsNone(self.standing()["drain"])
        self.assertEqual(self.switch().status, 200)

    def test_moderators_and_invalid_orders_are_refused(self) -> None:
        moderator = self.game.player("Mo")
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(moderator.id, Role.MODERATOR))
        self.assertEqual(self.switch(key=moderator.key).status, 403)
        page = self.game.browse("GET", PATH, key=moderator.key)
        self.assertEqual(page.status, 200)
        for wrong in ({"Then": "explode"}, {"Then": "stopping"}, {"Until": "never"}):
            self.assertEqual(self.switch(**wrong).status, 400)

    @proves("GET DashboardGameServers", "POST DashboardGameServer", "GET DashboardConsole")
    def test_acts_on_a_game_server_are_recorded(self) -> None:
        def read(route: str) -> Page:
            return self.game.browse("GET", f"/svc/api/{route}", key=self.olga.key)

        def act(**body: str) -> Page:
            path = "/svc/api/DashboardGameServer"
            return self.game.browse("POST", path, json=body, key=self.olga.key)

        [city] = read("DashboardGameServers").json["servers"]
        self.assertEqual((city["id"], city["kind"], city["port"]), ("city", "city", 8000))
        self.assertEqual(act(Act="restart", Id="city").json, {"id": "new"})
        request = {"Act": "restart", "Id": "city", "Kind": ""}
        self.assertEqual(self.deploy.requests, [("POST", "/gameservers/handle", request)])
        rows = read("DashboardAudit").json["rows"]
        for row in rows[:2]:
            self.assertEqual((row["action"], row["target"]), ("restart game server", "city"))
        was = {"kind": "city", "map": city["map"], "port": 8000}
        self.assertEqual((rows[1]["before"], rows[1]["after"]), (was, {"begun": True}))
        self.assertEqual((rows[0]["before"], rows[0]["after"]["kind"]), (was, "city"))
        for order in ({"Act": "start", "Kind": "dojo"}, {"Act": "stop", "Id": "city"}):
            self.assertEqual(act(**order).json, {"id": "new"})
            [newest, *_] = read("DashboardAudit").json["rows"]
            self.assertEqual(newest["action"], f"{order['Act']} game server")
        self.deploy.answer = Reply(409, {"error": "refused", "message": "a hunt is stopped"})
        page = act(Act="restart", Id="city")
        self.assertEqual((page.status, page.json["message"]), (409, "a hunt is stopped"))
        [newest, began, before, *_] = read("DashboardAudit").json["rows"]
        self.assertEqual((began["refused"], began["after"]), (None, {"begun": True}))
        self.assertEqual(
            (newest["action"], newest["target"], newest["refused"], newest["after"]),
            ("restart game server", "city", "a hunt is stopped", None),
        )
        self.assertEqual((before["refused"], before["after"]["id"]), (None, "new"))
        self.assertEqual(act(Act="explode", Id="city").status, 400)
        self.deploy.answer = Reply(200, {"lines": ["one", "two"]})
        self.assertEqual(read("DashboardConsole?Id=a%26b").json, {"lines": ["one", "two"]})
        self.assertEqual(self.deploy.requests[-1][1], "/gameservers/console?id=a%26b")
        self.deploy.kinds = None
        self.assertEqual(read("DashboardGameServers").status, 409)

    @proves("GET DashboardMachines", "POST DashboardGameServer")
    def test_drain_of_a_machine_is_recorded(self) -> None:
        machine: dict[str, Any] = {
            "id": "n1",
            "name": "<b>",
            "address": "10.0.0.1",
            "state": "ready",
            "memoryBytes": 2048,
            "reservedBytes": 1024,
            "hunts": 1,
            "players": 4,
            "version": "20.10.24",
            "room": 0,
        }
        sent = {**machine, "own": False, "reached": None}
        self.deploy.answer = Reply(200, {"machines": [sent, {"id": "damaged"}]})
        page = self.game.browse("GET", "/svc/api/DashboardMachines", key=self.olga.key)
        unknown = {"clockSeconds": None, "hasImage": None}
        ports = "not tried: its agent is away"
        shown = {**machine, "agent": "away", **unknown, "gamePorts": ports}
        self.assertEqual(page.json, {"machines": [shown]})
        self.deploy.answer = Reply(200, {"id": None})
        for act, drains in (("drain", True), ("undrain", False)):
            body = {"Act": act, "Id": "n1"}
            page = self.game.browse("POST", GAME_SERVER, json=body, key=self.olga.key)
            self.assertEqual((page.status, page.json), (200, {"id": None}))
            newest = self.game_server_acts()[0]
            self.assertEqual(newest, ("fleet drain", {"drains": drains}, None))

    def test_helper_of_a_machine_that_fails_is_shown(self) -> None:
        record: dict[str, Any] = dict.fromkeys(("id", "name", "address", "state", "version"), "")
        record |= dict.fromkeys(("memoryBytes", "reservedBytes", "hunts", "players", "room"), 0)
        record |= {"own": False, "reached": None}
        for works, shown in ((False, HELPER_FAILS), (True, "not tried: its firewall admits only")):
            agent = AgentSeen(0, True, helper_works=works)
            entry = show_machine(record, agent, has_helper=True)
            self.assertIn(shown, entry["gamePorts"])

    def game_server_acts(self) -> list[Any]:
        """Return (action, after, refused) for each audit row, newest first."""
        rows = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"]
        return [(row["action"], row["after"], row["refused"]) for row in rows]

    def handle(self) -> Page:
        body = {"Act": "stop", "Id": "city"}
        return self.game.browse("POST", GAME_SERVER, json=body, key=self.olga.key)

    @proves("every act of staff and every refused try is in the audit log")
    def test_an_act_is_recorded_before_the_game_server_is_asked(self) -> None:
        rows: list[Any] = []
        self.deploy.on_request = lambda: rows.extend(self.game_server_acts())
        self.assertEqual(self.handle().status, 200)
        self.assertEqual(rows, [("stop game server", {"begun": True}, None)])
        self.assertEqual(len(self.game_server_acts()), 2)

    @proves("every act of staff and every refused try is in the audit log")
    def test_without_an_answer_the_outcome_is_recorded_as_unknown(self) -> None:
        unsure = ({"outcome": "no answer: it may have been done"}, None)
        for away, status, expected in (
            (TimeoutError(), 409, unsure),
            (Reply(500, "a fault"), 409, unsure),
            (NobodyListens(), 409, (None, "the deploy server does not answer")),
            (Reply(503, {}), 503, (None, "the deploy server answered 503")),
        ):
            self.deploy.answer = away
            self.assertEqual(self.handle().status, status)
            [newest, began, *_] = self.game_server_acts()
            self.assertEqual(newest, ("stop game server", *expected))
            self.assertEqual(began, ("stop game server", {"begun": True}, None))

    @proves("every act of staff and every refused try is in the audit log")
    def test_after_an_internal_error_a_partial_act_is_recorded(self) -> None:
        client, bug = type(self.game.parts.deploy), ZeroDivisionError()
        self.game.described.odd = True
        with mock.patch.object(client, "handle", side_effect=bug):
            self.assertEqual(self.handle().status, 500)
        self.assertTrue(self.flushLoggedErrors(ZeroDivisionError))
        after = {"outcome": "failed: part of it may have been done"}
        self.assertEqual(self.game_server_acts()[0], ("stop game server", after, None))


@pytest.mark.live
class SharedTests(SynchronousTestCase):
    @isolates("owner/maintenance: become")
    def test_only_one_of_two_concurrent_workers_ends_maintenance(self) -> None:
        two, drain = TwoLedgers(self), Drain("Olga", START, Then.RESTART)
        here = Game(self)
        workers = [
            Maintenance(here.board, Audit(ledger, lambda: START), *here_of(here))
            for ledger in two.ledgers
        ]
        for _ in range(20):
            transact(two.engines[0], lambda tx: SqlMaintenance(tx).put(drain))
            ended = [Deferred.fromCoroutine(worker.become(drain, None)) for worker in workers]
            self.assertEqual(sorted(two.wait_for(*ended)), [False, True])
            self.assertIsNone(transact(two.engines[1], lambda tx: SqlMaintenance(tx).get()))


def here_of(game: Game) -> tuple[Any, Any, Any]:
    """Return what a worker has: its deploy client, its online list and a stopped clock."""
    return game.parts.deploy, game.parts.online, lambda: START


class RequestTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_stack_request_is_taken_once_unless_old_or_invalid(self) -> None:
        stack_request.send_request(self.folder, "restart", 1000.0)
        self.assertEqual(stack_request.take(self.folder, 1001.0), "restart")
        self.assertIsNone(stack_request.take(self.folder, 1001.0))
        stack_request.send_request(self.folder, "restart", 1000.0)
        self.assertIsNone(stack_request.take(self.folder, 2000.0))
        file = self.folder / stack_request.REQUEST_FILE
        for odd in (b"", b"{", b"[]", b'{"wish":"explode","at":1000}', b'{"wish":[],"at":"x"}'):
            file.write_bytes(odd)
            self.assertIsNone(stack_request.take(self.folder, 1000.0))
            self.assertFalse(file.exists())


class ListTests(SynchronousTestCase):
    def test_missing_fields_of_a_game_server_are_shown_as_empty(self) -> None:
        [shown] = show_servers([{"id": "a", "map": "m"}])["servers"]
        expected = {"id": "a", "kind": "", "port": 0, "map": "m", "startedAt": None}
        self.assertEqual(shown, expected)
