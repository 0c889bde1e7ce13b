"""The tables of slayer links and their invites; a link has one row per side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    delete,
    insert,
    or_,
    select,
    update,
)

from svcserver.db.tables import ACCOUNT, METADATA, ROW_ID
from svcserver.kernel.ids import AccountId
from svcserver.kernel.times import DAY_MS
from svcserver.metagame.social.friends.rules import ACCEPTED
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.slayerlinks.rules import InviteStatus, Link, LinkInvite

KEEP_ANSWERED_MS = 7 * DAY_MS  # the time in which an answer may be repeated

SLAYER_INVITES = Table(
    "slayer_invites",
    METADATA,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True),
    Column("link_id", String(64), nullable=False),
    Column("sender_id", String(64), nullable=False, index=True, info=ACCOUNT),
    Column("recipient_id", String(64), nullable=False, index=True, info=ACCOUNT),
    Column("slot", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    UniqueConstraint("link_id"),
)
SLAYER_LINKS = Table(
    "slayer_links",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),  # one link per slot
    Column("other_id", String(64), nullable=False, info=ACCOUNT),
    Column("link_id", String(64), nullable=False, index=True),
    Column("ends_at", BigInteger, nullable=False, index=True),
    UniqueConstraint("account_id", "other_id"),
)

_I, _L = SLAYER_INVITES.c, SLAYER_LINKS.c
_LINKS = (
    select(SLAYER_LINKS)
    .where(_L.account_id == bindparam("who"), _L.ends_at > bindparam("at"))
    .order_by(_L.slot)
)
_LINKED_SLOTS = select(_L.account_id, _L.slot).where(
    _L.account_id.in_(bindparam("who", expanding=True)), _L.ends_at > bindparam("at")
)
_HELD_SLOTS = select(_I.sender_id, _I.slot).where(
    _I.sender_id.in_(bindparam("who", expanding=True)),
    _I.status == InviteStatus.PENDING.value,
    _I.expires_at > bindparam("at"),
)
_SENT = select(SLAYER_INVITES).where(_I.sender_id == bindparam("who")).order_by(_I.seq)
_RECEIVED = select(SLAYER_INVITES).where(_I.recipient_id == bindparam("who")).order_by(_I.seq)
_ADD_INVITE = insert(SLAYER_INVITES)
_ANSWER = (
    update(SLAYER_INVITES).where(_I.link_id == bindparam("wanted")).values(status=bindparam("word"))
)
_ADD_LINK = insert(SLAYER_LINKS)
_END_LINK = delete(SLAYER_LINKS).where(_L.link_id == bindparam("wanted"))
_FORGET = delete(SLAYER_INVITES).where(
    _I.sender_id == bindparam("sender"),
    _I.recipient_id == bindparam("recipient"),
    _I.created_at <= bindparam("before"),
)
_SWEEP_LINKS = delete(SLAYER_LINKS).where(_L.ends_at <= bindparam("at"))
_SWEEP_INVITES = delete(SLAYER_INVITES).where(_I.expires_at <= bindparam("at"))
_CANCEL_BETWEEN = (
    update(SLAYER_INVITES)
    .where(
        _I.status == InviteStatus.PENDING.value,
        or_(
            (_I.sender_id == bindparam("one")) & (_I.recipient_id == bindparam("other")),
            (_I.sender_id == bindparam("other")) & (_I.recipient_id == bindparam("one")),
        ),
    )
    .values(status=InviteStatus.CANCELED.value)
)


@frozen
class SqlSlayerLinks:
    """The stored links and invites, inside one transaction."""

    tx: Connection

    def exists(self, account_id: AccountId) -> bool:
        return SqlFriends(self.tx).exists(account_id)

    def are_friends(self, first: AccountId, second: AccountId) -> bool:
        """Return whether the two accounts are friends and neither has blocked the other."""
        friends = SqlFriends(self.tx)
        between = friends.between(first, second)
        accepted = between is not None and between.status == ACCEPTED
        return accepted and not friends.blocked_between(first, second)

    def friends(self, me: AccountId) -> set[AccountId]:
        """Return the account's friends, except friends with a block in either direction."""
        friends = SqlFriends(self.tx)
        accepted = friends.friends(me)
        return accepted - friends.blocked(me, accepted)

    def running(self, account_id: AccountId, at: int) -> Sequence[Link]:
        """Return the account's running links, ordered by slot."""
        rows = self.tx.execute(_LINKS, {"who": account_id, "at": at})
        return [
            Link(row.account_id, row.other_id, row.slot, row.link_id, row.ends_at) for row in rows
        ]

    def taken_slots(self, accounts: Iterable[AccountId], at: int) -> dict[AccountId, set[int]]:
        """Return for each account its slots with a link, or with a pending invite that it sent."""
        wanted = {"who": list(accounts), "at": at}
        taken: dict[AccountId, set[int]] = {}
        for statement in (_LINKED_SLOTS, _HELD_SLOTS):
            for account_id, slot in self.tx.execute(statement, wanted):
                taken.setdefault(account_id, set()).add(slot)
        return taken

    def sent(self, sender: AccountId) -> Sequence[LinkInvite]:
        """Return all invites that the account sent, oldest first."""
        return [_invite(row) for row in self.tx.execute(_SENT, {"who": sender})]

    def received(self, recipient: AccountId) -> Sequence[LinkInvite]:
        """Return all invites that the account received, oldest first."""
        return [_invite(row) for row in self.tx.execute(_RECEIVED, {"who": recipient})]

    def add_invite(self, invite: LinkInvite) -> None:
        self.tx.execute(
            _ADD_INVITE,
            {
                "link_id": invite.link_id,
                "sender_id": invite.sender,
                "recipient_id": invite.recipient,
                "slot": invite.slot,
                "status": invite.status.value,
                "created_at": invite.created_at,
                "expires_at": invite.expires_at,
            },
        )

    def answer(self, link_id: str, status: InviteStatus) -> None:
        self.tx.execute(_ANSWER, {"wanted": link_id, "word": status.value})

    def add_links(self, first: Link, second: Link) -> None:
        for side in (first, second):
            self.tx.execute(
                _ADD_LINK,
                {
                    "account_id": side.account_id,
                    "slot": side.slot,
                    "other_id": side.partner,
                    "link_id": side.link_id,
                    "ends_at": side.ends_at,
                },
            )

    def end_link(self, link_id: str) -> None:
        self.tx.execute(_END_LINK, {"wanted": link_id})

    def forget(self, sender: AccountId, recipient: AccountId, before: int) -> None:
        """Delete the sender's invites to the recipient that are older than ``before``."""
        sent = {"sender": sender, "recipient": recipient, "before": before}
        self.tx.execute(_FORGET, sent)

    def sweep(self, at: int) -> None:
        """Delete ended links, and invites that expired over ``KEEP_ANSWERED_MS`` ago."""
        self.tx.execute(_SWEEP_LINKS, {"at": at})
        self.tx.execute(_SWEEP_INVITES, {"at": at - KEEP_ANSWERED_MS})


def cancel_between(tx: Connection, first: AccountId, second: AccountId) -> None:
    """Cancel the pending invites between two accounts, after an unfriend or a block.

    Links are not ended.
    """
    tx.execute(_CANCEL_BETWEEN, {"one": first, "other": second})


def _invite(row: Any) -> LinkInvite:
    return LinkInvite(
        row.link_id,
        row.sender_id,
        row.recipient_id,
        row.slot,
        InviteStatus(row.status),
        row.created_at,
        row.expires_at,
    )
