"""The setting ``WORKERS``: the workers' ports, the gateway's URLs, and what workers must share."""

from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.settings import BadSetting
from svcserver.stack.child import PREPARED
from svcserver.stack.children import READY_S, Children
from svcserver.stack.components import Component, components
from svcserver.stack.service import Options
from svcserver.stack.workers import spread
from tests.ctl.command import nowhere
from tests.stack.spawner import Spawned, Spawner

SHARED = "DATABASE_URL=postgresql://h/d\nLIVE_URL=valkey://h\n"


class WorkerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = nowhere(self)
        self.folder.mkdir(parents=True)
        for name in ("metagame", "gateway", "content"):
            (self.folder / f"{name}.env").write_text("")

    def spread(self, count: int, metagame: str = SHARED, first: int = 7000) -> list[Component]:
        (self.folder / "metagame.env").write_text(metagame)
        return spread(components(self.folder), count, first)

    def test_each_worker_has_ports_and_the_gateway_knows_them_all(self) -> None:
        workers = self.spread(3, SHARED + "PORT=5000\nMETRICS_PORT=5009\n")
        names = [component.name for component in workers]
        self.assertEqual(names, ["metagame-1", "metagame-2", "metagame-3", "content", "gateway"])
        self.assertEqual(
            [dict(component.extra) for component in workers[:3]],
            [
                {"PORT": "7000", "SHARED_PORT": "5000"},
                {"PORT": "7003", "SHARED_PORT": "5000"}
                | {"CHAT_PORT": "7004", "METRICS_PORT": "7005"},
                {"PORT": "7006", "SHARED_PORT": "5000"}
                | {"CHAT_PORT": "7007", "METRICS_PORT": "7008"},
            ],
        )
        self.assertEqual(
            dict(workers[-1].extra),
            {
                "GATEWAY_METAGAME_URL": "http://127.0.0.1:7000,http://127.0.0.1:7003"
                ",http://127.0.0.1:7006",
                "GATEWAY_WS_URL": "http://127.0.0.1:61099,http://127.0.0.1:7004"
                ",http://127.0.0.1:7007",
            },
        )
        self.assertIn("svc-metagame", workers[1].command)

    def test_single_worker_changes_nothing(self) -> None:
        components_spread = self.spread(1, "")
        self.assertEqual(components_spread, components(self.folder))

    def test_settings_that_workers_cannot_share_are_refused(self) -> None:
        for text, word in (
            ("", "DATABASE_URL"),
            ("DATABASE_URL=sqlite:///x.db\nLIVE_URL=valkey://h\n", "DATABASE_URL"),
            ("DATABASE_URL=postgresql://h/d\n", "LIVE_URL"),
            ("DATABASE_URL=postgresql://h/d\nLIVE_URL=memory:\n", "LIVE_URL"),
            (SHARED + "PORT=x\n", "PORT"),
        ):
            why = str(self.assertRaises(BadSetting, self.spread, 2, text))
            self.assertIn(word, why)
            self.assertNotIn("\n", why)
        self.assertIn(
            "WORKER_PORTS", str(self.assertRaises(BadSetting, self.spread, 9, first=65530))
        )

    def test_number_of_workers_is_read_from_the_hosts_file(self) -> None:
        (self.folder / "metagame.env").write_text(SHARED)
        (self.folder / "stack.env").write_text("WORKERS=2\n")
        options = Options()
        options.parseOptions(["--config", str(self.folder)])
        self.assertEqual(options.components[1].name, "metagame-2")
        (self.folder / "metagame.env").write_text("")
        why = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(self.folder)])
        self.assertIn("WORKERS=2: DATABASE_URL", str(why))


class RollingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        names = ("metagame-1", "metagame-2", "deploy", "content", "gateway")
        wanted = [
            Component(name, Path(f"/host/{name}.env"), name.partition("-")[0]) for name in names
        ]
        self.children = Children(self.reactor, wanted, lambda name, line: None, {}, "/host")
        self.children.startService()
        for at, name in enumerate(names):
            self.reactor.spawned[at].says(f"{name} ready")

    def last(self) -> Spawned:
        self.reactor.advance(0)
        return self.reactor.spawned[-1]

    def ready(self) -> None:
        """Let the newest process report that it is prepared to take over."""
        self.reactor.advance(0)
        self.assertEqual(self.reactor.spawned[-1].arguments[3], PREPARED)
        self.reactor.spawned[-1].says(PREPARED)

    def roll(self) -> Deferred[bool]:
        return Deferred.fromCoroutine(self.children.roll())

    def test_rolling_restart_replaces_workers_one_by_one(self) -> None:
        over = self.roll()
        first, second, deploy, content, gateway = self.reactor.spawned[:5]
        self.assertEqual(first.signals, [])  # the worker serves until another worker can take over
        self.ready()
        self.assertEqual((first.signals, second.signals), (["TERM"], []))
        self.assertEqual((self.last().name, self.last().written), ("metagame-1", b"\n"))
        self.assertEqual(len(self.reactor.spawned), 6)
        self.last().says("metagame ready")
        self.assertEqual(second.signals, [])
        self.ready()
        self.assertEqual((second.signals, deploy.signals), (["TERM"], []))
        self.last().says("metagame ready")
        self.ready()
        self.assertEqual((deploy.signals, content.signals), (["HUP"], []))  # its hunts go on
        self.last().says("deploy ready")
        self.ready()
        self.last().says("content ready")
        self.assertTrue(self.successResultOf(over))
        self.assertEqual(gateway.signals, [])
        self.successResultOf(self.children.stopService())
        self.reactor.advance(120)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_rolling_restart_stops_if_a_worker_does_not_come_back(self) -> None:
        over = self.roll()
        self.ready()
        self.last()
        self.reactor.advance(READY_S + self.children.killTime)
        self.assertFalse(self.successResultOf(over))
        self.assertEqual(self.reactor.spawned[1].signals, [])
        again = self.roll()
        self.assertNoResult(again)

    def test_running_worker_stays_if_its_successor_does_not_start(self) -> None:
        over = self.roll()
        self.last().says("svc-metagame: PORT must be a whole number")
        self.last().ends(1)
        self.assertFalse(self.successResultOf(over))
        self.assertEqual(self.reactor.spawned[0].signals, [])
        over = self.roll()
        slow = self.last()
        self.reactor.advance(READY_S)
        self.assertFalse(self.successResultOf(over))
        self.assertEqual((slow.signals, self.reactor.spawned[0].signals), (["KILL"], []))
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_prepared_worker_that_ended_is_started_the_usual_way(self) -> None:
        self.reactor.spawned[0].obedient = False
        over = self.roll()
        self.ready()
        self.last().ends(1)
        self.reactor.spawned[0].ends()
        self.assertNotIn(PREPARED, self.last().arguments)
        self.last().says("metagame ready")
        self.assertNoResult(over)

    def test_stop_ends_the_waiting_worker(self) -> None:
        over = self.roll()
        waits = self.last()
        self.successResultOf(self.children.stopService())
        self.assertEqual((waits.signals, self.successResultOf(over)), (["KILL"], False))
        self.reactor.advance(120)
        self.assertEqual(self.reactor.getDelayedCalls(), [])
