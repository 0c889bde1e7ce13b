"""The metrics page on the metagame's METRICS_PORT."""

from treq.testing import StubTreq
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import Counted
from tests.support.game import Game
from tests.support.proves import proves
from tests.support.starting import start


class MetricsTests(SynchronousTestCase):
    def scrape(self, game: Game) -> str:
        reactor = MemoryReactorClock()
        [part, *_] = game.parts.desk.measuring(reactor)

        start(part)
        port, site, _, host = reactor.tcpServers[-1]
        self.assertEqual((host, port), ("127.0.0.1", 61900))
        page = self.successResultOf(StubTreq(site.resource).get("http://127.0.0.1/metrics"))
        return self.successResultOf(page.text())

    @proves("METRICS_PORT of the metagame")
    def test_metrics_are_off_by_default(self) -> None:
        self.assertEqual(list(Game(self).parts.desk.measuring(MemoryReactorClock())), [])

    @proves("METRICS_PORT of the metagame")
    def test_metrics_count_the_players_online(self) -> None:
        game = Game(self, METRICS_PORT="61900")
        game.browse("POST", "/heartbeat", token=game.player("Ann_1").token, json={})
        metrics = self.scrape(game)
        self.assertIn("svc_metagame_players_online 1.0", metrics)
        self.assertNotIn("svc_metagame_requests_total", metrics)

    @proves("METRICS_PORT of the metagame")
    def test_backend_health_adds_request_and_event_loop_metrics(self) -> None:
        game = Game(self, METRICS_PORT="61900", BACKEND_HEALTH="1")
        game.browse("GET", "/nowhere")
        game.browse("GET", "/QoS")
        game.clock.advance(3600)
        game.parts.health.loop.note(0.021)
        metrics = self.scrape(game)
        for line in (
            "svc_metagame_requests_total 2.0",
            "svc_metagame_client_errors_total 1.0",
            "svc_metagame_server_errors_total 0.0",
            "svc_metagame_aborted_total 0.0",
            "svc_metagame_event_loop_p95_ms 21.0",
        ):
            self.assertIn(line, metrics)

    def test_refusals_and_failed_logins_are_counted_by_reason(self) -> None:
        game = Game(self, METRICS_PORT="61900")
        game.browse("GET", "/nowhere")
        game.browse("GET", "/QoS")
        game.parts.counters.add(Counted.FAILED_LOGINS, "key", 3)
        metrics = self.scrape(game)
        self.assertIn('svc_metagame_refusals_total{reason="404"} 1.0', metrics)
        self.assertIn('svc_metagame_failed_logins_total{reason="key"} 3.0', metrics)
        for kind in Counted:
            self.assertIn(f"# HELP svc_metagame_{kind}_total ", metrics)
