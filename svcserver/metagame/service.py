"""The ``svc-metagame`` process: opens the database, the board and the port, and runs the game."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from treq.client import HTTPClient
from twisted.application.service import IService
from twisted.logger import Logger
from twisted.web.client import Agent, HTTPConnectionPool

from svcserver.board.board import Board
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, make_engine
from svcserver.db.factory import ledger_for
from svcserver.db.ledger import Ledger
from svcserver.db.restoring import refuse_restored
from svcserver.db.suitable import refuse_unsuitable
from svcserver.db.transaction import transact
from svcserver.edge.allowlist_client import CACHED_S
from svcserver.http.crosssite import is_loopback
from svcserver.kernel.counters import Counters
from svcserver.kernel.datafiles import needed_by
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.monotonic import MonotonicClock, monotonic_reactor
from svcserver.kernel.system import epoch
from svcserver.metagame.access.keys import BadKey, key_id, load_private
from svcserver.metagame.accounts.sessions import session_watch
from svcserver.metagame.accounts.signing import note_signing
from svcserver.metagame.accounts.store import ACCOUNTS, move_queued_keys
from svcserver.metagame.belongings.housekeeping import forgetting, housekeeping
from svcserver.metagame.composition import NAME, Metagame
from svcserver.metagame.owner.requestlog import request_log
from svcserver.metagame.settings import MetagameSettings, check
from svcserver.web import serving
from svcserver.web.options import ServiceOptions
from svcserver.web.site import HttpFactory

log = Logger()

MADE = (
    "made a new, empty database: {where}. If this host had players before, stop it and correct "
    "DATABASE_URL or restore a backup: svcctl db restore FILE"
)


def open_ledger(
    settings: MetagameSettings, engine: Engine, reactor: Any, counters: Counters
) -> Ledger:
    """Return the ``Ledger`` that runs transactions on an opened database."""
    reserve = settings.disk_reserve_mb << 20
    return ledger_for(engine, reactor, reserve, counters, ACCOUNTS.c.id)


def open_database(name: str, settings: MetagameSettings) -> Engine:
    """Migrate and prepare the database; blocks, so call it before requests are accepted."""
    engine = make_engine(settings.database_url, settings.database_connections, NAME)
    try:
        refuse_unsuitable(engine)  # a statement pooler refuses the next line's transaction
        refuse_restored(engine)
        new = migrations.upgrade_apart(engine)
        moved = transact(engine, move_queued_keys)
        transact(engine, lambda tx: _note_key(tx, settings))
    except BadDatabase as error:
        raise failed_start(f"{name}: DATABASE_URL: {error}") from None
    except SQLAlchemyError as error:
        raise failed_start(
            f"{name}: DATABASE_URL: the database cannot be used: {describe(error)}"
        ) from None
    if new:
        log.warn(MADE, where=_where(settings.database_url))
    if moved:
        log.info("registered {count} queued game-server keys", count=moved)
    return engine


def _where(url: URL) -> str:
    """Return the database's location for a log line: a file's path, or a server and a name.

    The other parts of the URL contain the credentials and must not be logged.
    """
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").resolve())
    host = url.host or url.query.get("host", "this machine")
    return f"{url.database} on {host if isinstance(host, str) else ', '.join(host)}"


def _note_key(tx: Connection, settings: MetagameSettings) -> None:
    try:
        key = load_private(settings.signing_private_key.reveal())
    except BadKey:
        return  # the signing of tokens logs that log-in is impossible
    note_signing(tx, key_id(key.public_key()), epoch())


def open_board(
    settings: MetagameSettings, wall_clock: Callable[[], float], reactor: Any
) -> tuple[Board, tuple[Any, ...]]:
    """Return the board (the live state) and its services.

    A board in memory is saved to a file next to the database.
    """
    secret = settings.signing_private_key.reveal()  # known to all workers, but not to Valkey
    return settings.live_url.board(wall_clock, reactor, _folder(settings), secret)


def _folder(settings: MetagameSettings) -> Path | None:
    """Return the folder of a SQLite file, or the working directory for PostgreSQL.

    For a SQLite database in memory, the result is None.
    """
    url = settings.database_url
    if url.get_backend_name() != "sqlite":
        return Path()
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return None
    return Path(url.database).parent


class Options(ServiceOptions):
    """The command-line options: only ``--env-file``; all settings are environment variables."""

    name, shape = NAME, MetagameSettings
    settings: MetagameSettings
    longdesc = 'The game\'s main backend. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        return check(self.settings)


def makeService(options: Options, reactor: Any = None) -> serving.TopService:
    """Return the service for ``twistd svc-metagame``; tests pass a ``reactor`` with fake time."""
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    top = serving.top_service(reactor, production=settings.production, level=settings.log_level)
    engine = open_database(NAME, settings)
    ledger = open_ledger(settings, engine, reactor, top.counters)
    pool = HTTPConnectionPool(reactor)
    pool.cachedConnectionTimeout = CACHED_S
    http = HTTPClient(Agent(reactor, connectTimeout=5, pool=pool))
    wall_clock = MonotonicClock().read_epoch
    board, connections = open_board(settings, wall_clock, reactor)
    with needed_by(NAME):
        game = Metagame(settings, ledger, board, reactor, wall_clock, http, top.counters)
    transact(engine, game.sessions.load)
    game.desk.settings.live.changed.connect(lambda now: setattr(top.lines, "level", now.log_level))
    transact(engine, game.desk.settings.live.load)
    game.dashboard.attach(top.lines, options["env-file"])
    game.desk.settings.attach(options["env-file"], options.environ)
    log = request_log(top.lines, settings.log_requests, counters=game.counters)
    door = game.front_door(log)
    fleet: tuple[IService, ...] = ()
    if settings.fleet_port is not None:
        from svcserver.metagame.fleet import lead_fleet

        fleet = lead_fleet(game, settings.fleet_port, options["env-file"], log, reactor)
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
        *fleet,
        _listening(settings, reactor, factory),
    ):
        part.setServiceParent(answering)
    serving.StartWarnings(options.warnings).setServiceParent(top)
    answering.setServiceParent(top)
    watches = *game.desk.measuring(reactor), *game.desk.watches(reactor)
    chat = game.chat(options.environ, reactor)
    if not is_loopback(settings.bind_host):  # then the owner's launcher cannot start a relay here
        factory.websockets = getattr(chat, "websocket", None)
    for optional in (chat, *watches):
        if optional is not None:
            optional.setServiceParent(top)
    return top


def _listening(settings: MetagameSettings, reactor: Any, factory: HttpFactory) -> IService:
    host, shared = settings.bind_host, settings.shared_port
    return serving.Listening(reactor, "metagame", settings.port, host, factory, shared=shared)
