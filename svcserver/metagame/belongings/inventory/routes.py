"""The inventory routes; replies are flat. Spec: 1 §4 Characters, inventory, currency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory import items, rules
from svcserver.metagame.belongings.inventory.rules import By, Policy
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of, owner_of
from svcserver.web.routes import Access, Answer, Call, Routes, bare

log = Logger()
MAX_SHOWN = 5  # oddities of one transaction that are logged


class StackedItem(TypedDict):
    """So many of one kind."""

    catalogId: str
    quantity: int


class InstancedItem(TypedDict):
    """A single item; ``itemData`` is JSON text, and without it the version is 0."""

    catalogId: str
    instanceId: str
    itemData: NotRequired[str | None]
    updateVersion: NotRequired[int]


class RemovedItem(TypedDict):
    """A single item to take away; the rest of it may come along."""

    instanceId: str
    updateVersion: NotRequired[int]


class TransactionWish(TypedDict):
    """One transaction; a repeated ``transactionId`` changes nothing.

    ``accountId`` is read from game servers alone. Lists that are missing are empty.
    """

    characterId: str
    accountId: NotRequired[str]
    transactionId: NotRequired[str]
    source: NotRequired[str]
    addInstancedItems: NotRequired[list[InstancedItem]]
    addStackedItems: NotRequired[list[StackedItem]]
    removeInstancedItems: NotRequired[list[RemovedItem]]
    removeStackedItems: NotRequired[list[StackedItem]]
    saveInstancedItems: NotRequired[list[InstancedItem]]


class ItemWish(InstancedItem):
    """A held item as it shall be; ``accountId`` is read from game servers alone."""

    characterId: str
    accountId: NotRequired[str]


class InventoryReply(TypedDict):
    """Everything a character holds."""

    characterId: str
    instancedItems: list[InstancedItem]
    stackedItems: list[StackedItem]


class TransactionReply(TypedDict):
    """What a transaction came to; stacks with their final totals."""

    createdInstancedItems: list[InstancedItem]
    updatedInstancedItems: list[InstancedItem]
    updatedStackedItems: list[StackedItem]
    removedInstancedItems: list[RemovedItem]


@frozen
class Inventory:
    """Read and change what characters hold."""

    routes: ClassVar[Routes] = Routes(bare)
    policy: Policy
    data: AccountData
    now: Callable[[], float]
    acting: Acting

    @routes.row(
        "GET",
        "/inventory/<user_id>/<character_id>",
        access=Access.TOKEN,
        reply=InventoryReply,
    )
    async def read(self, call: Call, user_id: str, character_id: str) -> Answer:
        """A player's own whatever the URL says; a game server's URL account."""
        account_id = self.acting.reads(call, user_id)

        def work(tx: Connection) -> bytes:
            if owner_of(tx, character_id) != account_id:
                raise Forbidden("not one of this account's characters")
            return inventory_of(tx, character_id)

        return Answer(200, await self.data.read(account_id, work))

    @routes.row(
        "POST",
        "/inventory",
        access=Access.TOKEN,
        body=object,
        sends=TransactionWish,
        reply=TransactionReply,
    )
    async def transact(self, call: Call) -> Answer:
        """One transaction, answered after it is on disk."""
        sent = fields(call.body)
        account_id, by = self._acting_for(call, sent)
        deal = items.transaction(sent)
        character_id = sent.get("characterId")

        def work(tx: Connection) -> rules.Done:
            bag, now = SqlInventory(tx), self.now()
            return rules.transact(bag, account_id, character_id, deal, by, self.policy, now)

        done = await self.data.write(account_id, len(call.request.body), work)
        for oddity in done.oddities[:MAX_SHOWN]:
            log.warn("inventory of {character}: {oddity!r}", character=character_id, oddity=oddity)
        return Answer(200, done.answer)

    @routes.row(
        "POST",
        "/inventory/instanceditem",
        access=Access.TOKEN,
        body=object,
        sends=ItemWish,
        reply=InstancedItem,
    )
    async def update(self, call: Call) -> Answer:
        """Save one held item."""
        sent = fields(call.body)
        account_id, by = self._acting_for(call, sent)
        kept = ("catalogId", "instanceId", "itemData", "updateVersion")
        missing = {"itemData": None, "updateVersion": 0}
        item = items.instance(missing | {k: sent[k] for k in kept if k in sent})
        character_id = sent.get("characterId")
        held = await self.data.write(
            account_id,
            len(call.request.body),
            lambda tx: rules.update_instance(
                SqlInventory(tx), account_id, character_id, item, by, self.policy, self.now()
            ),
        )
        return Answer(200, held.body)

    def _acting_for(self, call: Call, sent: dict[str, Any]) -> tuple[AccountId, By]:
        """Whose items are meant, and who says so."""
        named = sent.get("accountId")
        account_id = self.acting.writes(call, named if isinstance(named, str) and named else None)
        return account_id, By.GAME_SERVER if call.caller.game_server else By.CLIENT


def fields(body: Any) -> dict[str, Any]:
    """The body's fields; raises Malformed."""
    if not isinstance(body, dict):
        raise Malformed("the body must be a JSON object")
    return body
