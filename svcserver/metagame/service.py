"""``svc-metagame``: makes and joins the parts; the only file that knows them all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define
from sqlalchemy import Engine
from treq.client import HTTPClient
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python import usage
from twisted.web.client import Agent, HTTPConnectionPool

from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, make_engine
from svcserver.db.opening import ledger_for
from svcserver.db.transaction import transaction
from svcserver.kernel.settings import BadSetting, with_env_file
from svcserver.kernel.steady import SteadyTime
from svcserver.metagame.access import Gate, Origin, is_own_address
from svcserver.metagame.accounts.store import move_queued_keys
from svcserver.metagame.belongings import Housekeeping
from svcserver.metagame.bodylog import BodyLog
from svcserver.metagame.chat_ports import chat_part
from svcserver.metagame.dashboard.document import ApiDocument
from svcserver.metagame.dashboard.watching import HealthWatch
from svcserver.metagame.features import build
from svcserver.metagame.health.figures import metrics_part
from svcserver.metagame.health.watching import Counting, LoopWatch
from svcserver.metagame.parts import Parts
from svcserver.metagame.settings import Settings, check
from svcserver.metagame.status.build import Build
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.requestlog import RequestLog
from svcserver.web.serving import ENV_FILE, House, Listening, house, read_settings, warn_of
from svcserver.web.site import FrontFactory

log = Logger()
NAME = "svc-metagame"


class Options(usage.Options):
    """One option; the environment says the rest."""

    settings: Settings
    warnings: list[str]
    optParameters = [ENV_FILE]  # noqa: RUF012 - usage.Options wants it so
    longdesc = "The game's main backend. Settings: docs/owners/configuration.md"

    def postOptions(self) -> None:
        """Read the settings; a bad one ends the start with one line."""
        self.settings, self.warnings = read_settings(NAME, Settings, self)
        try:
            self.warnings += check(self.settings)
        except BadSetting as why:
            raise SystemExit(f"{NAME}: {why}") from None


def makeService(options: Options, reactor: Any = None) -> House:
    """The metagame as a service."""
    if reactor is None:
        from twisted.internet import reactor  # late: importing it installs it
    settings = options.settings
    top = house(reactor, production=settings.production, level=settings.log_level)
    engine = open_database(settings)
    ledger = ledger_for(engine, reactor)
    pool = HTTPConnectionPool(reactor)
    http = HTTPClient(Agent(reactor, connectTimeout=5, pool=pool))
    now = SteadyTime().now
    parts = Parts.of(settings, ledger, reactor, now, http)
    shown = parts.shown
    shown.log.out, top.lines.out = top.lines.out, shown.log
    shown.folder = Path(options["env-file"]).parent if options["env-file"] else None
    door = front_door(parts, RequestLog(top.lines, settings.log_requests))
    listening = Listening(
        reactor, "metagame", settings.port, settings.bind_host, FrontFactory(door, reactor)
    )
    for part in (
        warn_of(options.warnings),
        ledger,
        Housekeeping(ledger, reactor, now),
        Closing(pool.closeCachedConnections),
        listening,
    ):
        part.setServiceParent(top)  # started in this order, stopped in the other
    environ = with_env_file(options["env-file"], os.environ)
    if (chat := chat_part(parts, environ, reactor)) is not None:
        chat.setServiceParent(top)
    if settings.backend_health:
        LoopWatch(reactor, parts.health.loop).setServiceParent(top)
        watch = HealthWatch(reactor, shown.health, parts.health, parts.online, now)
        watch.setServiceParent(top)
    if (figures := metrics_part(parts, reactor)) is not None:
        figures.setServiceParent(top)
    return top


def front_door(parts: Parts, *observers: Observer) -> FrontDoor:
    """Every row of the game behind the gate."""
    settings = parts.settings
    if settings.backend_health:
        observers = (*observers, Counting(parts.health.requests, parts.now))
    if settings.log_bodies:
        bodies = BodyLog(Path(settings.body_log_file), settings.body_log_per_path, parts.now)
        observers = (*observers, bodies.check())
    origin = Origin(settings, is_own_address)
    gate = Gate(settings, parts.tokens, parts.directory, origin)
    door = FrontDoor(gate, settings, traces=not settings.production, observers=observers)
    version = Build.of(settings).version
    return door.mount(*build(parts), ApiDocument(lambda: door.rows, version))


def open_database(settings: Settings) -> Engine:
    """Migrate and prepare the database, before the first request and on purpose blocking."""
    engine = make_engine(settings.database_url)
    try:
        migrations.upgrade(engine)
        with transaction(engine) as tx:
            moved = move_queued_keys(tx)
    except BadDatabase as why:
        raise SystemExit(f"{NAME}: DATABASE_URL: {why}") from None
    except SQLAlchemyError as why:
        raise SystemExit(
            f"{NAME}: DATABASE_URL: the database cannot be used: {describe(why)}"
        ) from None
    if moved:
        log.info("registered {count} queued game-server keys", count=moved)
    return engine


@define(eq=False, slots=False)
class Closing(Service):
    """Calls ``close`` when the service stops."""

    close: Callable[[], Deferred[Any]]

    def stopService(self) -> Deferred[Any]:
        """Close."""
        Service.stopService(self)
        return self.close()
