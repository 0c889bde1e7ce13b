"""The operations of maintenance mode, such as a stop or restart once the server is empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, evolve, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.board.board import Board, BoardTransaction
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel import stack_request
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Conflict
from svcserver.metagame.accounts.audit import Act, Audit, AuditEntry, Trace
from svcserver.metagame.owner.maintenance.rules import ACTS, WORLDS, DrainOrder, MaintenanceStatus
from svcserver.metagame.owner.maintenance.store import SqlMaintenance
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.drain import DRAIN, ONLY, ORDERED, Drain, Then
from svcserver.metagame.play.nodes.reports import AGENTS, AgentSeen
from svcserver.metagame.play.presence.feature import Online

log = Logger()
T = TypeVar("T")

EVERY_S = 2.0
EMPTY_S = 10.0  # long enough for a launch in progress to become visible
ACTING_S = 120.0  # the stack gives each service 15 s to stop
STARTED_S = 600.0  # longest time between the starts of the stack and the metagame


@define(eq=False)
class Maintenance:
    """The maintenance mode of the whole server; ``folder`` has the request files for svc-stack.

    The mode is stored in the database. A copy is on the board (the store of live state), because
    matchmaking needs the mode whenever a player joins a hunt.
    """

    board: Board
    audit: Audit
    deploy: DeployClient
    online: Online
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)
    _started_at: float = field(init=False)
    _empty_since: float | None = field(default=None, init=False)
    _requested_since: float | None = field(default=None, init=False)
    _has_looked: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._started_at = self.wall_clock() - STARTED_S

    async def switch(
        self, by: str, order: DrainOrder | None, reason: str = ""
    ) -> MaintenanceStatus:
        """Switch maintenance mode on, or off if ``order`` is None.

        Raises Conflict if no svc-stack can carry out the order, or if svc-stack is already
        stopping or restarting the server.
        """
        entry = AuditEntry(by, "drain on" if order else "drain off", "", reason)

        def act(tx: Connection, trace: Trace) -> Drain | None:
            store = SqlMaintenance(tx)
            before = store.get()
            trace.before = _described(before)
            if before is not None and before.is_ordered:
                raise Conflict(
                    f"the server is empty and svc-stack is already {before.then}, so this can no "
                    "longer be changed",
                    code="acting",
                )
            if order is None:
                store.put(None)
                return None
            if order.then and not self.has_stack():
                raise Conflict(
                    "no svc-stack runs this server, so nothing can stop or restart it. Drain "
                    "without stop or restart, and stop the server yourself once it is empty",
                    code="no_stack",
                )
            made = Drain(by, round(self.wall_clock(), 3), order.then, order.until, order.reason)
            store.put(made)
            trace.after = _described(made)
            return made

        made = await self.record(entry, act)
        await self.board.transact(lambda transaction: _put(transaction, made))
        log.info("{by}: {what}", by=by, what=entry.action)
        return await self.standing()

    def has_stack(self) -> bool:
        """Return whether svc-stack runs this server."""
        return stack_request.has_stack(self.folder, self._started_at)

    async def game_servers(self) -> list[dict[str, Any]]:
        """Return the running game servers; raises Conflict if the deploy server does not answer."""
        listed = await self.deploy.listed()
        if listed is None:
            raise Conflict("the deploy server does not answer", code="no_deploy")
        return listed

    async def machines(self) -> tuple[list[dict[str, Any]], dict[str, AgentSeen | None]]:
        """Return the machines of the fleet, and a dict from machine id to its agent's last report.

        Raises Conflict if the deploy server does not answer.
        """
        records = await self.deploy.machines()
        nodes = [str(record["id"]) for record in records]
        keys = [(AGENTS, node) for node in nodes]
        agents = await self.board.transact(
            lambda transaction: {node: transaction.get(AGENTS, node) for node in nodes}, near=keys
        )
        return records, agents

    @shielded
    async def handle(
        self, by: str, act: str, server_id: str, kind: str, reason: str = ""
    ) -> str | None:
        """Change a game server or drain a machine.

        Returns the id of the game server that runs after the change, or None.

        Raises a Refusal if the deploy server refuses or cannot be reached. The subclass Unanswered
        means that the request was sent, but the result is unknown.
        """
        was = await self._record_of(server_id) if server_id else None
        entry = AuditEntry(
            by,
            ACTS[act],
            kind or server_id,
            reason,
        )

        async def handle(trace: Trace) -> str | None:
            made = await self.deploy.handle(act, server_id, kind)
            if act in ("drain", "undrain"):
                trace.after = {"drains": act == "drain"}
                return made
            now = kind or (was or {}).get("kind", "")
            trace.after = {"id": made or server_id, "kind": now, "runs": made is not None}
            return made

        return await self.audit.around(entry, handle, Trace(before=was))

    async def _record_of(self, server_id: str) -> dict[str, Any] | None:
        """Return a game server as the audit log shows it, or None if no such server is known."""
        for record in await self.deploy.listed() or ():
            if record["id"] == server_id:
                kind = record.get("kind") or "hunt"
                return {"kind": kind, "map": record["map"], "port": record.get("port")}
        return None

    async def record(self, entry: AuditEntry, act: Act[T]) -> T:
        """Run ``act`` and add a row to the audit log, even if ``act`` is refused."""
        return await self.audit.write(entry, act, ACROSS)

    async def standing(self) -> MaintenanceStatus:
        """Return the state of maintenance mode, with the numbers of hunts and players."""
        drain, listed = await self.current(), await self.deploy.listed()
        hunts = None
        if listed is not None:
            hunts = sum(1 for record in listed if record.get("kind") not in WORLDS)
        elif not self.deploy.address:
            hunts = 0  # without a deploy server, no hunt can run
        stack = self.has_stack()
        return MaintenanceStatus(drain, hunts, await self.online.count(), stack)

    def stop_when_empty(self) -> Deferred[None]:
        """Stop or restart the server as ordered, if it has been empty for ``EMPTY_S``.

        Maintenance mode stays on until the metagame has started again.
        """
        return Deferred.fromCoroutine(self._stop_when_empty())

    async def _as_kept(self) -> Drain | None:
        """Return the maintenance mode stored in the database.

        If the board (the live state) does not have that mode, for example after a crash, copy the
        mode to the board.
        """
        shown = await self.current()
        stored = await self.audit.ledger.read_snapshot(lambda tx: SqlMaintenance(tx).get())

        def mend(transaction: BoardTransaction) -> None:
            if transaction.get(DRAIN, ONLY) == shown:  # otherwise the mode was switched meanwhile
                _put(transaction, stored)

        if stored != shown:
            await self.board.transact(mend, near=[(DRAIN, ONLY)])
        return stored

    async def _stop_when_empty(self) -> None:
        drain = await self._as_kept()
        first, self._has_looked = not self._has_looked, True
        if drain is not None and drain.is_ordered:
            await self._end_when_done(drain, first=first)
            return
        self._requested_since = None
        if drain is None or not drain.then or not (await self.standing()).is_empty:
            self._empty_since = None
            return
        now = self.wall_clock()
        if self._empty_since is None:
            self._empty_since = now
        if now - self._empty_since < EMPTY_S:
            return
        self._empty_since = None
        acting = evolve(drain, then=ORDERED[drain.then])
        if await self.become(drain, acting):
            log.info("the server is empty: {then}, as {by} requested", then=drain.then, by=drain.by)
            await self._ask_stack(drain.then, acting)

    async def _ask_stack(self, then: Then, acting: Drain) -> None:
        """Ask svc-stack to stop or restart the server; if this fails, allow new hunts again."""
        try:
            stack_request.send_request(self.folder, then.value, self.wall_clock())
        except OSError as why:
            log.error(
                "the metagame cannot ask svc-stack to stop or restart: {why}. "
                "New hunts, which were paused, are allowed again",
                why=why.strerror,
            )
            await self.become(acting, None)

    async def _end_when_done(self, acting: Drain, *, first: bool) -> None:
        """End maintenance mode once the server has restarted, or after ``ACTING_S`` seconds."""
        now = self.wall_clock()
        if not first or stack_request.peek_request(self.folder, now) is not None:
            if self._requested_since is None:
                self._requested_since = now
            if now - self._requested_since < ACTING_S:
                return
            log.error(
                "the stack has not finished {then} in time. "
                "New hunts, which were paused, are allowed again",
                then=acting.then,
            )
        self._requested_since = None
        if await self.become(acting, None):
            log.info("maintenance mode, which {by} began, is over", by=acting.by)

    async def become(self, drain: Drain, then: Drain | None) -> bool:
        """Change the mode from ``drain`` to ``then``; return False if another mode is stored.

        If ``then`` is None, maintenance mode is switched off.
        """

        def work(tx: Connection) -> bool:
            store = SqlMaintenance(tx)
            if store.get() != drain:
                return False
            store.put(then)
            return True

        mine = await self.audit.ledger.write(work, ACROSS)
        if mine:
            await self.board.transact(lambda transaction: _put(transaction, then))
        return mine

    async def current(self) -> Drain | None:
        """Return the maintenance mode, or None if it is off."""
        return await self.board.transact(
            lambda transaction: transaction.get(DRAIN, ONLY), near=[(DRAIN, ONLY)]
        )


def _put(transaction: BoardTransaction, drain: Drain | None) -> None:
    if drain is None:
        transaction.drop(DRAIN, ONLY)
    else:
        transaction.put(DRAIN, ONLY, drain)


def _described(drain: Drain | None) -> dict[str, object] | None:
    return None if drain is None else {"then": drain.then.value, "until": drain.until.value}


def maintenance_watch(maintenance: Maintenance, clock: IReactorTime) -> Every:
    """Return the service that checks maintenance mode at start-up and every ``EVERY_S``."""
    what = "the check whether the server is empty"
    return Every(clock, EVERY_S, maintenance.stop_when_empty, what, at_once=True)
