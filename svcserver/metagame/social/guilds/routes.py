"""The guild routes for the client and for the city's game server. Spec: 1 §4 Guilds."""

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen
from twisted.logger import Logger

from svcserver.kernel.envelope import NOTHING, Envelope
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Late, OrEmpty
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.behalf import ActingPair, Behalf
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.wire import BehalfRequest
from svcserver.metagame.once import Again
from svcserver.metagame.refusal_wire import GuildRefusal
from svcserver.metagame.replies import BAD_JSON, enveloped, refused_as, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.social.guilds import wire
from svcserver.metagame.social.guilds.acts import GuildActs
from svcserver.metagame.social.guilds.rules import Guild, Rank
from svcserver.web.refusals import worded_as
from svcserver.web.routes import EMPTY_OBJECT, NO_CONTENT, Answer, Feature, NoContent

ACK = Answer(200, {"code": "OK", "message": "", "payload": EMPTY_OBJECT})


@worded_as(GuildRefusal)
def refuse(status: int, refusal: Refusal) -> Answer:
    """Return ``{code, message, payload: {}}``; ``code`` is "" for an error without a code."""
    body = {"code": refusal.code, "message": refusal.message, "payload": EMPTY_OBJECT}
    return Answer(status, body)


@frozen
class GuildRoutes:
    """The game's guild routes if GUILDS=1; see ``GuildStubRoutes`` for GUILDS=0."""

    routes: ClassVar[Routes] = Routes(
        refuse,
        when=lambda settings: settings.guilds,
        body_log=True,
        access=Access.PLAYER,
        reply=NOTHING,
        again=Again.STORED,
    )
    acts: GuildActs
    acting: Acting

    @routes.row("GET", "/guild", access=Access.TOKEN, reply=wire.GuildReply | NoContent)
    async def mine(self, call: Call) -> Answer:
        """Show the caller's guild; the reply is 204 if the caller is in no guild."""
        me = call.caller.account
        guild = None if me is None else await self.acts.mine(me)
        return (
            NO_CONTENT
            if guild is None
            else Answer(200, wire.show_guild(*guild, self.acts.limits.max_members))
        )

    @routes.row("GET", "/guild/invite/player", access=Access.TOKEN, reply=wire.GuildInvites)
    async def invites(self, call: Call) -> Answer:
        """List the caller's open guild invites, newest first."""
        me = call.caller.account
        return Answer(200, wire.show_invites([] if me is None else await self.acts.invites(me)))

    @routes.row("POST", "/guild/validate", body=OrEmpty[wire.GuildRequest], again=Again.NATURAL)
    async def validate(self, call: Call[wire.GuildRequest]) -> Answer:
        """Check whether the caller may create a guild with this name; no guild is created."""
        sent = call.body
        named = sent.leader_account_id
        me = call.player if named == wire.NOBODY else self.acting.itself(call, named)
        await self.acts.validate(me, sent.name, sent.nameplate)
        return ACK

    @routes.row(
        "POST",
        "/guild",
        access=Access.GAME_SERVER,
        body=OrEmpty[wire.GuildRequest],
        reply=wire.GuildReply,
        again=Again.NEVER,
    )
    async def found(self, call: Call[wire.GuildRequest]) -> Answer:
        """Create a guild when the city's game server requests it; the body names the leader."""
        sent = call.body
        leader = self.acting.writes(call, sent.leader_account_id)
        made = await self.acts.create_guild(leader, sent.name, sent.nameplate)
        return Answer(200, wire.show_guild(*made, self.acts.limits.max_members))

    @routes.row("DELETE", "/guild/player")
    async def leave(self, call: Call) -> Answer:
        """Leave the caller's guild.

        The reply is 404 if the caller is in no guild, and 409 if the caller leads the guild.
        """
        await self.acts.remove(call.player, call.player, attempt=call.attempt)
        return ACK

    @routes.row("DELETE", "/guild/player/<account_id>")
    async def kick(self, call: Call, account_id: str) -> Answer:
        """Remove a guild member; a caller who removes itself leaves the guild."""
        await self.acts.remove(call.player, account_id, attempt=call.attempt)
        return ACK

    @routes.row("PUT", "/guild/invite/<account_id>")
    async def invite(self, call: Call, account_id: str) -> Answer:
        """Invite an account to the caller's guild, if the caller is its leader or an officer."""
        await self.acts.invite(call.player, account_id, attempt=call.attempt)
        return ACK

    @routes.row("POST", "/guild/invite/accept/<invite_id>")
    async def accept(self, call: Call, invite_id: str) -> Answer:
        """Join the guild that sent the invite, with the lowest rank."""
        await self.acts.accept(call.player, invite_id, attempt=call.attempt)
        return ACK

    @routes.row("DELETE", "/guild/invite/<invite_id>")
    async def decline(self, call: Call, invite_id: str) -> Answer:
        """Decline a guild invite."""
        await self.acts.decline(call.player, invite_id, attempt=call.attempt)
        return ACK

    @routes.row("PUT", "/guild/rank/<account_id>/<rank>", path_types={"rank": Rank})
    async def set_rank(self, call: Call, account_id: str, rank: str) -> Answer:
        """Change a member's rank; the rank ``leader`` makes the member the leader."""
        await self.acts.set_rank(call.player, account_id, rank, attempt=call.attempt)
        return ACK

    @routes.row("DELETE", "/guild/<guild_id>")
    async def disband(self, call: Call, guild_id: str) -> Answer:
        """Disband the caller's own guild."""
        await self.acts.disband(call.player, guild_id, attempt=call.attempt)
        return ACK


