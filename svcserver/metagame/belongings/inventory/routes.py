"""The inventory routes; their replies have no envelope. Spec: 1 §4 Characters, inventory."""

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.belongings.inventory.acts import InventoryActs
from svcserver.metagame.belongings.inventory.rules import By, policy_of
from svcserver.metagame.belongings.inventory.wire import (
    InstancedItem,
    InventoryReply,
    ItemRequest,
    TransactionReply,
    TransactionRequest,
    account_named,
)
from svcserver.metagame.once import Again
from svcserver.metagame.replies import OUTCOME_UNKNOWN
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.front import AnsweredError
from svcserver.web.routes import Answer, Feature, bare


@frozen
class InventoryRoutes:
    """The routes that read and change the inventories of characters."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: InventoryActs
    acting: Acting

    @routes.row("GET", "/inventory/<user_id>/<character_id>", reply=InventoryReply)
    async def read(self, call: Call, user_id: str, character_id: str) -> Answer:
        """Return a character's inventory; players may read it only for their own characters."""
        return Answer(
            200, await self.acts.read_inventory(self.acting.reads(call, user_id), character_id)
        )

    @routes.row(
        "POST",
        "/inventory",
        body=Late[TransactionRequest],
        reply=TransactionReply,
        again=Again.NATURAL,
    )
    async def transact(self, call: Call[Late[TransactionRequest]]) -> Answer:
        """Apply all changes in the request, or none; the reply is sent once they are on disk."""
        owner, sent, size = self._owner(call), call.body.parse_value(), len(call.request.body)
        deal, by = sent.transaction(), _by(call)
        if deal.transaction_id is None and call.attempt.is_again:
            raise AnsweredError(OUTCOME_UNKNOWN)  # the change may have been committed
        return Answer(200, await self.acts.transact(owner, sent.character_id, deal, by, size))

    @routes.row(
        "POST",
        "/inventory/instanceditem",
        body=Late[ItemRequest],
        reply=InstancedItem,
        again=Again.STORED,
    )
    async def update(self, call: Call[Late[ItemRequest]]) -> Answer:
        """Save the new state of an item that the character already holds."""
        owner, sent, size = self._owner(call), call.body.parse_value(), len(call.request.body)
        item, by = sent.instance(), _by(call)
        named = owner, sent.character_id
        saved = await self.acts.update(*named, item, by, size, attempt=call.attempt)
        return Answer(200, saved)

    def _owner(self, call: Call[Late[TransactionRequest]] | Call[Late[ItemRequest]]) -> AccountId:
        """Return the account for which the caller acts.

        This is called before the body is parsed, so that a game server without a player gets 403
        even if the body is malformed.
        """
        return self.acting.writes(call, account_named(call.body.sent))


def _by(call: Call) -> By:
    return By.GAME_SERVER if call.caller.game_server else By.CLIENT


def inventory(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of inventories."""
    acts = InventoryActs(lambda: policy_of(parts.settings), parts.data, parts.wall_clock)
    yield InventoryRoutes(acts, parts.acting)
