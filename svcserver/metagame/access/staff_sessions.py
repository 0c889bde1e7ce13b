"""Sessions of staff in the dashboard, by a cookie that scripts cannot read. On the board.

The cookie alone is not enough: a browser sends it to every port of this machine's name. So the page
sends a header too, which no page of another origin can send without our leave, with a word that
only our page was given. Both together are the session, and the word names the cookie, so that two
hosts on one machine do not replace each other's.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from attrs import evolve, field, frozen

from svcserver.board.board import Board, Sheet
from svcserver.board.kinds import Kind
from svcserver.kernel.ids import AccountId
from svcserver.kernel.secrets import fingerprint, hex_token
from svcserver.metagame.access.epochs import Epochs

COOKIE = "svc_dashboard_"  # and the beginning of the hash of the page's word
PAGE_HEADER = b"x-svc-dashboard"
LIVES_S = 12 * 3_600
LONGEST = 4_096  # characters of a Cookie header that are looked at


@frozen
class StaffSession:
    """Who signed in, and the account's epoch then: a later one ends the session.

    ``ways`` says which key and second factor opened the dashboard then; others end it, too.
    """

    account_id: AccountId
    not_before: int
    ways: str


SESSIONS = Kind("dashboard_sessions", StaffSession, lives_s=LIVES_S, most=1_000)


@frozen
class Ticket:
    """The two halves of a session: the cookie's secret, and the word that the page keeps."""

    secret: str = field(repr=False)
    word: str = field(repr=False)

    @property
    def key(self) -> str:
        """The key of the session on the board: a hash, so that live state opens nothing."""
        return fingerprint(f"{self.secret} {self.word}")

    @property
    def mark(self) -> str:
        """Tells this session from others in a log; it opens nothing."""
        return fingerprint(self.key)[:12]

    @property
    def cookie(self) -> str:
        """The cookie's name, made of the page's word, so that two hosts' differ."""
        return COOKIE + fingerprint(self.word)[:12]


@frozen
class StaffSessions:
    """Begins, finds and ends them; a session is kept by the hash of its two halves."""

    board: Board
    epochs: Epochs

    async def begin(self, account_id: AccountId, ways: str) -> Ticket:
        """Begin a session; the ticket goes to the browser."""
        ticket = Ticket(hex_token(64), hex_token(32))
        session = StaffSession(account_id, self.epochs.not_before(account_id), ways)
        await self.board.act(lambda sheet: sheet.put(SESSIONS, ticket.key, session))
        return ticket

    async def keep(self, ticket: Ticket, account_id: AccountId, ways: str) -> None:
        """Let the account's session go on that has itself changed what opens the dashboard."""
        key = ticket.key

        def put(sheet: Sheet) -> None:
            found = sheet.get(SESSIONS, key)
            if found is not None and found.account_id == account_id:
                sheet.put(SESSIONS, key, evolve(found, ways=ways))

        await self.board.act(put, [(SESSIONS, key)])

    async def find(self, ticket: Ticket) -> StaffSession | None:
        """The session, if it has not ended; whether its ways are still those, the gate asks."""
        key = ticket.key
        found = await self.board.act(lambda sheet: sheet.get(SESSIONS, key), [(SESSIONS, key)])
        if found is None or self.epochs.not_before(found.account_id) > found.not_before:
            return None
        return found

    async def end(self, ticket: Ticket) -> None:
        """Sign out: the ticket opens nothing from now on."""
        key = ticket.key
        await self.board.act(lambda sheet: sheet.drop(SESSIONS, key))


def ticket_of(cookies: str | None, word: str | None) -> Ticket | None:
    """The session that a Cookie header and the page's word name, if both are there."""
    if cookies is None or word is None or len(cookies) > LONGEST or len(word) > LONGEST:
        return None
    try:
        found = SimpleCookie(cookies).get(Ticket("", word).cookie)
    except CookieError:
        return None
    return None if found is None else Ticket(found.value, word)


def set_cookie(ticket: Ticket, *, ended: bool = False) -> str:
    """The Set-Cookie value that begins a session, or ends it."""
    secret, life = ("", 0) if ended else (ticket.secret, LIVES_S)
    return f"{ticket.cookie}={secret}; Path=/svc; Max-Age={life}; HttpOnly; SameSite=Strict"
