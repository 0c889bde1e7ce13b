"""Runs the simulation with many seeds, each with twenty players for a simulated hour.

    python -m bench.seeds 1000 build/seeds.txt    # seeds 1 to 1000; resumes where the file ends
    python -m bench.seeds 1000 build/seeds.txt 2/3    # only the second third of the seeds

Two thirds of the seeds also cause faults. One process uses one core. Each seed adds a line of
tab-separated fields to the file: the seed, the number of violations, the run's CPU seconds, its
real seconds, the simulated seconds per real second, the hash, the commit, the first violation. The
last quarter of an hour, when all players have left, adds to the run time but not to the simulated
time. Each violation is printed with the command that replays it.
"""

import gc
import subprocess
import sys
import time
from pathlib import Path

from twisted.logger import globalLogBeginner

from simulation.run import Result, Scenario, simulate
from simulation.shrink import command

PLAYERS, SECONDS = 20, 3600.0


def scenario_of(seed: int) -> Scenario:
    """Return an hour's scenario for this seed; every third seed is without faults."""
    return Scenario(seed, PLAYERS, SECONDS, faults=seed % 3 != 0)


def commit() -> str:
    """Return the current commit, with ``-dirty`` if files have been changed since."""
    folder = Path(__file__).parents[1]
    words = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def line(result: Result, real_s: float, running: str) -> str:
    """Return the line about a run, as it is added to the results file."""
    seed, wrong = result.scenario.seed, result.violations
    cells = [f"{seed}", f"{len(wrong)}", f"{result.cpu_s:.2f}", f"{real_s:.2f}"]
    cells += [f"{result.scenario.seconds / real_s:.0f}", result.hash[:16], running]
    return "\t".join([*cells, *(f"{violation}".replace("\t", " ") for violation in wrong[:1])])


def summary(lines: list[str]) -> str:
    """Return a summary of all runs in the file, in a few sentences."""
    rows = [result.split("\t") for result in lines]
    wrong = [row[0] for row in rows if row[1] != "0"]
    cpu_s, real_s = (sum(float(row[at]) for row in rows) for at in (2, 3))
    played_s = SECONDS * len(rows)
    commits = dict.fromkeys(row[6] for row in rows)
    return (
        f"{len(rows)} seeds of {' '.join(commits)}: {played_s / 3600:.0f} hours of {PLAYERS} "
        f"players in {real_s / 60:.1f} minutes ({cpu_s / 60:.1f} of them of the processor), "
        f"{played_s / max(real_s, 1e-9):.0f} times as fast as life "
        f"({played_s / max(cpu_s, 1e-9):.0f} by the processor's time); "
        f"something wrong in {len(wrong)}: {' '.join(wrong)}"
    )


def main() -> None:
    """Run the seeds that the file does not contain yet."""
    count, file = int(sys.argv[1]), Path(sys.argv[2])
    part, parts = map(int, (sys.argv[3] if sys.argv[3:] else "1/1").split("/"))
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    gc.freeze()  # never collect the imported modules
    gc.set_threshold(50_000, 20, 20)  # a run ends before its garbage fills the memory
    known, running = file.read_text().splitlines() if file.exists() else [], commit()
    done = {seed.split("\t")[0] for seed in known}
    for seed in range(part, count + 1, parts):
        if str(seed) in done:
            continue
        began = time.monotonic()
        result = simulate(scenario_of(seed))
        known.append(line(result, time.monotonic() - began, running))
        with file.open("a") as out:
            out.write(known[-1] + "\n")
        if result.violations:
            print(f"{running} seed {seed}: {result.violations[0]}")
            print(command(result.scenario), flush=True)
    print(summary(known))


if __name__ == "__main__":
    main()
