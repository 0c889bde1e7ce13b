"""A simulated host: equal seeds give equal runs, and the current code breaks no rule."""

from twisted.trial.unittest import SynchronousTestCase

from simulation.run import Run, Scenario, simulate
from simulation.script import HOST, Step, script


class RunTests(SynchronousTestCase):
    def test_equal_seeds_give_equal_runs(self) -> None:
        first, again, different = (simulate(Scenario(seed, 3, 120.0)) for seed in (7, 7, 8))
        self.assertEqual(first.hash, again.hash)
        self.assertNotEqual(first.hash, different.hash)
        self.assertEqual([*first.violations, *different.violations], [])

    def test_a_stopped_run_is_checked_until_its_end(self) -> None:
        parts: list[float] = []

        def turn(part: float) -> bool:
            parts.append(part)
            return part > 0.5

        result = simulate(Scenario(7, 4, 600.0), turn)
        whole = simulate(Scenario(7, 4, 600.0))
        self.assertTrue(result.stopped)
        self.assertFalse(whole.stopped)
        self.assertEqual(len([part for part in parts if part > 0.5]), 1)
        self.assertLess(result.simulated_s, whole.simulated_s - 200.0)
        self.assertLess(result.steps, whole.steps)
        self.assertEqual(result.violations, [])

    def test_runs_with_failovers_are_repeatable_and_break_no_rule(self) -> None:
        steps = [
            *script(6, 4, 300.0),
            *(Step(60.0 * number, HOST, "failover", number) for number in (1, 2, 3)),
        ]
        scenario = Scenario(6, 4, 300.0, steps=steps)
        first, again = simulate(scenario), simulate(scenario)
        self.assertEqual(first.hash, again.hash)
        self.assertEqual(first.violations, [])

    def test_two_metagames_with_a_slow_and_cut_engine_break_no_rule(self) -> None:
        faults = ((60.0, "slow-engine"), (90.0, "cut-engine"), (150.0, "cut-engine"))
        steps = [*script(10, 4, 300.0), *(Step(at, HOST, name, 1) for at, name in faults)]
        self.assertEqual(simulate(Scenario(10, 4, 300.0, steps=steps)).violations, [])

    def test_every_act_reaches_the_history(self) -> None:
        acts = ("craft", "repair", "hone", "salvage", "arm", "shop", "link", "download", "look")
        hunting = ("loot", "bounty", "choose_pass", "unlock", "granted", "earned", "armed")
        steps = [Step(5.0, who, "log_in", who) for who in range(2)]
        steps += [Step(20.0, 0, "befriend", 1), Step(40.0, 0, "hunt", 5)]
        steps += [Step(45.0 + 3 * at, 0, name, at) for at, name in enumerate((*acts, *hunting) * 4)]
        run = Run(Scenario(1, 2, 300.0, steps=steps))
        self.assertEqual(run.run().violations, [])
        history = run.history
        for part in (history.things, history.purchases, history.chosen):
            self.assertTrue(part.of, part)
        self.assertTrue(history.boards.acked)
        self.assertTrue(history.slots.most)
        self.assertTrue(history.links.known)

    def test_a_failed_commit_is_not_stored(self) -> None:
        steps = [Step(5.0, 0, "log_in", 1), Step(60.0, HOST, "failing-syncs", 2)]
        steps += [Step(61.0 + at, 0, "save", at) for at in range(8)]
        run = Run(Scenario(1, 1, 120.0, steps=steps))
        result = run.run()
        self.assertEqual(result.violations, [])
        self.assertIn(503, result.statuses)

    def test_game_servers_outlive_their_deploy_server(self) -> None:
        steps = [Step(30.0, 0, "hunt", 1), Step(60.0, HOST, "kill-deploy", 1)]
        run = Run(Scenario(1, 1, 120.0, steps=steps))
        self.assertEqual(run.run().violations, [])
        started = run.host.servers.started.values()
        self.assertEqual([server.adopted for server in started], [True] * len(started))
        self.assertGreater(len(started), 1)

    def test_hunts_on_a_swarm_whose_parts_fail_break_no_rule(self) -> None:
        names = ("lost-machine", "joined-machine", "restarted-manager", "cut-off-machine")
        steps = [*script(6, 6, 300.0), Step(150.0, HOST, "kill-deploy", 1)]
        steps += [Step(60.0 * at, HOST, name, at) for at, name in enumerate(names, 1)]
        steps += [Step(at, who, "hunt", who) for who in range(6) for at in (55.0, 145.0, 230.0)]
        run = Run(Scenario(6, 6, 300.0, steps=sorted(steps, key=lambda step: step.at), swarm=True))
        self.assertEqual(run.run().violations, [])
        nodes = {server.node for server in run.host.servers.started.values()}
        self.assertGreater(len(nodes), 1)


class StepTests(SynchronousTestCase):
    def test_a_step_is_read_as_it_was_written(self) -> None:
        steps = script(3, 4, 600.0, faults=True)
        self.assertEqual([Step.parse_line(step.line()) for step in steps], steps)

    def test_the_script_follows_from_the_seed(self) -> None:
        self.assertEqual(script(3, 4, 600.0), script(3, 4, 600.0))
        self.assertNotEqual(script(3, 4, 600.0), script(4, 4, 600.0))
