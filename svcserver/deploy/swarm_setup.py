"""Makes a deploy server's supervisor run its game servers on a Docker Swarm.

Only a deploy server with GAMESERVER_ENGINE=swarm imports this module: the client for Docker takes a
tenth of a second to import.
"""

from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.logger import Logger

from svcserver.deploy.datagrams import DatagramTrials
from svcserver.deploy.docker_api import DockerApi, engine_client
from svcserver.deploy.fleet import PERSISTENT
from svcserver.deploy.hunts import GameServerKind
from svcserver.deploy.launch_history import EndedMatches
from svcserver.deploy.settings import DeploySettings, numbers
from svcserver.deploy.supervisor import Supervisor
from svcserver.deploy.swarm import SwarmEngine

log = Logger()


def use_swarm(supervisor: Supervisor, settings: DeploySettings, reactor: Any, state: Path) -> None:
    """Make the supervisor start game servers as services of a Docker Swarm.

    The swarm then also reserves memory for the game servers. ``state`` is the folder of the files
    that survive a restart.
    """
    costs = settings.startup_mb, settings.hunt_startup_mb or settings.startup_mb
    try:
        persistent_mb, hunt_mb = map(numbers, costs)
    except ValueError as error:
        supervisor.broken_guard = f"GAMESERVER_STARTUP_MB or GAMESERVER_HUNT_STARTUP_MB {error}"
        return
    client = engine_client(reactor, settings.docker, settings.docker_certificates)
    engine = SwarmEngine(
        reactor,
        DockerApi(client, reactor),
        f"{settings.bind_host}:{settings.port}",
        settings.image,
        settings.my_ip,
        lambda kind: persistent_mb if kind in PERSISTENT else hunt_mb,
        settings.cpus,
        frozenset(settings.trusted),
        EndedMatches(state / "matches.log"),
    )
    place_on(supervisor, engine)
    table = supervisor.table
    known = {*GameServerKind, *table.player_hunts, *table.matchmaker_hunts}
    for name in engine.trusted - known:
        log.warn(
            "GAMESERVER_TRUSTED lists {name!r}, which is unknown. List only city, dojo, tutorial, "
            "hunt or ids of hunts. The word hunt means all hunts.",
            name=name,
        )


def place_on(supervisor: Supervisor, engine: SwarmEngine) -> None:
    """Make the supervisor use ``engine``, which starts game servers and chooses their machines."""

    def leave() -> None:
        engine.stop()
        trials.stop()

    is_bound_here = supervisor.is_bound
    supervisor.is_bound = lambda port: is_bound_here(port) or engine.uses(port)
    supervisor.engine, engine.adopt = engine, supervisor.adopt_placed
    supervisor.begin, supervisor.leave, supervisor.look = engine.begin, leave, engine.wake
    trials = DatagramTrials(engine.clock, supervisor.fleet, supervisor.is_bound, engine.machines)
    supervisor.trials, supervisor.image = trials, engine.image
    supervisor.machines, supervisor.drain = trials.listed, engine.drain
    supervisor.host, supervisor.guard, supervisor.broken_guard = None, None, ""
    supervisor.program = evolve(supervisor.program, output=None)
