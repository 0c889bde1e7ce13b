"""The owner's and the launcher's routes for guilds. Spec: 2 §4 Management API, §7."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from twisted.logger import Logger

from svcserver.kernel.refusals import Missing
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.behalf import Behalf, Pair
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.wire import BehalfWish
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, refused_as, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.social.guilds import wire
from svcserver.metagame.social.guilds.acts import GuildActs
from svcserver.metagame.social.guilds.rules import Guild
from svcserver.web.routes import Answer

log = Logger()


@frozen
class GuildManagementRoutes:
    """Guild routes under ``/svc/api``; all three are 404 ``guilds_off`` with GUILDS=0."""

    routes: ClassVar[Routes] = Routes(worded)
    behalf: Behalf
    acts: GuildActs
    audit: Audit

    @routes.row(
        "POST",
        "/svc/api/GuildInvite",
        access=Access.ACCOUNT_KEY,
        body=Late[BehalfWish],
        reply=wire.GuildInviteReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def invite_by_name(self, call: Call[Late[BehalfWish]]) -> Answer:
        """Invite to a guild by user name, checked as in the game."""
        self._on()
        sent = call.body.read()
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
        """All guilds by name, each with its leader and its number of members."""
        self._on()
        return Answer(200, [wire.show_summary(one) for one in await self.acts.summaries()])

    @routes.row(
        "POST",
        "/svc/api/DisbandGuild",
        access=Access.ADMIN_KEY,
        body=Late[wire.DisbandWish],
        reply=wire.DisbandReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def disband_by_name(self, call: Call[Late[wire.DisbandWish]]) -> Answer:
        """Disband a guild, by id or name."""
        self._on()
        asked = call.body.read().guild
        guild, members = await self.acts.disband_named(
            self.audit, by_staff(call, "disband guild", asked), asked
        )
        log.info("an admin disbanded the guild {name}", name=guild.name, id=guild.id)
        reply: wire.DisbandReply = {"Guild": guild.name, "Members": members}
        return Answer(200, reply)

    async def _invite(self, pair: Pair) -> Guild:
        with refused_as("guild_refused", coded=True):
            return await self.acts.invite(pair.sender.id, pair.target.id)

    def _on(self) -> None:
        if not self.acts.settings.guilds:
            raise Missing("guilds are switched off", code="guilds_off")
