"""Faults of machines, connections and disks; each fault ends by itself."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field

from simulation.clock import World
from simulation.host import RESTARTED_S, STOPPED_S, SimHost
from simulation.machines import MANAGER
from simulation.network import Network
from simulation.valkey import MACHINE as ENGINE

CURIOUS, ASK_S = 0.7, 4.0  # share of the players in the chat, and within how many seconds
Fault = Callable[["Breaker", random.Random], None]


@define(eq=False)
class Breaker:
    """Breaks parts of a host and repairs them later; ``mark`` adds faults to the timeline."""

    world: World
    network: Network
    host: SimHost
    players: list[Any]
    mark: Callable[[str], None] = lambda text: None
    # called with the start and the end of such periods
    missing: Callable[[float, float], None] = lambda since, until: None
    shaken: Callable[[], None] = lambda: None  # called when live state may be lost
    # called with the end of a fault and the only player who notices it; "" for anybody
    troubled: Callable[[float, str], None] = lambda until, who: None
    # called when a fault begins, before its end is known
    begins: Callable[[str], None] = lambda who: None
    until: float = field(default=0.0)  # everything is mended by then
    struck: str = field(default="", init=False)  # the only player whom the fault affects

    def somebody(self, dice: random.Random) -> Any:
        """Return a random player, and record that the fault affects only this player."""
        player = dice.choice(self.players)
        self.struck = player.name
        self.begins(player.name)
        return player

    def do(self, name: str, dice: random.Random) -> None:
        """Cause the named fault; ``dice`` decides where and how long."""
        self.mark(name)
        if name in SHAKING:
            self.shaken()
        self.struck, before, self.until = "", self.until, self.world.now
        if name not in OF_ONE_LINE:
            self.begins("")
        (FAULTS | OF_SWARM)[name](self, dice)
        self.troubled(self.until, self.struck)
        self.until = max(self.until, before)

    def missed(self, for_s: float) -> None:
        """Record that metagames can miss notifications and chat lines for the next ``for_s`` s."""
        if self.host.shared:
            self.missing(self.world.now, self.world.now + for_s)

    def mend(self, after_s: float, work: Callable[[], object]) -> None:
        """Undo a fault after ``after_s`` seconds."""
        self.until = max(self.until, self.world.now + after_s)
        self.world.later(after_s, work)

    def ask_around(self, after_s: float, dice: random.Random) -> None:
        """Let players talk in the chat soon after a short outage."""
        for player in self.players:
            if player.chat is not None and dice.random() < CURIOUS:
                asks = partial(player.begin, "speak", random.Random(dice.random()))  # noqa: S311
                self.world.later(after_s + dice.uniform(0.0, ASK_S), asks)


def kill(name: str) -> Fault:
    """Return a fault that kills a service abruptly, as a power cut does, and restarts it later."""

    def fault(breaker: Breaker, dice: random.Random) -> None:
        back = dice.choice((0.5, 2.0, 8.0))
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)
        host = breaker.host
        which = dice.choice(host.metagames) if name == "metagame" else name
        host.kill(which, back)
        breaker.missed(back)

    return fault


def kill_after_commit(breaker: Breaker, dice: random.Random) -> None:
    """Kill the metagame right after one of its next commits, before it sends the replies."""
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
    """Delay each commit by up to four seconds for a while, as a slow disk does."""
    breaker.host.disk.slow_s = dice.uniform(0.2, 4.0)
    breaker.mend(dice.uniform(5.0, 40.0), lambda: setattr(breaker.host.disk, "slow_s", 0.0))


def failing_statement(breaker: Breaker, dice: random.Random) -> None:
    """Make one SQL statement fail with a disk error, once or each time until the fault ends."""
    disk = breaker.host.disk
    disk.only_writes = dice.random() < 0.7
    disk.fail_in = dice.randrange(0, 8 if disk.only_writes else 60)
    disk.stays_bad = dice.random() < 0.7
    breaker.mend(dice.uniform(20.0, 60.0), disk.mend)


def full_disk(breaker: Breaker, dice: random.Random) -> None:
    """Fill the disk for a while, so that nothing that needs a new page can be written."""
    breaker.host.disk.fill()
    breaker.mend(dice.uniform(5.0, 60.0), breaker.host.disk.make_room)


def cut_line(breaker: Breaker, dice: random.Random) -> None:
    """Break every connection of one player's PC."""
    player = breaker.somebody(dice)
    breaker.network.cut(player.process.machine)


def pulled_plug(breaker: Breaker, dice: random.Random) -> None:
    """Cut the power of a player's PC; its peers are not notified."""
    player = breaker.somebody(dice)
    if not player.process.dead:
        player.process.vanish()
        player.switched_off()


def silent_line(breaker: Breaker, dice: random.Random) -> None:
    """Lose a player's packets for a while; the player's connections do not always survive this."""
    player = breaker.somebody(dice)
    machine = player.process.machine
    breaker.network.silent.add(machine)
    player.unheard()

    def back() -> None:
        breaker.network.silent.discard(machine)
        player.unheard()

    breaker.mend(dice.uniform(3.0, 50.0), back)


