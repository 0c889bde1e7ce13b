"""Sixty players on three machines, while each part of the fleet fails once.

The test takes about five minutes, and longer on a busy machine. ``make fleet`` runs it, and prints
how long the players waited after each fault.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define

from tests.live.deploying import CITY, as_owner, hand_out
from tests.live.fleet_network import NetworkedHost, networked_host
from tests.live.swarm_engine import SwarmMachine, fleet, join
from tests.prove.fleet_players import GAME, HUNT_MB, HUNTS, HuntCounter, Hunter, counting, hunters
from tests.support.processes import eventually
from tests.support.watch import Watch

PLAYERS = 60
CUT_OFF_S = 60.0
LOST_S = 30.0  # the hunts of a lost machine have ended by then
SETTINGS = {
    "PORT_RANGE_END": "8850",
    "GAMESERVER_HUNT_STARTUP_MB": str(HUNT_MB),
    "CITY_MAP": "/Game/Maps/city/a_01_persistent",
}


@define
class Evening:
    """The players, and the time since the last fault."""

    players: list[Hunter]
    counter: HuntCounter
    began: float = 0.0

    def fault(self) -> None:
        self.began = time.monotonic()

    def all_play_again(self, name: str) -> None:
        """Wait until each player's game server has answered since the fault; print the delays."""
        eventually(lambda: all(player.played_at > self.began for player in self.players), 180, 0.2)
        waits = sorted(
            seconds
            for player in self.players
            for ended, seconds in player.waits
            if ended > self.began
        )
        median, longest = (waits[len(waits) // 2], waits[-1]) if waits else (0.0, 0.0)
        after = time.monotonic() - self.began
        print(
            f"{time.strftime('%X')} {name:40} all play after {after:5.1f} s; "
            f"{len(waits):3} waited, median {median:4.1f} s, longest {longest:5.1f} s"
        )


def city(host: NetworkedHost) -> str:
    """Return the address of the city's machine."""

    def find() -> Any:
        status, reply = hand_out(host.deploy, CITY)
        return reply["host"] if status == 200 else None

    return str(eventually(find, 60, 0.5))


def hunts_on(host: NetworkedHost, machine: SwarmMachine) -> int:
    """Return the hunts that the deploy server counts on a machine."""
    _, reply = as_owner(host.deploy, "GET", "/gameservers/machines")
    count: int = next(
        record["hunts"] for record in reply["machines"] if record["address"] == machine.address
    )
    return count


def drain(host: NetworkedHost, machine: SwarmMachine, act: str) -> None:
    body = {"Act": act, "Id": machine.node}
    status, reply = as_owner(host.deploy, "POST", "/gameservers/handle", body)
    assert status == 200, reply


def lost_in_time(host: NetworkedHost, machine: SwarmMachine) -> None:
    """Check that the hunts of a lost machine, if it had any, end in time."""
    with Watch() as watch:
        eventually(lambda: hunts_on(host, machine) == 0, 2 * LOST_S, 0.2)
    assert watch.seconds < LOST_S


def wait(seconds: float) -> None:
    """Wait for this many seconds of wall-clock time, even if the machine is busy."""
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > until, 2 * seconds, 0.2)


def test_sixty_players_hunt_while_every_part_fails(tmp_path: Path) -> None:
    with ExitStack() as ends:
        machines = ends.enter_context(fleet(3, joined=2, game=GAME))
        manager, second, third = machines
        manager.docker("node", "update", "--availability", "pause", manager.node)
        host = ends.enter_context(networked_host(tmp_path, manager, second, third, **SETTINGS))
        counter = ends.enter_context(counting(machines))
        host.agent(second)
        assert city(host) == second.address
        manager.docker("node", "update", "--availability", "active", manager.node)
        with hunters(manager.namespace, PLAYERS) as players:
            evening = Evening(players, counter)

            # a machine joins while players wait for room
            eventually(lambda: sum(counter.running.values()) == 2 * HUNTS, pause_s=0.2)
            evening.fault()
            join(third, manager)
            host.agent(third)
            evening.all_play_again("a machine joins while players wait")
            eventually(lambda: counter.running[third.address], pause_s=0.2)

            evening.fault()
            host.deploy.restart()
            evening.all_play_again("the deploy server is killed")

            evening.fault()
            host.metagame.restart()
            evening.all_play_again("the metagame is killed")

            evening.fault()
            manager.stop()
            manager.start()
            evening.all_play_again("the manager's engine restarts")

            evening.fault()
            third.connect("down")
            lost_in_time(host, third)
            evening.all_play_again("a machine is cut off")
            wait(CUT_OFF_S - (time.monotonic() - evening.began))
            evening.fault()
            third.connect("up")
            eventually(lambda: counter.running[third.address], pause_s=0.2)
            evening.all_play_again("the machine is back")

            evening.fault()
            drain(host, third, "drain")
            eventually(lambda: not counter.running[third.address], pause_s=0.2)
            evening.all_play_again("a machine is drained")
            drain(host, third, "undrain")

            evening.fault()
            second.die()
            lost_in_time(host, second)
            evening.all_play_again("a machine dies")

            hunts = [player.hunts for player in players]
            eventually(
                lambda: all(
                    player.hunts > before for player, before in zip(players, hunts, strict=True)
                ),
                180,
            )
        assert city(host) in (manager.address, third.address)
        assert counter.restarted == {}
        assert counter.excess == []
