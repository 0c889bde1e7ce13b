"""Request and reply shapes of guilds. Spec: 1 §4 Guilds; 2 §4."""

from collections.abc import Iterable, Sequence
from typing import Annotated, TypedDict

from attrs import field, frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Or, TextWithNul, sent_as
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.social.guilds.rules import Guild, GuildInvitation, Member, Rank
from svcserver.metagame.social.guilds.store import Summary

NOBODY, NO_NAME, NO_NAMEPLATE = "", "", "?"  # stand for non-strings; the rules refuse them
GuildName = Annotated[str, Or(NO_NAME)]
Nameplate = Annotated[str | None, Or(NO_NAMEPLATE)]


@frozen
class GuildRequest:
    """A guild to validate or to found: its name, its nameplate (may be empty) and its leader."""

    name: GuildName
    nameplate: Nameplate = None
    leader_account_id: Annotated[AccountId, Or(NOBODY)] = NOBODY


@frozen
class DisbandRequest:
    """The guild to disband, by its id or by its name; the name's case is ignored."""

    guild: TextWithNul = field(metadata=sent_as("Guild"))
    reason: Reason = field(default="", metadata=sent_as("Reason"))


class GuildMember(TypedDict):
    """A guild member: account id and rank."""

    phx_account_id: str
    rank: Rank


class GuildShown(TypedDict):
    """A guild with its members."""

    id: str
    name: str
    nameplate: str
    leader_account_id: str
    members: list[GuildMember]
    maximum_guild_members: int


class GuildReply(GuildShown):
    """A guild, in ``payload`` and again at the top level; clients need both."""

    code: str
    message: str
    payload: GuildShown


class GuildInvite(TypedDict):
    """An open invite to a guild."""

    id: str
    guild_id: str
    guild_name: str
    inviter_account_id: str


class NoInvites(TypedDict):
    """The list of invites while guilds are off; it is empty."""

    invites: list[Empty]


class GuildInvitesShown(TypedDict):
    """The open guild invites, newest first."""

    invites: list[GuildInvite]


class GuildInvites(GuildInvitesShown):
    """The open invites, in ``payload`` and again at the top level; clients need both."""

    code: str
    message: str
    payload: GuildInvitesShown


class GuildInviteReply(TypedDict):
    """The names of the inviter, the invited player and the guild."""

    From: str
    To: str
    Guild: str


class GuildSummary(TypedDict):
    """A guild in the list of all guilds; ``members`` is the number of members."""

    guildId: str
    name: str
    nameplate: str
    leader: str
    members: int


class DisbandReply(TypedDict):
    """The disbanded guild and its number of members."""

    Guild: str
    Members: int


def show_guild(guild: Guild, members: Sequence[Member], maximum: int) -> GuildReply:
    """Return the reply with a guild, in ``payload`` and again at the top level."""
    shown: GuildShown = {
        "id": guild.id,
        "name": guild.name,
        "nameplate": guild.nameplate,
        "leader_account_id": guild.leader,
        "members": [
            {"phx_account_id": member.account_id, "rank": member.rank} for member in members
        ],
        "maximum_guild_members": maximum,
    }
    return {"code": "OK", "message": "", "payload": shown, **shown}


def show_invites(invites: Iterable[tuple[GuildInvitation, Guild]]) -> GuildInvites:
    """Return the reply with invites, in ``payload`` and again at the top level."""
    shown: GuildInvitesShown = {
        "invites": [show_invite(invite, guild) for invite, guild in invites]
    }
    return {"code": "OK", "message": "", "payload": shown, **shown}


def show_invite(invite: GuildInvitation, guild: Guild) -> GuildInvite:
    """Return an invite as replies show it, with the guild's name."""
    return {
        "id": invite.id,
        "guild_id": invite.guild_id,
        "guild_name": guild.name,
        "inviter_account_id": invite.inviter,
    }


def show_summary(summary: Summary) -> GuildSummary:
    """Return a guild's entry in the list of all guilds."""
    return {
        "guildId": summary.id,
        "name": summary.name,
        "nameplate": summary.nameplate,
        "leader": summary.leader,
        "members": summary.members,
    }