def crashed_hunt(breaker: Breaker, dice: random.Random) -> None:
    """Crash the game server of a running hunt."""
    running = [server for server in breaker.host.servers.running() if not server.stays]
    if running:
        dice.choice(running).end(code=1)


def dead_city(breaker: Breaker, dice: random.Random) -> None:
    """Kill the city's game server; the deploy server must restart it."""
    for server in breaker.host.servers.running():
        if server.stays:
            server.end(code=1)


def failing_launches(breaker: Breaker, dice: random.Random) -> None:
    """Make the next launches of game servers fail."""
    breaker.host.servers.fails = dice.randrange(1, 3)
    breaker.mend(90.0, lambda: setattr(breaker.host.servers, "fails", 0))


def failover(breaker: Breaker, dice: random.Random) -> None:
    """Kill the live-state engine; a replica that lacks the newest writes takes over."""
    lost_s, back = dice.choice((0.0, 0.01, 0.3, 3.0, 50.0)), dice.choice((0.1, 1.0, 6.0))
    if breaker.host.valkey is not None:
        breaker.host.valkey.fail_over(lost_s, back)
        breaker.missed(back)
        breaker.ask_around(back, dice)
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)


def emptied_engine(breaker: Breaker, dice: random.Random) -> None:
    """Restart the live-state engine without its data."""
    if breaker.host.valkey is not None:
        back = dice.choice((0.1, 1.0, 6.0))
        breaker.host.valkey.empty(back)
        breaker.missed(back)
        breaker.ask_around(back, dice)
        breaker.until = max(breaker.until, breaker.world.now + back + 1.0)


def slow_engine(breaker: Breaker, dice: random.Random) -> None:
    """Slow down the engine's replies."""
    engine = breaker.host.valkey
    if engine is not None:
        engine.slow(dice.choice((0.02, 0.1, 0.3)))
        breaker.mend(dice.uniform(10.0, 120.0), lambda: engine.slow(0.0))


HEARD_LATE_S = 2.0  # a shorter disconnection loses no messages


def cut_engine(breaker: Breaker, dice: random.Random) -> None:
    """Cut a metagame off from the live-state engine for a while.

    Sometimes one of the connections between the two survives.
    """
    if breaker.host.valkey is None:
        return
    network, for_s = breaker.network, dice.choice((0.1, 2.0, 10.0, 30.0, 60.0))
    process = breaker.host.processes[dice.choice(breaker.host.metagames)]
    network.isolate(process, ENGINE, spared=dice.choice((None, 0, 1)))
    if for_s > HEARD_LATE_S:
        breaker.missed(for_s)
    breaker.mend(for_s, lambda: network.join(process, ENGINE))


def failing_syncs(breaker: Breaker, dice: random.Random) -> None:
    """Make the next commits fail after the data is written, as if a sync to disk had failed."""
    breaker.host.disk.bad_syncs = dice.randrange(1, 6)
    breaker.mend(60.0, lambda: setattr(breaker.host.disk, "bad_syncs", 0))


def frozen_metagame(breaker: Breaker, dice: random.Random) -> None:
    """Freeze a metagame for a while, as an overloaded machine or a debugger would."""
    name, for_s = dice.choice(breaker.host.metagames), dice.uniform(0.5, 25.0)
    breaker.host.processes[name].freeze(for_s)
    breaker.missed(for_s)
    breaker.until = max(breaker.until, breaker.world.now + for_s + 1.0)


def slow_reader(breaker: Breaker, dice: random.Random) -> None:
    """Make a player's machine receive only a few bytes at a time."""
    machine = breaker.somebody(dice).process.machine
    breaker.network.slow.add(machine)
    breaker.mend(dice.uniform(5.0, 60.0), lambda: breaker.network.slow.discard(machine))


NOTICED_S = 4.0  # until a metagame notices by itself that the engine is unreachable


def powerless_engine(breaker: Breaker, dice: random.Random) -> None:
    """Cut the power of the engine's machine: connections neither close nor reply."""
    lost_s, back = dice.choice((0.0, 0.01, 0.3, 3.0)), dice.choice((0.5, 3.0, 20.0))
    if breaker.host.valkey is not None:
        breaker.host.valkey.lose_power(lost_s, back)
        breaker.missed(back + NOTICED_S)
        breaker.ask_around(back, dice)
        breaker.until = max(breaker.until, breaker.world.now + back + NOTICED_S)


def stopped_metagame(breaker: Breaker, dice: random.Random) -> None:
    """Stop a metagame gracefully and start it again later."""
    name, back = dice.choice(breaker.host.metagames), dice.choice((0.5, 5.0, 20.0))
    for_s = STOPPED_S + back
    breaker.host.stop(name, back)
    breaker.missed(for_s)
    breaker.until = max(breaker.until, breaker.world.now + for_s)


