"""Parties as the client asks for them. Spec: 1 §4 Parties."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NotRequired, Protocol, TypedDict

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.settings import Settings
from svcserver.metagame.social.parties.rules import Invite, Parties, Party, PartyCandidate
from svcserver.web.routes import EMPTY_OBJECT, Access, Answer, Call, Routes

log = Logger()

SOLO_CANDIDATE = "SOLO_CANDIDATE"
QUEUED_FOR_START = "QUEUED_FOR_START"
PLATFORM = "win"
MAX_ASKED = 16
OK = Answer(200, EMPTY_OBJECT)


class PartyInvite(TypedDict):
    """An invite in a list."""

    recipientPlayerId: str
    sendingPlayerId: str
    partyId: str
    sendingPlatform: str
    sendingDisplayName: Json


class PartyReply(TypedDict, total=False):
    """A party; ``playerIds`` is missing in a party of one."""

    partyId: str
    leaderPlayerId: str
    playerIds: list[str]
    playerStates: list[dict[str, Json]]
    candidateState: str | None
    candidateId: str | None
    playerHuntId: str | None
    gauntletLevel: None


class PartyPoll(TypedDict, total=False):
    """What the client says of itself; nothing of it is read."""

    buildId: str
    featureOverrides: list[Json]


class PartyInviteWish(TypedDict):
    """Whom; the party is the caller's own, whatever ``partyId`` says."""

    recipientPlayerId: str
    partyId: NotRequired[str | None]


class PartyInviteEnd(TypedDict, total=False):
    """Which invite: of the first two one is sent to decline, the last to withdraw."""

    sendingPlayerId: str | None
    partyId: str | None
    recipientPlayerId: str | None


class PartyStatusWish(TypedDict):
    """Of whom; the first 16 count."""

    playerIds: list[str]


class PartyInvites(TypedDict):
    """The caller's own."""

    invitations: list[PartyInvite]


class PartyStatusReply(PartyInvites):
    """Each party once."""

    parties: list[PartyReply]


class Candidates(Protocol):
    """What the party poll asks of matchmaking."""

    def of_party(self, party_id: str, now: float) -> PartyCandidate | None: ...


class Apart(Protocol):
    """Who blocked whom, either way."""

    def apart(self, me: AccountId, others: Iterable[AccountId]) -> Deferred[set[AccountId]]: ...


def refuse(status: int, refusal: Refusal) -> Answer:
    """Every refusal here has the body ``{}``."""
    return Answer(status, EMPTY_OBJECT)


@frozen
class Inviting:
    """Sending a party invite, whichever route asked for it."""

    parties: Parties
    directory: Directory
    blocks: Apart
    now: Callable[[], float]

    async def send(self, sender: AccountId, recipient: object) -> Party:
        """Invite an account by its id; raises the documented refusals."""
        if not isinstance(recipient, str) or not is_account_shaped(recipient):
            raise Missing("no such account")
        if await self.directory.account_of_id(recipient) is None:
            raise Missing("no such account")
        blocked = bool(await self.blocks.apart(sender, [recipient]))
        return self.parties.invite(sender, recipient, self.now(), blocked=blocked)


