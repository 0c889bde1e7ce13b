"""The data of the dashboard's overview page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from attrs import asdict, define, field, frozen
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.db.ledger import Ledger
from svcserver.kernel import backups, host_history, host_state
from svcserver.kernel.host_history import HostHistory, percentages
from svcserver.kernel.host_state import DOWN, READY, HostState, MachineSample
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.owner.dashboard.feed import Feed
from svcserver.metagame.owner.dashboard.wire import HistoryRange, HostHistoryReply

log = Logger()
CHECKED_S = 10.0  # between two checks of the database and of the Valkey server

_POSTGRESQL = sa.select(
    sa.func.current_setting("server_version"),
    sa.extract("epoch", sa.func.pg_postmaster_start_time()),
)
_SQLITE = sa.select(sa.func.sqlite_version(), sa.literal_column("NULL"))
_ACCOUNTS = sa.select(sa.func.count()).select_from(ACCOUNTS)


@define(eq=False)
class Engines:
    """The states of the database and of the Valkey server, read at most every ``CHECKED_S``."""

    ledger: Ledger
    board: Board
    wall_clock: Callable[[], float]
    accounts: int | None = field(default=None, init=False)  # None if the last check failed
    _checked_at: float = field(default=float("-inf"), init=False)
    _states: list[dict[str, Any]] = field(factory=list, init=False)

    async def states(self) -> list[dict[str, Any]]:
        """Return an entry for the database, and an entry for the Valkey server if the host has one.

        Valkey stores the live state (who is online, parties, queues).
        """
        if not 0 <= self.wall_clock() - self._checked_at < CHECKED_S:
            self._states = [await self._database(), *await self._engine()]
            self._checked_at = self.wall_clock()
        return self._states

    async def _database(self) -> dict[str, Any]:
        def work(tx: sa.Connection) -> tuple[str, Any]:
            if tx.dialect.name == "sqlite":
                return "SQLite", tx.execute(_SQLITE).first()
            return "PostgreSQL", tx.execute(_POSTGRESQL).first()

        self.accounts = None
        try:
            name, row = await self.ledger.read_snapshot(work)
        except Unavailable:
            return _service("Database", DOWN)
        with suppress(Unavailable):  # a slow count does not mean that the database is down
            self.accounts = await self.ledger.read_snapshot(
                lambda tx: tx.execute(_ACCOUNTS).scalar_one()
            )
        version, since = row if row is not None else ("", None)
        # Debian's version is "17.6 (Debian 17.6-1)"
        return _service(
            name, READY, str(version).split(" ")[0], None if since is None else float(since)
        )

    async def _engine(self) -> list[dict[str, Any]]:
        try:
            info = await self.board.engine_info()
        except Unavailable:
            return [_service("Valkey", DOWN)]
        if info is None:
            return []
        since = None if info.uptime_s is None else self.wall_clock() - info.uptime_s
        return [_service("Valkey", READY, info.version, since)]


def _service(
    name: str,
    state: str,
    version: str = "",
    since: float | None = None,
    restarts: int | None = None,
) -> dict[str, Any]:
    at = None if since is None else iso(since)
    return {"name": name, "state": state, "version": version, "since": at, "restarts": restarts}


@frozen
class Overview:
    """The source of the overview's data; ``folder`` has the state files that svc-stack writes."""

    engines: Engines
    feed: Feed
    status: Callable[[], Awaitable[Mapping[str, Any]]]
    maintenance: Callable[[], Awaitable[Mapping[str, Any] | None]]
    started_at: float  # epoch seconds
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)  # the stack's working directory

    async def read_overview(self) -> dict[str, Any]:
        """Return the data of the overview.

        ``status``, ``feed`` and ``maintenance`` are None while Valkey does not answer.
        """
        now = self.wall_clock()
        state = host_state.read(self.folder, now)
        engines = await self.engines.states()
        backup = self._backup(now)
        return {
            **await self._live(),
            "startedAt": iso(self.started_at),
            "watched": state is not None,
            "services": [*self._services(state), *engines],
            "faults": [*_faults(state, engines, backup)],
            "machine": None if state is None else _machine(state.machine),
            "backup": backup,
            "accounts": self.engines.accounts,
        }

    def history(self, scope: HistoryRange) -> HostHistoryReply:
        """Return averages of the host's load and availability over a day or a week."""
        history = host_history.read(self.folder) or HostHistory()
        step_s, count = scope.step_s, scope.seconds // scope.step_s
        since = int(self.wall_clock()) // step_s * step_s - (count - 1) * step_s
        load = history.averages(history.load, since, step_s, count)
        up = history.averages(history.services, since, step_s, count)
        return {
            "range": scope.value,
            "stepSeconds": step_s,
            "since": since,
            "load": [{"name": name, "values": values} for name, values in load.items()],
            "services": [{"name": name, "values": values} for name, values in up.items()],
        }

    async def _live(self) -> dict[str, Any]:
        try:
            status = {**await self.status()}
            del status["uptimeSeconds"]  # it would change every second
            lines = [{**asdict(line), "at": iso(line.at)} for line in await self.feed.newest()]
            return {"status": status, "feed": lines, "maintenance": await self.maintenance()}
        except Unavailable as error:
            log.debug("the dashboard's overview is made without live state: {why}", why=str(error))
            return {"status": None, "feed": None, "maintenance": None}

    def _services(self, state: HostState | None) -> Iterator[dict[str, Any]]:
        if state is None:  # neither svc-stack nor svc-watch runs, so only this process is known
            yield _service("metagame", READY, since=self.started_at)
            return
        for known in state.services:
            yield _service(known.name, known.state, known.version, known.since, known.restarts)

    def _backup(self, now: float) -> dict[str, Any]:
        known = backups.read(self.folder)
        if known is None:  # neither a stack nor svc-watch has ever run here
            known = backups.Backups(since=self.started_at)
        newest = known.newest
        return {
            "madeAt": None if newest is None else iso(newest.made),
            "provenAt": None if known.proven is None else iso(known.proven),
            "wrong": known.wrong(now),
        }


def _faults(
    state: HostState | None, engines: list[dict[str, Any]], backup: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield each fault with the kind of its alert.

    Faults of the backups come from ``backup``, because the faults in ``state`` may be older.
    """
    for engine in engines:
        if engine["state"] == DOWN:
            title = f"{engine['name']} does not answer"
            yield {"kind": "down", "title": title, "text": "See the log.", "since": None}
    if backup["wrong"]:
        yield {"kind": "backup", "title": "Backup", "text": backup["wrong"], "since": None}
    for fault in state.faults if state is not None else ():
        if fault.kind != "backup":
            at = iso(fault.since)
            yield {"kind": fault.kind, "title": fault.title, "text": fault.text, "since": at}


def _machine(samples: tuple[MachineSample, ...]) -> dict[str, Any] | None:
    """Return the machine's latest load sample and its load trend; None if ``samples`` is empty."""
    if not samples:
        return None
    *minutes, current = samples
    trend = [percentages(sample) for sample in minutes]
    return {
        "now": {name: value for name, value in asdict(current).items() if name != "at"},
        "at": [sample.at for sample in minutes],
        "trend": {name: [values[name] for values in trend] for name in percentages(current)},
    }