def rolling_restart(breaker: Breaker, dice: random.Random) -> None:
    """Restart the metagames one after another, like ``svcctl restart --rolling``."""
    waiting = list(breaker.host.metagames)
    for_s = len(waiting) * (STOPPED_S + RESTARTED_S)

    def following() -> None:
        if waiting:
            breaker.host.stop(waiting.pop(0), RESTARTED_S, following)

    following()
    breaker.missed(for_s)
    breaker.until = max(breaker.until, breaker.world.now + for_s)


def frozen_game_server(breaker: Breaker, dice: random.Random) -> None:
    """Freeze a game server; sometimes it also ignores SIGTERM from then on."""
    running = breaker.host.servers.running()
    if running:
        server = dice.choice(running)
        server.stand_still(deaf=dice.random() < 0.5)


def hanging_launch(breaker: Breaker, dice: random.Random) -> None:
    """Make the next game server hang before it listens."""
    breaker.host.servers.hangs = True
    breaker.mend(90.0, lambda: setattr(breaker.host.servers, "hangs", False))


def broken_firewall(breaker: Breaker, dice: random.Random) -> None:
    """Make the allowlist helper's firewall changes fail for a while."""
    breaker.host.firewall.broken = True
    mend = partial(setattr, breaker.host.firewall, "broken", False)
    breaker.mend(dice.uniform(5.0, 60.0), mend)


def lost_machine(breaker: Breaker, dice: random.Random) -> None:
    """Cut the power of a machine of the swarm for a while."""
    _unreachable(breaker, dice, power=False)


def cut_off_machine(breaker: Breaker, dice: random.Random) -> None:
    """Cut off a machine of the swarm for a while; its game servers keep running at first."""
    _unreachable(breaker, dice, power=True)


AT_A_LAUNCH = 0.5  # share of these faults that wait for a launch
LAUNCH_S = 40.0  # at most


def _unreachable(breaker: Breaker, dice: random.Random, *, power: bool) -> None:
    swarm, back = breaker.host.swarm, dice.choice((5.0, 20.0, 40.0, 60.0, 150.0))
    if swarm is None:
        return

    def cut(node: str) -> None:
        if node in swarm.machines and node not in swarm.unreachable:
            swarm.cut_off(node, power=power)
            breaker.mend(back, partial(swarm.recover, node))

    if dice.random() < AT_A_LAUNCH:
        swarm.at_launch = cut
        breaker.mend(LAUNCH_S, partial(setattr, swarm, "at_launch", None))
        breaker.until = max(breaker.until, breaker.world.now + LAUNCH_S + back)
    else:
        cut(dice.choice([node for node in swarm.machines if node != MANAGER]))


def crowded_machines(breaker: Breaker, dice: random.Random) -> None:
    """Let other programs fill the machines' memory for a while.

    The memory becomes free when the fault ends, or when a launch that waits for memory is deleted.
    """
    swarm = breaker.host.swarm
    if swarm is not None:
        swarm.crowded = True
        breaker.mend(dice.uniform(20.0, 60.0), swarm.make_room)


def stopped_hunt(breaker: Breaker, dice: random.Random) -> None:
    """Stop a hunt as the owner does; the next hunt gets the stopped hunt's port."""
    if breaker.host.swarm is not None:
        breaker.host.swarm.stop_hunt()


def drained_machine(breaker: Breaker, dice: random.Random) -> None:
    """Drain a machine of the swarm as the owner does, and end the drain later."""
    swarm = breaker.host.swarm
    if swarm is None:
        return
    node = dice.choice(list(swarm.machines))
    swarm.drain(node, on=True)
    breaker.mend(dice.uniform(30.0, 200.0), partial(swarm.drain, node, on=False))


def joined_machine(breaker: Breaker, dice: random.Random) -> None:
    """Let a machine join the swarm; later, the owner removes the machine without draining it."""
    swarm = breaker.host.swarm
    if swarm is not None:
        breaker.mend(dice.uniform(30.0, 200.0), partial(swarm.remove, swarm.join()))


def restarted_manager(breaker: Breaker, dice: random.Random) -> None:
    """Restart the manager's engine, which ends the game servers on its machine."""
    swarm = breaker.host.swarm
    if swarm is not None:
        swarm.stop_engine()
        breaker.mend(dice.choice((1.0, 4.0, 15.0)), swarm.start_engine)


OF_SWARM: dict[str, Fault] = {
    "crowded-machines": crowded_machines,
    "cut-off-machine": cut_off_machine,
    "drained-machine": drained_machine,
    "joined-machine": joined_machine,
    "lost-machine": lost_machine,
    "restarted-manager": restarted_manager,
    "stopped-hunt": stopped_hunt,
}
NOT_ON_SWARM = (
    "emptied-engine",  # matches that are forgotten are launched again
    "failover",
    "powerless-engine",
    "frozen-game-server",  # not detected on a swarm
    "hanging-launch",
)
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
)  # if live state is on an engine
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
