"""The client's look-ups of accounts. Spec: 1 §4 Login and accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.accounts.lookups import wire
from svcserver.metagame.accounts.lookups.acts import LookupActs
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare


@frozen
class LookupRoutes:
    """Account records, names and mappings."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    acts: LookupActs

    @routes.row(
        "GET",
        "/account/api/public/account",
        access=Access.TOKEN,
        reply=wire.OwnAccount | list[wire.PublicAccount],
        query={"accountId": list[str]},
    )
    async def accounts(self, call: Call) -> Answer:
        """The caller's own record, or those of ``?accountId=`` (at most 100)."""
        asked = call.request.arguments("accountId")
        if asked:
            return Answer(200, [wire.public(one) for one in await self.acts.listed(asked)])
        own = call.caller.account
        name = await self.acts.displayed(own)
        return Answer(200, wire.own_record(own, name, self.acts.wall_clock()))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>",
        access=Access.OPTIONAL_TOKEN,
        reply=wire.PublicAccount | Empty,
    )
    async def account(self, call: Call, account_id: str) -> Answer:
        """One account; ``{}`` when unknown or without a token."""
        found = await self.acts.seen(call.caller.account, account_id)
        return Answer(200, EMPTY_OBJECT if found is None else wire.public(found))

    @routes.row(
        "GET",
        "/account/api/public/account/displayName/<name>",
        access=Access.OPTIONAL_TOKEN,
        reply=wire.PublicAccount,
    )
    async def by_name(self, call: Call, name: str) -> Answer:
        """An account by username, in any case."""
        return Answer(200, wire.public(await self.acts.named(call.caller.account, name)))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>/externalAuths",
        access=Access.NONE,
        reply=Empty,
    )
    async def external_auths(self, call: Call, account_id: str) -> Answer:
        """The account's log-ins with other providers: always none."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/account/mapping",
        access=Access.OPTIONAL_TOKEN,
        body=wire.MappingWish | wire.Ids,
        reply=wire.MappingReply,
        body_log=True,
        again=Again.NATURAL,
    )
    async def mapping(self, call: Call[wire.MappingWish | tuple[str, ...]]) -> Answer:
        """Which account each of the ids stands for: an account's id stands for itself."""
        return Answer(200, await self.acts.mapped(call.caller.account, call.body))

    @routes.row("GET", "/features/platform/win", access=Access.NONE, reply=Envelope[wire.Crossplay])
    async def features(self, call: Call) -> Answer:
        """Whether players of all platforms meet and take their progress along: always yes."""
        return enveloped({"crossplay": True, "crossprogression": True})

    @routes.row(
        "GET", "/account/link/epic/<account_id>", access=Access.NONE, reply=Envelope[wire.Linked]
    )
    async def linked(self, call: Call, account_id: str) -> Answer:
        """Whether the account is linked to one of a game store: always yes."""
        return enveloped({"isLinked": True})

    @routes.row("GET", "/accountinfo", access=Access.TOKEN, reply=wire.AccountInfo)
    async def info(self, call: Call) -> Answer:
        """The caller's id and username."""
        own = call.caller.account
        return Answer(200, wire.info(own, await self.acts.own(own)))

    @routes.row("GET", "/tags", access=Access.TOKEN, reply=wire.Tags)
    async def tags(self, call: Call) -> Answer:
        """The caller's tags: always none."""
        reply: wire.Tags = {"accountId": call.caller.account, "tags": []}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/accountinfo/public",
        access=Access.TOKEN,
        body=OrEmpty[wire.PublicInfoWish],
        reply=wire.PublicInfo,
        refusals={404: Empty},
        body_log=True,
        again=Again.NATURAL,
    )
    async def public_info(self, call: Call[wire.PublicInfoWish]) -> Answer:
        """Any logged-in player may look up any account, by id or by name."""
        found = await self.acts.wished(call.body)
        if self.settings.accountinfo_public_legacy:
            return Answer(200, wire.public_info(call.caller.account, found))
        if found is None:
            return Answer(404, EMPTY_OBJECT)
        return Answer(200, wire.public_info(found.id, found))


def lookups(parts: Parts) -> Iterator[Feature]:
    """Look-ups of accounts by name and id."""
    acts = LookupActs(parts.directory, parts.settings, parts.wall_clock)
    yield LookupRoutes(parts.settings, acts)
