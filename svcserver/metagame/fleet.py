"""The part of a metagame that serves the nodes of a fleet.

Only a metagame with FLEET_PORT imports this module: certificates and TLS take a tenth of a second
to import.
"""

from typing import Any

from twisted.application.service import IService
from twisted.internet.defer import Deferred

from svcserver.board.waiting import log_failure
from svcserver.edge.nodes import FleetFolder
from svcserver.metagame.access.gate import guarded
from svcserver.metagame.composition import Metagame
from svcserver.metagame.play.nodes.agents import AgentRoutes
from svcserver.metagame.play.nodes.gate import NodeGate, is_served
from svcserver.metagame.play.nodes.listener import NodeFactory, fleet_listener
from svcserver.metagame.play.nodes.orders import NodeOrders
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.metrics import CountingRequests

MAX_BODY = 4 * 1024 * 1024  # bytes; the largest save of the game is far smaller


def lead_fleet(
    game: Metagame, port: int, env_file: str | None, log: Observer, reactor: Any
) -> tuple[IService, ...]:
    """Return the services of the listener at FLEET_PORT; see ``fleet_router``."""
    fleet = FleetFolder.beside(env_file)
    factory = NodeFactory(fleet_router(game, fleet, log), reactor, fleet, game.counters)
    return fleet_listener(reactor, game.settings, port, factory)


def fleet_router(game: Metagame, fleet: FleetFolder, *observers: Observer) -> FrontDoor:
    """Return the HTTP entry point for the nodes' agents and game servers.

    Call ``Metagame.front_door`` first: it creates routes that this entry point also serves. This
    function also makes the metagame order the agents to open and close game ports.
    """
    orders = NodeOrders(game.board, game.clock, fleet)
    game.open_node = orders.open
    if game.game_ports is not None:
        game.game_ports.also_close = lambda network: log_failure(
            Deferred.fromCoroutine(orders.close(network))
        )
    gate = NodeGate(game.gate, fleet, game.deploy, game.matches)
    door = guarded(gate, game.settings, (*observers, CountingRequests(game.counters)))
    door.max_json = MAX_BODY
    agents = AgentRoutes(orders, game.deploy, game.clock, game.wall_clock)
    return door.mount(*game.mounted, agents, serves=is_served)
