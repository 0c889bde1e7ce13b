"""The routes of slayer links. Spec: 1 §4 Slayer links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import NOTHING, Envelope
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.refusal_wire import EnvelopedRefusal
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.social.slayerlinks import rules, wire
from svcserver.metagame.social.slayerlinks.acts import SlayerLinkActs
from svcserver.web.refusals import worded_as
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature

PLAYER = Access.PLAYER


@worded_as(EnvelopedRefusal)
def refuse(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message, payload: null}``."""
    body = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


@frozen
class SlayerLinkRoutes:
    """Invites, links and who may be invited."""

    routes: ClassVar[Routes] = Routes(
        refuse, when=lambda settings: settings.slayer_links, body_log=True, access=PLAYER
    )
    acts: SlayerLinkActs

    @routes.row("GET", "/slayerlink/status_good", reply=Envelope[wire.SlayerStatus])
    async def status(self, call: Call) -> Answer:
        """The caller's open invites and running slayer links, and how long such live."""
        found = await self.acts.status(call.player)
        return enveloped(wire.show_status(*found, call.player))

    @routes.row("GET", "/slayerlink/invites", reply=Envelope[wire.SlayerInvites])
    async def invites(self, call: Call) -> Answer:
        """The invites to slayer links that the caller has sent or got, and that are still open."""
        found = await self.acts.invites(call.player)
        return enveloped({"invites": wire.show_invites(found, call.player)})

    @routes.row("GET", "/slayerlink/links", reply=Envelope[wire.SlayerLinkList])
    async def links(self, call: Call) -> Answer:
        """The caller's running slayer links, by slot."""
        found = await self.acts.links(call.player)
        return enveloped({"links": wire.show_links(found)})

    @routes.row(
        "PUT",
        "/slayerlink/invite",
        body=OrEmpty[wire.SlayerInviteWish],
        reply=Envelope[wire.LinkId],
        again=Again.STORED,
    )
    async def invite(self, call: Call[wire.SlayerInviteWish]) -> Answer:
        """Invite a player to a slayer link; a repeat gets the same id. Later clients withdraw
        (``cancel``) by this route, too.
        """
        sent = call.body
        if sent.action is rules.Action.CANCEL:
            return await self._answer(call, wire.reply_of(sent))
        other = rules.other_account(sent.account_id)
        link_id = await self.acts.invite(call.player, other, sent.slot, attempt=call.attempt)
        return enveloped({"link_id": link_id})

    @routes.row(
        "POST",
        "/slayerlink/invite",
        body=OrEmpty[wire.SlayerInviteAnswer],
        reply=Envelope[wire.LinkId],
        again=Again.STORED,
    )
    async def answer(self, call: Call[wire.SlayerInviteAnswer]) -> Answer:
        """Accept, reject or withdraw (``cancel``) an invite to a slayer link, as the body says."""
        return await self._answer(call, wire.reply_of(call.body))

    async def _answer(self, call: Call, reply: rules.Reply) -> Answer:
        link_id = await self.acts.answer(call.player, reply, attempt=call.attempt)
        return enveloped({"link_id": link_id})

    @routes.row("DELETE", "/slayerlink/invites/<account_id>", reply=NOTHING, again=Again.STORED)
    async def drop_invites(self, call: Call, account_id: str) -> Answer:
        """Withdraw and decline open invites to slayer links: all of them where the path has the
        caller's own id, else those between the two players.
        """
        other = rules.other_account(account_id)
        await self.acts.drop_invites(call.player, other, attempt=call.attempt)
        return enveloped(EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/slayerlink/links",
        body=OrEmpty[wire.SlayerLinkEnd],
        query={"account_id": str, "slot": int, "delete_pair": str},
        reply=NOTHING,
        again=Again.STORED,
    )
    async def end_link(self, call: Call[wire.SlayerLinkEnd]) -> Answer:
        """End a slayer link for both players. The body names it, or the query."""
        other, slot = wire.which_link(call.body, call.request.argument)
        await self.acts.end_link(call.player, other, slot, attempt=call.attempt)
        return enveloped(EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/slayerlink/availability",
        body=OrEmpty[wire.AvailabilityWish],
        reply=Envelope[wire.AvailabilityReply],
        again=Again.NATURAL,
    )
    async def availability(self, call: Call[wire.AvailabilityWish]) -> Answer:
        """Which of up to 50 players could be invited to a slayer link now, in the order of the
        request.
        """
        found = await self.acts.available(call.player, call.body.account_ids)
        return enveloped(wire.show_availability(found))


def slayerlinks(parts: Parts) -> Iterator[Feature]:
    """Slayer links."""
    yield SlayerLinkRoutes(SlayerLinkActs(parts.data, parts.board, parts.wall_clock))
