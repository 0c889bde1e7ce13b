"""The slayer-link routes. Spec: 1 §4 Slayer links."""

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
    """Return the error body ``{code: '<status>', message, payload: null}``."""
    body = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


@frozen
class SlayerLinkRoutes:
    """The game's slayer-link routes."""

    routes: ClassVar[Routes] = Routes(
        refuse,
        when=lambda settings: settings.slayer_links,
        body_log=True,
        access=PLAYER,
        again=Again.STORED,
    )
    acts: SlayerLinkActs

    @routes.row("GET", "/slayerlink/status_good", reply=Envelope[wire.SlayerStatus])
    async def status(self, call: Call) -> Answer:
        """Show the caller's open invites and running slayer links, and how long they are valid."""
        status = await self.acts.status(call.player)
        return enveloped(wire.show_status(*status, call.player))

    @routes.row("GET", "/slayerlink/invites", reply=Envelope[wire.SlayerInvites])
    async def invites(self, call: Call) -> Answer:
        """List the open slayer-link invites that the caller has sent or received."""
        invites = await self.acts.invites(call.player)
        return enveloped({"invites": wire.show_invites(invites, call.player)})

    @routes.row("GET", "/slayerlink/links", reply=Envelope[wire.SlayerLinkList])
    async def links(self, call: Call) -> Answer:
        """List the caller's running slayer links in the order of their slots."""
        links = await self.acts.links(call.player)
        return enveloped({"links": wire.show_links(links)})

    @routes.row(
        "PUT",
        "/slayerlink/invite",
        body=OrEmpty[wire.SlayerInviteRequest],
        reply=Envelope[wire.LinkId],
    )
    async def invite(self, call: Call[wire.SlayerInviteRequest]) -> Answer:
        """Invite a player to a slayer link, or withdraw the invite if ``action`` is ``cancel``."""
        sent = call.body
        if sent.action is rules.InviteAction.CANCEL:
            return await self._answer(call, wire.reply_of(sent))
        partner = rules.account_named(sent.account_id)
        link_id = await self.acts.invite(call.player, partner, sent.slot, attempt=call.attempt)
        return enveloped({"link_id": link_id})

    @routes.row(
        "POST",
        "/slayerlink/invite",
        body=OrEmpty[wire.SlayerInviteAnswer],
        reply=Envelope[wire.LinkId],
    )
    async def answer(self, call: Call[wire.SlayerInviteAnswer]) -> Answer:
        """Accept, reject or withdraw (``cancel``) a slayer-link invite."""
        return await self._answer(call, wire.reply_of(call.body))

    async def _answer(self, call: Call, reply: rules.InviteAnswer) -> Answer:
        link_id = await self.acts.answer(call.player, reply, attempt=call.attempt)
        return enveloped({"link_id": link_id})

    @routes.row("DELETE", "/slayerlink/invites/<account_id>", reply=NOTHING)
    async def drop_invites(self, call: Call, account_id: str) -> Answer:
        """End the open invites with a player; if the id is the caller's, end all open invites."""
        partner = rules.account_named(account_id)
        await self.acts.drop_invites(call.player, partner, attempt=call.attempt)
        return enveloped(EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/slayerlink/links",
        body=OrEmpty[wire.SlayerLinkEnd],
        query={"account_id": str, "slot": int, "delete_pair": str},
        reply=NOTHING,
    )
    async def end_link(self, call: Call[wire.SlayerLinkEnd]) -> Answer:
        """End a slayer link for both players; the body or the query names the link."""
        partner, slot = wire.which_link(call.body, call.request.argument)
        await self.acts.end_link(call.player, partner, slot, attempt=call.attempt)
        return enveloped(EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/slayerlink/availability",
        body=OrEmpty[wire.AvailabilityRequest],
        reply=Envelope[wire.AvailabilityReply],
        again=Again.NATURAL,
    )
    async def availability(self, call: Call[wire.AvailabilityRequest]) -> Answer:
        """Check for each of up to 50 players whether the caller could invite that player.

        The reply is in the order of the request.
        """
        availability = await self.acts.available(call.player, call.body.account_ids)
        return enveloped(wire.show_availability(availability))


def slayerlinks(parts: Parts) -> Iterator[Feature]:
    """Yield the slayer-link routes."""
    yield SlayerLinkRoutes(SlayerLinkActs(parts.data, parts.board, parts.wall_clock))
