"""Errors that rise and attacks, by what services say of themselves."""

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
from svcserver.stack.alerts import facts as module
from svcserver.stack.alerts.facts import ANSWER_S, Facts, errors_of, refused_in
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


class Said:
    """An answer; its body is read by ``readBody``, which the test replaces."""

    def __init__(self, code: int, body: bytes) -> None:
        self.code, self.body = code, body


class FactsTests(SynchronousTestCase):
    def setUp(self) -> None:
        scratch = TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = folder = Path(scratch.name)
        (folder / "metagame.env").write_text("PORT=61000\nBIND_HOST=0.0.0.0\n")
        (folder / "gateway.env").write_text("METRICS_PORT=9100\n")
        (folder / "owner.key").write_text("UUK_x\n")
        self.clock, self.watch = Clock(), mock.Mock()
        self.answers: dict[str, Any] = {}
        self.keys: list[Any] = []
        self.patch(module, "readBody", lambda reply: succeed(reply.body))
        self.facts = Facts(self.clock, self, components(folder), self.watch)

    def request(self, method: bytes, url: bytes, headers: Any) -> Deferred[Any]:
        self.keys.append(headers.getRawHeaders("x-svc-user-api-key"))
        found = self.answers.get(url.decode())
        if isinstance(found, Deferred):
            return found
        return succeed(found) if found else fail(ConnectionRefusedError())

    def seen(self) -> list[tuple[str, str, bool]]:
        self.watch.see.reset_mock()
        looked = self.facts.look()
        self.clock.advance(ANSWER_S), self.clock.advance(ANSWER_S)
        self.successResultOf(looked)
        calls = [one.args for one in self.watch.see.call_args_list]
        return [(what.value, name, wrong is not None) for what, name, wrong, _ in calls]

    @proves("alerts: errors rising, under attack")
    def test_what_fails_and_what_is_refused(self) -> None:
        health = {"requests": {"completed": 100, "serverErrors": 4}}
        url = "http://127.0.0.1:61000/svc/api/BackendHealth"
        self.answers[url] = Said(200, json.dump(health))
        self.answers["http://127.0.0.1:9100/metrics"] = Said(200, (PAGE % 1_000_000).encode())
        quiet = [("errors", "metagame", False), ("attack", "gateway", False)]
        self.assertEqual(self.seen(), quiet)
        health["requests"]["serverErrors"] = 5
        self.answers[url] = Said(200, json.dump(health))
        self.answers["http://127.0.0.1:9100/metrics"] = Said(200, (PAGE % 1_000_600).encode())
        loud = [("errors", "metagame", True), ("attack", "gateway", True)]
        self.assertEqual(self.seen(), loud)
        self.answers["http://127.0.0.1:9100/metrics"] = Said(200, (PAGE % 3).encode())  # restarted
        self.assertEqual(self.seen()[1], quiet[1])
        self.assertEqual(self.keys[:2], [["UUK_x"], None])  # nobody else gets the key

    @proves("svcctl: as the owner, whatever opens the dashboard to people")
    def test_errors_are_read_though_the_owner_has_a_second_factor(self) -> None:
        private, game = signing_keys()[0], Game(self, BACKEND_HEALTH="1")
        olga = game.player("Olga", admin=True)
        ways = DashboardAccess(olga.id, fingerprint("UUK_other"), new_factor())
        game.ledger.run(lambda tx: SqlDashboardAccess(tx).put(ways))
        (self.folder / "owner.key").write_text(olga.key)
        self.patch(module, "epoch", game.clock.seconds)
        warned = []
        self.patch(module.log, "warn", lambda *said, **more: warned.append(more["url"]))

        def ask(method: bytes, url: bytes, headers: Any) -> Deferred[Any]:
            if not url.endswith(b"/BackendHealth"):
                return fail(ConnectionRefusedError())
            sent = {
                name.decode(): all_of[0].decode() for name, all_of in headers.getAllRawHeaders()
            }
            page = game.browse(method.decode(), "/svc/api/BackendHealth", headers=sent)
            return succeed(Said(page.status, page.body))

        self.patch(self.facts, "agent", mock.Mock(request=ask))
        self.assertEqual((self.seen(), self.seen(), len(warned)), ([], [], 1))  # by the key alone
        with (self.folder / "metagame.env").open("a") as file:
            file.write(f"{SIGNING_KEY}={private}\n")
        self.assertEqual(self.seen(), [("errors", "metagame", False)])

    def test_every_worker_is_asked_at_its_own_ports(self) -> None:
        health = {"requests": {"completed": 100, "serverErrors": 0}}
        with (self.folder / "metagame.env").open("a") as file:
            file.write("METRICS_PORT=9200\nDATABASE_URL=postgresql://a/b\nLIVE_URL=valkey://a:1\n")
        self.facts.components = spread(components(self.folder), 3, 61100)
        for port in (61100, 61103, 61106):
            url = f"http://127.0.0.1:{port}/svc/api/BackendHealth"
            self.answers[url] = Said(200, json.dump(health))
        for port in (9200, 61105, 61108):
            self.answers[f"http://127.0.0.1:{port}/metrics"] = Said(200, (PAGE % 7).encode())
        workers = [f"metagame-{number}" for number in (1, 2, 3)]
        every = {(what, one, False) for what in ("errors", "attack") for one in workers}
        self.assertEqual(set(self.seen()), every)
        self.answers["http://127.0.0.1:61108/metrics"] = Said(200, (PAGE % 607).encode())
        health["requests"]["serverErrors"] = 50
        self.answers["http://127.0.0.1:61103/svc/api/BackendHealth"] = Said(200, json.dump(health))
        loud = {(what, one) for what, one, wrong in self.seen() if wrong}
        self.assertEqual(loud, {("errors", "metagame-2"), ("attack", "metagame-3")})

    def test_a_component_that_is_another_process_has_ended(self) -> None:
        ended: list[str] = []
        self.facts.when_new = ended.append
        url = "http://127.0.0.1:9100/metrics"
        for began in ("1.79e+09", "1.79e+09", "1.790000001e+09", "", "1.790000002e+09"):
            page = PAGE % 7 + (f"process_start_time_seconds {began}\n" if began else "")
            self.answers[url] = Said(200, page.encode())
            self.seen()
        self.assertEqual(ended, ["gateway", "gateway"])

    @proves("alerts: errors rising, under attack")
    def test_who_asks_more_often_is_told_of_the_same_attack(self) -> None:
        self.facts.every_s = 5.0
        url = "http://127.0.0.1:9100/metrics"
        self.answers[url] = Said(200, (PAGE % 100).encode())
        self.seen()
        self.answers[url] = Said(200, (PAGE % 149).encode())
        self.assertEqual(self.seen(), [("attack", "gateway", False)])
        self.answers[url] = Said(200, (PAGE % 199).encode())
        self.assertEqual(self.seen(), [("attack", "gateway", True)])

    def test_a_host_as_init_writes_it_shows_what_alerts_read(self) -> None:
        folder = self.folder / "new"
        create_host(folder, "127.0.0.1", "Olga")
        self.facts.components = components(folder)
        names = ("metagame", "deploy", "content", "allowlist", "gateway")
        for one in names:
            port = parse_env_file((folder / f"{one}.env").read_text())["METRICS_PORT"]
            self.answers[f"http://127.0.0.1:{port}/metrics"] = Said(200, (PAGE % 7).encode())
        self.assertEqual(set(self.seen()), {("attack", one, False) for one in names})
        self.assertEqual(len({*self.answers}), len(names))

    def test_who_is_silent_or_strange_is_believed_nothing(self) -> None:
        self.assertEqual(self.seen(), [])
        self.answers["http://127.0.0.1:9100/metrics"] = Deferred(lambda _: None)
        self.answers["http://127.0.0.1:61000/svc/api/BackendHealth"] = Said(404, b"")
        self.assertEqual(self.seen(), [])
        for odd in (None, [], {"requests": 3}, {"requests": {"completed": "x"}}):
            self.assertIsNone(errors_of(odd))
        self.assertEqual(refused_in(PAGE % 7), 12.0)
