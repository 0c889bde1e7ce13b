"""Slayer links as the client asks for them. Spec: 1 §4 Slayer links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from attrs import field, frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.quota import Quota
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.times import iso
from svcserver.metagame.social.slayerlinks import rules
from svcserver.metagame.social.slayerlinks.rules import Invite, Link, Reply
from svcserver.metagame.social.slayerlinks.store import SqlTies
from svcserver.web.routes import EMPTY_OBJECT, Access, Answer, Call, Envelope, Routes, enveloped

CONFIG = {"link_duration_hours": rules.LINK_HOURS, "invite_expiry_hours": rules.INVITE_HOURS}


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


class SlayerInviteWish(TypedDict):
    """Whom, and in which of the caller's slots; ``action`` may be ``cancel`` here too."""

    account_id: str
    slot: int | str
    action: NotRequired[str | None]
    action_source: NotRequired[str | None]


class SlayerInviteAnswer(TypedDict):
    """The invite by either id or by the other player; ``slot`` is where an accepted one goes."""

    action: Literal["accept", "reject", "cancel"]
    account_id: NotRequired[str | None]
    link_id: NotRequired[str | None]
    invite_id: NotRequired[str | None]
    slot: NotRequired[int | str | None]
    action_source: NotRequired[str | None]


class SlayerLinkEnd(TypedDict, total=False):
    """The other player, the caller's slot, or both; the query may say it instead."""

    account_id: str | None
    slot: int | str | None
    delete_pair: bool


class AvailabilityWish(TypedDict):
    """Of whom; the first 50 count."""

    account_ids: list[str]


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


def is_on(settings: Any) -> bool:
    """SLAYER_LINKS."""
    return bool(settings.slayer_links)


