"""The script of a run: a list of steps, which the seed determines and ``shrink`` can shorten."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge

from attrs import frozen

from simulation.faults import FAULTS, NOT_ON_SWARM, OF_ENGINE, OF_SWARM
from simulation.players import WEIGHTS

HOST = -1  # the actor of a fault's step
HUNTERS = 10.0  # more hunts than on other hosts, so that memory is short
IMPATIENT = ("quit", "quit", "log_in", "chat_in", "leave_party")
HOUR_S = 3600.0


def shared(seed: int) -> bool:
    """Return whether this seed's host has two metagames that share an engine."""
    return seed % 4 == 2


@frozen
class Step:
    """A step of the script.

    At ``at`` seconds after the start, the player ``who`` (or ``HOST``) does ``what``. ``dice``
    seeds the random numbers of the action.
    """

    at: float
    who: int
    what: str
    dice: int

    def line(self) -> str:
        """Return the step as a line of a ``.steps`` file."""
        return f"{self.at:.3f} {self.who} {self.what} {self.dice}"

    @classmethod
    def parse_line(cls, text: str) -> Step:
        """Parse a line of a ``.steps`` file; raises ValueError."""
        at, who, what, dice = text.split()
        return cls(float(at), int(who), what, int(dice))


def script(
    seed: int, players: int, seconds: float, *, faults: bool = False, pace_s: float = 35.0
) -> list[Step]:
    """Return a run's steps; each player acts every ``pace_s`` seconds on average.

    Some actions are concurrent.
    """
    return list(Script.of_seed(seed, players, seconds, faults=faults, pace_s=pace_s).steps)


@frozen
class Script:
    """The steps of a run in order, and the number of steps.

    A seed's steps are generated on demand and only once: the steps of a long run would fill the
    memory.
    """

    count: int
    steps: Iterator[Step]

    @classmethod
    def of_steps(cls, steps: Sequence[Step]) -> Script:
        """Return a script of these steps, in any order."""
        return cls(len(steps), iter(sorted(steps, key=_when)))

    @classmethod
    def of_seed(
        cls,
        seed: int,
        players: int,
        seconds: float,
        *,
        faults: bool,
        pace_s: float = 35.0,
        swarm: bool = False,
    ) -> Script:
        """Return the script of a seed; see ``script``."""
        draw = random.Random(f"script {seed}")  # noqa: S311
        weights = {
            what: weight * draw.choice((0.2, 1.0, 1.0, 4.0)) for what, weight in WEIGHTS.items()
        }
        if swarm:
            weights["hunt"] *= HUNTERS
        parts: list[Iterator[Step]] = []
        count = 0
        for who in range(players):  # counted here, generated later with the same random numbers
            dice = random.Random()  # noqa: S311
            dice.setstate(draw.getstate())
            parts.append(_of_player(who, players, seconds, pace_s, weights, dice))
            count += sum(1 for _ in _of_player(who, players, seconds, pace_s, weights, draw))
        if faults:
            troubles = sorted(_troubles(seed, players, seconds, draw, swarm=swarm), key=_when)
            parts.append(iter(troubles))
            count += len(troubles)
        return cls(count, merge(*parts, key=_when))


def _when(step: Step) -> float:
    return step.at


def _of_player(
    who: int,
    players: int,
    seconds: float,
    pace_s: float,
    weights: Mapping[str, float],
    draw: random.Random,
) -> Iterator[Step]:
    """Yield the steps of one player.

    Sometimes another player acts at the same moment; the other player's step is included.
    """
    names, shares = list(weights), list(weights.values())
    at = draw.uniform(0.0, 60.0)
    while at < seconds:
        what = draw.choices(names, shares)[0]
        yield Step(round(at, 3), who, what, draw.getrandbits(32))
        if draw.random() < 0.05:
            twin = draw.randrange(players)
            what = draw.choices(names, shares)[0]
            yield Step(round(at, 3), twin, what, draw.getrandbits(32))
        at += draw.expovariate(1.0 / pace_s)
        if draw.random() < 0.01:
            at += draw.uniform(60.0, HOUR_S / 4)


def _troubles(
    seed: int, players: int, seconds: float, draw: random.Random, *, swarm: bool
) -> list[Step]:
    """Return the steps that cause faults.

    Shortly after some of the faults, impatient players act; their steps are included.
    """
    steps: list[Step] = []
    often = _faults(seed, draw, swarm=swarm)
    every_s = draw.choice((80.0, 240.0, 240.0))
    at = draw.uniform(60.0, 300.0)
    while at < seconds:
        fault = draw.choices(list(often), list(often.values()))[0]
        steps.append(Step(round(at, 3), HOST, fault, draw.getrandbits(32)))
        for _ in range(draw.choice((0, 0, 1, 3))):
            then, what = at + draw.uniform(0.0, 10.0), draw.choice(IMPATIENT)
            who = draw.randrange(players)
            steps.append(Step(round(then, 3), who, what, draw.getrandbits(32)))
        at += draw.expovariate(1.0 / every_s)
    return steps


def _faults(seed: int, draw: random.Random, *, swarm: bool) -> dict[str, int]:
    """Return the weight of each fault; a seed omits some faults, so that others are frequent."""
    shares = {}
    for name in sorted(FAULTS):
        share = draw.choice((0, 1, 1, 4))
        if name not in OF_ENGINE:
            shares[name] = share
        elif shared(seed):
            shares[name] = 1 + share
    if swarm:
        shares = {name: share for name, share in shares.items() if name not in NOT_ON_SWARM}
        shares |= {name: draw.choice((2, 6, 12)) for name in sorted(OF_SWARM)}
    return shares
