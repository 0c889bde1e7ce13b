"""Request and reply shapes of slayer links. Spec: 1 §2, §4 Slayer links."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.readers import reader
from svcserver.kernel.shapes import As, First, Ignored, Lenient, Moment, Skipping, whole
from svcserver.kernel.times import iso
from svcserver.metagame.social.slayerlinks import rules

MAX_ASKED = 50
CONFIG = {"link_duration_hours": rules.LINK_HOURS, "invite_expiry_hours": rules.INVITE_HOURS}
Slot = Annotated[int, whole(rules.SLOTS[0], rules.SLOTS[-1], digits=3)]
_slot_of = reader(Lenient[Slot])


def read_slot(sent: Json, _: object) -> int | None:
    """Return the slot, None for null or an empty string, and NO_SLOT for an invalid value."""
    return None if sent in (None, "") else _slot_of(sent) or rules.NO_SLOT


def read_whom(sent: Json, _: object) -> AccountId | None:
    """Return the account id, None for null or an empty string, and NOBODY for any other type."""
    if sent in (None, ""):
        return None
    return sent if isinstance(sent, str) else rules.NOBODY


AnySlot = Annotated[int | None, As(read_slot, {"type": ["integer", "string", "null"]})]
Anybody = Annotated[AccountId | None, As(read_whom, {"type": ["string", "null"]})]


@frozen
class SlayerInviteAnswer:
    """An answer to an invite; the invite's id or the other player identifies the invite.

    ``slot`` is the slot that the caller wants to use, if the answer accepts the invite.
    """

    action: Lenient[rules.InviteAction | None]
    account_id: Lenient[str | None] = None
    link_id: Lenient[str | None] = None
    invite_id: Lenient[str | None] = None
    slot: Lenient[Slot | None] = None
    action_source: Ignored = None


@frozen
class SlayerInviteRequest:
    """A request to invite a player to a slot, or to withdraw the invite (action ``cancel``)."""

    account_id: Lenient[str | None]
    slot: Lenient[Slot | None]
    action: Lenient[rules.InviteAction | None] = None
    link_id: Lenient[str | None] = None
    invite_id: Lenient[str | None] = None
    action_source: Ignored = None


def reply_of(sent: SlayerInviteAnswer | SlayerInviteRequest) -> rules.InviteAnswer:
    """Return the answer to an invite in the form that the rules need."""
    ids = [text for text in (sent.link_id, sent.invite_id) if text]
    return rules.InviteAnswer(sent.action, sent.account_id, ids, sent.slot)


@frozen
class SlayerLinkEnd:
    """The link that is to end, identified by the other player, the caller's slot, or both."""

    account_id: Anybody = None
    slot: AnySlot = None
    delete_pair: Ignored = None


def which_link(
    sent: SlayerLinkEnd, argument: Callable[[str], str | None]
) -> tuple[AccountId | None, int | None]:
    """Return the other player and the slot, from the body or (if missing there) from the query."""
    partner = (
        read_whom(argument("account_id"), None) if sent.account_id is None else sent.account_id
    )
    slot = read_slot(argument("slot"), None) if sent.slot is None else sent.slot
    return partner, slot


@frozen
class AvailabilityRequest:
    """The players to check; players after the first 50 are ignored."""

    account_ids: Lenient[Annotated[Skipping[str], First(MAX_ASKED)]] = ()


class SlayerInvite(TypedDict):
    """A pending invite; ``slot`` is always a slot of the sender."""

    account_id: str
    slot: int
    direction: str
    status: str
    expires: Moment
    link_id: str


class SlayerLink(TypedDict):
    """A current link; ``slot`` is the slot of the player who gets the reply."""

    account_id: str
    linked_account_id: str
    slot: int
    ends: Moment
    link_id: str
    prize_pool: list[Empty]


class SlayerInvites(TypedDict):
    """The pending invites, sent and received."""

    invites: list[SlayerInvite]


class SlayerLinkList(TypedDict):
    """The current links, ordered by slot."""

    links: list[SlayerLink]


class SlayerStatus(SlayerInvites, SlayerLinkList):
    """Pending invites and current links; ``config`` has their lifetimes in hours."""

    config: dict[str, int]


class LinkId(TypedDict):
    """The id of an invite, which is also the id of the resulting link."""

    link_id: str


class SlayerAvailability(TypedDict):
    """A player, and whether the caller could invite the player now."""

    account_id: str
    available: bool


class AvailabilityReply(TypedDict):
    """The result for each player, in the order of the request."""

    availability: list[SlayerAvailability]


def show_invite(invite: rules.LinkInvite, me: AccountId) -> SlayerInvite:
    """Return an invite as the player ``me`` receives it."""
    is_mine = invite.sender == me
    return {
        "account_id": invite.recipient if is_mine else invite.sender,
        "slot": invite.slot,
        "direction": "Sent" if is_mine else "Received",
        "status": "Pending",
        "expires": iso(invite.expires_at / 1000),
        "link_id": invite.link_id,
    }


def show_link(link: rules.Link) -> SlayerLink:
    """Return a link as the player ``link.account_id`` receives it."""
    return {
        "account_id": link.partner,
        "linked_account_id": link.partner,
        "slot": link.slot,
        "ends": iso(link.ends_at / 1000),
        "link_id": link.link_id,
        "prize_pool": [],
    }


def show_invites(invites: Iterable[rules.LinkInvite], me: AccountId) -> list[SlayerInvite]:
    """Return invites as the player ``me`` receives them."""
    return [show_invite(invite, me) for invite in invites]


def show_links(links: Iterable[rules.Link]) -> list[SlayerLink]:
    """Return one player's links as this player receives them."""
    return [show_link(link) for link in links]


def show_status(
    invites: Iterable[rules.LinkInvite], links: Iterable[rules.Link], me: AccountId
) -> SlayerStatus:
    """Return the reply to ``me`` that shows invites and links."""
    return {"invites": show_invites(invites, me), "links": show_links(links), "config": CONFIG}


def show_availability(availability: Mapping[AccountId, bool]) -> AvailabilityReply:
    """Return the reply that says for each player whether the caller could invite that player."""
    return {
        "availability": [
            {"account_id": account_id, "available": availability[account_id]}
            for account_id in availability
        ]
    }
