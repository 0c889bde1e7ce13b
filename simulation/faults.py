"""What happens to machines, lines and disks; each fault ends by itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field

from simulation.clock import World
from simulation.host import RESTARTED_S, STOPPED_S, SimHost
from simulation.network import Network
from simulation.valkey import MACHINE as ENGINE

CURIOUS, ASK_S = 0.7, 4.0  # of those in the chat, and within how many seconds
Fault = Callable[["Breaker", random.Random], None]


@define(eq=False)
class Breaker:
    """Breaks things of a host, and mends them after a while. ``mark`` is told, for the picture."""

    world: World
    network: Network
    host: SimHost
    players: list[Any]
    mark: Callable[[str], None] = lambda text: None
    missing: Callable[[float, float], None] = lambda since, until: None  # told of such times
    shaken: Callable[[], None] = lambda: None  # told when live state may be lost
    # told until when something is broken, and by whom alone it is noticed; "": by anybody
    troubled: Callable[[float, str], None] = lambda until, who: None
    # told as a fault begins: whom it cuts off at once hears so before it has told its end
    begins: Callable[[str], None] = lambda who: None
    until: float = field(default=0.0)  # by then everything is mended
    struck: str = field(default="", init=False)  # the player whose line alone the fault is of

    def somebody(self, dice: random.Random) -> Any:
        """The player whose line alone the fault is of."""
        player = dice.choice(self.players)
        self.struck = player.name
        self.begins(player.name)
        return player

    def do(self, name: str, dice: random.Random) -> None:
        """Let the fault of this name happen; ``dice`` decides where and for how long."""
        self.mark(name)
        if name in SHAKING:
            self.shaken()
        self.struck, before, self.until = "", self.until, self.world.now
        if name not in OF_ONE_LINE:
            self.begins("")
        FAULTS[name](self, dice)
        self.troubled(self.until, self.struck)
        self.until = max(self.until, before)

    def missed(self, for_s: float) -> None:
        """For so long metagames may miss one another's news, and the chat's lines with them."""
        if self.host.shared:
            self.missing(self.world.now, self.world.now + for_s)

    def mend(self, after_s: float, work: Callable[[], object]) -> None:
        """Undo a fault in so many seconds."""
        self.until = max(self.until, self.world.now + after_s)
        self.world.later(after_s, work)

    def ask_around(self, after_s: float, dice: random.Random) -> None:
        """Who sees that something hangs asks the others in the chat, when it goes on just now."""
        for player in self.players:
            if player.chat is not None and dice.random() < CURIOUS:
                asks = partial(player.begin, "speak", random.Random(dice.random()))  # noqa: S311
                self.world.later(after_s + dice.uniform(0.0, ASK_S), asks)


def kill(name: str) -> Fault:
    """The service dies as by a power cut, and comes back."""

    def fault(breaker: Breaker, dice: random.Random) -> None:
        back = dice.choice((0.5, 2.0, 8.0))
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)
        host = breaker.host
        which = dice.choice(host.metagames) if name == "metagame" else name
        host.kill(which, back)
        breaker.missed(back)

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
        for name in host.metagames:
            breaker.world.later(2.0, partial(host._again, name))
        breaker.missed(2.0)
        return True

    host.disk.on_commit = on_commit
    breaker.mend(60.0, lambda: setattr(host.disk, "on_commit", None))


def slow_commits(breaker: Breaker, dice: random.Random) -> None:
    """The disk takes seconds for each sync."""
    breaker.host.disk.slow_s = dice.uniform(0.2, 4.0)
    breaker.mend(dice.uniform(5.0, 40.0), lambda: setattr(breaker.host.disk, "slow_s", 0.0))


def failing_statement(breaker: Breaker, dice: random.Random) -> None:
    """One of the next statements fails with an error of the disk, once or for a while."""
    disk = breaker.host.disk
    disk.only_writes = dice.random() < 0.7
    disk.fail_in = dice.randrange(0, 8 if disk.only_writes else 60)
    disk.stays_bad = dice.random() < 0.7
    breaker.mend(dice.uniform(20.0, 60.0), disk.mend)


def full_disk(breaker: Breaker, dice: random.Random) -> None:
    """Nothing that needs a new page can be written for a while."""
    breaker.host.disk.fill()
    breaker.mend(dice.uniform(5.0, 60.0), breaker.host.disk.make_room)


def cut_line(breaker: Breaker, dice: random.Random) -> None:
    """Every connection between one player's PC and the host breaks."""
    player = breaker.somebody(dice)
    breaker.network.cut(player.process.machine)


