"""Sessions of staff in the dashboard, by a cookie that scripts cannot read. On the board.

The cookie alone is not enough: the page sends a header of its own too, which no other site's page,
nor that of another program on this machine, can send without our leave.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from attrs import frozen

from svcserver.board.board import Board
from svcserver.board.kinds import Kind
from svcserver.kernel.ids import AccountId
from svcserver.kernel.secrets import fingerprint, hex_token
from svcserver.metagame.access.epochs import Epochs

COOKIE = "svc_dashboard"
PAGE_HEADER = b"x-svc-dashboard"
LIVES_S = 12 * 3_600
LONGEST = 4_096  # characters of a Cookie header that are looked at


@frozen
class StaffSession:
    """Who signed in, and the account's epoch then: a later one ends the session."""

    account_id: AccountId
    not_before: int


SESSIONS = Kind("dashboard_sessions", StaffSession, lives_s=LIVES_S, most=1_000)


@frozen
class StaffSessions:
    """Begins, finds and ends them; a session is kept by the hash of its secret."""

    board: Board
    epochs: Epochs

    async def begin(self, account_id: AccountId) -> str:
        """A session of the account; returns the secret of its cookie."""
        secret = hex_token(64)
        session = StaffSession(account_id, self.epochs.not_before(account_id))
        await self.board.act(lambda sheet: sheet.put(SESSIONS, fingerprint(secret), session))
        return secret

    async def account_of(self, secret: str) -> AccountId | None:
        """Whose session it is, if it has not ended."""
        key = fingerprint(secret)
        found = await self.board.act(lambda sheet: sheet.get(SESSIONS, key), [(SESSIONS, key)])
        if found is None or self.epochs.not_before(found.account_id) > found.not_before:
            return None
        return found.account_id

    async def end(self, secret: str) -> None:
        """Sign out."""
        key = fingerprint(secret)
        await self.board.act(lambda sheet: sheet.drop(SESSIONS, key))


def secret_of(cookies: str | None) -> str | None:
    """The secret in a Cookie header, if one is there."""
    if cookies is None or len(cookies) > LONGEST:
        return None
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def set_cookie(secret: str) -> str:
    """The Set-Cookie value that begins a session; an empty secret ends it."""
    life = LIVES_S if secret else 0
    return f"{COOKIE}={secret}; Path=/svc; Max-Age={life}; HttpOnly; SameSite=Strict"
