"""Rules of slayer links and their invites. Spec: 1 §3, §4 Slayer links, §7, §8.

Every function runs inside one transaction. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import frozen

from svcserver.kernel.ids import AccountId, is_account_shaped, new_id
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing
from svcserver.kernel.times import HOUR_MS

if TYPE_CHECKING:
    from svcserver.metagame.social.slayerlinks.store import SqlSlayerLinks

FIRST_SLOT = 1  # a client that counts from 0 needs only this changed
SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)
NO_SLOT = FIRST_SLOT - 1  # in place of an invalid slot: no link has it
NOT_NAMED = "account_id is missing"
NOBODY = "?"  # in place of an invalid account id
INVITE_HOURS = 24
LINK_HOURS = 168
MAX_NEW_INVITES = 20
NEW_INVITES_S = 600.0
ANSWERED_MS = 600_000  # age from which an answered invite is deleted when there is a newer one


class Status(StrEnum):
    """The state of an invite; an expired one stays PENDING until it is deleted."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    DECLINED = "DECLINED"
    CANCELED = "CANCELED"


class Action(StrEnum):
    """An answer to an invite."""

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
    """An invite to a link, which takes ``slot`` of the sender."""

    link_id: str
    sender: AccountId
    recipient: AccountId
    slot: int
    status: Status
    created_at: int
    expires_at: int

    def is_waiting(self, at: int) -> bool:
        """Whether it is neither answered nor expired."""
        return self.status is Status.PENDING and at < self.expires_at


@frozen
class Link:
    """One side of a running link: ``other`` is in the ``slot`` of ``account_id``."""

    account_id: AccountId
    other: AccountId
    slot: int
    link_id: str
    ends_at: int


# -- inviting ----------------------------------------------------------------


def invite(
    links: SqlSlayerLinks,
    me: AccountId,
    other: AccountId,
    slot: int | None,
    at: int,
    *,
    may_send: bool,
) -> tuple[str, bool]:
    """Invite; returns the link id, and whether the invite is new.

    ``may_send`` is False when the quota of new invites is used up; it is checked last.
    """
    if slot is None:
        raise Malformed("slot must be 1, 2 or 3")
    if other == me:
        raise Conflict("that is yourself")
    if not links.exists(other):
        raise Missing("no such account")
    _check_friends(links, me, other)
    _check_unlinked(links, me, other, at)
    if any(one.is_waiting(at) and one.sender == other for one in links.received(me)):
        raise Conflict("they have invited you already")
    for one in links.sent(me):
        if one.is_waiting(at) and one.recipient == other:
            return one.link_id, False
    if slot in taken(links, me, at):
        raise Conflict("this slot is taken or holds a waiting invite")
    if len(taken(links, other, at)) >= len(SLOTS):
        raise Conflict("they have no free slot")
    if not may_send:
        raise Conflict("too many invites, try again later")
    links.sweep(at)
    links.forget(me, other, at - ANSWERED_MS)
    expires_at = at + INVITE_HOURS * HOUR_MS
    new = Invite(new_id(), me, other, slot, Status.PENDING, at, expires_at)
    links.add_invite(new)
    return new.link_id, True


def other_account(named: str | None) -> AccountId:
    """The other player's id; raises Malformed for a text that cannot be one."""
    if named is None or not is_account_shaped(named):
        raise Malformed(NOT_NAMED)
    return named


def taken(links: SqlSlayerLinks, account_id: AccountId, at: int) -> set[int]:
    """The account's slots with a link or a pending invite that it sent."""
    return links.taken_slots([account_id], at).get(account_id, set())


def _check_friends(links: SqlSlayerLinks, me: AccountId, other: AccountId) -> None:
    """Raise Forbidden unless they are friends; a block ends every friendship."""
    if not links.are_friends(me, other):
        raise Forbidden("only friends link")


def _check_unlinked(links: SqlSlayerLinks, me: AccountId, other: AccountId, at: int) -> None:
    if any(one.other == other for one in links.running(me, at)):
        raise Conflict("already linked")


# -- answering ---------------------------------------------------------------


