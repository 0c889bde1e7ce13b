"""Which refused requests are tries that the audit log shall have, and who tried."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from attrs import frozen

from svcserver.kernel.headers import ACCOUNT_KEY, MACHINE
from svcserver.kernel.refusals import Refusal, Unavailable
from svcserver.metagame.access.keyring import KeyRing
from svcserver.metagame.access.staff_sessions import PAGE_HEADER, StaffSessions, ticket_of
from svcserver.metagame.rows import Access, Caller, Row
from svcserver.web.request import HttpRequest

NOT_ALLOWED = (401, 403)


class TryLog(Protocol):
    """Where refused tries are recorded."""

    def record(self, actor: str, address: str, row: str, why: str) -> Awaitable[None]: ...

    def miss(self) -> None: ...


@frozen
class RefusedRequests:
    """Hears of every request that a route of staff refuses, and records those that are tries."""

    keys: KeyRing
    staff: StaffSessions
    log: TryLog

    async def told(self, row: Row, request: HttpRequest, caller: Caller, why: Exception) -> None:
        """Leave a row, unless the act has left it, or nobody tried anything."""
        if isinstance(why, Refusal) and why.recorded:
            return
        status = getattr(why, "status", 400)
        with_key = request.has_header(ACCOUNT_KEY)
        if row.access is Access.ADMIN_OR_GAME_SERVER and not with_key:
            return  # a game server's, which the event log has
        try:
            # from afar a key opens nothing here, and any player has one to fill the log with
            name = caller.name or (await self._name(request) if request.direct else "")
        except Unavailable:
            self.log.miss()
            return
        if row.method == "GET":
            let_in = caller.name and status not in NOT_ALLOWED  # what it asked for is not there
            if let_in or not (name or with_key or request.has_header(MACHINE)):
                return  # or the page asks before anybody has signed in
        await self.log.record(name, request.peer, row.name, _said(why, status))

    async def _name(self, request: HttpRequest) -> str:
        """The account of the key, or else of the dashboard's session, that was not enough."""
        key = request.header(ACCOUNT_KEY)
        if key is not None:
            opened = await self.keys.staff_of_key(key)
            return "" if opened is None else opened.account.username
        ticket = ticket_of(request.header(b"cookie"), request.header(PAGE_HEADER))
        session = None if ticket is None else await self.staff.find(ticket)
        found = None if session is None else await self.keys.staff_of_id(session.account_id)
        return "" if found is None else found[0].username


def _said(why: Exception, status: int) -> str:
    """The refusal's words."""
    if isinstance(why, Refusal):
        return why.message or why.code or str(status)
    return f"answered {status}: the body is not what the route takes"
