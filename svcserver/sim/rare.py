"""How often the named rare things of ``kernel/buggify.py`` happen in a run; some never in it."""

from __future__ import annotations

import random
from collections.abc import Callable

from attrs import define, field

from svcserver.sim.clock import World

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


@define(eq=False)
class RareThings:
    """``happened`` is told each time, with whether live state may be lost by it."""

    world: World
    happened: Callable[[bool], None]
    counts: dict[str, int] = field(factory=dict)
    _rates: dict[str, float] = field(factory=dict, init=False)

    def happens(self, name: str) -> bool:
        """Whether the rare thing of this name happens now."""
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = rate_of(self.world.seed, name)
        if not rate or self.world.weather.random() >= rate:
            return False
        self.counts[name] = self.counts.get(name, 0) + 1
        self.happened(name.startswith(LIVE_STATE))
        return True


def rate_of(seed: int, name: str) -> float:
    """How often it happens in the run of this seed."""
    draw = random.Random(f"rare {seed} {name}")  # noqa: S311
    return draw.choice(next((rates for at, rates in RATES.items() if name.startswith(at)), USUAL))
