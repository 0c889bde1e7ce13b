"""The dashboard's staff sessions, stored in the database and identified by an HttpOnly cookie.

The cookie alone is not enough, because a browser sends it to every port of this host name. So the
dashboard page also sends a header with a secret that only the page received. A browser lets a page
of another origin send that header only if this server permits it, and this server never does. A
session needs both secrets. The cookie's name is made from the page's secret, so that two hosts on
one machine do not overwrite each other's cookie.

Sessions are in the database, not on the board (the store of live state). If they were on the board,
anybody who can write to its Valkey server could sign in as the owner.
"""

from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any

import sqlalchemy as sa
from attrs import field, frozen

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.tables import METADATA
from svcserver.kernel.ids import AccountId
from svcserver.kernel.secrets import fingerprint, hex_token
from svcserver.metagame.access.epochs import Epochs

COOKIE = "svc_dashboard_"  # followed by the start of the hash of the page's secret
PAGE_HEADER = b"x-svc-dashboard"
LIVES_S = 12 * 3_600
LINK_LIVES_S = 600
LONGEST = 4_096  # characters of a Cookie header that are parsed
MOST = 32  # sessions per account; one more session ends the oldest session

STAFF_SESSIONS = sa.Table(
    "dashboard_sessions",
    METADATA,
    sa.Column("ticket_hash", sa.String(64), primary_key=True),
    sa.Column("account_id", sa.String(64), nullable=False, index=True),
    sa.Column("not_before", sa.BigInteger, nullable=False),
    sa.Column("ways", sa.String(16), nullable=False),
    sa.Column("ends_at", sa.BigInteger, nullable=False),  # epoch milliseconds
)
_OF = STAFF_SESSIONS.c.account_id == sa.bindparam("holder")
_KEY = STAFF_SESSIONS.c.ticket_hash == sa.bindparam("ticket")
_FIND = sa.select(STAFF_SESSIONS).where(_KEY)
_LIST = (
    sa.select(STAFF_SESSIONS.c.ticket_hash, STAFF_SESSIONS.c.ends_at)
    .where(_OF)
    .order_by(STAFF_SESSIONS.c.ends_at.desc())
)
_END = sa.delete(STAFF_SESSIONS).where(_KEY, _OF)
_END_ALL = sa.delete(STAFF_SESSIONS).where(_OF)
_KEEP = sa.update(STAFF_SESSIONS).where(_KEY, _OF).values(ways=sa.bindparam("now"))


def end_all_sessions(tx: sa.Connection) -> None:
    """Delete the sessions of all staff."""
    tx.execute(sa.delete(STAFF_SESSIONS))


@frozen
class StaffSession:
    """The account that signed in, and its token epoch at that time; a later epoch ends the session.

    ``ways`` is a hash of the account's dashboard key and second factor at sign-in. If the key or
    the second factor changes, the session ends.
    """

    account_id: AccountId
    not_before: int
    ways: str


@frozen
class Ticket:
    """The two secrets of a session: one in the cookie, and one that the page keeps."""

    secret: str = field(repr=False)
    word: str = field(repr=False)

    @property
    def key(self) -> str:
        """Return the hash under which the session is stored."""
        return fingerprint(f"{self.secret} {self.word}")

    @property
    def mark(self) -> str:
        """Return a short hash that identifies the session in a log."""
        return fingerprint(self.key)[:12]

    @property
    def cookie(self) -> str:
        """Return the cookie's name, which differs for each session."""
        return COOKIE + fingerprint(self.word)[:12]


