"""Runs one short evening of each kind of world and prints the hashes, one a line.

    python -m tests.simulation.hashes

The same in every process and with every Python; ``tests/live/test_simulation.py`` compares.
"""

from __future__ import annotations

from twisted.logger import globalLogBeginner

from simulation.run import Wish, simulate

# a seed of each kind of board, two of them with faults; the last two metagames on one engine
WORLDS = (
    Wish(11, 5, 240.0, faults=True),
    Wish(12, 5, 240.0),
    Wish(13, 5, 240.0, faults=True),
    Wish(14, 5, 600.0, faults=True),
)


def main() -> None:
    """See the module."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    for wish in WORLDS:
        result = simulate(wish)
        print(wish.seed, len(result.violations), result.hash)


if __name__ == "__main__":
    main()
