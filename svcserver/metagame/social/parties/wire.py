"""The request and reply shapes of parties. Spec: 1 §4 Parties."""

from collections.abc import Mapping
from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import First, Ignored, Lenient, Or, Skipping, camel_case, spelled
from svcserver.metagame.social.parties.rules import Party, PartyCandidate, PartyInvitation

SOLO_CANDIDATE = "SOLO_CANDIDATE"
QUEUED_FOR_START = "QUEUED_FOR_START"
PLATFORM = "win"
MAX_ASKED = 16
NOBODY = ""  # stands for an account id that is not a string: no account has it


@spelled(camel_case)
@frozen
class PartyPoll:
    """The client's build and features, which the server ignores."""

    build_id: Lenient[str] = ""
    feature_overrides: Lenient[list[Ignored] | None] = None


@spelled(camel_case)
@frozen
class PartyInviteRequest:
    """The player to invite to the caller's own party; ``partyId`` is ignored."""

    recipient_player_id: Annotated[AccountId, Or(NOBODY)]
    party_id: Lenient[str | None] = None


@spelled(camel_case)
@frozen
class PartyInviteEnd:
    """The invite to decline or to withdraw.

    To decline a received invite, give its ``sendingPlayerId`` or ``partyId``. To withdraw a sent
    invite, give its ``recipientPlayerId``.
    """

    sending_player_id: Lenient[str | None] = None
    party_id: Lenient[str | None] = None
    recipient_player_id: Lenient[AccountId | None] = None


@spelled(camel_case)
@frozen
class PartyStatusRequest:
    """The players whose parties are requested; players after the first 16 are ignored."""

    player_ids: Lenient[Annotated[Skipping[str], First(MAX_ASKED)] | None]


class PartyInvite(TypedDict):
    """An invite to the caller; ``sendingDisplayName`` is ``{}`` for a hidden or unknown name."""

    recipientPlayerId: str
    sendingPlayerId: str
    partyId: str
    sendingPlatform: str
    sendingDisplayName: str | Empty


class MemberState(TypedDict):
    """A member of a party; ``displayName`` is ``{}`` for a hidden or unknown name."""

    playerId: str
    isMemberOfCandidate: bool
    platform: str
    displayName: str | Empty
    consoleSessionId: None


class PartyReply(TypedDict, total=False):
    """A party; ``playerIds`` is missing if the party has only one player."""

    partyId: str
    leaderPlayerId: str
    playerIds: list[str]
    playerStates: list[MemberState]
    candidateState: str | None
    candidateId: str | None
    playerHuntId: str | None
    gauntletLevel: None


class PartyInvites(TypedDict):
    """The pending invites of the caller."""

    invitations: list[PartyInvite]


class PartyStatusReply(PartyInvites):
    """The parties of the requested players, each party once, and the caller's invites."""

    parties: list[PartyReply]


class PartyInviteReply(TypedDict):
    """The names of the sender and the recipient of an invite."""

    From: str
    To: str


Names = Mapping[AccountId, str | Empty]


def show_invite(invite: PartyInvitation, name: str | Empty) -> PartyInvite:
    """Return an invite as replies show it, with exactly five keys."""
    return {
        "recipientPlayerId": invite.recipient,
        "sendingPlayerId": invite.sender,
        "partyId": invite.party_id,
        "sendingPlatform": PLATFORM,
        "sendingDisplayName": name,
    }


def show_solo(party: Party, names: Names, stub: bool) -> PartyReply:
    """Return the reply for a party of one, with exactly seven keys.

    If ``stub`` is true, the party has a placeholder for the hunt, so that the client can start a
    hunt alone.
    """
    return {
        "candidateId": SOLO_CANDIDATE if stub else None,
        "candidateState": QUEUED_FOR_START if stub else None,
        "gauntletLevel": None,
        "leaderPlayerId": party.leader,
        "partyId": party.id,
        "playerHuntId": None,
        "playerStates": [show_member(party.leader, names, stub)],
    }


def show_party(party: Party, names: Names, candidate: PartyCandidate | None) -> PartyReply:
    """Return the reply for a party of several players; members are in joining order."""
    matched = candidate.members if candidate is not None else frozenset()
    return {
        "partyId": party.id,
        "leaderPlayerId": party.leader,
        "playerIds": list(party.members),
        "playerStates": [show_member(member, names, member in matched) for member in party.members],
        "candidateState": candidate.state if candidate is not None else None,
        "candidateId": candidate.id if candidate is not None else None,
        "playerHuntId": candidate.hunt_id if candidate is not None else None,
        "gauntletLevel": None,
    }


def show_member(account_id: AccountId, names: Names, matched: bool) -> MemberState:
    """Return a party member; ``matched`` tells whether the member takes part in the hunt."""
    return {
        "playerId": account_id,
        "isMemberOfCandidate": matched,
        "platform": PLATFORM,
        "displayName": names[account_id],
        "consoleSessionId": None,
    }
