"""Maintenance mode is switched, looked at, and acted upon once the server is empty."""

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
from svcserver.kernel import stack_wish
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Conflict
from svcserver.metagame.accounts.audit import Act, Audit, Entry, Trace
from svcserver.metagame.owner.maintenance.rules import ACTS, WORLDS, Order, Standing
from svcserver.metagame.owner.maintenance.store import SqlMaintenance
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.drain import DRAIN, ONLY, TOLD, Drain, Then
from svcserver.metagame.play.presence.feature import Online

log = Logger()
T = TypeVar("T")

EVERY_S = 2.0
EMPTY_S = 10.0  # so long empty: a launch that was under way is known of by then
ACTING_S = 120.0  # for the stack to stop every service, each of which has 15 s
STARTED_S = 600.0  # the stack has said something so long before us at most: its start


@define(eq=False)
class Maintenance:
    """Maintenance mode of the whole server; the stack's wishes lie in ``folder``.

    The database keeps it, and the board shows it to those who join a hunt.
    """

    board: Board
    audit: Audit
    deploy: DeployClient
    online: Online
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)
    _started_at: float = field(init=False)
    _empty_since: float | None = field(default=None, init=False)
    _told_since: float | None = field(default=None, init=False)
    _has_looked: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._started_at = self.wall_clock() - STARTED_S

    async def switch(self, by: str, order: Order | None, reason: str = "") -> Standing:
        """Begin it, or with None end it; raises Conflict where no stack could act."""
        entry = Entry(by, "drain on" if order else "drain off", "", reason)

        def act(tx: Connection, trace: Trace) -> Drain | None:
            kept = SqlMaintenance(tx)
            before = kept.get()
            trace.before = _described(before)
            if before is not None and before.is_told:
                raise Conflict(
                    f"the server is empty and the stack is {before.then}: it is too late to "
                    "change that",
                    code="acting",
                )
            if order is None:
                kept.put(None)
                return None
            if order.then and not stack_wish.has_stack(self.folder, self._started_at):
                raise Conflict(
                    "no svc-stack runs this server, so nothing here can stop or restart it: "
                    "drain without that, and act once it is empty",
                    code="no_stack",
                )
            made = Drain(by, round(self.wall_clock(), 3), order.then, order.until, order.reason)
            kept.put(made)
            trace.after = _described(made)
            return made

        made = await self.record(entry, act)
        await self.board.transact(lambda transaction: _put(transaction, made))
        log.info("{by}: {what}", by=by, what=entry.action)
        return await self.standing()

    async def game_servers(self) -> list[dict[str, Any]]:
        """The records of those that run; raises Conflict where nobody says."""
        listed = await self.deploy.listed()
        if listed is None:
            raise Conflict("the deploy server does not answer", code="no_deploy")
        return listed

    @shielded
    async def handle(
        self, by: str, act: str, server_id: str, kind: str, reason: str = ""
    ) -> str | None:
        """Start, stop or restart one; the id of what runs now. Raises Refusal.

        Raises Unanswered where it may have been done.
        """
        was = await self._record_of(server_id) if server_id else None
        entry = Entry(
            by,
            ("start game server", "stop game server", "restart game server")[ACTS.index(act)],
            kind or server_id,
            reason,
        )

        async def handle(trace: Trace) -> str | None:
            made = await self.deploy.handle(act, server_id, kind)
            now = kind or (was or {}).get("kind", "")
            trace.after = {"id": made or server_id, "kind": now, "runs": made is not None}
            return made

        return await self.audit.around(entry, handle, Trace(before=was))

    async def _record_of(self, server_id: str) -> dict[str, Any] | None:
        """What the audit log shows of a running game server; None where nobody says."""
        for one in await self.deploy.listed() or ():
            if one["id"] == server_id:
                kind = one.get("kind") or "hunt"
                return {"kind": kind, "map": one["map"], "port": one.get("port")}
        return None

    async def record(self, entry: Entry, act: Act[T]) -> T:
        """Leave a row in the audit log, a refusal's too."""
        return await self.audit.write(entry, act, ACROSS)

    async def standing(self) -> Standing:
        """Whether hunts are refused now, and how many still run."""
        drain, listed = await self._current(), await self.deploy.listed()
        hunts = None
        if listed is not None:
            hunts = sum(1 for one in listed if one.get("kind") not in WORLDS)
        elif not self.deploy.address:
            hunts = 0  # there is no deploy server, so no hunt
        stack = stack_wish.has_stack(self.folder, self._started_at)
        return Standing(drain, hunts, await self.online.count(), stack)

    def look(self) -> Deferred[None]:
        """Act if the server has been empty for ``EMPTY_S``, as maintenance mode says.

        New hunts are refused until that is done: by the stack, whose next metagame ends it.
        """
        return Deferred.fromCoroutine(self._look())

    async def _as_kept(self) -> Drain | None:
        """What the database says; the board, which a crash empties, is made to say the same."""
        shown = await self._current()
        kept = await self.audit.ledger.read(lambda tx: SqlMaintenance(tx).get())

        def mend(transaction: BoardTransaction) -> None:
            if transaction.get(DRAIN, ONLY) == shown:  # else it was switched meanwhile
                _put(transaction, kept)

        if kept != shown:
            await self.board.transact(mend, near=[(DRAIN, ONLY)])
        return kept

    async def _look(self) -> None:
        drain = await self._as_kept()
        first, self._has_looked = not self._has_looked, True
        if drain is not None and drain.is_told:
            await self._see_it_done(drain, first=first)
            return
        self._told_since = None
        if drain is None or not drain.then or not (await self.standing()).is_empty:
            self._empty_since = None
            return
        now = self.wall_clock()
        if self._empty_since is None:
            self._empty_since = now
        if now - self._empty_since < EMPTY_S:
            return
        self._empty_since = None
        told = evolve(drain, then=TOLD[drain.then])
        if await self.become(drain, told):
            log.info("the server is empty: {then}, as {by} wanted", then=drain.then, by=drain.by)
            await self._tell_stack(drain.then, told)

    async def _tell_stack(self, then: Then, told: Drain) -> None:
        """Ask the stack to act: new hunts are refused until it has."""
        try:
            stack_wish.wish(self.folder, then.value, self.wall_clock())
        except OSError as why:
            log.error("the stack cannot be told: {why}; hunts may begin again", why=why.strerror)
            await self.become(told, None)

    async def _see_it_done(self, told: Drain, *, first: bool) -> None:
        """End it in the process after the act; or where the stack, long told, has not acted."""
        now = self.wall_clock()
        if not first or stack_wish.look(self.folder, now) is not None:
            if self._told_since is None:
                self._told_since = now
            if now - self._told_since < ACTING_S:
                return
            text = "the stack has long been told of {then} and has not acted: hunts may begin again"
            log.error(text, then=told.then)
        self._told_since = None
        if await self.become(told, None):
            log.info("maintenance mode is over, which {by} began", by=told.by)

    async def become(self, drain: Drain, then: Drain | None) -> bool:
        """Replace it, with None end it; False where another worker or a change of mind did."""

        def work(tx: Connection) -> bool:
            kept = SqlMaintenance(tx)
            if kept.get() != drain:
                return False
            kept.put(then)
            return True

        mine = await self.audit.ledger.write(work, ACROSS)
        if mine:
            await self.board.transact(lambda transaction: _put(transaction, then))
        return mine

    async def _current(self) -> Drain | None:
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
    """The service that looks at the start, and every ``EVERY_S``."""
    what = "the look whether the server is empty"
    return Every(clock, EVERY_S, maintenance.look, what, at_once=True)
