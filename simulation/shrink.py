"""Fewer steps that break the same rule: half of them, a quarter, and so on (delta debugging)."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

from attrs import evolve

from simulation.run import Result, Wish, simulate
from simulation.script import Step

TRIES = 400
DAY_S = 86_400.0


def command(wish: Wish, file: str = "") -> str:
    """The command line that shows the run again; ``file``: with the steps that stand there."""
    file = file or wish.steps_file
    steps = ["--steps", file] if file else []
    days = f"{wish.seconds / DAY_S:.12f}".rstrip("0").rstrip(".")
    words = ["python", "-m", "simulation", "--seed", f"{wish.seed}", "--players", f"{wish.players}"]
    return shlex.join([*words, "--days", days, *(["--faults"] if wish.faults else []), *steps])


def told(result: Result, steps: list[Step]) -> str:
    """What is wrong, the fewest steps that show it, and how to see it again, for a test's end."""
    wish, file = result.wish, f"seed-{result.wish.seed}.steps"
    wrong = "\n".join(f"  {one.at:.0f} s {one}" for one in result.violations[:5])
    lines = "\n".join(f"  {one.line()}" for one in steps)
    again = f"again: {command(wish)}\nthese steps alone, from a file: {command(wish, file)}"
    return f"seed {wish.seed}:\n{wrong}\nsteps:\n{lines}\n{again}"


def shrunk(
    result: Result,
    seconds: float = 300.0,
    clock: Callable[[], float] = time.monotonic,
) -> list[Step]:
    """The shortest list found in so many seconds that breaks the first broken rule again."""
    wish = result.wish
    rule, at = result.violations[0].rule, result.violations[0].at
    deadline = clock() + seconds

    def breaks(steps: list[Step]) -> bool:
        found = simulate(evolve(wish, steps=steps)).violations
        return any(one.rule == rule for one in found)

    steps = list(wish.script().steps)
    early = [one for one in steps if one.at <= at]
    if len(early) < len(steps) and breaks(early):
        steps = early
    return fewest(steps, breaks, lambda: clock() < deadline)


def fewest(
    steps: list[Step], breaks: Callable[[list[Step]], bool], may_go_on: Callable[[], bool]
) -> list[Step]:
    """``ddmin``: leave out ever smaller parts, as long as what remains ``breaks``."""
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
