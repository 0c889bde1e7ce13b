"""Who is linked to whom, in which slot. Spec: 1 §3, §4 Slayer links, §7, §8.

Every function runs inside one transaction. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId, is_account_shaped, new_id
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing

FIRST_SLOT = 1  # a client that counts from 0 needs only this changed
SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)
INVITE_HOURS = 24
LINK_HOURS = 168
HOUR_MS = 3_600_000
MAX_NEW_INVITES = 20
NEW_INVITES_S = 600.0
MAX_ASKED = 50
ANSWERED_MS = 600_000  # an answered invite this old is forgotten when the two have a newer one


class Status(StrEnum):
    """What became of an invite; an expired one is PENDING past its time until it is swept."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    DECLINED = "DECLINED"
    CANCELED = "CANCELED"


class Action(StrEnum):
    """What an invite is answered with."""

    ACCEPT = "accept"
    REJECT = "reject"
    CANCEL = "cancel"


_ANSWER = {
    Action.ACCEPT: Status.ACCEPTED,
    Action.REJECT: Status.DECLINED,
    Action.CANCEL: Status.CANCELED,
}


@frozen
class Invite:
    """``sender`` offers ``recipient`` a link in the sender's ``slot``."""

    link_id: str
    sender: AccountId
    recipient: AccountId
    slot: int
    status: Status
    created_at: int
    expires_at: int

    def is_waiting(self, at: int) -> bool:
        """Neither answered nor expired."""
        return self.status is Status.PENDING and at < self.expires_at


@frozen
class Link:
    """One side of a running link: ``other`` sits in ``account_id``'s ``slot``."""

    account_id: AccountId
    other: AccountId
    slot: int
    link_id: str
    ends_at: int


class Ties(Protocol):
    """What the rules need kept; an instance lives inside one transaction."""

    def exists(self, account_id: AccountId) -> bool: ...

    def are_friends(self, one: AccountId, other: AccountId) -> bool: ...

    def friends(self, me: AccountId) -> set[AccountId]: ...

    def links(self, account_id: AccountId, at: int) -> Sequence[Link]: ...

    def sent(self, sender: AccountId) -> Sequence[Invite]: ...

    def received(self, recipient: AccountId) -> Sequence[Invite]: ...

    def add_invite(self, invite: Invite) -> None: ...

    def answer(self, link_id: str, status: Status) -> None: ...

    def add_links(self, one: Link, other: Link) -> None: ...

    def end_link(self, link_id: str) -> None: ...

    def taken_slots(self, accounts: Iterable[AccountId], at: int) -> dict[AccountId, set[int]]: ...

    def forget(self, sender: AccountId, recipient: AccountId, before: int) -> None: ...

    def sweep(self, at: int) -> None: ...


# -- what the wire says ------------------------------------------------------


def other_account(sent: Any) -> AccountId:
    """The other player's id of a body; raises 400 when it is none."""
    if not isinstance(sent, str) or not is_account_shaped(sent):
        raise Malformed("account_id is missing")
    return sent


def slot_of(sent: Any) -> int | None:
    """A slot number or its text; None when it is not one of ours."""
    if isinstance(sent, str) and sent.isascii() and sent.isdigit() and len(sent) < 4:
        sent = int(sent)
    if isinstance(sent, float) and sent.is_integer():
        sent = int(sent)
    return sent if type(sent) is int and sent in SLOTS else None


# -- inviting ----------------------------------------------------------------


def invite(
    ties: Ties, me: AccountId, other: AccountId, slot: int | None, at: int, *, may_send: bool
) -> tuple[str, bool]:
    """The link id, and whether the invite is new.

    ``may_send`` is False when the 20 of ten minutes are used up; looked at last.
    """
    if slot is None:
        raise Malformed("slot must be 1, 2 or 3")
    if other == me:
        raise Conflict("that is yourself")
    if not ties.exists(other):
        raise Missing("no such account")
    _check_friends(ties, me, other)
    _check_unlinked(ties, me, other, at)
    if any(one.is_waiting(at) and one.sender == other for one in ties.received(me)):
        raise Conflict("they have invited you already")
    for one in ties.sent(me):
        if one.is_waiting(at) and one.recipient == other:
            return one.link_id, False
    if slot in taken(ties, me, at):
        raise Conflict("this slot is taken or holds a waiting invite")
    if len(taken(ties, other, at)) >= len(SLOTS):
        raise Conflict("they have no free slot")
    if not may_send:
        raise Conflict("too many invites, try again later")
    ties.sweep(at)
    ties.forget(me, other, at - ANSWERED_MS)
    expires_at = at + INVITE_HOURS * HOUR_MS
    new = Invite(new_id(), me, other, slot, Status.PENDING, at, expires_at)
    ties.add_invite(new)
    return new.link_id, True


