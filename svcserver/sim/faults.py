"""What happens to machines, lines and disks; each fault ends by itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import define, field

from svcserver.sim.clock import World
from svcserver.sim.host import SimHost
from svcserver.sim.network import Network

Fault = Callable[["Breaker", random.Random], None]


@define(eq=False)
class Breaker:
    """Breaks things of a host, and mends them after a while. ``mark`` is told, for the picture."""

    world: World
    network: Network
    host: SimHost
    players: list[Any]
    mark: Callable[[str], None] = lambda text: None
    until: float = field(default=0.0)  # by then everything is mended

    def do(self, name: str, dice: random.Random) -> None:
        """One fault."""
        self.mark(name)
        FAULTS[name](self, dice)

    def mend(self, after_s: float, work: Callable[[], object]) -> None:
        """Undo it later."""
        self.until = max(self.until, self.world.now + after_s)
        self.world.later(after_s, work)


def kill(name: str) -> Fault:
    """The service dies as by a power cut, and comes back."""

    def fault(breaker: Breaker, dice: random.Random) -> None:
        back = dice.choice((0.5, 2.0, 8.0))
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)
        breaker.host.kill(name, back)

    return fault


def kill_after_commit(breaker: Breaker, dice: random.Random) -> None:
    """The metagame dies between a commit and its answers, some commits from now."""
    host, left = breaker.host, [dice.randrange(1, 20)]

    def on_commit() -> bool:
        left[0] -= 1
        if left[0] > 0:
            return False
        host.disk.on_commit = None
        host.deaths += 1
        breaker.world.later(2.0, lambda: host._again("metagame"))
        return True

    host.disk.on_commit = on_commit
    breaker.mend(60.0, lambda: setattr(host.disk, "on_commit", None))


def slow_commits(breaker: Breaker, dice: random.Random) -> None:
    """The disk takes seconds for each sync."""
    breaker.host.disk.slow_s = dice.uniform(0.2, 4.0)
    breaker.mend(dice.uniform(5.0, 40.0), lambda: setattr(breaker.host.disk, "slow_s", 0.0))


def failing_statement(breaker: Breaker, dice: random.Random) -> None:
    """One of the next statements fails with an error of the disk."""
    breaker.host.disk.fail_in = dice.randrange(0, 60)
    breaker.mend(30.0, lambda: setattr(breaker.host.disk, "fail_in", -1))


def full_disk(breaker: Breaker, dice: random.Random) -> None:
    """Nothing that needs a new page can be written for a while."""
    breaker.host.disk.fill()
    breaker.mend(dice.uniform(5.0, 60.0), breaker.host.disk.make_room)


def cut_line(breaker: Breaker, dice: random.Random) -> None:
    """Every connection of one player breaks."""
    player = dice.choice(breaker.players)
    breaker.network.cut(player.process.machine)


def silent_line(breaker: Breaker, dice: random.Random) -> None:
    """A player's packets are lost for a while; then the connections break or go on."""
    player = dice.choice(breaker.players)
    machine = player.process.machine
    breaker.network.silent.add(machine)
    player.unheard()

    def back() -> None:
        breaker.network.silent.discard(machine)
        player.unheard()

    breaker.mend(dice.uniform(3.0, 50.0), back)


def crashed_hunt(breaker: Breaker, dice: random.Random) -> None:
    """A game server dies."""
    running = [one for one in breaker.host.servers.running() if not one.stays]
    if running:
        dice.choice(running).end(code=1)


def dead_city(breaker: Breaker, dice: random.Random) -> None:
    """The city dies; the deploy server has to start it again."""
    for one in breaker.host.servers.running():
        if one.stays:
            one.end(code=1)


def failing_launches(breaker: Breaker, dice: random.Random) -> None:
    """The next game servers cannot be started."""
    breaker.host.servers.fails = dice.randrange(1, 3)
    breaker.mend(90.0, lambda: setattr(breaker.host.servers, "fails", 0))


FAULTS: dict[str, Fault] = {
    "crashed-hunt": crashed_hunt,
    "cut-line": cut_line,
    "dead-city": dead_city,
    "failing-launches": failing_launches,
    "failing-statement": failing_statement,
    "full-disk": full_disk,
    "kill-after-commit": kill_after_commit,
    "kill-allowlist": kill("allowlist"),
    "kill-content": kill("content"),
    "kill-deploy": kill("deploy"),
    "kill-gateway": kill("gateway"),
    "kill-metagame": kill("metagame"),
    "silent-line": silent_line,
    "slow-commits": slow_commits,
}
