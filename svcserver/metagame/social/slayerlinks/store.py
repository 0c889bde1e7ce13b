"""The tables of slayer links and their invites; a link has one row per side."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import ACCOUNT, METADATA, ROW_ID
from svcserver.kernel.ids import AccountId
from svcserver.kernel.times import DAY_MS
from svcserver.metagame.social.friends.rules import ACCEPTED
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.slayerlinks.rules import InviteStatus, Link, LinkInvite

KEEP_ANSWERED_MS = 7 * DAY_MS  # the time in which an answer may be repeated

SLAYER_INVITES = sa.Table(
    "slayer_invites",
    METADATA,
    sa.Column("seq", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("link_id", sa.String(64), nullable=False),
    sa.Column("sender_id", sa.String(64), nullable=False, index=True, info=ACCOUNT),
    sa.Column("recipient_id", sa.String(64), nullable=False, index=True, info=ACCOUNT),
    sa.Column("slot", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
    sa.UniqueConstraint("link_id"),
)
SLAYER_LINKS = sa.Table(
    "slayer_links",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),  # one link per slot
    sa.Column("other_id", sa.String(64), nullable=False, info=ACCOUNT),
    sa.Column("link_id", sa.String(64), nullable=False, index=True),
    sa.Column("ends_at", sa.BigInteger, nullable=False, index=True),
    sa.UniqueConstraint("account_id", "other_id"),
)

_I, _L = SLAYER_INVITES.c, SLAYER_LINKS.c
_LINKS = (
    sa.select(SLAYER_LINKS)
    .where(_L.account_id == sa.bindparam("who"), _L.ends_at > sa.bindparam("at"))
    .order_by(_L.slot)
)
_LINKED_SLOTS = sa.select(_L.account_id, _L.slot).where(
    _L.account_id.in_(sa.bindparam("who", expanding=True)), _L.ends_at > sa.bindparam("at")
)
_HELD_SLOTS = sa.select(_I.sender_id, _I.slot).where(
    _I.sender_id.in_(sa.bindparam("who", expanding=True)),
    _I.status == InviteStatus.PENDING.value,
    _I.expires_at > sa.bindparam("at"),
)
_SENT = sa.select(SLAYER_INVITES).where(_I.sender_id == sa.bindparam("who")).order_by(_I.seq)
_RECEIVED = sa.select(SLAYER_INVITES).where(_I.recipient_id == sa.bindparam("who")).order_by(_I.seq)
_ADD_INVITE = sa.insert(SLAYER_INVITES)
_ANSWER = (
    sa.update(SLAYER_INVITES)
    .where(_I.link_id == sa.bindparam("wanted"))
    .values(status=sa.bindparam("word"))
)
_ADD_LINK = sa.insert(SLAYER_LINKS)
_END_LINK = sa.delete(SLAYER_LINKS).where(_L.link_id == sa.bindparam("wanted"))
_FORGET = sa.delete(SLAYER_INVITES).where(
    _I.sender_id == sa.bindparam("sender"),
    _I.recipient_id == sa.bindparam("recipient"),
    _I.created_at <= sa.bindparam("before"),
)
_SWEEP_LINKS = sa.delete(SLAYER_LINKS).where(_L.ends_at <= sa.bindparam("at"))
_SWEEP_INVITES = sa.delete(SLAYER_INVITES).where(_I.expires_at <= sa.bindparam("at"))
_CANCEL_BETWEEN = (
    sa.update(SLAYER_INVITES)
    .where(
        _I.status == InviteStatus.PENDING.value,
        sa.or_(
            (_I.sender_id == sa.bindparam("one")) & (_I.recipient_id == sa.bindparam("other")),
            (_I.sender_id == sa.bindparam("other")) & (_I.recipient_id == sa.bindparam("one")),
        ),
    )
    .values(status=InviteStatus.CANCELED.value)
)


@frozen
class SqlSlayerLinks:
    """The stored links and invites, inside one transaction."""

    tx: sa.Connection

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
        """Return a dict from account id to the account's slots that are taken.

        A slot is taken by a link, or by a pending invite that the account sent.
        """
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


def cancel_between(tx: sa.Connection, first: AccountId, second: AccountId) -> None:
    """Cancel the pending invites between two accounts, after one unfriended or blocked the other.

    An existing link between the accounts does not end.
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
