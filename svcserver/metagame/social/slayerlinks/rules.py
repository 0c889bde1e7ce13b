"""The rules for slayer links and their invites. Spec: 1 §3, §4 Slayer links, §7, §8.

Times are epoch milliseconds.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing
from svcserver.kernel.times import HOUR_MS

FIRST_SLOT = 1  # for a client that counts from 0, change only this
SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)
NO_SLOT = FIRST_SLOT - 1  # stands for an invalid slot: no link has it
NOT_NAMED = "account_id is missing"
NOBODY = "?"  # stands for an invalid account id
INVITE_HOURS = 24
LINK_HOURS = 168
MAX_NEW_INVITES = 20
NEW_INVITES_S = 600.0
ANSWERED_MS = 600_000  # older answered invites are deleted when the sender invites again


class InviteStatus(StrEnum):
    """The state of an invite; an expired invite stays PENDING until it is deleted."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    DECLINED = "DECLINED"
    CANCELED = "CANCELED"


class InviteAction(StrEnum):
    """The action that answers an invite."""

    ACCEPT = "accept"
    REJECT = "reject"
    CANCEL = "cancel"


STATUS_OF = {
    InviteAction.ACCEPT: InviteStatus.ACCEPTED,
    InviteAction.REJECT: InviteStatus.DECLINED,
    InviteAction.CANCEL: InviteStatus.CANCELED,
}


@frozen
class LinkInvite:
    """An invite to a slayer link; ``slot`` is the sender's slot that the link would take."""

    link_id: str
    sender: AccountId
    recipient: AccountId
    slot: int
    status: InviteStatus
    created_at: int
    expires_at: int

    def is_waiting(self, at: int) -> bool:
        """Return whether the invite is neither answered nor expired."""
        return self.status is InviteStatus.PENDING and at < self.expires_at

    def partner_of(self, me: AccountId) -> AccountId:
        """Return the other account of an invite that ``me`` has sent or received."""
        return self.recipient if self.sender == me else self.sender


@frozen
class Link:
    """One side of a running slayer link: ``account_id`` is linked to ``partner`` in ``slot``."""

    account_id: AccountId
    partner: AccountId
    slot: int
    link_id: str
    ends_at: int


# -- inviting ----------------------------------------------------------------


def account_named(text: str | None) -> AccountId:
    """Return the other player's id; raises Malformed if it is no valid id."""
    if text is None or not is_account_shaped(text):
        raise Malformed(NOT_NAMED)
    return text


def slot_for_invite(me: AccountId, target: AccountId, slot: int | None, *, exists: bool) -> int:
    """Return the slot; raises Malformed if the slot is None.

    Raises Conflict if the target is the caller, and Missing if the target does not exist.
    """
    if slot is None:
        raise Malformed("slot must be 1, 2 or 3")
    if target == me:
        raise Conflict("this is your own account")
    if not exists:
        raise Missing("no such account")
    return slot


def check_may_link(target: AccountId, running: Iterable[Link], *, are_friends: bool) -> None:
    """Raise Forbidden if the players are not friends, and Conflict if they already have a link.

    If one player has blocked the other, ``are_friends`` is false. ``running`` are the caller's
    links.
    """
    if not are_friends:
        raise Forbidden("only friends can have a slayer link")
    if any(link.partner == target for link in running):
        raise Conflict("these players already have a slayer link")


def pending_invite(
    target: AccountId, sent: Iterable[LinkInvite], received: Iterable[LinkInvite], at: int
) -> LinkInvite | None:
    """Return the caller's pending invite to ``target``, or None.

    Raises Conflict if ``target`` has sent a pending invite to the caller.
    """
    if any(invite.is_waiting(at) and invite.sender == target for invite in received):
        raise Conflict("this player has already invited you")
    return next((i for i in sent if i.is_waiting(at) and i.recipient == target), None)


def check_slots(slot: int, own: Collection[int], targets: Collection[int]) -> None:
    """Raise Conflict if ``slot`` is taken, or if the target has no free slot.

    ``own`` and ``targets`` are the taken slots of the two accounts. A slot is taken by a link, or
    by a pending invite that the account sent.
    """
    if slot in own:
        raise Conflict("this slot has a link or a pending invite")
    if len(targets) >= len(SLOTS):
        raise Conflict("this player has no free slot")


# -- answering ---------------------------------------------------------------


@frozen
class InviteAnswer:
    """An answer to an invite.

    If ``ids`` has an invite's id, the answer is for that invite. Otherwise it is for the newest
    invite between the caller and ``account_id``. ``slot`` is the slot that the accepting account
    wants to use.
    """

    action: InviteAction | None
    account_id: AccountId | None
    ids: Sequence[str]
    slot: int | None


def action_of(reply: InviteAnswer) -> InviteAction:
    """Return ``reply.action``; raises Malformed if it is None, or if no invite is named."""
    if reply.action is None:
        raise Malformed("unknown action")
    if not reply.ids and not reply.account_id:
        raise Malformed(NOT_NAMED)
    return reply.action


def answered_invite(
    reply: InviteAnswer, me: AccountId, invites: Sequence[LinkInvite]
) -> LinkInvite:
    """Return the invite that the answer names (see ``InviteAnswer``); raises Missing."""
    by_id = {invite.link_id: invite for invite in invites}
    for link_id in reply.ids:
        if link_id in by_id:
            return by_id[link_id]
    for invite in reversed(invites):
        if invite.partner_of(me) == reply.account_id:
            return invite
    raise Missing("no such invite")


def free_slot(taken: Collection[int], wanted: int | None) -> int:
    """Return the wanted slot if it is free, else the first free slot; raises Conflict."""
    free = [slot for slot in SLOTS if slot not in taken]
    if not free:
        raise Conflict("no free slot")
    return wanted if wanted in free else free[0]


def sides_of(invite: LinkInvite, slot: int, at: int) -> tuple[Link, Link]:
    """Return both sides of the link that an accepted invite creates."""
    me, sender = invite.recipient, invite.sender
    ends_at = at + LINK_HOURS * HOUR_MS
    return (
        Link(me, sender, slot, invite.link_id, ends_at),
        Link(sender, me, invite.slot, invite.link_id, ends_at),
    )


# -- ending and reading --------------------------------------------------------


def is_meant(link: Link, partner: AccountId | None, slot: int | None) -> bool:
    """Return whether the link has this partner and this slot; None stands for any value.

    If ``partner`` and ``slot`` are None, the result is False.
    """
    return (
        (partner is not None or slot is not None)
        and partner in (None, link.partner)
        and slot in (None, link.slot)
    )


def waiting(invites: Iterable[LinkInvite], at: int) -> list[LinkInvite]:
    """Return the invites that are pending, oldest first."""
    pending = [invite for invite in invites if invite.is_waiting(at)]
    return sorted(pending, key=lambda invite: (invite.created_at, invite.link_id))


def available(
    me: AccountId,
    account_ids: Iterable[AccountId],
    friends: Collection[AccountId],
    tied: Collection[AccountId],
    taken: Mapping[AccountId, Collection[int]],
) -> dict[AccountId, bool]:
    """Return for each player whether ``me`` could invite that player.

    The player must be a friend, and both players must have a free slot. ``tied`` has the players
    who share a link or a pending invite with ``me``; they cannot be invited.
    """
    full = {account_id for account_id, slots in taken.items() if len(slots) >= len(SLOTS)}
    return {
        account_id: account_id in friends and account_id not in tied and not full & {account_id, me}
        for account_id in account_ids
    }