@frozen
class StaffSessions:
    """The dashboard's sessions; each is stored under the hash of its two secrets."""

    ledger: Ledger
    epochs: Epochs
    wall_clock: Callable[[], float]

    async def begin(self, account_id: AccountId, ways: str) -> Ticket:
        """Start a session; return the ticket for the browser. See StaffSession for ``ways``."""
        ticket = Ticket(hex_token(64), hex_token(32))

        def work(tx: sa.Connection) -> None:
            now = self.wall_clock()
            for place, old in enumerate(tx.execute(_LIST, {"holder": account_id}).all()):
                if place >= MOST - 1 or old.ends_at <= now * 1000:
                    tx.execute(_END, {"ticket": old.ticket_hash, "holder": account_id})
            tx.execute(sa.insert(STAFF_SESSIONS), self._row(ticket.key, account_id, ways, LIVES_S))

        await self.ledger.write(work, OneAccount(account_id))
        return ticket

    def _row(self, key: str, account_id: AccountId, ways: str, lives_s: float) -> dict[str, Any]:
        return {
            "ticket_hash": key,
            "account_id": account_id,
            "not_before": self.epochs.not_before(account_id),
            "ways": ways,
            "ends_at": int((self.wall_clock() + lives_s) * 1000),
        }

    async def make_link(self, account_id: AccountId, ways: str) -> str:
        """Return a secret that starts one session of the account within ``LINK_LIVES_S``.

        If the account's sessions are ended, the secret becomes invalid, too.
        """
        word = hex_token(64)
        key = _link_key(word)

        def work(tx: sa.Connection) -> None:
            tx.execute(sa.insert(STAFF_SESSIONS), self._row(key, account_id, ways, LINK_LIVES_S))

        await self.ledger.write(work, OneAccount(account_id))
        return word

    async def use_link(self, word: str) -> StaffSession | None:
        """Return the account that the link signs in; each link can be used once.

        Returns None if the link was used before or has expired.
        """
        key = {"ticket": _link_key(word)}
        row = await self.ledger.read_snapshot(lambda tx: tx.execute(_FIND, key).first())
        if row is None:
            return None
        ended = {**key, "holder": row.account_id}
        used = await self.ledger.write(
            lambda tx: tx.execute(_END, ended).rowcount == 1, OneAccount(row.account_id)
        )
        return self._valid(row) if used else None

    async def keep(self, ticket: Ticket, account_id: AccountId, ways: str) -> None:
        """Store ``ways`` after a key or second factor has changed, so the session stays valid."""
        values = {"ticket": ticket.key, "holder": account_id, "now": ways}
        await self.ledger.write(lambda tx: tx.execute(_KEEP, values), OneAccount(account_id))

    async def find(self, ticket: Ticket) -> StaffSession | None:
        """Return the session, or None if it has ended.

        The caller must also check that the account's ``ways`` (see StaffSession) have not changed.
        """
        key = {"ticket": ticket.key}
        row = await self.ledger.read_snapshot(lambda tx: tx.execute(_FIND, key).first())
        return None if row is None else self._valid(row)

    def _valid(self, row: Any) -> StaffSession | None:
        if row.ends_at <= self.wall_clock() * 1000:
            return None
        if self.epochs.not_before(row.account_id) > row.not_before:
            return None
        return StaffSession(row.account_id, row.not_before, row.ways)

    async def end(self, ticket: Ticket, account_id: AccountId) -> None:
        ended = {"ticket": ticket.key, "holder": account_id}
        await self.ledger.write(lambda tx: tx.execute(_END, ended), OneAccount(account_id))


def _link_key(word: str) -> str:
    return fingerprint(f"link:{word}")  # the text of a stored ticket begins with hex digits


def end_all(tx: sa.Connection, account_id: AccountId) -> None:
    """Delete all sessions of an account."""
    tx.execute(_END_ALL, {"holder": account_id})


def ticket_of(cookies: str | None, word: str | None) -> Ticket | None:
    """Make a ticket from a Cookie header and the page's secret; None if either is missing."""
    if cookies is None or word is None or len(cookies) > LONGEST or len(word) > LONGEST:
        return None
    try:
        morsel = SimpleCookie(cookies).get(Ticket("", word).cookie)
    except CookieError:
        return None
    return None if morsel is None else Ticket(morsel.value, word)


def set_cookie(ticket: Ticket, *, ended: bool = False) -> str:
    """Return the Set-Cookie value that starts or ends a session."""
    secret, life = ("", 0) if ended else (ticket.secret, LIVES_S)
    return f"{ticket.cookie}={secret}; Path=/svc; Max-Age={life}; HttpOnly; SameSite=Strict"
