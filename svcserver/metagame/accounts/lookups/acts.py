"""Look-ups of accounts, by id or name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.lookups import wire
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.settings import Settings


@frozen
class LookupActs:
    """Reads of the directory; a caller without an account (``me`` is None) sees nobody."""

    directory: Directory
    settings: Settings
    wall_clock: Callable[[], float]

    async def listed(self, asked: Sequence[AccountId]) -> list[Account]:
        """The accounts of the first ids, each once, in the order asked for."""
        wanted = list(dict.fromkeys(asked[: wire.MAX_IDS]))
        found = await self.directory.accounts(wanted)
        return [found[one] for one in wanted if one in found]

    async def own(self, me: AccountId | None) -> str:
        """The caller's own name; empty for nobody."""
        account = await self.seen(me, me)
        return "" if account is None else account.username

    async def displayed(self, me: AccountId | None) -> str | Empty:
        """The same for the caller's own record, where names are shown at all."""
        if not self.settings.account_display_name:
            return {}
        return await self.own(me)

    async def seen(self, me: AccountId | None, asked: AccountId | None) -> Account | None:
        """The account of that id."""
        if me is None or asked is None:
            return None
        return await self.directory.account_of_id(asked)

    async def named(self, me: AccountId | None, name: str) -> Account:
        """The account of that name, in any case; raises Missing."""
        found = None if me is None else await self.directory.account_named(name)
        if found is None:
            raise Missing("no such account")
        return found

    async def mapped(
        self, me: AccountId | None, sent: wire.MappingWish | tuple[str, ...]
    ) -> wire.MappingReply:
        """The ids of a mapping with what is known of them; none where it is switched off."""
        asked = wire.asked_ids(sent) if me is not None and self.settings.account_mapping else []
        found = await self.directory.accounts(asked) if asked else {}
        return wire.show_mappings(asked, found, wire.source_type(sent))

    async def wished(self, sent: wire.PublicInfoWish) -> Account | None:
        """The account that is asked for, by id or by name."""
        if sent.account_id:
            return await self.directory.account_of_id(sent.account_id)
        return None if sent.name is None else await self.directory.account_named(sent.name)