@frozen
class PartyRoutes:
    """The party service's routes."""

    routes: ClassVar[Routes] = Routes(refuse)
    settings: Settings
    inviting: Inviting
    heard: Signal[Heard]
    candidates: Candidates

    @property
    def parties(self) -> Parties:
        """The live parties."""
        return self.inviting.parties

    @routes.row(
        "POST",
        "/party",
        access=Access.PLAYER,
        body=object,
        sends=PartyPoll,
        reply=PartyReply,
        body_log=True,
    )
    async def poll(self, call: Call) -> Answer:
        """The caller's party or a party of one; a sign of life."""
        now = self.inviting.now()
        party = self.parties.poll(call.player, now)
        self.heard.send(Heard(call.player))
        [reply] = await self._shown([party], now)
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/party/invites",
        access=Access.OPTIONAL_TOKEN,
        reply=PartyInvites,
        body_log=True,
    )
    async def invites(self, call: Call) -> Answer:
        """The caller's pending invites; none for a stranger."""
        me = call.caller.account
        return Answer(200, {"invitations": [] if me is None else await self._invites(me)})

    @routes.row(
        "PUT",
        "/party/invite",
        access=Access.PLAYER,
        body=object,
        sends=PartyInviteWish,
        reply=dict,
        body_log=True,
    )
    async def invite(self, call: Call) -> Answer:
        """Invite into the caller's own party, whatever party the body names."""
        sent = fields(call.body)
        party = await self.inviting.send(call.player, sent.get("recipientPlayerId"))
        if sent.get("partyId") not in (None, "", party.id):
            log.info("an invite by {account} named another party", account=call.player)
        return OK

    @routes.row(
        "PUT",
        "/party/invite/accept/<invite_id>",
        access=Access.PLAYER,
        body=object,
        sends=PartyPoll,
        reply=PartyReply,
        body_log=True,
    )
    async def accept(self, call: Call, invite_id: str) -> Answer:
        """Join by party id or sender; a repeated accept shows the party again."""
        me, now = call.player, self.inviting.now()
        invite = self.parties.invite_named(me, invite_id, now)
        if invite is not None and await self.inviting.blocks.apart(me, [invite.sender]):
            invite = None
        now = self.inviting.now()
        party = self._joined(me, invite_id, now) if invite is None else None
        if invite is not None:
            party = self.parties.accept(invite, now)
        if party is None:
            raise Missing("no such invite")
        [reply] = await self._shown([party], now)
        return Answer(200, reply)

    def _joined(self, me: AccountId, invite_id: str, now: float) -> Party | None:
        """The party of two or more that the caller is in already and the id means."""
        self.parties.hear(me, now)
        party = self.parties.of(me, now)
        if party is None or party.is_solo or invite_id == me:
            return None
        return party if invite_id == party.id or invite_id in party.members else None

    @routes.row(
        "DELETE",
        "/party/invite",
        access=Access.PLAYER,
        body=object,
        sends=PartyInviteEnd,
        reply=dict,
        body_log=True,
    )
    async def drop_invite(self, call: Call) -> Answer:
        """Decline as the invited, else withdraw as the sender; 200 whatever was found."""
        me, sent, now = call.player, fields(call.body), self.inviting.now()
        self.parties.hear(me, now)
        # the client puts the party's id in sendingPlayerId when it declines
        named = [sent.get(key) for key in ("sendingPlayerId", "partyId")]
        recipient = sent.get("recipientPlayerId")
        declined = self.parties.decline(me, [one for one in named if isinstance(one, str)], now)
        if not declined and isinstance(recipient, str):
            self.parties.withdraw(me, recipient)
        return OK

    @routes.row("DELETE", "/party/member", access=Access.PLAYER, reply=dict, body_log=True)
    async def leave(self, call: Call) -> Answer:
        """Leave; the client sends it at every login."""
        self.parties.leave(call.player, self.inviting.now())
        return OK

    @routes.row(
        "DELETE", "/party/member/<member_id>", access=Access.PLAYER, reply=dict, body_log=True
    )
    async def kick(self, call: Call, member_id: str) -> Answer:
        """Remove a member; naming oneself is leaving."""
        self.parties.kick(call.player, member_id, self.inviting.now())
        return OK

    @routes.row(
        "PUT",
        "/party/member/promote/<member_id>",
        access=Access.PLAYER,
        reply=dict,
        body_log=True,
    )
    async def promote(self, call: Call, member_id: str) -> Answer:
        """Hand the lead over."""
        self.parties.promote(call.player, member_id, self.inviting.now())
        return OK

    @routes.row(
        "DELETE", "/party/leader/<leader_id>", access=Access.PLAYER, reply=dict, body_log=True
    )
    async def drop_leader(self, call: Call, leader_id: str) -> Answer:
        """Reading the party drops a leader unheard for two minutes; otherwise ignored."""
        now = self.inviting.now()
        self.parties.hear(call.player, now)
        self.parties.of(call.player, now)
        return OK

    @routes.row(
        "POST",
        "/party/status",
        access=Access.PLAYER,
        body=object,
        sends=PartyStatusWish,
        reply=PartyStatusReply,
        body_log=True,
    )
    async def status(self, call: Call) -> Answer:
        """The parties of up to 16 players, each once, and the caller's invites."""
        asked, now = fields(call.body).get("playerIds"), self.inviting.now()
        self.parties.hear(call.player, now)
        if not isinstance(asked, list):
            return Answer(200, {"parties": [], "invitations": []})
        found: dict[str, Party] = {}
        for one in asked[:MAX_ASKED]:
            party = self.parties.of(one, now) if isinstance(one, str) else None
            if party is not None:
                found[party.id] = party
        shown = await self._shown(list(found.values()), now)
        return Answer(200, {"parties": shown, "invitations": await self._invites(call.player)})

    # -- what the client sees ----------------------------------------------

    async def _invites(self, me: AccountId) -> list[PartyInvite]:
        invites = self.parties.invites_to(me, self.inviting.now())
        if not invites:
            return []
        apart = await self.inviting.blocks.apart(me, [one.sender for one in invites])
        seen = [one for one in invites if one.sender not in apart]
        names = await self._names([one.sender for one in seen])
        return [show_invite(one, names[one.sender]) for one in seen]

    async def _shown(self, parties: list[Party], now: float) -> list[PartyReply]:
        names = await self._names([one for party in parties for one in party.members])
        return [
            show_solo(party, names, self.settings.party_solo_stub)
            if party.is_solo
            else show(party, names, self.candidates.of_party(party.id, now))
            for party in parties
        ]

    async def _names(self, account_ids: list[AccountId]) -> dict[AccountId, Json]:
        if not self.settings.account_display_name:
            return dict.fromkeys(account_ids, EMPTY_OBJECT)
        found = await self.inviting.directory.accounts(account_ids) if account_ids else {}
        return {one: found[one].username if one in found else "" for one in account_ids}


