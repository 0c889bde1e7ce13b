"""The party routes. Spec: 1 §4 Parties."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.accounts.behalf import ActingPair, Behalf
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.wire import BehalfRequest
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, refused_as, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.metagame.social.friends.store import Blocks
from svcserver.metagame.social.parties import wire
from svcserver.metagame.social.parties.acts import PartyActs
from svcserver.metagame.social.parties.rules import PartyState
from svcserver.metagame.social.parties.store import LiveParties
from svcserver.web.refusals import worded_as
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature

PLAYER = Access.PLAYER


OK = Answer(200, EMPTY_OBJECT)


@worded_as(Empty, name="EmptyRefusal")
def refuse(status: int, refusal: Refusal) -> Answer:
    """Return the body ``{}``, which all errors of party routes have."""
    return Answer(status, EMPTY_OBJECT)


@frozen
class PartyRoutes:
    """The game's party routes: poll, invite, join, leave, kick, promote."""

    routes: ClassVar[Routes] = Routes(
        refuse, body_log=True, access=PLAYER, reply=Empty, again=Again.STORED
    )
    settings: MetagameSettings
    acts: PartyActs

    @routes.row(
        "POST", "/party", body=OrEmpty[wire.PartyPoll], reply=wire.PartyReply, again=Again.NATURAL
    )
    async def poll(self, call: Call) -> Answer:
        """Show the caller's party, or a new party of one.

        Players who stop polling are removed from their party.
        """
        return await self._party(await self.acts.poll(call.player))

    @routes.row("GET", "/party/invites", access=Access.OPTIONAL_TOKEN, reply=wire.PartyInvites)
    async def invites(self, call: Call) -> Answer:
        """List the caller's pending party invites."""
        me = call.caller.account
        return Answer(200, {"invitations": [] if me is None else await self._invites(me)})

    @routes.row("PUT", "/party/invite", body=OrEmpty[wire.PartyInviteRequest])
    async def invite(self, call: Call[wire.PartyInviteRequest]) -> Answer:
        """Invite a player to the caller's own party, even if the body names another party."""
        sent = call.body
        to, party_id = sent.recipient_player_id, sent.party_id
        await self.acts.invite(call.player, to, party_id, attempt=call.attempt)
        return OK

    @routes.row(
        "PUT",
        "/party/invite/accept/<invite_id>",
        body=OrEmpty[wire.PartyPoll],
        reply=wire.PartyReply,
    )
    async def accept(self, call: Call, invite_id: str) -> Answer:
        """Accept a party invite; the reply shows the party.

        ``invite_id`` is the id of the party or of the sender.
        """
        return await self._party(
            await self.acts.accept(call.player, invite_id, attempt=call.attempt)
        )

    @routes.row("DELETE", "/party/invite", body=OrEmpty[wire.PartyInviteEnd])
    async def drop_invite(self, call: Call[wire.PartyInviteEnd]) -> Answer:
        """Decline a received party invite, or withdraw a sent party invite.

        The reply is 200 even if there is no such invite.
        """
        sent = call.body
        named = (sent.sending_player_id, sent.party_id)
        whom = sent.recipient_player_id
        await self.acts.drop_invite(call.player, named, whom, attempt=call.attempt)
        return OK

    @routes.row("DELETE", "/party/member")
    async def leave(self, call: Call) -> Answer:
        """Leave the party; the client does so at every log-in."""
        await self.acts.leave(call.player, attempt=call.attempt)
        return OK

    @routes.row("DELETE", "/party/member/<member_id>")
    async def kick(self, call: Call, member_id: str) -> Answer:
        """Remove a party member; a caller who removes itself leaves the party."""
        await self.acts.kick(call.player, member_id, attempt=call.attempt)
        return OK

    @routes.row("PUT", "/party/member/promote/<member_id>")
    async def promote(self, call: Call, member_id: str) -> Answer:
        """Make another party member the leader."""
        await self.acts.promote(call.player, member_id, attempt=call.attempt)
        return OK

    @routes.row("DELETE", "/party/leader/<leader_id>", again=Again.NATURAL)
    async def drop_leader(self, call: Call, leader_id: str) -> Answer:
        """Replace a party leader who has been silent for two minutes."""
        await self.acts.refresh(call.player)
        return OK

    @routes.row(
        "POST",
        "/party/status",
        body=OrEmpty[wire.PartyStatusRequest],
        reply=wire.PartyStatusReply,
        again=Again.NATURAL,
    )
    async def status(self, call: Call[wire.PartyStatusRequest]) -> Answer:
        """Show the parties of up to 16 players, each party once, and the caller's invites."""
        me, account_ids = call.player, call.body.player_ids
        states = await self.acts.parties_of(me, account_ids or ())
        if account_ids is None:
            return Answer(200, {"parties": [], "invitations": []})
        shown = await self._shown(states)
        return Answer(200, {"parties": shown, "invitations": await self._invites(me)})

    async def _party(self, state: PartyState) -> Answer:
        [reply] = await self._shown([state])
        return Answer(200, reply)

    async def _shown(self, states: Sequence[PartyState]) -> list[wire.PartyReply]:
        names = await self._names([member for state in states for member in state.party.members])
        return [
            wire.show_solo(state.party, names, self.settings.party_solo_stub)
            if state.party.is_solo
            else wire.show_party(state.party, names, state.candidate)
            for state in states
        ]

    async def _invites(self, me: AccountId) -> list[wire.PartyInvite]:
        invites = await self.acts.invites(me)
        names = await self._names([invite.sender for invite in invites])
        return [wire.show_invite(invite, names[invite.sender]) for invite in invites]

    async def _names(self, account_ids: Sequence[AccountId]) -> Mapping[AccountId, Json]:
        if not self.settings.account_display_name:
            return dict.fromkeys(account_ids, EMPTY_OBJECT)
        return await self.acts.names(account_ids)


@frozen
class PartyManagementRoutes:
    """The route that invites players by username, with the same checks as in the game."""

    routes: ClassVar[Routes] = Routes(worded)
    behalf: Behalf
    acts: PartyActs

    @routes.row(
        "POST",
        "/svc/api/PartyInvite",
        access=Access.ACCOUNT_KEY,
        body=BehalfRequest,
        reply=wire.PartyInviteReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def invite_by_name(self, call: Call[BehalfRequest]) -> Answer:
        """Invite a player to a party by username; an admin may name another sender (``From``)."""
        pair, _ = await self.behalf.act_for(call, call.body, "party invite for", self._invite)
        reply: wire.PartyInviteReply = {"From": pair.sender.username, "To": pair.target.username}
        return Answer(200, reply)

    async def _invite(self, pair: ActingPair) -> None:
        with refused_as("party_invite_refused"):
            await self.acts.invite(pair.sender.id, pair.target.id)


def parties(parts: Parts, live: LiveParties) -> Iterator[Feature]:
    """Yield the party routes, for players and for staff."""
    acts = PartyActs(live, parts.directory, Blocks(parts.ledger), parts.news.active)
    yield PartyRoutes(parts.settings, acts)
    yield PartyManagementRoutes(parts.behalf, acts)
