"""Run one short simulation of each kind and print the hashes, one per line.

    python -m tests.simulation.hashes

The hashes are equal in every process and Python version; ``tests/live/test_simulation.py`` compares
them.
"""

from twisted.logger import globalLogBeginner

from simulation.run import Scenario, simulate

# a seed of each kind of board, two of them with faults; the last two metagames on one engine
WORLDS = (
    Scenario(11, 5, 240.0, faults=True),
    Scenario(12, 5, 240.0),
    Scenario(13, 5, 240.0, faults=True),
    Scenario(14, 5, 600.0, faults=True),
)


def main() -> None:
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    for scenario in WORLDS:
        result = simulate(scenario)
        print(scenario.seed, len(result.violations), result.hash)


if __name__ == "__main__":
    main()
