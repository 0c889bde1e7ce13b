"""Runs many seeds of twenty players and one simulated hour, two thirds of them with faults.

    python -m bench.seeds 1000 build/seeds.txt    # seeds 1 to 1000; goes on where the file ends

One process, one core. Each seed is a line of the file: seed, what is wrong, seconds of processor,
simulated seconds, hash. A seed that finds something is told with the command that replays it.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from twisted.logger import globalLogBeginner

from svcserver.sim.run import Result, Wish, simulate
from svcserver.sim.shrink import command

PLAYERS, SECONDS = 20, 3600.0


def wish(seed: int) -> Wish:
    """An hour of this seed; every third is without faults."""
    return Wish(seed, PLAYERS, SECONDS, faults=seed % 3 != 0)


def line(result: Result) -> str:
    """What is kept of a run."""
    wrong = len(result.violations)
    took, lived = f"{result.cpu_s:.2f}", f"{result.simulated_s:.0f}"
    return f"{result.wish.seed} {wrong} {took} {lived} {result.hash[:16]}"


def summary(lines: list[str]) -> str:
    """All runs of the file in one sentence."""
    rows = [one.split() for one in lines]
    wrong = [row[0] for row in rows if row[1] != "0"]
    cpu_s, lived_s = sum(float(row[2]) for row in rows), sum(float(row[3]) for row in rows)
    return (
        f"{len(rows)} seeds, {lived_s / 3600:.0f} simulated hours in {cpu_s / 60:.1f} minutes of "
        f"processor, {lived_s / max(cpu_s, 1e-9):.0f} times as fast as life; "
        f"something wrong in {len(wrong)}: {' '.join(wrong)}"
    )


def main() -> None:
    """See the module."""
    count, file = int(sys.argv[1]), Path(sys.argv[2])
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    gc.freeze()  # what was imported stays
    gc.set_threshold(50_000, 20, 20)  # a run ends before what it throws away fills the memory
    known = file.read_text().splitlines() if file.exists() else []
    done = {one.split()[0] for one in known}
    for seed in range(1, count + 1):
        if str(seed) in done:
            continue
        result = simulate(wish(seed))
        known.append(line(result))
        with file.open("a") as out:
            out.write(known[-1] + "\n")
        if result.violations:
            print(f"seed {seed}: {result.violations[0]}")
            print(command(result.wish), flush=True)
    print(summary(known))


if __name__ == "__main__":
    main()
