"""The kept seeds, and fresh ones for as long as SVC_SIM_SECONDS says (60 in CI).

All kept seeds are half a minute of work: ``make seeds``, which CI runs, plays them, and fresh
ones for three seconds. Everybody else's runs of the tests play the small ones, and one second.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

import svcserver
from simulation.run import Wish, simulate
from simulation.shrink import shrunk, told
from tests.kernel.test_buggify import points

KEPT = Path(__file__).with_name("seeds.txt")
ALL = os.environ.get("SVC_SIM_KEPT") == "all"
SMALL = 4_800  # seconds of all its players together
FRESH_S = float(os.environ.get("SVC_SIM_SECONDS", "3" if ALL else "1"))
SHRINK_S = 60.0
LOST_ANSWER = "mounted.lost"  # of which there is one for each family of paths
FAMILIES = 6  # of paths whose answers are lost in some kept seed


def kept() -> Iterator[tuple[Wish, float]]:
    """The seeds of the file, and how many seconds of each are played."""
    for line in KEPT.read_text().splitlines():
        if line and not line.startswith("#"):
            seed, players, seconds, faults, *_ = line.split()
            first, _, whole = seconds.partition("/")
            yield (
                Wish(int(seed), int(players), float(whole or first), faults == "faults"),
                float(first),
            )


def beginning(wish: Wish, seconds: float) -> Wish:
    """The first seconds of it."""
    return evolve(
        wish, seconds=seconds, steps=[one for one in wish.script().steps if one.at < seconds]
    )


def drawing() -> random.Random:
    """Draws other seeds for every state of the code, and for one state always the same.

    So a seed that breaks a rule does so wherever that state is tested.
    """
    code = hashlib.sha256()
    folder = Path(svcserver.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        code.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return random.Random(code.digest())


class SeedTests(SynchronousTestCase):
    def hold(self, wish: Wish) -> None:
        result = simulate(wish)
        if result.violations:
            self.fail(told(result, shrunk(result, SHRINK_S)))

    # slow: a simulation for each seed that once broke a rule
    def test_the_kept_seeds(self) -> None:
        played = [one for one in kept() if ALL or one[0].players * one[1] <= SMALL]
        self.assertGreater(len(played), 2)
        rare: dict[str, None] = {}
        for wish, seconds in played:
            print(f"seed {wish.seed}, kept")
            result = simulate(beginning(wish, seconds))
            rare.update(dict.fromkeys(result.rare))
            if result.violations:
                self.hold(wish)
                self.fail(f"seed {wish.seed} breaks a rule in its first {seconds:.0f} s alone")
        if not ALL:
            return
        never = [one for one in points() if one not in rare and one != LOST_ANSWER]
        self.assertEqual(never, [], "rare things that happen in no kept seed")
        families = [one for one in rare if one.startswith("web: an answer of ")]
        self.assertGreaterEqual(len(families), FAMILIES)

    # slow: seconds of fresh seeds
    def test_fresh_seeds(self) -> None:
        draw, deadline = drawing(), time.process_time() + FRESH_S
        while time.process_time() < deadline:
            seed = draw.randrange(1_000, 10**9)
            print(f"seed {seed}")
            self.hold(Wish(seed, 8, 300.0, faults=seed % 3 != 0))