def pulled_plug(breaker: Breaker, dice: random.Random) -> None:
    """A player's PC loses its power: it says nothing more, and nobody is told."""
    player = breaker.somebody(dice)
    if not player.process.dead:
        player.process.vanish()
        player.switched_off()


def silent_line(breaker: Breaker, dice: random.Random) -> None:
    """A player's packets are lost for a while; then the connections break or go on."""
    player = breaker.somebody(dice)
    machine = player.process.machine
    breaker.network.silent.add(machine)
    player.unheard()

    def back() -> None:
        breaker.network.silent.discard(machine)
        player.unheard()

    breaker.mend(dice.uniform(3.0, 50.0), back)


def crashed_hunt(breaker: Breaker, dice: random.Random) -> None:
    """A game server of a hunt dies with its players in it."""
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


def failover(breaker: Breaker, dice: random.Random) -> None:
    """The engine of live state dies; its replica has not heard of the newest writes."""
    lost_s, back = dice.choice((0.0, 0.01, 0.3, 3.0, 50.0)), dice.choice((0.1, 1.0, 6.0))
    if breaker.host.valkey is not None:
        breaker.host.valkey.fail_over(lost_s, back)
        breaker.missed(back)
        breaker.ask_around(back, dice)
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)


def emptied_engine(breaker: Breaker, dice: random.Random) -> None:
    """The engine of live state is started again with nothing in it."""
    if breaker.host.valkey is not None:
        back = dice.choice((0.1, 1.0, 6.0))
        breaker.host.valkey.empty(back)
        breaker.missed(back)
        breaker.ask_around(back, dice)
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)


def slow_engine(breaker: Breaker, dice: random.Random) -> None:
    """The engine of live state takes long for each answer."""
    engine = breaker.host.valkey
    if engine is not None:
        engine.slow(dice.choice((0.02, 0.1, 0.3)))
        breaker.mend(dice.uniform(10.0, 120.0), lambda: engine.slow(0.0))


HEARD_LATE_S = 2.0  # who was cut off for no longer has missed nothing when all is well again


def cut_engine(breaker: Breaker, dice: random.Random) -> None:
    """One metagame cannot reach the engine for a while, or by one connection alone."""
    if breaker.host.valkey is None:
        return
    network, for_s = breaker.network, dice.choice((0.1, 2.0, 10.0, 30.0, 60.0))
    process = breaker.host.processes[dice.choice(breaker.host.metagames)]
    network.isolate(process, ENGINE, spared=dice.choice((None, 0, 1)))
    if for_s > HEARD_LATE_S:
        breaker.missed(for_s)
    breaker.mend(for_s, lambda: network.join(process, ENGINE))


def failing_syncs(breaker: Breaker, dice: random.Random) -> None:
    """The next commits fail when everything is written already."""
    breaker.host.disk.bad_syncs = dice.randrange(1, 6)
    breaker.mend(60.0, lambda: setattr(breaker.host.disk, "bad_syncs", 0))


def frozen_metagame(breaker: Breaker, dice: random.Random) -> None:
    """A metagame stands still, as under a full machine or a debugger, and goes on."""
    name, for_s = dice.choice(breaker.host.metagames), dice.uniform(0.5, 25.0)
    breaker.host.processes[name].freeze(for_s)
    breaker.missed(for_s)
    breaker.until = max(breaker.until, breaker.world.now + for_s + 1.0)


def slow_reader(breaker: Breaker, dice: random.Random) -> None:
    """A player's machine takes what is sent to it only bit by bit."""
    machine = breaker.somebody(dice).process.machine
    breaker.network.slow.add(machine)
    breaker.mend(dice.uniform(5.0, 60.0), lambda: breaker.network.slow.discard(machine))


