"""The rates of the rare events of ``kernel/buggify.py`` in a run; some rates are zero."""

import random
from collections.abc import Callable

from attrs import define, field

from simulation.clock import World

# start of the name -> rates, of which each run picks one
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
LIVE_STATE = ("engine: ", "chat: a lease ")  # these may lose live state
APART_S = 10.0  # and metagames may miss each other's news
# start of the name -> how long later requests may notice the event; pending requests always may
TRACES_S: dict[str, float] = {
    "engine: ": 60.0,
    "chat: a lease ": 60.0,
    "network: ": 9.0,  # a stalled reader takes nothing for eight seconds
}
# unnoticeable: they only take time or are retried
UNSEEN = ("tokens: ", "sqlite: ", "ledger: a batch waits", "firewall: ")


@define(eq=False)
class RareThings:
    """The rare events of a run; ``happened`` is called with the name of each rare event."""

    world: World
    happened: Callable[[str], None]
    over: bool = False  # no rare event happens any more
    counts: dict[str, int] = field(factory=dict)
    _rates: dict[str, float] = field(factory=dict, init=False)

    def happens(self, name: str) -> bool:
        """Return whether the named rare event happens now."""
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
    """Return for how many seconds the rare event can affect requests; None if it never does."""
    if name.startswith(UNSEEN):
        return None
    return next((seconds for at, seconds in TRACES_S.items() if name.startswith(at)), 0.0)


def rate_of(seed: int, name: str) -> float:
    """Return the event's rate in the run with this seed."""
    draw = random.Random(f"rare {seed} {name}")  # noqa: S311
    return draw.choice(next((rates for at, rates in RATES.items() if name.startswith(at)), USUAL))