def taken(ties: Ties, account_id: AccountId, at: int) -> set[int]:
    """Slots that are linked or hold a waiting invite the account sent."""
    return ties.taken_slots([account_id], at).get(account_id, set())


def _check_friends(ties: Ties, me: AccountId, other: AccountId) -> None:
    """An accepted friendship; a block has ended any."""
    if not ties.are_friends(me, other):
        raise Forbidden("only friends link")


def _check_unlinked(ties: Ties, me: AccountId, other: AccountId, at: int) -> None:
    if any(one.other == other for one in ties.links(me, at)):
        raise Conflict("already linked")


# -- answering ---------------------------------------------------------------


@frozen
class Reply:
    """A body of ``POST /slayerlink/invite``: the ids are tried before the account."""

    action: Any
    account_id: Any
    ids: Sequence[Any]
    slot: Any


def answer(ties: Ties, me: AccountId, reply: Reply, at: int) -> str:
    """Accept, reject or cancel; the same answer again is fine. The link id."""
    action = next((one for one in Action if one == reply.action), None)
    if action is None:
        raise Malformed("unknown action")
    found = _meant(ties, me, action, reply)
    if found is None:
        raise Missing("no such invite")
    if found.status is _ANSWER[action]:
        return found.link_id
    if not found.is_waiting(at):
        raise Conflict("this invite has ended")
    if action is Action.ACCEPT:
        _link(ties, found, reply.slot, at)
    ties.answer(found.link_id, _ANSWER[action])
    return found.link_id


def _meant(ties: Ties, me: AccountId, action: Action, reply: Reply) -> Invite | None:
    mine = ties.sent(me) if action is Action.CANCEL else ties.received(me)
    for wanted in reply.ids:
        for one in mine:
            if one.link_id == wanted:
                return one
    newest_first = reversed(mine)
    return next((one for one in newest_first if reply.account_id == _other(one, me)), None)


def _other(one: Invite, me: AccountId) -> AccountId:
    return one.recipient if one.sender == me else one.sender


def _link(ties: Ties, found: Invite, wanted: Any, at: int) -> None:
    me, other = found.recipient, found.sender
    _check_friends(ties, me, other)
    _check_unlinked(ties, me, other, at)
    held = taken(ties, me, at)
    free = [slot for slot in SLOTS if slot not in held]
    if not free:
        raise Conflict("no free slot")
    asked = slot_of(wanted)
    slot = asked if asked in free else free[0]
    ties.sweep(at)
    ends_at = at + LINK_HOURS * HOUR_MS
    ties.add_links(
        Link(me, other, slot, found.link_id, ends_at),
        Link(other, me, found.slot, found.link_id, ends_at),
    )


# -- ending ------------------------------------------------------------------


def drop_invites(ties: Ties, me: AccountId, other: AccountId, at: int) -> None:
    """One's own id: all of them; another's: only those between the two."""
    for one in [*ties.sent(me), *ties.received(me)]:
        if one.is_waiting(at) and other in (me, _other(one, me)):
            mine = one.sender == me
            ties.answer(one.link_id, Status.CANCELED if mine else Status.DECLINED)


def end_link(ties: Ties, me: AccountId, other: Any, slot: int | None, at: int) -> None:
    """End a link for both, named by the other player, by the slot, or by both."""
    for one in ties.links(me, at):
        by_account = other is None or one.other == other
        by_slot = slot is None or one.slot == slot
        if by_account and by_slot and (other is not None or slot is not None):
            ties.end_link(one.link_id)


# -- reading -----------------------------------------------------------------


def waiting(ties: Ties, me: AccountId, at: int) -> list[Invite]:
    """Sent and received invites that wait, oldest first."""
    found = [one for one in [*ties.sent(me), *ties.received(me)] if one.is_waiting(at)]
    return sorted(found, key=lambda one: (one.created_at, one.link_id))


def available(
    ties: Ties, me: AccountId, asked: Iterable[AccountId], at: int
) -> dict[AccountId, bool]:
    """Whether each could be invited now: a friend, not linked, nothing waiting, room on both."""
    wanted = list(dict.fromkeys(asked))
    friends = ties.friends(me)
    tied = {one.other for one in ties.links(me, at)}
    tied |= {_other(one, me) for one in waiting(ties, me, at)}
    held = ties.taken_slots([me, *(one for one in wanted if one in friends)], at)
    full = {one for one, slots in held.items() if len(slots) >= len(SLOTS)}
    return {
        one: one in friends and one not in tied and one not in full and me not in full
        for one in wanted
    }
