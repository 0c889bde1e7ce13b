"""Alerts for the host's faults, sent through each channel and repeated."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time as time_now
from unittest import mock

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.engine import sqlite_url
from svcserver.kernel import alert_channels, backups, host_history, host_state
from svcserver.kernel.alert_channels import MOST_DELIVERIES, AlertChannels
from svcserver.kernel.alert_settings import AlertKind, Channel
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.host_history import STEP_S
from svcserver.kernel.host_state import (
    FRESH_S,
    MOST_INCIDENTS,
    STATE_FILE,
    HostState,
    MachineSample,
)
from svcserver.stack.alerts import disks, sending, watching
from svcserver.stack.alerts.delivering import NotDelivered
from svcserver.stack.alerts.disks import Disk
from svcserver.stack.alerts.machine_load import MachineLoad
from svcserver.stack.alerts.rules import REPEAT_S, Alert
from svcserver.stack.alerts.sending import AGAIN_S, MOST_WAITING, AlertSender, requested_tests
from svcserver.stack.alerts.watching import DOWN_S, LOOP_S, LOOPS, HostWatch
from tests.support.proves import proves

NOW = 1_790_000_000.0
DOWN = Alert(AlertKind.DOWN, "gateway", "gone", NOW)


LATER = NotDelivered("the receiver answered 500", again=True)
NEVER = NotDelivered("the receiver answered 404", again=False)


@define(eq=False)
class FakeClient:
    """A fake ``AlertClient``: the test ends each delivery."""

    deliveries: list[Deferred[None]] = field(factory=list)
    cancelled: int = 0

    def with_resolver(self, reactor: object, host: str) -> FakeClient:
        return self

    def deliver(self, channel: Channel, alert: Alert, number: str) -> Deferred[None]:
        self.deliveries.append(Deferred(self._cancel))
        return self.deliveries[-1]

    def _cancel(self, delivery: Deferred[None]) -> None:
        self.cancelled += 1
        delivery.errback(LATER)


class SendingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        self.reactor, self.couriers = Clock(), FakeClient()
        self.patch(sending, "AlertClient", self.couriers)
        self.sender = AlertSender(self.reactor, self.folder, self.folder)
        self.sender.startService()
        self.channel("phone")

    def channel(self, name: str, more: str = "") -> None:
        path = self.folder / f"alert-{name}.env"
        path.write_text(f"FORM=json\nURL=https://x/y\nSIGNING_SECRET=word\n{more}\n")

    @proves("alerts: retried, and given up at last")
    def test_delivery_is_repeated_and_finally_dropped(self) -> None:
        self.sender.send(DOWN)
        for wait in AGAIN_S:
            self.couriers.deliveries[-1].errback(LATER)
            tries = len(self.couriers.deliveries)
            self.reactor.advance(wait - 1)
            self.assertEqual(len(self.couriers.deliveries), tries)
            self.reactor.advance(1)
        self.couriers.deliveries[-1].errback(LATER)
        self.reactor.advance(90_000)
        self.assertEqual(len(self.couriers.deliveries), 1 + len(AGAIN_S))
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_permanent_failure_is_not_repeated(self) -> None:
        self.sender.send(DOWN)
        self.couriers.deliveries[0].errback(NEVER)
        self.reactor.advance(90_000)
        self.assertEqual(len(self.couriers.deliveries), 1)

    @proves("alerts: a receiver that hangs holds nobody up")
    def test_hanging_receiver_does_not_delay_other_channels(self) -> None:
        self.channel("pager")
        self.sender.send(DOWN)
        hangs, works = self.couriers.deliveries
        works.callback(None)
        for _ in range(2 * MOST_WAITING):  # the list of waiting alerts is bounded
            self.sender.send(DOWN)
            self.couriers.deliveries[-1].callback(None)
        self.assertFalse(hangs.called)
        self.sender.stopService()
        self.assertEqual((self.couriers.cancelled, self.reactor.getDelayedCalls()), (1, []))

    def test_alerts_are_sequential_and_a_removed_channel_gets_none(self) -> None:
        self.sender.send(DOWN)
        self.sender.send(evolve(DOWN, subject="deploy"))
        self.assertEqual(len(self.couriers.deliveries), 1)
        self.couriers.deliveries[0].callback(None)
        self.assertEqual(len(self.couriers.deliveries), 2)
        (self.folder / "alert-phone.env").unlink()
        self.sender.send(DOWN)
        self.reactor.advance(90_000)
        self.assertEqual(len(self.couriers.deliveries), 2)

    @proves("alerts: quiet hours")
    def test_held_alerts_are_sent_when_quiet_hours_end(self) -> None:
        self.channel("phone", "QUIET=00:00-12:00")
        moment = mock.Mock()
        self.patch(sending, "datetime", moment)
        hour = moment.fromtimestamp.return_value.time
        hour.return_value = time(3)
        self.sender.send(DOWN)
        self.sender.check_quiet_hours()
        self.assertEqual(self.couriers.deliveries, [])
        hour.return_value = time(12)
        self.sender.check_quiet_hours()
        self.assertEqual(len(self.couriers.deliveries), 1)


class StateFileTests(SynchronousTestCase):
    """The channels' state file for the dashboard."""

    def setUp(self) -> None:
        scratch = Path(self.enterContext(TemporaryDirectory()))
        self.config, self.data = scratch / "config", scratch / "data"
        self.config.mkdir(), self.data.mkdir()
        self.reactor, self.couriers = Clock(), FakeClient()
        self.patch(sending, "AlertClient", self.couriers)
        self.sender = AlertSender(self.reactor, self.config, self.data)
        self.sender.startService()
        self.trials = requested_tests(self.reactor, self.sender)
        self.trials.startService()
        for name in ("phone", "mail"):
            path = self.config / f"alert-{name}.env"
            lines = "FORM=json\nURL=https://hook.example/secret\nUNSIGNED=1\nQUIET=0:00-23:59\n"
            path.write_text(lines)
        self.patch(sending, "epoch", time_now)

    def noted(self) -> AlertChannels:
        state = alert_channels.read(self.data, time_now())
        assert state is not None
        return state

    def test_result_of_a_requested_test_is_written(self) -> None:
        self.sender.check_quiet_hours()
        self.assertEqual([channel.last for channel in self.noted().all], [None, None])
        alert_channels.request_test(self.data, "phone", time_now())
        self.reactor.advance(2)
        [tried] = self.couriers.deliveries
        tried.errback(LATER)
        mail, phone = self.noted().all
        assert phone.last is not None
        self.assertEqual(phone.last.why, "the receiver answered 500; next attempt after 10 s")
        self.reactor.advance(AGAIN_S[0])
        self.couriers.deliveries[-1].callback(None)
        mail, phone = self.noted().all
        assert phone.last is not None
        self.assertEqual((phone.last.why, mail.last), ("", None))
        text = (self.data / alert_channels.STATE_FILE).read_text()
        self.assertNotIn("secret", text)

    def test_faulty_channel_file_is_named(self) -> None:
        (self.config / "alert-phone.env").write_text("FORM=pigeon\n")
        self.sender.check_quiet_hours()
        self.assertEqual(len(self.noted().wrong), 1)

    def test_channel_without_a_signature_is_used_and_named(self) -> None:
        lines = "FORM=json\nURL=https://hook.example/secret\n"
        (self.config / "alert-phone.env").write_text(lines)
        self.sender.check_quiet_hours()
        self.assertEqual([channel.name for channel in self.noted().all], ["mail", "phone"])
        [wrong] = self.noted().wrong
        self.assertIn("UNSIGNED=1", wrong)
        alert_channels.request_test(self.data, "phone", time_now())
        self.reactor.advance(2)
        self.assertEqual(len(self.couriers.deliveries), 1)

    def test_stop_ends_the_state_and_a_start_keeps_the_history(self) -> None:
        self.sender.check_quiet_hours()
        self.sender.send_test(["phone"])
        self.couriers.deliveries[0].callback(None)
        self.sender.stopService()
        self.assertIsNone(alert_channels.read(self.data, time_now()))
        again = AlertSender(self.reactor, self.config, self.data)
        again.startService()
        again.check_quiet_hours()
        mail, phone = self.noted().all
        self.assertEqual(([entry.why for entry in phone.deliveries], mail.deliveries), ([""], ()))

    def test_history_has_one_entry_for_each_alert_and_is_bounded(self) -> None:
        for _ in range(MOST_DELIVERIES + 2):
            self.sender.send_test(["phone"])
            self.couriers.deliveries[-1].errback(LATER)
            self.reactor.advance(AGAIN_S[0])
            self.couriers.deliveries[-1].callback(None)
        [phone] = [channel for channel in self.noted().all if channel.name == "phone"]
        self.assertEqual([entry.why for entry in phone.deliveries], [""] * MOST_DELIVERIES)

    def test_failure_to_write_the_state_is_survived(self) -> None:
        self.sender.data = self.data / "nowhere"
        self.sender.check_quiet_hours()
        self.sender.data = self.data
        self.sender.check_quiet_hours()
        self.assertEqual(len(self.noted().all), 2)


class WatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        self.ready, self.alerts, self.now = {"metagame", "gateway"}, [], NOW
        names = ("metagame", "gateway")
        self.watch = HostWatch(
            self.folder,
            self.folder,
            names,
            lambda: self.ready,
            self.record,
            lambda: self.now,
            environment={},
        )
        self.full: set[int] = set()
        self.disks: Callable[[Path], int] = lambda _: 1
        self.watch.disk = self.disk

    def changed(self) -> dict[str, object]:
        self.watch.check()
        state = host_state.read(self.folder, self.now)
        assert state is not None
        return dict(state.changed)

    @proves("GET DashboardSettings")
    def test_settings_changed_since_a_service_started_are_listed(self) -> None:
        file, stack = self.folder / "gateway.env", self.folder / "stack.env"
        file.write_text("GATEWAY_PORT=61005\nLOG_LEVEL=info\n")
        stack.write_text("WORKERS=1\nBACKUP_AT=03:00\nFROZEN_SECONDS=90\n")
        self.watch.environment["FROZEN_SECONDS"] = "60"
        for name in ("gateway", "stack", "metagame-2"):
            self.watch.on_start(name, self.now)
        self.assertEqual(self.changed(), {})
        file.write_text("# mine\nGATEWAY_PORT=61006\nLOG_LEVEL=info\nPROXY=1\n")
        stack.write_text("WORKERS=2\nBACKUP_AT=04:00\nFROZEN_SECONDS=80\n")
        names = {"gateway": ("GATEWAY_PORT", "PROXY"), "stack": ("WORKERS",)}
        self.assertEqual(self.changed(), names)
        self.watch.on_start("gateway", self.now)
        self.assertEqual(self.changed(), {"stack": ("WORKERS",)})
        # svc-watch learns of a process later
        now = file.stat().st_mtime
        self.now = now + 60
        self.watch.on_start("gateway", now + 5)
        self.assertEqual(self.changed(), {"stack": ("WORKERS",)})
        self.watch.on_start("gateway", now - 5)
        self.assertEqual(self.changed()["gateway"], None)

    def disk(self, path: Path) -> Disk:
        number = self.disks(path)
        return Disk(number, 1 << 20 if number in self.full else 1 << 40, 1 << 41)

    def record(self, alert: Alert) -> None:
        self.alerts.append((alert.what, alert.subject, alert.over))

    def after(self, seconds: float) -> list[object]:
        self.now += seconds
        self.watch.check()
        alerts, self.alerts = self.alerts, []
        return alerts

    @proves("alerts: down, restarted in a loop, disk low, certificate ending, backup failed")
    def test_component_that_is_down_and_comes_back_is_reported(self) -> None:
        self.assertEqual(self.after(0), [])
        self.ready.discard("gateway")
        self.assertEqual(self.after(1), [])
        self.assertEqual(self.after(DOWN_S), [(AlertKind.DOWN, "gateway", False)])
        self.assertEqual(self.after(60), [])
        self.ready.add("gateway")
        self.assertEqual(self.after(60), [(AlertKind.DOWN, "gateway", True)])

    def state(self) -> HostState:
        state = host_state.read(self.folder, self.now)
        assert state is not None
        return state

    @proves("a service that is frozen is down")
    def test_states_and_faults_are_written_for_the_overview(self) -> None:
        self.watch.on_start("metagame", self.now - 60)
        self.watch.on_start("gateway", self.now - 60)
        self.watch.on_start("gateway", self.now - 30)
        self.after(0)
        metagame, gateway = self.state().services
        self.assertEqual((metagame.state, metagame.restarts), ("ready", 0))
        self.assertEqual((gateway.since, gateway.restarts), (self.now - 30, 1))
        self.assertEqual(gateway.version, watching.installed_version())
        self.ready.discard("gateway")
        self.after(1)
        self.assertEqual((self.state().services[1].state, self.state().faults), ("starting", ()))
        self.after(DOWN_S)
        [fault], since = self.state().faults, self.now
        self.assertEqual(self.state().services[1].state, "down")
        self.assertEqual((fault.kind, fault.title), ("down", "gateway is down"))
        self.after(60)
        self.assertEqual([fault.since for fault in self.state().faults], [since])
        # no process updates the file
        self.assertIsNone(host_state.read(self.folder, self.now + FRESH_S + 1))
        self.ready.add("gateway")
        self.after(1)
        self.assertEqual((self.state().services[1].state, self.state().faults), ("ready", ()))

    def incidents(self) -> list[tuple[str, float, float | None]]:
        return [(each.title, each.since, each.until) for each in self.state().incidents]

    def start_again(self) -> None:
        """Replace the watch, as a restart of the stack does."""
        self.watch = HostWatch(
            self.folder, self.folder, ("metagame", "gateway"), lambda: self.ready, self.record
        )
        self.watch.wall_clock, self.watch.disk = lambda: self.now, self.disk

    @proves("GET DashboardAlerts")
    def test_incident_has_the_times_of_its_alerts(self) -> None:
        self.after(0)
        self.assertEqual(self.incidents(), [])
        self.ready.discard("gateway")
        self.after(0)
        self.after(DOWN_S)
        begin = self.now
        self.assertEqual(self.incidents(), [("gateway is down", begin, None)])
        self.after(REPEAT_S)
        self.ready.add("gateway")
        self.full.add(1)
        self.after(60)
        disk = ("the host's disk is low", self.now, None)
        self.assertEqual(self.incidents(), [disk, ("gateway is down", begin, self.now)])
        self.ready.discard("gateway")
        self.after(0)
        self.after(DOWN_S)
        self.assertEqual(self.incidents()[0], ("gateway is down", self.now, None))

    @proves("GET DashboardAlerts")
    def test_incidents_survive_a_restart_which_ends_them(self) -> None:
        self.after(0)
        self.ready.discard("gateway")
        self.after(0)
        self.after(DOWN_S)
        begin = self.now
        self.start_again()
        self.after(60)
        self.assertEqual(self.incidents(), [("gateway is down", begin, begin)])
        self.after(DOWN_S)
        self.assertEqual(self.incidents()[0], ("gateway is down", self.now, None))
        last = self.now
        self.ready.add("gateway")
        self.start_again()
        self.after(FRESH_S + 1)
        self.assertEqual(
            self.incidents()[:2],
            [("host was not watched", last, self.now), ("gateway is down", last, last)],
        )

    def test_only_the_latest_incidents_are_kept(self) -> None:
        for number in range(MOST_INCIDENTS + 1):
            self.watch.report(AlertKind.NODE, f"machine {number}", "It is lost.", self.now)
        # an incident that was dropped from the list
        self.watch.report(AlertKind.NODE, "machine 0", None, self.now)
        self.after(0)
        titles = [title for title, *_ in self.incidents()]
        self.assertEqual((len(titles), titles[0]), (MOST_INCIDENTS, "machine 50 is lost"))
        self.assertEqual(titles[-1], "machine 1 is lost")

    def test_unreadable_state_counts_as_none(self) -> None:
        for text in ("", "[]", '{"at":1}x', '{"at":1,"services":[{"name":"a"}]}', '{"at":"x"}'):
            (self.folder / STATE_FILE).write_text(text)
            self.assertIsNone(host_state.read(self.folder, 1.0), text)

    def test_trend_of_an_hour_outlives_the_stack(self) -> None:
        (self.folder / "stat").write_text("cpu  10 0 10 70 10 0 0 0 0 0\n")
        (self.folder / "meminfo").write_text("MemTotal: 400 kB\nMemAvailable: 100 kB\n")
        load = MachineLoad(self.folder, self.disk, self.folder)
        load.sample(self.now, {})
        (self.folder / "stat").write_text("cpu  40 0 30 110 20 0 0 0 0 0\n")
        samples = load.sample(self.now + 60, {"gateway": (10, 1000), "deploy": (30, 200)})
        self.assertEqual([sample.cpu_percent for sample in samples], [None, 50.0, 50.0])
        current = samples[-1]
        self.assertEqual((current.memory_used, current.memory_total), (300 << 10, 400 << 10))
        self.assertEqual((current.files, current.most_files), (30, 200))
        self.assertEqual(current.disk_used, 1 << 40)
        again = MachineLoad(self.folder, self.disk, self.folder)
        again.load(samples[:2], self.now + 90)
        self.assertEqual(len(again.sample(self.now + 90, {})), 3)
        for minute in range(2, 100):
            samples = again.sample(self.now + 60 * minute, {})
        self.assertEqual(len(samples), 61)
        late = MachineLoad(self.folder, self.disk, self.folder)
        late.load(samples, self.now + 86_400)
        self.assertEqual(len(late.sample(self.now + 86_400, {})), 2)

    @proves("GET DashboardHistory")
    def test_a_week_of_load_and_outages_outlives_the_stack(self) -> None:
        self.now = NOW // STEP_S * STEP_S
        self.after(0)
        self.ready.discard("gateway")
        self.after(1)  # a start is no outage
        self.after(DOWN_S)
        self.after(15)
        self.assertIsNone(host_history.read(self.folder))
        self.ready.add("gateway")
        self.after(STEP_S)
        self.watch = HostWatch(
            self.folder, self.folder, ("metagame",), lambda: self.ready, self.record
        )
        self.watch.wall_clock, self.watch.disk = lambda: self.now, self.disk
        self.after(3600)
        self.after(STEP_S)
        history = host_history.read(self.folder)
        assert history is not None
        self.assertEqual(history.at, [NOW // STEP_S * STEP_S, (self.now // STEP_S - 1) * STEP_S])
        self.assertEqual(history.services, {"metagame": [1.0, 1.0], "gateway": [0.5, None]})
        self.assertEqual(history.load["disk"], [50.0, 50.0])

    def test_machine_without_proc_has_only_its_disk(self) -> None:
        load = MachineLoad(self.folder, self.disk, self.folder / "none")
        current = load.sample(self.now, {})[-1]
        disk = {"disk_used": 1 << 40, "disk_total": 1 << 41}
        self.assertEqual(current, MachineSample(self.now, **disk))

    def test_repeated_crashes_are_a_loop(self) -> None:
        for _ in range(LOOPS - 1):
            self.watch.on_crash("gateway")
        self.assertEqual(self.after(1), [])
        self.watch.on_crash("gateway")
        self.assertEqual(self.after(1), [(AlertKind.LOOP, "gateway", False)])
        self.assertEqual(self.after(LOOP_S), [(AlertKind.LOOP, "gateway", True)])

    def test_a_disk_that_fills_up_is_reported_at_start_and_end(self) -> None:
        self.full.add(1)
        self.assertEqual(self.after(1), [(AlertKind.DISK, "the host's", False)])
        self.full.clear()
        self.assertEqual(self.after(1), [(AlertKind.DISK, "the host's", True)])

    @proves("alerts: every disk that the host writes to")
    def test_each_low_disk_is_reported_once_with_its_use(self) -> None:
        far = self.folder / "far 100%41"
        written = {
            "content": f"CONTENT_GAME_DIR={far}/game\nCONTENT_MANIFEST=manifest.json\n",
            "metagame": f"DATABASE_URL={sqlite_url(far / 'db/svc.db')}\nLOG_BODIES=1\n",
            "stack": f"BACKUP_DIR={far}/not/yet/there\n",
            "allowlist": f"ALLOWLIST_AUDIT_LOG={far}/log/audit.log\n",
        }
        for name, text in written.items():
            (self.folder / f"{name}.env").write_text(text)
        for name in ("game", "db", "log"):
            (far / name).mkdir(parents=True)
        numbers = {far / "game": 2, far / "db": 3, far / "log": 4, far / "not/yet/there": 5}
        self.disks = lambda path: numbers.get(path, 1)
        self.assertEqual(self.after(1), [])
        for number, subject in enumerate(
            ("the host's", "the game files'", "the database's", "the allowlist's", "the backups'"),
            1,
        ):
            self.full.add(number)
            self.assertEqual(self.after(1), [(AlertKind.DISK, subject, False)])
            self.full.discard(number)
            self.assertEqual(self.after(1), [(AlertKind.DISK, subject, True)])

    def test_missing_folder_is_on_the_disk_of_its_parent(self) -> None:
        disk, above = disks.disk_of(self.folder / "not/yet"), disks.disk_of(self.folder)
        self.assertEqual((disk.number, disk.total), (above.number, above.total))
        self.assertEqual(self.folder.stat().st_dev, disk.number)

    def test_disk_that_cannot_be_checked_is_reported(self) -> None:
        def look(path: Path) -> Disk:
            raise PermissionError(13, "Permission denied", str(path))

        self.watch.disk = look
        alerts = self.after(1)
        self.assertEqual(alerts[0], (AlertKind.DISK, "the host's", False))

    def test_damaged_backup_is_reported(self) -> None:
        backup = Backup("/b/x", NOW, 5, "ab", proven=NOW)
        backups.write(self.folder, Backups([backup], NOW))
        self.assertEqual(self.after(1), [])
        backups.write(self.folder, Backups([evolve(backup, fault="it is damaged")], NOW))
        self.assertEqual(self.after(1), [(AlertKind.BACKUP, "the host's", False)])

    @proves("alerts: no backup was ever made")
    def test_host_without_any_backup_is_reported(self) -> None:
        self.assertEqual(self.after(1), [])
        self.assertEqual(self.after(backups.STALE_S - 10), [])
        self.assertEqual(self.after(20), [(AlertKind.BACKUP, "the host's", False)])

    def test_host_that_needs_no_backups_is_not_reported(self) -> None:
        self.watch.backs_up = False
        self.assertEqual(self.after(1), [])
        self.assertEqual(self.after(2 * backups.STALE_S), [])

    @proves("svcctl backup: one that dies in the middle is noticed")
    def test_killed_backup_is_reported(self) -> None:
        backup = Backup("/b/x", NOW, 5, "ab", proven=NOW)
        with backups.running(self.folder):
            backups.write(self.folder, Backups([backup], NOW, begun=NOW))
            self.assertEqual(self.after(1), [])
        self.assertEqual(self.after(1), [(AlertKind.BACKUP, "the host's", False)])

    def test_certificate_that_expires_soon_is_reported(self) -> None:
        ends = [NOW + 90 * 86_400.0]
        self.patch(watching, "certificate_end", lambda _: ends[0])
        self.assertEqual(self.after(1), [])
        ends[0] = NOW + 20 * 86_400.0
        self.assertEqual(self.after(1), [])  # the certificate is read once an hour
        self.assertEqual(self.after(3_600), [(AlertKind.CERTIFICATE, "the gateway's", False)])