@frozen
class GuildStubRoutes:
    """The only two guild routes if GUILDS=0.

    Every other guild route then answers 404 without a body.
    """

    routes: ClassVar[Routes] = Routes(
        refuse, when=lambda settings: not settings.guilds, body_log=True, access=Access.TOKEN
    )

    @routes.row("GET", "/guild", reply=NoContent)
    async def mine(self, call: Call) -> Answer:
        """Answer 204, which means that the caller is in no guild."""
        return NO_CONTENT

    @routes.row("GET", "/guild/invite/player", reply=Envelope[wire.NoInvites])
    async def invites(self, call: Call) -> Answer:
        """Return an empty list of guild invites."""
        return enveloped({"invites": []})


log = Logger()


@frozen
class GuildManagementRoutes:
    """Guild routes under ``/svc/api``; if GUILDS=0, all answer 404 ``guilds_off``."""

    routes: ClassVar[Routes] = Routes(worded)
    behalf: Behalf
    acts: GuildActs
    audit: Audit

    @routes.row(
        "POST",
        "/svc/api/GuildInvite",
        access=Access.ACCOUNT_KEY,
        body=Late[BehalfRequest],
        reply=wire.GuildInviteReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def invite_by_name(self, call: Call[Late[BehalfRequest]]) -> Answer:
        """Invite a player to a guild by username, with the same checks as in the game."""
        self._on()
        sent = call.body.parse_value()
        pair, guild = await self.behalf.act_for(call, sent, "guild invite for", self._invite)
        reply: wire.GuildInviteReply = {
            "From": pair.sender.username,
            "To": pair.target.username,
            "Guild": guild.name,
        }
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/svc/api/Guilds",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=list[wire.GuildSummary],
    )
    async def summaries(self, call: Call) -> Answer:
        """List all guilds, sorted by name, each with its leader and number of members."""
        self._on()
        return Answer(200, [wire.show_summary(summary) for summary in await self.acts.summaries()])

    @routes.row(
        "POST",
        "/svc/api/DisbandGuild",
        access=Access.ADMIN_KEY,
        body=Late[wire.DisbandRequest],
        reply=wire.DisbandReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def disband_by_name(self, call: Call[Late[wire.DisbandRequest]]) -> Answer:
        """Disband a guild, by id or name."""
        self._on()
        name = call.body.parse_value().guild
        guild, members = await self.acts.disband_named(
            self.audit, by_staff(call, "disband guild", name), name
        )
        log.info("an admin disbanded the guild {name}", name=guild.name, id=guild.id)
        reply: wire.DisbandReply = {"Guild": guild.name, "Members": members}
        return Answer(200, reply)

    async def _invite(self, pair: ActingPair) -> Guild:
        with refused_as("guild_refused", coded=True):
            return await self.acts.invite(pair.sender.id, pair.target.id)

    def _on(self) -> None:
        if not self.acts.settings.guilds:
            raise Missing("guilds are switched off", code="guilds_off")


def guilds(parts: Parts, acts: GuildActs) -> Iterator[Feature]:
    """Yield the guild routes (real ones, or stubs if GUILDS=0), for players and for staff."""
    yield GuildRoutes(acts, parts.acting)
    yield GuildStubRoutes()
    yield GuildManagementRoutes(parts.behalf, acts, parts.audit)
