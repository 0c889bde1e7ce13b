"""The client's account look-ups. Spec: 1 §4 Login and accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.lookups import wire
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare


@frozen
class LookupRoutes:
    """The routes for account records, names and id mappings."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN, again=Again.NATURAL)
    settings: Settings
    directory: Directory
    wall_clock: Callable[[], float]

    @routes.row(
        "GET",
        "/account/api/public/account",
        reply=wire.OwnAccount | list[wire.PublicAccount],
        query={"accountId": list[str]},
    )
    async def accounts(self, call: Call) -> Answer:
        """Show the caller's own account, or up to 100 accounts named by ``?accountId=``."""
        if ids := call.request.arguments("accountId"):
            wanted = list(dict.fromkeys(ids[: wire.MAX_IDS]))
            accounts = await self.directory.accounts(wanted)
            return Answer(200, [wire.public(accounts[i]) for i in wanted if i in accounts])
        me, is_shown = call.caller.account, self.settings.account_display_name
        name = await self._name(me) if is_shown else wire.NO_NAME
        return Answer(200, wire.own_record(me, name, self.wall_clock()))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>",
        access=Access.OPTIONAL_TOKEN,
        reply=wire.PublicAccount | Empty,
    )
    async def account(self, call: Call, account_id: str) -> Answer:
        """Show an account; ``{}`` if it is unknown or the request has no token."""
        account = await self._visible(call.caller.account, account_id)
        return Answer(200, EMPTY_OBJECT if account is None else wire.public(account))

    @routes.row(
        "GET",
        "/account/api/public/account/displayName/<name>",
        access=Access.OPTIONAL_TOKEN,
        reply=wire.PublicAccount,
    )
    async def by_name(self, call: Call, name: str) -> Answer:
        """Find an account by username, ignoring case."""
        me = call.caller.account
        account = None if me is None else await self.directory.account_named(name)
        if account is None:
            raise Missing("no such account")
        return Answer(200, wire.public(account))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>/externalAuths",
        access=Access.NONE,
        reply=Empty,
    )
    async def external_auths(self, call: Call, account_id: str) -> Answer:
        """List the account's log-ins with other providers; the list is always empty."""
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
        """Map account ids of one type to ids of the other type; each id maps to itself."""
        is_on = call.caller.account is not None and self.settings.account_mapping
        ids = wire.ids_of(call.body) if is_on else []
        accounts = await self.directory.accounts(ids) if ids else {}
        return Answer(200, wire.show_mappings(ids, accounts, wire.source_type(call.body)))

    @routes.row("GET", "/features/platform/win", access=Access.NONE, reply=Envelope[wire.Crossplay])
    async def features(self, call: Call) -> Answer:
        """Show whether cross-play and cross-platform progress are on; they always are."""
        return enveloped({"crossplay": True, "crossprogression": True})

    @routes.row(
        "GET", "/account/link/epic/<account_id>", access=Access.NONE, reply=Envelope[wire.Linked]
    )
    async def linked(self, call: Call, account_id: str) -> Answer:
        """Show the account's link to a game store; every account has one."""
        return enveloped({"isLinked": True})

    @routes.row("GET", "/accountinfo", reply=wire.AccountInfo)
    async def info(self, call: Call) -> Answer:
        """Show the caller's id and username."""
        me = call.caller.account
        return Answer(200, wire.info(me, await self._name(me)))

    @routes.row("GET", "/tags", reply=wire.Tags)
    async def tags(self, call: Call) -> Answer:
        """List the caller's tags; the list is always empty."""
        reply: wire.Tags = {"accountId": call.caller.account, "tags": []}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/accountinfo/public",
        body=OrEmpty[wire.PublicInfoWish],
        reply=wire.PublicInfo,
        refusals={404: Empty},
        body_log=True,
    )
    async def public_info(self, call: Call[wire.PublicInfoWish]) -> Answer:
        """Look up an account by id or name; every logged-in player may look up any account."""
        wanted, account = call.body, None
        if wanted.account_id:
            account = await self.directory.account_of_id(wanted.account_id)
        elif wanted.name is not None:
            account = await self.directory.account_named(wanted.name)
        if self.settings.accountinfo_public_legacy:
            return Answer(200, wire.public_info(call.caller.account, account))
        if account is None:
            return Answer(404, EMPTY_OBJECT)
        return Answer(200, wire.public_info(account.id, account))

    async def _visible(self, me: AccountId | None, account_id: AccountId | None) -> Account | None:
        """Return the account with that id; None if the caller sent no player token."""
        if me is None or account_id is None:
            return None
        return await self.directory.account_of_id(account_id)

    async def _name(self, me: AccountId | None) -> str:
        """Return the caller's own name; empty if the caller has no account."""
        account = await self._visible(me, me)
        return "" if account is None else account.username


def lookups(parts: Parts) -> Iterator[Feature]:
    """Yield the routes that look up accounts by name and id."""
    yield LookupRoutes(parts.settings, parts.directory, parts.wall_clock)
