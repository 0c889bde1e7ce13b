"""What is done in a run, as a list of steps that follows from the seed and can be cut down."""

from __future__ import annotations

import random

from attrs import frozen

from svcserver.sim.faults import FAULTS, OF_ENGINE
from svcserver.sim.players import WEIGHTS

HOST = -1  # who does a fault's step
IMPATIENT = ("quit", "quit", "log_in", "chat_in", "leave_party")
HOUR_S = 3600.0


def shared(seed: int) -> bool:
    """Whether this seed's host has two metagames, and an engine for their live state."""
    return seed % 4 == 2


@frozen
class Step:
    """At ``at`` seconds from the start ``who`` does ``what``; ``dice`` decides the rest."""

    at: float
    who: int
    what: str
    dice: int

    def line(self) -> str:
        """The step as a line of a ``.steps`` file, which people read, too."""
        return f"{self.at:.3f} {self.who} {self.what} {self.dice}"

    @classmethod
    def read(cls, text: str) -> Step:
        """The step that ``line`` wrote; raises ValueError."""
        at, who, what, dice = text.split()
        return cls(float(at), int(who), what, int(dice))


def script(
    seed: int, players: int, seconds: float, *, faults: bool = False, pace_s: float = 35.0
) -> list[Step]:
    """The steps of a run: each player acts every ``pace_s`` on the average, some together."""
    draw = random.Random(f"script {seed}")  # noqa: S311
    weights = {what: weight * draw.choice((0.2, 1.0, 1.0, 4.0)) for what, weight in WEIGHTS.items()}
    names, shares = list(weights), list(weights.values())
    steps: list[Step] = []
    for who in range(players):
        at = draw.uniform(0.0, 60.0)
        while at < seconds:
            what = draw.choices(names, shares)[0]
            steps.append(Step(round(at, 3), who, what, draw.getrandbits(32)))
            if draw.random() < 0.05:  # somebody else does something at the very same instant
                twin = draw.randrange(players)
                what = draw.choices(names, shares)[0]
                steps.append(Step(round(at, 3), twin, what, draw.getrandbits(32)))
            at += draw.expovariate(1.0 / pace_s)
            if draw.random() < 0.01:
                at += draw.uniform(60.0, HOUR_S / 4)
    if faults:
        steps += _troubles(seed, players, seconds, draw)
    return sorted(steps, key=lambda one: one.at)


def _troubles(seed: int, players: int, seconds: float, draw: random.Random) -> list[Step]:
    """Faults; and what players do who see that something hangs: they leave, and come again."""
    steps: list[Step] = []
    often, every_s = _faults(seed, draw), draw.choice((80.0, 240.0, 240.0))
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


def _faults(seed: int, draw: random.Random) -> dict[str, int]:
    """How often each fault comes: some never in this seed, so that others come often."""
    found = {}
    for name in sorted(FAULTS):
        share = draw.choice((0, 1, 1, 4))
        if name not in OF_ENGINE:
            found[name] = share
        elif shared(seed):
            found[name] = 1 + share
    return found
