"""Outages of a whole host, and the reactions of its services."""

from twisted.trial.unittest import SynchronousTestCase

from simulation.run import Result, Run, Scenario
from simulation.script import HOST, Step, script
from simulation.valkey import MACHINE


def ran(seed: int, players: int, seconds: float, *steps: Step) -> tuple[Run, Result]:
    """Run these steps together with the seed's own steps; return the run and its result."""
    own = script(seed, players, seconds)
    run = Run(
        Scenario(seed, players, seconds, steps=sorted([*own, *steps], key=lambda step: step.at))
    )
    return run, run.run()


class OutageTests(SynchronousTestCase):
    def test_a_rolling_restart_refuses_nobody(self) -> None:
        for seed, names in ((1, ["metagame"]), (2, ["metagame", "metagame-2"])):
            run, result = ran(seed, 8, 300.0, Step(120.0, HOST, "rolling-restart", 1))
            self.assertEqual(run.host.metagames, names)
            self.assertEqual(result.violations, [])
            self.assertEqual([status for status in result.statuses if status >= 500], [])
            self.assertEqual(run.host.stops, len(names))
            self.assertEqual(result.deaths, 0)

    def test_a_stopped_metagame_comes_back(self) -> None:
        run, result = ran(1, 4, 240.0, Step(100.0, HOST, "stopped-metagame", 3))
        self.assertEqual((result.violations, run.host.stops), ([], 1))
        self.assertFalse(run.host.processes["metagame"].dead)

    def test_an_engine_without_power_ends_no_connection(self) -> None:
        run, result = ran(
            6, 4, 240.0, *(Step(50.0 * at, HOST, "powerless-engine", at) for at in (1, 2, 3))
        )
        self.assertEqual(result.violations, [])
        self.assertNotIn(MACHINE, run.network.off)
        self.assertEqual(run.host.valkey.outages if run.host.valkey else 0, 3)

    def test_a_frozen_game_server_is_ended(self) -> None:
        run, result = ran(1, 1, 400.0, Step(20.0, HOST, "frozen-game-server", 1))
        self.assertEqual(result.violations, [])
        still = [server for server in run.host.servers.started.values() if server.still]
        self.assertEqual([(server.stays, server.over) for server in still], [(True, True)])
        [city] = [server for server in run.host.servers.running() if server.stays]
        self.assertTrue(city.plays)

    def test_a_hanging_launch_is_killed(self) -> None:
        steps = [Step(20.0, HOST, "hanging-launch", 1), Step(25.0, 0, "log_in", 1)]
        steps += [Step(60.0, 0, "hunt", 5)]
        run = Run(Scenario(1, 1, 400.0, steps=steps))
        self.assertEqual(run.run().violations, [])
        [hung] = [server for server in run.host.servers.started.values() if server.deaf]
        self.assertEqual((hung.listens, hung.over), (False, True))

    def test_a_broken_firewall_is_retried(self) -> None:
        steps = [Step(20.0, HOST, "broken-firewall", 1), Step(21.0, 0, "log_in", 1)]
        run, result = ran(1, 1, 240.0, *steps, Step(100.0, 0, "heartbeat", 2))
        self.assertEqual(result.violations, [])
        self.assertGreater(run.host.firewall.failed, 0)
        self.assertFalse(run.host.firewall.broken)
