"""``svc-metagame``: the game of ``composition.py`` with its database, its port and its log."""

from __future__ import annotations

from typing import Any

from treq.client import HTTPClient
from twisted.application.service import IService
from twisted.web.client import Agent, HTTPConnectionPool

from svcserver.db.transaction import transact
from svcserver.edge.allowlist_client import CACHED_S
from svcserver.kernel.datafiles import needed_by
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.monotonic import MonotonicClock, monotonic_reactor
from svcserver.metagame.accounts.sessions import session_watch
from svcserver.metagame.belongings.housekeeping import forgetting, housekeeping
from svcserver.metagame.composition import NAME, Metagame
from svcserver.metagame.database import open_board, open_database, open_ledger
from svcserver.metagame.owner.requestlog import request_log
from svcserver.metagame.settings import Settings, check
from svcserver.web import serving
from svcserver.web.options import ServiceOptions
from svcserver.web.site import HttpFactory


class Options(ServiceOptions):
    """The command line: ``--env-file`` only; all settings come from the environment."""

    name, shape = NAME, Settings
    settings: Settings
    longdesc = 'The game\'s main backend. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        return check(self.settings)


def makeService(options: Options, reactor: Any = None) -> serving.TopService:
    """What ``twistd svc-metagame`` runs; tests give a ``reactor`` whose clock they move."""
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    top = serving.top_service(reactor, production=settings.production, level=settings.log_level)
    engine = open_database(NAME, settings)
    ledger = open_ledger(settings, engine, reactor, top.counters)
    pool = HTTPConnectionPool(reactor)
    pool.cachedConnectionTimeout = CACHED_S
    http = HTTPClient(Agent(reactor, connectTimeout=5, pool=pool))
    wall_clock = MonotonicClock().read
    board, connections = open_board(settings, wall_clock, reactor)
    with needed_by(NAME):
        game = Metagame(settings, ledger, board, reactor, wall_clock, http, top.counters)
    transact(engine, game.sessions.load)
    game.dashboard.attach(top.lines, options["env-file"])
    log = request_log(top.lines, settings.log_requests, counters=game.counters)
    door = game.front_door(log)
    factory = HttpFactory(door, reactor, game.counters, proxy_headers=(GATEWAY,))
    answering = serving.OrderedServices()  # the database stops last: running requests still need it
    for part in (
        *connections,
        ledger,
        housekeeping(ledger, reactor, game.wall_clock),
        forgetting(ledger, reactor, game.wall_clock),
        session_watch(game.sessions, reactor),
        *game.desk.writers(reactor),
        *([serving.CloseOnStop(game.game_ports.stop)] if game.game_ports is not None else []),
        serving.CloseOnStop(pool.closeCachedConnections),
        _listening(settings, reactor, factory),
    ):
        part.setServiceParent(answering)
    serving.warn_at_start(options.warnings).setServiceParent(top)
    answering.setServiceParent(top)
    watches = *game.desk.measuring(reactor), *game.desk.watches(reactor)
    parts = game.chat(options.environ, reactor), *watches
    for beside in parts:
        if beside is not None:
            beside.setServiceParent(top)
    return top


def _listening(settings: Settings, reactor: Any, factory: HttpFactory) -> IService:
    host, shared = settings.bind_host, settings.shared_port
    return serving.Listening(reactor, "metagame", settings.port, host, factory, shared=shared)
