"""Finds fewer steps that break the same rule, with the ddmin algorithm."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

from attrs import evolve

from simulation.run import Result, Scenario, simulate
from simulation.script import Step

TRIES = 400
DAY_S = 86_400.0


def command(scenario: Scenario, file: str = "") -> str:
    """Return the command line that repeats the run; ``file`` contains its steps."""
    file = file or scenario.steps_file
    steps = ["--steps", file] if file else []
    days = f"{scenario.seconds / DAY_S:.12f}".rstrip("0").rstrip(".")
    words = [
        "python",
        "-m",
        "simulation",
        "--seed",
        f"{scenario.seed}",
        "--players",
        f"{scenario.players}",
    ]
    flags = {"--faults": scenario.faults, "--swarm": scenario.swarm}
    chosen = [flag for flag, is_on in flags.items() if is_on]
    return shlex.join([*words, "--days", days, *chosen, *steps])


def failure_report(result: Result, steps: list[Step]) -> str:
    """Return a test's failure text: violations, fewest steps, and commands to repeat the run."""
    scenario, file = result.scenario, f"seed-{result.scenario.seed}.steps"
    wrong = "\n".join(f"  {violation.at:.0f} s {violation}" for violation in result.violations[:5])
    lines = "\n".join(f"  {step.line()}" for step in steps)
    again = f"again: {command(scenario)}\nthese steps alone, from a file: {command(scenario, file)}"
    return f"seed {scenario.seed}:\n{wrong}\nsteps:\n{lines}\n{again}"


def shrunk(
    result: Result,
    seconds: float = 300.0,
    clock: Callable[[], float] = time.monotonic,
) -> list[Step]:
    """Return fewer steps that break the same rule as the run's first violation.

    The search ends after ``seconds`` at the latest, and returns the shortest list found by then.
    """
    scenario = result.scenario
    rule, at = result.violations[0].rule, result.violations[0].at
    deadline = clock() + seconds

    def breaks(steps: list[Step]) -> bool:
        violations = simulate(evolve(scenario, steps=steps)).violations
        return any(violation.rule == rule for violation in violations)

    steps = list(scenario.script().steps)
    early = [step for step in steps if step.at <= at]
    if len(early) < len(steps) and breaks(early):
        steps = early
    return fewest(steps, breaks, lambda: clock() < deadline)


def fewest(
    steps: list[Step], breaks: Callable[[list[Step]], bool], may_go_on: Callable[[], bool]
) -> list[Step]:
    """Shorten the list by ddmin: remove parts as long as ``breaks`` is true for the steps left."""
    parts = 2
    for _ in range(TRIES):
        if len(steps) < 2 or not may_go_on():
            return steps
        size = -(-len(steps) // parts)
        for start in range(0, len(steps), size):
            rest = steps[:start] + steps[start + size :]
            if rest and may_go_on() and breaks(rest):
                steps, parts = rest, max(2, parts - 1)
                break
        else:
            if parts >= len(steps):
                return steps
            parts = min(len(steps), 2 * parts)
    return steps