NOTICED_S = 4.0  # in which a metagame knows that the engine is gone, whom nobody tells


def powerless_engine(breaker: Breaker, dice: random.Random) -> None:
    """The engine's machine loses its power: no connection to it is ended, and none answers."""
    lost_s, back = dice.choice((0.0, 0.01, 0.3, 3.0)), dice.choice((0.5, 3.0, 20.0))
    if breaker.host.valkey is not None:
        breaker.host.valkey.lose_power(lost_s, back)
        breaker.missed(back + NOTICED_S)
        breaker.ask_around(back, dice)
        breaker.until = max(breaker.until, breaker.world.now + back + NOTICED_S)


def stopped_metagame(breaker: Breaker, dice: random.Random) -> None:
    """A metagame is told to stop: what runs ends first; later it is started again."""
    name, back = dice.choice(breaker.host.metagames), dice.choice((0.5, 5.0, 20.0))
    for_s = STOPPED_S + back
    breaker.host.stop(name, back)
    breaker.missed(for_s)
    breaker.until = max(breaker.until, breaker.world.now + for_s)


def rolling_restart(breaker: Breaker, dice: random.Random) -> None:
    """All metagames are restarted, one after the other, as ``svcctl restart --rolling`` does."""
    waiting = list(breaker.host.metagames)
    for_s = len(waiting) * (STOPPED_S + RESTARTED_S)

    def following() -> None:
        if waiting:
            breaker.host.stop(waiting.pop(0), RESTARTED_S, following)

    following()
    breaker.missed(for_s)
    breaker.until = max(breaker.until, breaker.world.now + for_s)


def frozen_game_server(breaker: Breaker, dice: random.Random) -> None:
    """A game server stands still, and may not heed being told to end."""
    running = breaker.host.servers.running()
    if running:
        one = dice.choice(running)
        one.stand_still(deaf=dice.random() < 0.5)


def hanging_launch(breaker: Breaker, dice: random.Random) -> None:
    """The next game server never gets to listening."""
    breaker.host.servers.hangs = True
    breaker.mend(90.0, lambda: setattr(breaker.host.servers, "hangs", False))


def broken_firewall(breaker: Breaker, dice: random.Random) -> None:
    """Whatever the allowlist helper wants of the firewall fails for a while."""
    breaker.host.firewall.broken = True
    mend = partial(setattr, breaker.host.firewall, "broken", False)
    breaker.mend(dice.uniform(5.0, 60.0), mend)


FAULTS: dict[str, Fault] = {
    "broken-firewall": broken_firewall,
    "crashed-hunt": crashed_hunt,
    "cut-engine": cut_engine,
    "cut-line": cut_line,
    "dead-city": dead_city,
    "emptied-engine": emptied_engine,
    "failover": failover,
    "failing-launches": failing_launches,
    "failing-statement": failing_statement,
    "failing-syncs": failing_syncs,
    "frozen-game-server": frozen_game_server,
    "frozen-metagame": frozen_metagame,
    "full-disk": full_disk,
    "hanging-launch": hanging_launch,
    "kill-after-commit": kill_after_commit,
    "kill-allowlist": kill("allowlist"),
    "kill-content": kill("content"),
    "kill-deploy": kill("deploy"),
    "kill-gateway": kill("gateway"),
    "kill-metagame": kill("metagame"),
    "powerless-engine": powerless_engine,
    "pulled-plug": pulled_plug,
    "rolling-restart": rolling_restart,
    "silent-line": silent_line,
    "slow-commits": slow_commits,
    "slow-engine": slow_engine,
    "slow-reader": slow_reader,
    "stopped-metagame": stopped_metagame,
}
OF_ONE_LINE = ("cut-line", "pulled-plug", "silent-line", "slow-reader")  # of one player's
OF_ENGINE = (
    "cut-engine",
    "emptied-engine",
    "failover",
    "powerless-engine",
    "slow-engine",
)  # where live state is on one
SHAKING = (
    "cut-engine",
    "emptied-engine",
    "failover",
    "frozen-metagame",
    "kill-after-commit",
    "kill-metagame",
    "powerless-engine",
    "rolling-restart",
    "stopped-metagame",
)
