"""Access to the dashboard: a separate key, and a second factor (TOTP, RFC 6238).

If an account has a dashboard key, its account key is only for the game and opens no staff route.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from attrs import evolve, field, frozen
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor import InvalidToken
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import TooMany
from svcserver.kernel.secrets import constant_time_equal, fingerprint
from svcserver.kernel.system import token_hex

STEP_S = 30
DIGITS = 6
SECRET_BYTES = 20
BASE32 = 32  # characters of a secret
TRIES, TRIES_S = 10, 300  # codes per account, counted in the database, not on the board

DASHBOARD_ACCESS = sa.Table(
    "dashboard_access",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("key_hash", sa.String(64), nullable=True, unique=True),
    sa.Column("factor", sa.String(64), nullable=True),  # the secret, base32
    sa.Column("factor_step", sa.BigInteger, nullable=False),  # the last TOTP step that was used
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),  # codes entered
    sa.Column("tries_since", sa.BigInteger, nullable=False, server_default="0"),  # epoch seconds
)
_OF = sa.select(DASHBOARD_ACCESS).where(DASHBOARD_ACCESS.c.account_id == sa.bindparam("holder"))
_BY_KEY = sa.select(DASHBOARD_ACCESS).where(DASHBOARD_ACCESS.c.key_hash == sa.bindparam("offered"))
_PUT = Upsert(DASHBOARD_ACCESS)


@frozen
class DashboardAccess:
    """An account's dashboard key and second factor; ``step`` is the last TOTP step that was used.

    ``tries`` is the number of codes entered since ``tries_since``.
    """

    account_id: AccountId
    key_hash: str | None = None
    factor: str | None = field(default=None, repr=False)
    step: int = 0
    tries: int = 0
    tries_since: int = 0

    def tried(self, now: float) -> DashboardAccess:
        """Return a copy in which ``tries`` is one higher; raises TooMany above the limit."""
        fresh = not 0 <= now - self.tries_since < TRIES_S
        tries, since = (0, int(now)) if fresh else (self.tries, self.tries_since)
        if tries >= TRIES:
            raise TooMany(retry_after_s=max(1, round(since + TRIES_S - now)))
        return evolve(self, tries=tries + 1, tries_since=since)

    @property
    def mark(self) -> str:
        """Return a hash that changes with the key or second factor; "" if neither is set."""
        if self.key_hash is None and self.factor is None:
            return ""
        return fingerprint(f"{self.key_hash} {self.factor}")[:16]


@frozen
class SqlDashboardAccess:
    """The dashboard keys and second factors, in an open transaction."""

    tx: sa.Connection

    def of_account(self, account_id: AccountId) -> DashboardAccess:
        """Return the account's access settings, which are all empty if the account has no row."""
        row = self.tx.execute(_OF, {"holder": account_id}).first()
        return DashboardAccess(account_id) if row is None else _access(row)

    def by_key(self, key: str) -> DashboardAccess | None:
        """Return the access settings of the account with this dashboard key, or None."""
        offered = fingerprint(key)
        row = self.tx.execute(_BY_KEY, {"offered": offered}).first()
        if row is None or not constant_time_equal(row.key_hash, offered):
            return None
        return _access(row)

    def put(self, access: DashboardAccess) -> None:
        _PUT.put(
            self.tx,
            [
                {
                    "account_id": access.account_id,
                    "key_hash": access.key_hash,
                    "factor": access.factor,
                    "factor_step": access.step,
                    "tries": access.tries,
                    "tries_since": access.tries_since,
                }
            ],
        )


def new_factor() -> str:
    """Return a new TOTP secret in base32, the format of authenticator apps."""
    return base64.b32encode(bytes.fromhex(token_hex(SECRET_BYTES))).decode()


def address_of(factor: str, name: str, server: str) -> str:
    """Return the ``otpauth:`` URI that authenticator apps read, usually as a QR code."""
    label = quote(f"{server}:{name}")
    return f"otpauth://totp/{label}?secret={factor}&issuer={quote(server)}"


def step_of(factor: str, code: str, now: float) -> int | None:
    """Return the TOTP step for which the code is correct, or None.

    A code of the previous or the next step is also accepted.
    """
    if len(code) != DIGITS or not (code.isascii() and code.isdigit()):
        return None
    totp = TOTP(base64.b32decode(factor), DIGITS, SHA1(), STEP_S)  # noqa: S303 - RFC 6238
    for step in (int(now) // STEP_S + beside for beside in (0, -1, 1)):
        try:
            totp.verify(code.encode(), step * STEP_S)
        except InvalidToken:
            continue
        return step
    return None


def is_factor(text: str) -> bool:
    """Return whether the text has the form of a secret from ``new_factor``."""
    return len(text) == BASE32 and set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def _access(row: Any) -> DashboardAccess:
    return DashboardAccess(
        row.account_id, row.key_hash, row.factor, row.factor_step, row.tries, row.tries_since
    )
