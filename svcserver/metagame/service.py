"""``svc-metagame``: makes and joins the parts; the only file that knows them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define
from sqlalchemy import Engine
from treq.client import HTTPClient
from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python import usage
from twisted.web.client import Agent, HTTPConnectionPool

from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, make_engine
from svcserver.db.factory import ledger_for
from svcserver.db.transaction import transact
from svcserver.kernel.datafiles import BadData
from svcserver.kernel.monotonic import MonotonicClock, monotonic_reactor
from svcserver.kernel.settings import BadSetting, with_env_file
from svcserver.metagame.access.gate import Gate, Origin, is_own_address
from svcserver.metagame.accounts.sessions import SessionWatch
from svcserver.metagame.accounts.store import move_queued_keys
from svcserver.metagame.belongings.features import Housekeeping
from svcserver.metagame.chat_ports import chat_part
from svcserver.metagame.features import build
from svcserver.metagame.owner.bodylog import BodyLog
from svcserver.metagame.owner.dashboard.document import ApiDocument
from svcserver.metagame.owner.dashboard.watching import HealthWatch
from svcserver.metagame.owner.health.figures import metrics_part
from svcserver.metagame.owner.health.watching import Counting, LoopWatch
from svcserver.metagame.owner.status.build import Build
from svcserver.metagame.parts import Parts
from svcserver.metagame.settings import Settings, check
from svcserver.web.front import FrontDoor, Observer
from svcserver.web.metrics import CountingRefusals
from svcserver.web.requestlog import RequestLog
from svcserver.web.serving import (
    ENV_FILE,
    House,
    InTurn,
    Listening,
    house,
    read_settings,
    warn_of,
)
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
        reactor = monotonic_reactor()
    settings = options.settings
    top = house(reactor, production=settings.production, level=settings.log_level)
    engine = open_database(settings)
    ledger = ledger_for(engine, reactor)
    pool = HTTPConnectionPool(reactor)
    http = HTTPClient(Agent(reactor, connectTimeout=5, pool=pool))
    now = MonotonicClock().now
    parts = Parts.of(settings, ledger, reactor, now, http)
    transact(engine, parts.sessions.load)
    parts.counters = top.counters
    file = options["env-file"]
    parts.shown.folder = Path(file).parent if file else None
    parts.shown.log.out = top.lines.out
    top.lines.out = parts.shown.log  # which passes on what it keeps
    door = front_door(parts, RequestLog(top.lines, settings.log_requests, counters=parts.counters))
    address = settings.port, settings.bind_host
    answering = InTurn()  # a request that runs to its end still needs the database
    for part in (
        ledger,
        Housekeeping(ledger, reactor, now),
        SessionWatch(parts.sessions, reactor),
        Closing(pool.closeCachedConnections),
        Listening(reactor, "metagame", *address, FrontFactory(door, reactor)),
    ):
        part.setServiceParent(answering)
    warn_of(options.warnings).setServiceParent(top)
    answering.setServiceParent(top)
    chat = chat_part(parts, with_env_file(file, os.environ), reactor)
    for beside in (chat, *watches(parts, reactor)):
        if beside is not None:
            beside.setServiceParent(top)
    return top


def watches(parts: Parts, reactor: Any) -> Iterator[IService | None]:
    """What looks at the others, where the owner wants it."""
    if parts.settings.backend_health:
        yield LoopWatch(reactor, parts.health.loop)
        yield HealthWatch(reactor, parts.shown.health, parts.health, parts.online, parts.now)
    yield metrics_part(parts, reactor)


def front_door(parts: Parts, *observers: Observer) -> FrontDoor:
    """Every row of the game behind the gate; a data file that is no good ends the start."""
    settings = parts.settings
    observers = (*observers, CountingRefusals(parts.counters))
    if settings.backend_health:
        observers = (*observers, Counting(parts.health.requests, parts.now))
    if settings.log_bodies:
        bodies = BodyLog(Path(settings.body_log_file), settings.body_log_per_path, parts.now)
        observers = (*observers, bodies.check())
    origin = Origin(settings, is_own_address)
    gate = Gate(settings, parts.tokens, parts.directory, origin)
    traces = not settings.production
    door = FrontDoor(gate, settings, traces=traces, observers=observers, unmatched=gate.unmatched)
    version = Build.of(settings).version
    try:
        features = build(parts)
    except BadData as why:
        raise SystemExit(f"{NAME}: {why}") from None
    return door.mount(*features, ApiDocument(lambda: door.rows, version))


def open_database(settings: Settings) -> Engine:
    """Migrate and prepare the database, before the first request and on purpose blocking."""
    engine = make_engine(settings.database_url)
    try:
        migrations.upgrade(engine)
        moved = transact(engine, move_queued_keys)
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
        Service.stopService(self)
        return self.close()
