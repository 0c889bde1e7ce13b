"""Rising error counts and attacks, detected in the services' metrics."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.host_creation import create_host
from svcserver.kernel import json
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    new_factor,
)
from svcserver.stack.alerts import metrics as module
from svcserver.stack.alerts.metrics import (
    ANSWER_S,
    MetricsPoller,
    errors_in,
    machine_faults,
    refused_in,
)
from svcserver.stack.components import components
from svcserver.stack.workers import spread
from tests.support.game import Game, signing_keys
from tests.support.proves import proves

PAGE = """# HELP svc_gateway_refusals_total x
svc_gateway_refusals_total{reason="host"} %d
svc_gateway_evicted_connections_total 5.0
svc_gateway_refusals_created{reason="host"} 1.79e9
svc_gateway_connections 900.0
svc_gateway_throttled_total{reason="x"} nonsense
"""


class Reply:
    """A reply; its body is read by ``readBody``, which the test replaces."""

    def __init__(self, code: int, body: bytes) -> None:
        self.code, self.body = code, body


class MetricsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = folder = Path(self.enterContext(TemporaryDirectory()))
        (folder / "metagame.env").write_text("PORT=61000\nBIND_HOST=0.0.0.0\n")
        (folder / "gateway.env").write_text("METRICS_PORT=9100\n")
        (folder / "owner.key").write_text("UUK_x\n")
        self.clock, self.watch = Clock(), mock.Mock()
        self.answers: dict[str, Any] = {}
        self.keys: list[Any] = []
        self.patch(module, "readBody", lambda reply: succeed(reply.body))
        self.poller = MetricsPoller(self.clock, self, components(folder), self.watch)

    def request(self, method: bytes, url: bytes, headers: Any) -> Deferred[Any]:
        self.keys.append(headers.getRawHeaders("x-svc-user-api-key"))
        reply = self.answers.get(url.decode())
        if isinstance(reply, Deferred):
            return reply
        return succeed(reply) if reply else fail(ConnectionRefusedError())

    def reports(self) -> list[tuple[str, str, bool]]:
        self.watch.report.reset_mock()
        looked = self.poller.poll()
        self.clock.advance(ANSWER_S), self.clock.advance(ANSWER_S)
        self.successResultOf(looked)
        calls = [call.args for call in self.watch.report.call_args_list]
        return [(what.value, name, wrong is not None) for what, name, wrong, _ in calls]

    @proves("alerts: errors rising, under attack")
    def test_failed_and_refused_requests_are_reported(self) -> None:
        health = {"requests": {"completed": 100, "serverErrors": 4}}
        url = "http://127.0.0.1:61000/svc/api/BackendHealth"
        self.answers[url] = Reply(200, json.dump(health))
        self.answers["http://127.0.0.1:9100/metrics"] = Reply(200, (PAGE % 1_000_000).encode())
        quiet = [("errors", "metagame", False), ("attack", "gateway", False)]
        self.assertEqual(self.reports(), quiet)
        health["requests"]["serverErrors"] = 5
        self.answers[url] = Reply(200, json.dump(health))
        self.answers["http://127.0.0.1:9100/metrics"] = Reply(200, (PAGE % 1_000_600).encode())
        loud = [("errors", "metagame", True), ("attack", "gateway", True)]
        self.assertEqual(self.reports(), loud)
        self.answers["http://127.0.0.1:9100/metrics"] = Reply(200, (PAGE % 3).encode())  # restarted
        self.assertEqual(self.reports()[1], quiet[1])
        self.assertEqual(self.keys[:2], [["UUK_x"], None])  # no other service gets the key

    @proves("svcctl: as the owner, whatever opens the dashboard to people")
    def test_errors_are_read_despite_the_owners_second_factor(self) -> None:
        private, game = signing_keys()[0], Game(self, BACKEND_HEALTH="1")
        olga = game.player("Olga", admin=True)
        ways = DashboardAccess(olga.id, fingerprint("UUK_other"), new_factor())
        game.ledger.run(lambda tx: SqlDashboardAccess(tx).put(ways))
        (self.folder / "owner.key").write_text(olga.key)
        self.patch(module, "epoch", game.clock.seconds)
        warned = []
        self.patch(module.log, "warn", lambda *args, **more: warned.append(more["url"]))

        def ask(method: bytes, url: bytes, headers: Any) -> Deferred[Any]:
            if not url.endswith(b"/BackendHealth"):
                return fail(ConnectionRefusedError())
            sent = {
                name.decode(): all_of[0].decode() for name, all_of in headers.getAllRawHeaders()
            }
            page = game.browse(method.decode(), "/svc/api/BackendHealth", headers=sent)
            return succeed(Reply(page.status, page.body))

        self.patch(self.poller, "agent", mock.Mock(request=ask))
        self.assertEqual(
            (self.reports(), self.reports(), len(warned)), ([], [], 1)
        )  # the poller sends only the key
        with (self.folder / "metagame.env").open("a") as file:
            file.write(f"{SIGNING_KEY}={private}\n")
        self.assertEqual(self.reports(), [("errors", "metagame", False)])

    def test_each_worker_is_polled_at_its_own_ports(self) -> None:
        health = {"requests": {"completed": 100, "serverErrors": 0}}
        with (self.folder / "metagame.env").open("a") as file:
            file.write("METRICS_PORT=9200\nDATABASE_URL=postgresql://a/b\nLIVE_URL=valkey://a:1\n")
        self.poller.components = spread(components(self.folder), 3, 61100)
        for port in (61100, 61103, 61106):
            url = f"http://127.0.0.1:{port}/svc/api/BackendHealth"
            self.answers[url] = Reply(200, json.dump(health))
        for port in (9200, 61105, 61108):
            self.answers[f"http://127.0.0.1:{port}/metrics"] = Reply(200, (PAGE % 7).encode())
        workers = [f"metagame-{number}" for number in (1, 2, 3)]
        every = {(what, name, False) for what in ("errors", "attack") for name in workers}
        self.assertEqual(set(self.reports()), every)
        self.answers["http://127.0.0.1:61108/metrics"] = Reply(200, (PAGE % 607).encode())
        health["requests"]["serverErrors"] = 50
        self.answers["http://127.0.0.1:61103/svc/api/BackendHealth"] = Reply(200, json.dump(health))
        loud = {(what, name) for what, name, wrong in self.reports() if wrong}
        self.assertEqual(loud, {("errors", "metagame-2"), ("attack", "metagame-3")})

    def test_component_that_is_a_new_process_has_restarted(self) -> None:
        ended: list[str] = []
        began_at: list[float] = []
        self.poller.on_restart = ended.append
        self.poller.on_process = lambda name, since: began_at.append(since)
        url = "http://127.0.0.1:9100/metrics"
        for began in ("1.79e+09", "1.79e+09", "1.790000001e+09", "", "1.790000002e+09"):
            page = PAGE % 7 + (f"process_start_time_seconds {began}\n" if began else "")
            self.answers[url] = Reply(200, page.encode())
            self.reports()
        self.assertEqual(ended, ["gateway", "gateway"])
        self.assertEqual(began_at, [1.79e9, 1.79e9 + 1, 1.79e9 + 2])

    def test_open_files_and_their_limit_are_noted(self) -> None:
        self.watch.open_files = {}
        url = "http://127.0.0.1:9100/metrics"
        for files, most in (("14.0", "1024.0"), ("15.0", "+Inf"), ("many", "1024.0")):
            page = f"process_max_fds {most}\nprocess_open_fds {files}\n"
            self.answers[url] = Reply(200, page.encode())
            self.reports()
            self.assertEqual(self.watch.open_files, {"gateway": (14, 1024)})

    @proves("alerts: errors rising, under attack")
    def test_attack_is_found_at_any_polling_interval(self) -> None:
        self.poller.every_s = 5.0
        url = "http://127.0.0.1:9100/metrics"
        self.answers[url] = Reply(200, (PAGE % 100).encode())
        self.reports()
        self.answers[url] = Reply(200, (PAGE % 149).encode())
        self.assertEqual(self.reports(), [("attack", "gateway", False)])
        self.answers[url] = Reply(200, (PAGE % 199).encode())
        self.assertEqual(self.reports(), [("attack", "gateway", True)])

    def test_host_from_init_shows_the_metrics_that_alerts_read(self) -> None:
        folder = self.folder / "new"
        create_host(folder, "127.0.0.1", "Olga")
        self.poller.components = components(folder)
        names = ("metagame", "deploy", "content", "allowlist", "gateway")
        for name in names:
            port = parse_env_file((folder / f"{name}.env").read_text())["METRICS_PORT"]
            self.answers[f"http://127.0.0.1:{port}/metrics"] = Reply(200, (PAGE % 7).encode())
        self.assertEqual(set(self.reports()), {("attack", name, False) for name in names})
        self.assertEqual(len({*self.answers}), len(names))

    def test_lost_machines_and_agents_that_are_away_are_reported(self) -> None:
        (self.folder / "deploy.env").write_text("GAMESERVER_ENGINE=swarm\n")
        url = "http://127.0.0.1:61000/svc/api/DashboardMachines"
        second = {"name": "second", "address": "10.0.0.2", "state": "ready", "agent": "away"}
        own = {**second, "name": "first", "agent": ""}

        def faults(*machines: Any) -> set[tuple[str, str]]:
            self.answers[url] = Reply(200, json.dump({"machines": machines}))
            return {(what, name) for what, name, wrong in self.reports() if wrong}

        unknown = {**second, "state": "unknown"}
        self.assertEqual(faults(own, unknown), set())
        self.assertEqual(faults(own, second), set())  # the machine may only be restarting
        self.assertEqual(faults(own, second), {("agent", "second (10.0.0.2)")})
        down = {**second, "state": "down"}
        self.assertEqual(faults(own, down), {("node", "second (10.0.0.2)")})
        self.assertEqual(faults(down, second), {("node", "second (10.0.0.2)")})  # alike
        faults(unknown)  # the deploy server has lost Docker: no fault ends
        self.assertNotIn("node", [call.args[0].value for call in self.watch.report.call_args_list])
        self.assertEqual(faults(own), set())  # the machine was removed from the swarm
        names = [call.args[1] for call in self.watch.report.call_args_list]
        self.assertIn("second (10.0.0.2)", names)
        self.assertEqual(faults({**own, "state": "draining"}), set())
        for odd in (None, [], {"machines": 3}):
            self.assertEqual(machine_faults(odd), {})

    def test_launches_without_memory_are_reported(self) -> None:
        url, faults = "http://127.0.0.1:9100/metrics", []
        for total in (3, 3, 5, 5, 1):
            page = PAGE % 7 + f"svc_deploy_memory_shortages_total {total}.0\n"
            self.answers[url] = Reply(200, page.encode())
            faults.append(("memory", "gateway", True) in self.reports())
        self.assertEqual(faults, [False, False, True, False, False])

    def test_silent_or_odd_services_report_nothing(self) -> None:
        self.assertEqual(self.reports(), [])
        self.answers["http://127.0.0.1:9100/metrics"] = Deferred(lambda _: None)
        self.answers["http://127.0.0.1:61000/svc/api/BackendHealth"] = Reply(404, b"")
        self.assertEqual(self.reports(), [])
        for odd in (None, [], {"requests": 3}, {"requests": {"completed": "x"}}):
            self.assertIsNone(errors_in(odd))
        self.assertEqual(refused_in(PAGE % 7), 12.0)