def refuse(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message, payload: null}``."""
    body = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


@frozen
class SlayerLinks:
    """Invites, links and who may be invited."""

    routes: ClassVar[Routes] = Routes(refuse)
    ledger: Ledger
    now: Callable[[], float]
    _asked: Quota = field(
        factory=lambda: Quota(rules.MAX_NEW_INVITES, rules.NEW_INVITES_S), init=False
    )

    @routes.row(
        "GET",
        "/slayerlink/status_good",
        access=Access.PLAYER,
        reply=Envelope[SlayerStatus],
        when=is_on,
        body_log=True,
    )
    async def status(self, call: Call) -> Answer:
        """Everything at once, and how long things last."""
        me = call.player

        def work(tx: Connection) -> tuple[list[SlayerInvite], list[SlayerLink]]:
            at = self._at()
            return _invites(SqlTies(tx), me, at), _links(SqlTies(tx), me, at)

        invites, links = await self.ledger.read(work)
        return enveloped({"invites": invites, "links": links, "config": CONFIG})

    @routes.row(
        "GET",
        "/slayerlink/invites",
        access=Access.PLAYER,
        reply=Envelope[SlayerInvites],
        when=is_on,
        body_log=True,
    )
    async def invites(self, call: Call) -> Answer:
        """The caller's waiting invites, both ways."""
        me = call.player
        found = await self.ledger.read(lambda tx: _invites(SqlTies(tx), me, self._at()))
        return enveloped({"invites": found})

    @routes.row(
        "GET",
        "/slayerlink/links",
        access=Access.PLAYER,
        reply=Envelope[SlayerLinkList],
        when=is_on,
        body_log=True,
    )
    async def links(self, call: Call) -> Answer:
        """The caller's running links by slot."""
        me = call.player
        found = await self.ledger.read(lambda tx: _links(SqlTies(tx), me, self._at()))
        return enveloped({"links": found})

    @routes.row(
        "PUT",
        "/slayerlink/invite",
        access=Access.PLAYER,
        body=object,
        sends=SlayerInviteWish,
        reply=Envelope[LinkId],
        when=is_on,
        body_log=True,
    )
    async def invite(self, call: Call) -> Answer:
        """Invite; again gives the same id. Later builds cancel by this route too."""
        sent = fields(call.body)
        if sent.get("action") == rules.Action.CANCEL:
            return await self.answer(call)
        other = rules.other_account(sent.get("account_id"))
        link_id = await self._invite(call.player, other, rules.slot_of(sent.get("slot")))
        return enveloped({"link_id": link_id})

    @shielded
    async def _invite(self, me: AccountId, other: AccountId, slot: int | None) -> str:
        with self._asked.place(me, self.now()) as place:

            def work(tx: Connection) -> tuple[str, bool]:
                return rules.invite(SqlTies(tx), me, other, slot, self._at(), may_send=place.free)

            link_id, place.used = await self.ledger.write(work)
        return link_id

    @routes.row(
        "POST",
        "/slayerlink/invite",
        access=Access.PLAYER,
        body=object,
        sends=SlayerInviteAnswer,
        reply=Envelope[LinkId],
        when=is_on,
        body_log=True,
    )
    async def answer(self, call: Call) -> Answer:
        """Accept, reject or cancel."""
        sent, me = fields(call.body), call.player
        ids = [sent.get("link_id"), sent.get("invite_id")]
        reply = Reply(sent.get("action"), sent.get("account_id"), ids, sent.get("slot"))
        link_id = await self.ledger.write(
            lambda tx: rules.answer(SqlTies(tx), me, reply, self._at())
        )
        return enveloped({"link_id": link_id})

    @routes.row(
        "DELETE",
        "/slayerlink/invites/<account_id>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def drop_invites(self, call: Call, account_id: str) -> Answer:
        """Withdraw and decline: all with one's own id, else those between the two."""
        me, other = call.player, rules.other_account(account_id)
        await self.ledger.write(lambda tx: rules.drop_invites(SqlTies(tx), me, other, self._at()))
        return enveloped(EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/slayerlink/links",
        access=Access.PLAYER,
        body=object,
        sends=SlayerLinkEnd,
        query=("account_id", "slot", "delete_pair"),
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def end_link(self, call: Call) -> Answer:
        """End a link for both; body or query; nothing found is fine."""
        sent, asked = fields(call.body), call.request.argument
        other = sent.get("account_id", asked("account_id")) or None
        named = sent.get("slot", asked("slot"))
        slot = rules.slot_of(named)
        if named not in (None, "") and slot is None:
            return enveloped(EMPTY_OBJECT)  # a slot that does not exist holds no link
        me = call.player
        await self.ledger.write(lambda tx: rules.end_link(SqlTies(tx), me, other, slot, self._at()))
        return enveloped(EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/slayerlink/availability",
        access=Access.PLAYER,
        body=object,
        sends=AvailabilityWish,
        reply=Envelope[AvailabilityReply],
        when=is_on,
        body_log=True,
    )
    async def availability(self, call: Call) -> Answer:
        """Who of up to 50 could be invited now, in the asked order, each once."""
        asked, me = fields(call.body).get("account_ids"), call.player
        listed = asked[: rules.MAX_ASKED] if isinstance(asked, list) else []
        wanted = [one for one in listed if isinstance(one, str)]
        found = await self.ledger.read(
            lambda tx: rules.available(SqlTies(tx), me, wanted, self._at())
        )
        shown = [{"account_id": one, "available": free} for one, free in found.items()]
        return enveloped({"availability": shown})

    def _at(self) -> int:
        return round(self.now() * 1000)


def fields(body: Json) -> dict[str, Any]:
    """The body's fields; a body that is not an object has none."""
    return body if isinstance(body, dict) else {}


def _invites(ties: SqlTies, me: AccountId, at: int) -> list[SlayerInvite]:
    return [show_invite(one, me) for one in rules.waiting(ties, me, at)]


def _links(ties: SqlTies, me: AccountId, at: int) -> list[SlayerLink]:
    return [show_link(one) for one in ties.links(me, at)]


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
