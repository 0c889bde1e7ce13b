"""How often the named rare things of ``kernel/buggify.py`` happen in a run; some never in it."""

from __future__ import annotations

import random
from collections.abc import Callable

from attrs import define, field

from simulation.clock import World

# by what the name begins with: one of these rates each run
RATES: dict[str, tuple[float, ...]] = {
    "firewall: ": (0.0, 0.1, 0.4),
    "engine: we listen ": (0.0, 0.3, 0.7),
    "engine: it goes ": (0.0, 0.0, 0.001, 0.005),
    "chat: a lease ": (0.0, 0.0, 0.0002, 0.001),
    "edge: ": (0.0, 0.0, 0.001, 0.01),
    "web: ": (0.0, 0.0, 0.005, 0.03),
    "ledger: a batch ": (0.0, 0.0, 0.002, 0.01),
    "network: ": (0.0, 0.0, 0.01, 0.05),
    "deploy: a game server ": (0.0, 0.0, 0.0005, 0.002),
}
USUAL = (0.0, 0.0, 0.002, 0.02, 0.1)
LIVE_STATE = ("engine: ", "chat: a lease ")  # after these live state may be lost
APART_S = 10.0  # and some may not hear what others do
# by what the name begins with: for how long what is asked afterwards may show it; what was under
# way when it happened always may
TRACES_S: dict[str, float] = {
    "engine: ": 60.0,
    "chat: a lease ": 60.0,
    "network: ": 9.0,  # a reader that stalls takes nothing for eight
}
# nobody sees these: they take their time, or are tried again
UNSEEN = ("tokens: ", "sqlite: ", "ledger: a batch waits", "firewall: ")


@define(eq=False)
class RareThings:
    """``happened`` is told each time, by name."""

    world: World
    happened: Callable[[str], None]
    over: bool = False  # nothing rare happens any more
    counts: dict[str, int] = field(factory=dict)
    _rates: dict[str, float] = field(factory=dict, init=False)

    def happens(self, name: str) -> bool:
        """Whether the rare thing of this name happens now."""
        if self.over:
            return False
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = rate_of(self.world.seed, name)
        if not rate or self.world.weather.random() >= rate:
            return False
        self.counts[name] = self.counts.get(name, 0) + 1
        self.happened(name)
        return True


def traces_s(name: str) -> float | None:
    """For how long what is asked afterwards may show it; None where nobody sees it at all."""
    if name.startswith(UNSEEN):
        return None
    return next((seconds for at, seconds in TRACES_S.items() if name.startswith(at)), 0.0)


def rate_of(seed: int, name: str) -> float:
    """How often it happens in the run of this seed."""
    draw = random.Random(f"rare {seed} {name}")  # noqa: S311
    return draw.choice(next((rates for at, rates in RATES.items() if name.startswith(at)), USUAL))