@frozen
class Reply:
    """An answer to an invite, which is named by ``ids``, or else by the other account.

    ``slot`` is the wanted slot of the account that accepts.
    """

    action: Action | None
    account_id: AccountId | None
    ids: Sequence[str]
    slot: int | None


def answer(links: SqlSlayerLinks, me: AccountId, reply: Reply, at: int) -> str:
    """Accept, reject or cancel; returns the link id. The same answer may be given again."""
    action = reply.action
    if action is None:
        raise Malformed("unknown action")
    if not reply.ids and not reply.account_id:
        raise Malformed(NOT_NAMED)
    found = _meant(links, me, action, reply)
    if found is None:
        raise Missing("no such invite")
    if found.status is _ANSWER[action]:
        return found.link_id
    if not found.is_waiting(at):
        raise Conflict("this invite has ended")
    if action is Action.ACCEPT:
        _link(links, found, reply.slot, at)
    links.answer(found.link_id, _ANSWER[action])
    return found.link_id


def _meant(links: SqlSlayerLinks, me: AccountId, action: Action, reply: Reply) -> Invite | None:
    mine = links.sent(me) if action is Action.CANCEL else links.received(me)
    for wanted in reply.ids:
        for one in mine:
            if one.link_id == wanted:
                return one
    for one in reversed(mine):
        if reply.account_id == _other(one, me):
            return one
    return None


def _other(one: Invite, me: AccountId) -> AccountId:
    return one.recipient if one.sender == me else one.sender


def _link(links: SqlSlayerLinks, found: Invite, wanted: int | None, at: int) -> None:
    me, other = found.recipient, found.sender
    _check_friends(links, me, other)
    _check_unlinked(links, me, other, at)
    held = taken(links, me, at)
    free = [slot for slot in SLOTS if slot not in held]
    if not free:
        raise Conflict("no free slot")
    slot = wanted if wanted in free else free[0]
    links.sweep(at)
    ends_at = at + LINK_HOURS * HOUR_MS
    links.add_links(
        Link(me, other, slot, found.link_id, ends_at),
        Link(other, me, found.slot, found.link_id, ends_at),
    )


# -- ending ------------------------------------------------------------------


def drop_invites(links: SqlSlayerLinks, me: AccountId, other: AccountId, at: int) -> None:
    """Cancel or decline all pending invites (``other`` is ``me``), else those between the two."""
    for one in [*links.sent(me), *links.received(me)]:
        if one.is_waiting(at) and other in (me, _other(one, me)):
            mine = one.sender == me
            links.answer(one.link_id, Status.CANCELED if mine else Status.DECLINED)


def end_link(
    links: SqlSlayerLinks, me: AccountId, other: AccountId | None, slot: int | None, at: int
) -> None:
    """End a link for both sides, named by the other player, by the slot, or by both."""
    for one in links.running(me, at):
        by_account = other is None or one.other == other
        by_slot = slot is None or one.slot == slot
        if by_account and by_slot and (other is not None or slot is not None):
            links.end_link(one.link_id)


# -- reading -----------------------------------------------------------------


def waiting(links: SqlSlayerLinks, me: AccountId, at: int) -> list[Invite]:
    """The pending invites in both directions, oldest first."""
    found = [one for one in [*links.sent(me), *links.received(me)] if one.is_waiting(at)]
    return sorted(found, key=lambda one: (one.created_at, one.link_id))


def available(
    links: SqlSlayerLinks, me: AccountId, asked: Iterable[AccountId], at: int
) -> dict[AccountId, bool]:
    """Whether each could be invited: a friend, no link or pending invite, free slots on both."""
    wanted = list(dict.fromkeys(asked))
    friends = links.friends(me)
    tied = {one.other for one in links.running(me, at)}
    tied |= {_other(one, me) for one in waiting(links, me, at)}
    held = links.taken_slots([me, *(one for one in wanted if one in friends)], at)
    full = {one for one, slots in held.items() if len(slots) >= len(SLOTS)}
    return {
        one: one in friends and one not in tied and one not in full and me not in full
        for one in wanted
    }
