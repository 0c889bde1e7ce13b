"""The launcher's routes for a player's own data; they need the account key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.kernel.envelope import Empty
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.owner.passports import wire
from svcserver.metagame.owner.passports.acts import PassportActs
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, NO_STORE, Answer, Feature

# a launcher reads once a minute; a passport may be megabytes
HUNTER_READS = Quota.named("hunter_reads", 30, 60.0)
NEW_KEYS = Quota.named("new_keys", 6, 3600.0)
PASSPORT_READS = Quota.named("passport_reads", 6, 60.0)


@frozen
class PassportRoutes:
    """The routes for a player's own data, passport and key; each account has a rate limit."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ACCOUNT_KEY)
    acts: PassportActs
    hunters: ReadLimit
    passports: ReadLimit
    keys: ReadLimit

    @classmethod
    def with_read_limits(cls, board: Board, acts: PassportActs) -> PassportRoutes:
        limits = (ReadLimit(board, quota) for quota in (HUNTER_READS, PASSPORT_READS, NEW_KEYS))
        return cls(acts, *limits)

    @routes.row("GET", "/launcher/hunter", reply=wire.HunterReply, quiet=True)
    async def hunter(self, call: Call) -> Answer:
        """Show the guild, mastery, hunt pass, saves and friends of the account."""
        await self.hunters.take(call.player)
        return Answer(200, await self.acts.hunter(call.player), NO_STORE)

    @routes.row("GET", "/launcher/passport", reply=wire.PassportReply, refusals={409: None})
    async def passport(self, call: Call) -> Answer:
        """Return the account's own data, signed by this host."""
        await self.passports.take(call.player)
        return Answer(200, await self.acts.passport(call.player), NO_STORE)

    @routes.row(
        "POST",
        "/launcher/new-key",
        body=wire.NewKeyRequest,
        reply=Empty,
        refusals={409: None},
        again=Again.NEVER,
    )
    async def new_key(self, call: Call[wire.NewKeyRequest]) -> Answer:
        """Replace the account's key with the key in the request; the old key stops working."""
        await self.keys.take(call.player)
        await self.acts.new_key(call.player, call.body.key)
        return Answer(200, EMPTY_OBJECT, NO_STORE)


def passports(parts: Parts) -> Iterator[Feature]:
    """Yield the launcher's routes for a player's own data; raises BadData."""
    signing = parts.tokens.keys.private
    acts = PassportActs.with_passport_key(
        parts.settings, parts.data, signing, parts.sessions, parts.wall_clock
    )
    yield PassportRoutes.with_read_limits(parts.board, acts)
