"""The table of purchase tokens; it stores only the SHA-256 hash of each token."""

import sqlalchemy as sa
from attrs import asdict, frozen

from svcserver.db.tables import METADATA
from svcserver.kernel.ids import AccountId
from svcserver.metagame.belongings.shop.rules import Purchase

PURCHASE_TOKENS = sa.Table(
    "purchase_tokens",
    METADATA,
    sa.Column("token_hash", sa.String(64), primary_key=True),
    sa.Column("account_id", sa.String(64), nullable=False),
    sa.Column("character_id", sa.String(64), nullable=False),
    sa.Column("sku", sa.String(128), nullable=False),
    sa.Column("offer_hash", sa.String(64), nullable=False),
    sa.Column(
        "created_at", sa.BigInteger, nullable=False
    ),  # epoch milliseconds, like the columns below
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("redeemed_at", sa.BigInteger, nullable=True),
    sa.Index("ix_purchase_tokens_account_id", "account_id", "created_at"),
    sa.Index("ix_purchase_tokens_redeemed_at", "redeemed_at", "expires_at"),
)
RECEIPT_DAYS = 30

_P = PURCHASE_TOKENS.c
_ADD = sa.insert(PURCHASE_TOKENS)
_FIND = sa.select(
    _P.token_hash,
    _P.account_id,
    _P.character_id,
    _P.sku,
    _P.offer_hash,
    _P.created_at,
    _P.expires_at,
    _P.redeemed_at,
).where(_P.token_hash == sa.bindparam("wanted"))
_COUNT = sa.select(sa.func.count()).where(
    _P.account_id == sa.bindparam("account"), _P.created_at > sa.bindparam("since")
)
_REDEEM = (
    sa.update(PURCHASE_TOKENS)
    .where(_P.token_hash == sa.bindparam("wanted"), _P.redeemed_at.is_(None))
    .values(redeemed_at=sa.bindparam("at"))
)
_EXPIRED = sa.delete(PURCHASE_TOKENS).where(
    _P.redeemed_at.is_(None), _P.expires_at < sa.bindparam("at")
)
_EXPIRED_OF = _EXPIRED.where(_P.account_id == sa.bindparam("account"))
_OLD_RECEIPTS = sa.delete(PURCHASE_TOKENS).where(_P.redeemed_at < sa.bindparam("before"))


@frozen
class SqlPurchases:
    """The table of purchases, within one transaction."""

    tx: sa.Connection

    def tokens_since(self, account_id: AccountId, at_ms: int) -> int:
        """Return how many tokens, redeemed or not, the account got since ``at_ms``."""
        values = {"account": account_id, "since": at_ms}
        return int(self.tx.execute(_COUNT, values).scalar_one())

    def drop_expired(self, account_id: AccountId, at_ms: int) -> None:
        """Delete the account's expired tokens that were never redeemed."""
        self.tx.execute(_EXPIRED_OF, {"account": account_id, "at": at_ms})

    def add(self, purchase: Purchase) -> None:
        self.tx.execute(_ADD, asdict(purchase))

    def find(self, token_hash: str) -> Purchase | None:
        row = self.tx.execute(_FIND, {"wanted": token_hash}).first()
        return None if row is None else Purchase(*row)

    def redeem(self, purchase: Purchase, at_ms: int) -> None:
        self.tx.execute(_REDEEM, {"wanted": purchase.token_hash, "at": at_ms})


def forget_purchases(tx: sa.Connection, now: float) -> int:
    """Delete tokens that expired before use, and tokens redeemed over ``RECEIPT_DAYS`` days ago."""
    before = int((now - RECEIPT_DAYS * 86_400) * 1000)
    expired = tx.execute(_EXPIRED, {"at": int(now * 1000)}).rowcount
    return expired + tx.execute(_OLD_RECEIPTS, {"before": before}).rowcount
