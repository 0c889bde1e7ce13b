"""Guilds as the client and the city's game server ask for them. Spec: 1 §4 Guilds."""

from __future__ import annotations

from typing import Any, ClassVar, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.social.guilds import rules
from svcserver.metagame.social.guilds.book import GuildBook, GuildReply, milliseconds
from svcserver.metagame.social.guilds.rules import Guild, Invite
from svcserver.metagame.social.guilds.store import SqlGuilds
from svcserver.web.routes import (
    EMPTY_OBJECT,
    NO_CONTENT,
    Access,
    Answer,
    Call,
    Envelope,
    Routes,
    enveloped,
)

log = Logger()

ACK = Answer(200, {"code": "OK", "message": "", "payload": EMPTY_OBJECT})


class GuildInvite(TypedDict):
    """An open invite, exactly four keys."""

    id: str
    guild_id: str
    guild_name: str
    inviter_account_id: str


class GuildInvites(TypedDict):
    """The open invites, newest first."""

    invites: list[GuildInvite]


class GuildWish(TypedDict):
    """Name and nameplate, which may be empty, of a guild to be; its leader."""

    leader_account_id: NotRequired[str]
    name: str
    nameplate: NotRequired[str | None]


def is_on(settings: Any) -> bool:
    """GUILDS."""
    return bool(settings.guilds)


def is_off(settings: Any) -> bool:
    """GUILDS=0: the two reads answer as of old."""
    return not settings.guilds


def refuse(status: int, refusal: Refusal) -> Answer:
    """``{code, message, payload: {}}``; the code is empty where none is documented."""
    body = {"code": refusal.code, "message": refusal.message, "payload": EMPTY_OBJECT}
    return Answer(status, body)


@frozen
class GuildRoutes:
    """The guild service's routes."""

    routes: ClassVar[Routes] = Routes(refuse)
    ledger: Ledger
    book: GuildBook

    @routes.row("GET", "/guild", access=Access.TOKEN, reply=GuildReply, when=is_on, body_log=True)
    async def mine(self, call: Call) -> Answer:
        """The caller's guild; 204 for none."""
        me = call.caller.account
        if me is None:
            return NO_CONTENT

        def work(tx: Connection) -> GuildReply | None:
            hall = SqlGuilds(tx)
            place = hall.member(me)
            guild = hall.guild(place.guild_id) if place is not None else None
            return None if guild is None else self.book.show(hall, guild)

        found = await self.ledger.read(work)
        return NO_CONTENT if found is None else _flat(dict(found))

    @routes.row(
        "GET",
        "/guild/invite/player",
        access=Access.TOKEN,
        reply=GuildInvites,
        when=is_on,
        body_log=True,
    )
    async def invites(self, call: Call) -> Answer:
        """The caller's open invites, newest first."""
        me = call.caller.account
        if me is None:
            return _flat({"invites": []})
        found = await self.ledger.read(
            lambda tx: rules.invites(SqlGuilds(tx), me, milliseconds(self.book.now()))
        )
        return _flat({"invites": [show_invite(one, guild) for one, guild in found]})

    @routes.row(
        "POST",
        "/guild/validate",
        access=Access.PLAYER,
        body=object,
        sends=GuildWish,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def validate(self, call: Call) -> Answer:
        """Whether the caller could found a guild of that name; creates nothing."""
        sent = fields(call.body)
        if sent.get("leader_account_id") not in (None, call.player):
            log.info("{account} checked a name for somebody else", account=call.player)
        await self.book.validate(call.player, sent.get("name"), sent.get("nameplate"))
        return ACK

    @routes.row(
        "POST",
        "/guild",
        access=Access.GAME_SERVER,
        body=object,
        sends=GuildWish,
        reply=GuildReply,
        when=is_on,
        body_log=True,
    )
    async def found(self, call: Call) -> Answer:
        """Found a guild; sent by the city's game server for the leader in the body."""
        sent = fields(call.body)
        leader = sent.get("leader_account_id")
        if call.caller.account is not None and call.caller.account != leader:
            log.info("a guild's founding came with the token of {account}", account=call.player)
        reply = await self.book.found(leader, sent.get("name"), sent.get("nameplate"))
        return _flat(dict(reply))

    @routes.row(
        "DELETE",
        "/guild/player",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def leave(self, call: Call) -> Answer:
        """Leave; the leader cannot."""
        await self.book.remove(call.player, call.player)
        return ACK

    @routes.row(
        "DELETE",
        "/guild/player/<account_id>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def kick(self, call: Call, account_id: str) -> Answer:
        """Remove a member; naming oneself is leaving."""
        await self.book.remove(call.player, account_id)
        return ACK

    @routes.row(
        "PUT",
        "/guild/invite/<account_id>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def invite(self, call: Call, account_id: str) -> Answer:
        """Invite; Leader or Officer."""
        await self.book.invite(call.player, account_id)
        return ACK

    @routes.row(
        "POST",
        "/guild/invite/accept/<invite_id>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def accept(self, call: Call, invite_id: str) -> Answer:
        """Join as Member."""
        await self.book.accept(call.player, invite_id)
        return ACK

    @routes.row(
        "DELETE",
        "/guild/invite/<invite_id>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def decline(self, call: Call, invite_id: str) -> Answer:
        """Decline; a second time there is nothing."""
        await self.book.decline(call.player, invite_id)
        return ACK

    @routes.row(
        "PUT",
        "/guild/rank/<account_id>/<rank>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def set_rank(self, call: Call, account_id: str, rank: str) -> Answer:
        """Give a member another rank; ``leader`` hands over."""
        await self.book.set_rank(call.player, account_id, rank)
        return ACK

    @routes.row(
        "DELETE",
        "/guild/<guild_id>",
        access=Access.PLAYER,
        reply=Envelope[dict[str, Json]],
        when=is_on,
        body_log=True,
    )
    async def disband(self, call: Call, guild_id: str) -> Answer:
        """End the caller's own guild."""
        await self.book.disband(call.player, guild_id)
        return ACK


@frozen
class GuildStubs:
    """What the two reads answer with GUILDS=0; every other guild route is the empty 404."""

    routes: ClassVar[Routes] = Routes(refuse)

    @routes.row("GET", "/guild", access=Access.TOKEN, when=is_off, body_log=True)
    async def mine(self, call: Call) -> Answer:
        return NO_CONTENT

    @routes.row(
        "GET",
        "/guild/invite/player",
        access=Access.TOKEN,
        reply=Envelope[dict[str, Json]],
        when=is_off,
        body_log=True,
    )
    async def invites(self, call: Call) -> Answer:
        """No invite; not flat."""
        return enveloped({"invites": []})


def fields(body: Json) -> dict[str, Any]:
    """The body's fields; a body that is not an object has none."""
    return body if isinstance(body, dict) else {}


def show_invite(invite: Invite, guild: Guild) -> GuildInvite:
    """One entry of the invite list."""
    return {
        "id": invite.id,
        "guild_id": invite.guild_id,
        "guild_name": guild.name,
        "inviter_account_id": invite.inviter,
    }


def _flat(payload: dict[str, Any]) -> Answer:
    """The envelope with the payload's fields copied to the root."""
    return Answer(200, {"code": "OK", "message": "", "payload": payload} | payload)
