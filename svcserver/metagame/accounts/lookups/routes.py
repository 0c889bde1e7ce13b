"""The client's look-ups of accounts. Spec: 1 §4 Login and accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.refusals import Missing
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.lookups import wire
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare


@frozen
class LookupRoutes:
    """Account records, names and mappings."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    directory: Directory
    wall_clock: Callable[[], float]

    @routes.row(
        "GET",
        "/account/api/public/account",
        access=Access.TOKEN,
        reply=wire.OwnAccount | list[wire.PublicAccount],
        query=("accountId",),
    )
    async def accounts(self, call: Call) -> Answer:
        """The caller's own record, or those of ``?accountId=`` (at most 100)."""
        asked = call.request.arguments("accountId")
        if asked:
            wanted = list(dict.fromkeys(asked[: wire.MAX_IDS]))
            found = await self.directory.accounts(wanted)
            return Answer(200, [wire.public(found[one]) for one in wanted if one in found])
        own = call.caller.account
        account = await self.directory.account_of_id(own) if own is not None else None
        name = account.username if account else ""
        named = self.settings.account_display_name
        return Answer(200, wire.own_record(own, name if named else {}, self.wall_clock()))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>",
        access=Access.OPTIONAL_TOKEN,
        reply=wire.PublicAccount | Empty,
    )
    async def account(self, call: Call, account_id: str) -> Answer:
        """One account; ``{}`` when unknown or without a token."""
        found = await self._seen(call, account_id)
        return Answer(200, EMPTY_OBJECT if found is None else wire.public(found))

    async def _seen(self, call: Call, account_id: str) -> Account | None:
        if call.caller.account is None:
            return None
        return await self.directory.account_of_id(account_id)

    @routes.row(
        "GET",
        "/account/api/public/account/displayName/<name>",
        access=Access.OPTIONAL_TOKEN,
        reply=wire.PublicAccount,
    )
    async def by_name(self, call: Call, name: str) -> Answer:
        """An account by username, in any case."""
        found = None
        if call.caller.account is not None:
            found = await self.directory.account_named(name)
        if found is None:
            raise Missing("no such account")
        return Answer(200, wire.public(found))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>/externalAuths",
        access=Access.NONE,
        reply=Empty,
    )
    async def external_auths(self, call: Call, account_id: str) -> Answer:
        """External logins of an account; always empty."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/account/mapping",
        access=Access.OPTIONAL_TOKEN,
        body=wire.MappingWish | wire.Ids,
        reply=wire.MappingReply,
        body_log=True,
    )
    async def mapping(self, call: Call[wire.MappingWish | tuple[str, ...]]) -> Answer:
        """Map ids to themselves; the reply is keyed by each requested id."""
        asked: list[str] = []
        if call.caller.account is not None and self.settings.account_mapping:
            asked = wire.asked_ids(call.body)
        found = await self.directory.accounts(asked) if asked else {}
        return Answer(200, wire.show_mappings(asked, found, wire.source_type(call.body)))

    @routes.row("GET", "/features/platform/win", access=Access.NONE, reply=Envelope[wire.Crossplay])
    async def features(self, call: Call) -> Answer:
        """Crossplay and crossprogression are on."""
        return enveloped({"crossplay": True, "crossprogression": True})

    @routes.row(
        "GET", "/account/link/epic/<account_id>", access=Access.NONE, reply=Envelope[wire.Linked]
    )
    async def linked(self, call: Call, account_id: str) -> Answer:
        """Every account counts as linked."""
        return enveloped({"isLinked": True})

    @routes.row("GET", "/accountinfo", access=Access.TOKEN, reply=wire.AccountInfo)
    async def info(self, call: Call) -> Answer:
        """The caller's id and username."""
        own = call.caller.account
        account = await self.directory.account_of_id(own) if own is not None else None
        return Answer(200, wire.info(own, account.username if account else ""))

    @routes.row("GET", "/tags", access=Access.TOKEN, reply=wire.Tags)
    async def tags(self, call: Call) -> Answer:
        """Tags of the caller; always empty."""
        reply: wire.Tags = {"accountId": call.caller.account, "tags": []}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/accountinfo/public",
        access=Access.TOKEN,
        body=OrEmpty[wire.PublicInfoWish],
        reply=wire.PublicInfo,
        body_log=True,
    )
    async def public_info(self, call: Call[wire.PublicInfoWish]) -> Answer:
        """Any logged-in player may look up any account, by id or by name."""
        found = await self._asked(call.body)
        if self.settings.accountinfo_public_legacy:
            name = found.username if found is not None else ""
            return Answer(200, wire.public_info(call.caller.account, name))
        if found is None:
            return Answer(404, EMPTY_OBJECT)
        return Answer(200, wire.public_info(found.id, found.username))

    async def _asked(self, sent: wire.PublicInfoWish) -> Account | None:
        if sent.account_id:
            return await self.directory.account_of_id(sent.account_id)
        return None if sent.name is None else await self.directory.account_named(sent.name)
