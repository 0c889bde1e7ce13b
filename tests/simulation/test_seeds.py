"""Seeds that once broke a rule, and new seeds for some seconds.

All stored seeds take half a minute. ``make seeds`` simulates all of them, and then new seeds for
three seconds. Other test runs simulate only the small stored scenarios, and new seeds for one
second. SVC_SIM_SECONDS sets the seconds for new seeds; CI sets it to 60.
"""

import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

import svcserver
from simulation.run import Scenario, simulate
from simulation.shrink import failure_report, shrunk
from tests.kernel.test_buggify import points

SEEDS_FILE = Path(__file__).with_name("seeds.txt")
ALL = os.environ.get("SVC_SIM_KEPT") == "all"
SMALL = 4_800  # player-seconds of a small scenario
FRESH_S = float(os.environ.get("SVC_SIM_SECONDS", "3" if ALL else "1"))
SHRINK_S = 60.0
LOST_ANSWER = "mounted.lost_answer"  # followed by the family of paths
FAMILIES = 6  # of paths whose answers are lost in some kept seed


def kept_seeds() -> Iterator[tuple[Scenario, float]]:
    """Yield the scenario of each stored seed, and how many of its seconds to simulate."""
    for line in SEEDS_FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            seed, players, seconds, faults, *_ = line.split()
            first, _, whole = seconds.partition("/")
            yield (
                Scenario(int(seed), int(players), float(whole or first), faults == "faults"),
                float(first),
            )


def beginning(scenario: Scenario, seconds: float) -> Scenario:
    """Return the first seconds of a scenario."""
    return evolve(
        scenario,
        seconds=seconds,
        steps=[step for step in scenario.script().steps if step.at < seconds],
    )


def drawing() -> random.Random:
    """Return a random generator whose seed is a hash of the code.

    So everyone who tests the same code draws the same scenarios, and finds the same violation.
    """
    code = hashlib.sha256()
    folder = Path(svcserver.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        code.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return random.Random(code.digest())


class SeedTests(SynchronousTestCase):
    def hold(self, scenario: Scenario) -> None:
        result = simulate(scenario)
        if result.violations:
            self.fail(failure_report(result, shrunk(result, SHRINK_S)))

    # slow: a simulation for each seed that once broke a rule
    def test_kept_seeds_break_no_rule(self) -> None:
        played = [name for name in kept_seeds() if ALL or name[0].players * name[1] <= SMALL]
        self.assertGreater(len(played), 2)
        rare: dict[str, None] = {}
        for scenario, seconds in played:
            print(f"seed {scenario.seed}, kept")
            result = simulate(beginning(scenario, seconds))
            rare.update(dict.fromkeys(result.rare))
            if result.violations:
                self.hold(scenario)
                self.fail(f"seed {scenario.seed} breaks a rule in its first {seconds:.0f} s alone")
        if not ALL:
            return
        never = [name for name in points() if name not in rare and name != LOST_ANSWER]
        self.assertEqual(never, [], "rare things that happen in no kept seed")
        families = [name for name in rare if name.startswith("web: an answer of ")]
        self.assertGreaterEqual(len(families), FAMILIES)

    # slow: seconds of fresh seeds
    def test_fresh_seeds_break_no_rule(self) -> None:
        draw, deadline = drawing(), time.process_time() + FRESH_S
        while time.process_time() < deadline:
            seed = draw.randrange(1_000, 10**9)
            print(f"seed {seed}")
            self.hold(Scenario(seed, 8, 300.0, faults=seed % 3 != 0, swarm=seed % 2 == 0))
