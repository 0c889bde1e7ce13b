"""The estimate of how many hunts a machine can run, and of the resource that runs out first."""

import os
from unittest import mock

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import capacity
from svcserver.ctl.capacity import Cost, Left, ResourceUsage, bars, cost_of, forecast, usage
from svcserver.ctl.fleet import FleetMachine
from svcserver.deploy.fleet import GameServer
from svcserver.deploy.hunts import GameServerKind, Launch
from svcserver.deploy.saved_servers import SavedServers
from svcserver.deploy.service import STATE
from svcserver.kernel.envfile import change
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves

AMOUNTS = st.floats(0, 1e6)


class ForecastTests(SynchronousTestCase):
    @proves("svcctl capacity")
    def test_the_forecast_lists_the_lowest_limit_first(self) -> None:
        cost = Cost(memory_mb=800, cores=0.5, measured=2)
        for left, first, more in (
            (Left(8_000, 50, 10.0, 90_000), "memory", 10),
            (Left(80_000, 6, 10.0, 90_000), "ports", 6),
            (Left(80_000, 50, 2.0, 90_000), "cores", 4),
            (Left(80_000, 50, 99.0, 6), "disk", 3),
            (Left(-500, 50, 99.0, 90_000), "memory", 0),
        ):
            limit = forecast(cost, left)[0]
            self.assertEqual((limit.name, limit.more), (first, more))

    def test_the_chart_has_no_bar_for_0_and_cuts_very_long_bars(self) -> None:
        self.assertEqual(
            bars([0, 2, 4, 8, 9, 30_000]),
            ["", "█" * 10, "█" * 20, "█" * 40, "█" * 40 + "…", "█" * 40 + "…"],
        )
        self.assertEqual(bars([0, 0]), ["", ""])

    @given(AMOUNTS, st.integers(-5, 500), AMOUNTS, AMOUNTS, st.floats(0.1, 1e5), st.floats(0, 64))
    def test_fewer_free_resources_never_allow_more_hunts(
        self, memory: float, ports: int, cores: float, disk: float, each: float, busy: float
    ) -> None:
        cost = Cost(each, busy, 1)
        much = {
            limit.name: limit.more for limit in forecast(cost, Left(memory, ports, cores, disk))
        }
        half = Left(memory / 2, ports // 2, cores / 2, disk / 2)
        for limit in forecast(cost, half):
            self.assertLessEqual(0, limit.more)
            self.assertLessEqual(limit.more, max(0, much[limit.name]))

    def test_the_cost_is_the_mean_of_servers_in_both_readings(self) -> None:
        before = {1: ResourceUsage(100, 5.0), 2: ResourceUsage(100, 0.0)}
        after = {
            1: ResourceUsage(200, 7.0),
            2: ResourceUsage(400, 0.0),
            3: ResourceUsage(9_000, 9.0),
        }
        self.assertEqual(cost_of(before, after, 2.0), Cost(300, 0.5, 2))
        self.assertIsNone(cost_of({}, after, 2.0))


class CommandTests(HostCase):
    @proves("svcctl capacity")
    def test_running_hunts_are_measured_with_their_child_processes(self) -> None:
        ours = os.getpgrp()  # this test's processes take the place of a hunt
        with (
            mock.patch.object(capacity, "SAMPLE_S", 0.05),
            mock.patch.object(capacity, "_running", return_value=([ours], [])),
        ):
            ran = self.ctl("capacity", "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual((ran.data["running"], ran.data["hunt"]["measured"]), (1, 1))
        self.assertGreater(ran.data["hunt"]["memory_mb"], 1)
        names = {limit["name"] for limit in ran.data["limits"]}
        self.assertEqual(names, {"memory", "ports", "cores", "disk"})
        self.assertEqual(usage([ours]).keys(), {ours})

    def test_only_saved_game_servers_that_still_run_are_counted(self) -> None:
        servers, mine = SavedServers(self.folder / STATE), os.getpid()
        for name, kind in (("a", GameServerKind.HUNT), ("b", GameServerKind.CITY)):
            servers.save(GameServer(name, 8_770, Launch(kind, "/Game/Maps/x"), mine, 0.0))
        self.assertEqual(capacity._running(self.folder), ([mine], [mine]))
        with mock.patch.object(capacity, "started_at", return_value=1):  # another process by now
            self.assertEqual(capacity._running(self.folder), ([], []))

    @proves("svcctl capacity")
    def test_without_a_hunt_capacity_assumes_the_settings_and_says_so(self) -> None:
        with mock.patch.object(capacity, "SAMPLE_S", 0.05):
            ran = self.ctl("capacity")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("assumed, because no hunt runs", ran.out)
        self.assertIn("█", ran.out)

    def test_capacity_counts_the_machines_of_a_swarm(self) -> None:
        change(
            self.folder / "deploy.env",
            {
                "GAMESERVER_ENGINE": "swarm",
                "GAMESERVER_HUNT_STARTUP_MB": "1000",
                "PORT_RANGE_BEGIN": "8700",
            },
        )
        first = FleetMachine(
            "a", "a", "", "", "ready", "active", "20.10", 16.0, 8000, 6500, 6, True
        )
        fleet = [
            first,
            evolve(first, id="b", reserved_mb=7500, hunts=7),
            evolve(first, id="c", availability="pause", reserved_mb=1000, hunts=1),
        ]
        with (
            mock.patch.object(capacity, "machines", lambda docker: fleet),
            mock.patch.object(capacity.Docker, "from_deploy_settings", lambda host: None),
        ):
            ran = self.ctl("capacity", "--json")
        self.assertEqual(
            (ran.data["running"], ran.data["first"], ran.data["more"]), (14, "memory", 1)
        )
