"""Slayer links as they are sent and as the client reads them. Spec: 1 §2, §4 Slayer links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.shapes import As, First, Lenient, Skipping, whole
from svcserver.kernel.times import iso
from svcserver.metagame.social.slayerlinks.rules import (
    INVITE_HOURS,
    LINK_HOURS,
    NO_SLOT,
    NOBODY,
    SLOTS,
    Action,
    Invite,
    Link,
    Reply,
)
from svcserver.web.routes import Answer

MAX_ASKED = 50
CONFIG = {"link_duration_hours": LINK_HOURS, "invite_expiry_hours": INVITE_HOURS}
Slot = Annotated[int, whole(SLOTS[0], SLOTS[-1], digits=3)]
_slot_of = reader(Lenient[Slot])


def read_slot(sent: Json, _: object) -> int | None:
    """None for nothing; NO_SLOT, which holds no link, for what is no slot of ours."""
    return None if sent in (None, "") else _slot_of(sent) or NO_SLOT


def read_whom(sent: Json, _: object) -> AccountId | None:
    """None for nothing; NOBODY, who has no link, for what is no text."""
    if sent in (None, ""):
        return None
    return sent if isinstance(sent, str) else NOBODY


AnySlot = Annotated[int | None, As(read_slot, {"type": ["integer", "string", "null"]})]
Anybody = Annotated[AccountId | None, As(read_whom, {"type": ["string", "null"]})]


@frozen
class SlayerInviteAnswer:
    """The invite by either id or by the other player; ``slot`` is where an accepted one goes."""

    action: Lenient[Action | None]
    account_id: Lenient[str | None] = None
    link_id: Lenient[str | None] = None
    invite_id: Lenient[str | None] = None
    slot: Lenient[Slot | None] = None
    action_source: Json = None


@frozen
class SlayerInviteWish:
    """Whom, and in which of the caller's slots; ``action`` may be ``cancel`` here too."""

    account_id: Lenient[str | None]
    slot: Lenient[Slot | None]
    action: Lenient[Action | None] = None
    link_id: Lenient[str | None] = None
    invite_id: Lenient[str | None] = None
    action_source: Json = None


def reply_of(sent: SlayerInviteAnswer | SlayerInviteWish) -> Reply:
    """The answer to an invite, in either body."""
    ids = [one for one in (sent.link_id, sent.invite_id) if one is not None]
    return Reply(sent.action, sent.account_id, ids, sent.slot)


@frozen
class SlayerLinkEnd:
    """The other player, the caller's slot, or both; the query may say it instead."""

    account_id: Anybody = None
    slot: AnySlot = None
    delete_pair: Json = None


def which_link(
    sent: SlayerLinkEnd, asked: Callable[[str], str | None]
) -> tuple[AccountId | None, int | None]:
    """The other player and the slot, each of the body or else of the query."""
    other = read_whom(asked("account_id"), None) if sent.account_id is None else sent.account_id
    slot = read_slot(asked("slot"), None) if sent.slot is None else sent.slot
    return other, slot


@frozen
class AvailabilityWish:
    """Of whom; the first 50 count."""

    account_ids: Lenient[Annotated[Skipping[str], First(MAX_ASKED)]] = ()


class SlayerInvite(TypedDict):
    """A waiting invite; ``slot`` is the sender's for both."""

    account_id: str
    slot: int
    direction: str
    status: str
    expires: str
    link_id: str


class SlayerLink(TypedDict):
    """A running link as the owner of ``slot`` sees it."""

    account_id: str
    linked_account_id: str
    slot: int
    ends: str
    link_id: str
    prize_pool: list[Json]


class SlayerInvites(TypedDict):
    """The waiting ones, both ways."""

    invites: list[SlayerInvite]


class SlayerLinkList(TypedDict):
    """The running ones, by slot."""

    links: list[SlayerLink]


class SlayerStatus(SlayerInvites, SlayerLinkList):
    """All at once, and how many hours things last."""

    config: dict[str, int]


class LinkId(TypedDict):
    """An invite's, and of the link it becomes."""

    link_id: str


class SlayerAvailability(TypedDict):
    """Whether the player could be invited now."""

    account_id: str
    available: bool


class AvailabilityReply(TypedDict):
    """In the asked order, each once."""

    availability: list[SlayerAvailability]


def refuse(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message, payload: null}``."""
    body = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


def show_invite(invite: Invite, me: AccountId) -> SlayerInvite:
    """As ``me`` sees it."""
    is_mine = invite.sender == me
    return {
        "account_id": invite.recipient if is_mine else invite.sender,
        "slot": invite.slot,
        "direction": "Sent" if is_mine else "Received",
        "status": "Pending",
        "expires": iso(invite.expires_at / 1000),
        "link_id": invite.link_id,
    }


def show_link(link: Link) -> SlayerLink:
    """As the owner of the slot sees it."""
    return {
        "account_id": link.other,
        "linked_account_id": link.other,
        "slot": link.slot,
        "ends": iso(link.ends_at / 1000),
        "link_id": link.link_id,
        "prize_pool": [],
    }


def show_invites(invites: Iterable[Invite], me: AccountId) -> list[SlayerInvite]:
    """As ``me`` sees them."""
    return [show_invite(one, me) for one in invites]


def show_links(links: Iterable[Link]) -> list[SlayerLink]:
    """As the owner of the slots sees them."""
    return [show_link(one) for one in links]


def show_status(invites: Iterable[Invite], links: Iterable[Link], me: AccountId) -> SlayerStatus:
    """Everything at once."""
    return {"invites": show_invites(invites, me), "links": show_links(links), "config": CONFIG}


def show_availability(found: Mapping[AccountId, bool]) -> AvailabilityReply:
    """In the order asked."""
    return {"availability": [{"account_id": one, "available": found[one]} for one in found]}
