"""The owner's and the launcher's side of guilds. Spec: 2 §4 Management API, §7."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from attrs import frozen
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.metagame.accounts import behalf
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.social.guilds.book import GuildBook
from svcserver.metagame.social.guilds.store import SqlGuilds
from svcserver.web.routes import BAD_JSON, Access, Answer, Call, Routes, worded

log = Logger()


class GuildInviteReply(TypedDict):
    """The names as they are stored."""

    From: str
    To: str
    Guild: str


class GuildSummary(TypedDict):
    """A guild in the owner's list; ``members`` is a count."""

    guildId: str
    name: str
    nameplate: str
    leader: str
    members: int


class DisbandWish(TypedDict):
    """A guild by its id, or by its name in any case."""

    Guild: str


class DisbandReply(TypedDict):
    """What was disbanded, and how many were in it."""

    Guild: str
    Members: int


@frozen
class GuildManagement:
    """Guild routes under ``/svc/api``; all three are 404 ``guilds_off`` with GUILDS=0."""

    routes: ClassVar[Routes] = Routes(worded)
    directory: Directory
    ledger: Ledger
    book: GuildBook

    @routes.row(
        "POST",
        "/svc/api/GuildInvite",
        access=Access.ACCOUNT_KEY,
        body=object,
        sends=behalf.BehalfWish,
        reply=GuildInviteReply,
        bad_json=BAD_JSON,
    )
    async def invite(self, call: Call) -> Answer:
        """Body ``{Username, From?}``; the same checks as in the game."""
        self._on()
        pair = await behalf.pair(call, self.directory)
        try:
            guild = await self.book.invite(pair.sender.id, pair.target.id)
        except Refusal as why:
            message = f"{why.code}: {why.message}" if why.code else why.message
            return Answer(why.status, {"error": "guild_refused", "message": message})
        reply: GuildInviteReply = {
            "From": pair.sender.username,
            "To": pair.target.username,
            "Guild": guild.name,
        }
        return Answer(200, reply)

    @routes.row("GET", "/svc/api/Guilds", access=Access.ADMIN_KEY, reply=list[GuildSummary])
    async def guilds(self, call: Call) -> Answer:
        """Every guild, by name."""
        self._on()
        found = await self.ledger.read(lambda tx: SqlGuilds(tx).summaries())
        listed: list[GuildSummary] = [
            {
                "guildId": one.id,
                "name": one.name,
                "nameplate": one.nameplate,
                "leader": one.leader,
                "members": one.members,
            }
            for one in found
        ]
        return Answer(200, listed)

    @routes.row(
        "POST",
        "/svc/api/DisbandGuild",
        access=Access.ADMIN_KEY,
        body=object,
        sends=DisbandWish,
        reply=DisbandReply,
        bad_json=BAD_JSON,
    )
    async def disband(self, call: Call) -> Answer:
        """Remove a guild with its members and invites, by id or name."""
        self._on()
        guild, members = await self.book.disband_named(behalf.text_field(call.body, "Guild"))
        log.info("an admin disbanded the guild {name}", name=guild.name, id=guild.id)
        reply: DisbandReply = {"Guild": guild.name, "Members": members}
        return Answer(200, reply)

    def _on(self) -> None:
        if not self.book.settings.guilds:
            raise Missing("guilds are switched off", code="guilds_off")