def fields(body: Json) -> dict[str, Any]:
    """The body's fields; a body that is not an object has none."""
    return body if isinstance(body, dict) else {}


def show_invite(invite: Invite, name: Json) -> PartyInvite:
    """Exactly five keys."""
    return {
        "recipientPlayerId": invite.recipient,
        "sendingPlayerId": invite.sender,
        "partyId": invite.party_id,
        "sendingPlatform": PLATFORM,
        "sendingDisplayName": name,
    }


def show_solo(party: Party, names: dict[AccountId, Json], stub: bool) -> PartyReply:
    """Exactly seven keys; the client needs the placeholder candidate to start alone."""
    return {
        "candidateId": SOLO_CANDIDATE if stub else None,
        "candidateState": QUEUED_FOR_START if stub else None,
        "gauntletLevel": None,
        "leaderPlayerId": party.leader,
        "partyId": party.id,
        "playerHuntId": None,
        "playerStates": [show_member(party.leader, names, stub)],
    }


def show(
    party: Party, names: dict[AccountId, Json], candidate: PartyCandidate | None
) -> PartyReply:
    """Exactly eight keys, members in join order."""
    matched = candidate.members if candidate is not None else frozenset()
    return {
        "partyId": party.id,
        "leaderPlayerId": party.leader,
        "playerIds": list(party.members),
        "playerStates": [show_member(one, names, one in matched) for one in party.members],
        "candidateState": candidate.state if candidate is not None else None,
        "candidateId": candidate.id if candidate is not None else None,
        "playerHuntId": candidate.hunt_id if candidate is not None else None,
        "gauntletLevel": None,
    }


def show_member(one: AccountId, names: dict[AccountId, Json], matched: bool) -> dict[str, Json]:
    """One entry of ``playerStates``."""
    return {
        "playerId": one,
        "isMemberOfCandidate": matched,
        "platform": PLATFORM,
        "displayName": names[one],
        "consoleSessionId": None,
    }
