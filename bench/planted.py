"""Plants known bugs, one at a time, and measures how long the simulation takes to find each bug.

    python -m bench.planted                    # all; prints a table
    python -m bench.planted "a port leaks"     # one of them

A bug is a replacement of text in one module. A separate process makes the replacement when it
imports the module.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.plants import PLANTS, Plant

SEEDS, PLAYERS, SECONDS = 200, 8, 900.0
PLAIN = "no failure of ours"  # a traceback or a 500; reported only if no other rule is violated


class Planting(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """An import hook that plants the bug in one module."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.path = ""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        """Return the spec of the changed module; None for any other module."""
        if name != self.plant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None:
            raise ImportError(name)
        self.path = spec.origin
        return importlib.util.spec_from_file_location(name, spec.origin, loader=self)

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        if path.endswith(".pyc"):
            raise OSError(path)
        text = Path(path).read_text()
        if text.count(self.plant.old) != 1:
            raise SystemExit(f"{self.plant.name}: {text.count(self.plant.old)} places in {path}")
        return text.replace(self.plant.old, self.plant.new).encode()


def child(plant: Plant, seeds: Sequence[int], *, sound: bool) -> None:
    """Search for a planted bug with these seeds and print one JSON object.

    If ``sound`` is true, the code stays unchanged.
    """
    if not sound:
        sys.meta_path.insert(0, Planting(plant))
    from twisted.logger import globalLogBeginner

    from simulation.run import Scenario, simulate

    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    gc.freeze()  # never collect the imported modules
    began = time.process_time()
    first: dict[str, Any] = {"seed": None}
    for seed in seeds:
        scenario = Scenario(seed, PLAYERS, SECONDS, faults=seed % 3 != 0, swarm=plant.swarm)
        result = simulate(scenario).violations
        rule = next((violation.rule for violation in result if violation.rule != PLAIN), PLAIN)
        took = {"seed": seed, "s": round(time.process_time() - began, 1), "rule": rule}
        if result and rule != PLAIN:
            print(json.dumps(took))
            return
        if result and first["seed"] is None:
            first = took
    print(json.dumps(first))


@cache
def sound(plant: Plant, seed: int) -> bool:
    """Return whether the simulation with this seed finds no violation in the unchanged code."""
    return bool(run_plant(plant, seed, mode="--sound")["seed"] is None)


def run_plant(plant: Plant, *seeds: int, mode: str = "--child") -> dict[str, Any]:
    """Run the given seeds, or the default seeds, in a separate process; return the findings."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.planted", mode, plant.name, *map(str, seeds)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout.strip():
        return {"seed": None, "why": done.stderr.strip().splitlines()[-1:]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def row(plant: Plant, result: dict[str, Any]) -> str:
    """Return a row of the table."""
    if result["seed"] is None:
        why = " ".join(result.get("why", []))
        return f"| {plant.name} | {plant.kind} | not found in {SEEDS} {why} | | |"
    if not sound(plant, result["seed"]):
        return f"| {plant.name} | {plant.kind} | {result['seed']} also fails without the bug | | |"
    cells = plant.name, plant.kind, f"{result['seed']}", f"{result['s']}", result["rule"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Try each planted bug and print the table."""
    words = sys.argv[1:]
    if words[:1] in (["--child"], ["--sound"]):
        plant = next(plant for plant in PLANTS if plant.name == words[1])
        seeds = [int(word) for word in words[2:]] or range(1, SEEDS + 1)
        child(plant, seeds, sound=words[0] == "--sound")
        return
    print("| planted | kind | found with seed | CPU seconds | by the rule |")
    print("|---|---|---|---|---|")
    for plant in PLANTS:
        if not words or any(word in plant.name for word in words):
            print(row(plant, run_plant(plant)), flush=True)


if __name__ == "__main__":
    main()
