"""The health history."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.dashboard.history import (
    EVERY_S,
    MAX_SAMPLES,
    HealthHistory,
    health_watch,
)
from svcserver.metagame.owner.dashboard.wire import show_health
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.play.presence.feature import Online
from tests.support.live import TestBoard
from tests.support.proves import proves


class HistoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.history, self.health = HealthHistory(), Health()

    def take(self, now: float) -> None:
        self.history.take(self.health, now, rss_mb=80.5, players=2)

    @proves("GET DashboardEvents")
    def test_a_sample_counts_since_the_previous_sample(self) -> None:
        for status, seconds in ((200, 0.004), (404, 0.004), (500, 9.0)):
            self.health.requests.note(status, seconds, 100.0)
        self.take(105.0)
        self.health.requests.note(200, 0.02, 106.0)
        self.health.requests.note_aborted(106.0)
        self.health.loop.note(0.0204)
        self.take(115.0)
        shown = show_health(self.history.samples, 115.0)
        first, second = shown["samples"]
        self.assertEqual((first["requestsPerSecond"], first["serverErrors"]), (0.6, 1))
        self.assertEqual((first["clientErrors"], first["loopP95Ms"]), (1, None))
        self.assertEqual((first["latencyP50UpperMs"], first["latencyP95UpperMs"]), (5, ">5000"))
        self.assertEqual((second["requestsPerSecond"], second["seconds"]), (0.1, 10.0))
        self.assertEqual((second["latencyP50UpperMs"], second["serverErrors"]), (25, 0))
        self.assertEqual((second["aborted"], second["loopP95Ms"]), (1, 20.4))
        self.assertEqual((second["loopP50Ms"], second["loopMaxMs"]), (20.4, 20.4))
        self.assertEqual((second["rssMB"], second["players"]), (80.5, 2))

    @proves("GET DashboardEvents")
    def test_only_an_hour_is_kept(self) -> None:
        for number in range(MAX_SAMPLES + 3):
            self.take(number * EVERY_S)
        self.assertEqual(
            (len(self.history.samples), self.history.samples[0].at), (MAX_SAMPLES, 15.0)
        )

    def test_a_reader_gets_only_newer_samples(self) -> None:
        for at in (5.0, 10.0, 15.0):
            self.take(at)
        self.assertEqual([sample.at for sample in self.history.after(10.0)], [15.0])
        self.assertEqual(len(self.history.after(0.0)), 3)

    def test_samples_are_taken_until_the_service_stops(self) -> None:
        clock = Clock()
        watch = health_watch(
            clock, self.history, self.health, Online(TestBoard().board), clock.seconds
        )
        watch.startService()
        clock.pump([EVERY_S] * 3)
        self.assertEqual([sample.at for sample in self.history.samples], [5.0, 10.0, 15.0])
        self.assertGreater(self.history.samples[-1].rss_mb or 0, 1)
        watch.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])
