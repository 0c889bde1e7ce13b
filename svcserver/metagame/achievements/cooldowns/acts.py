"""Operations on cooldowns, one transaction each, recorded in the event log."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.kernel.times import DAY_S, iso
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.cooldowns import rules, wire
from svcserver.metagame.achievements.cooldowns.store import SqlCooldowns
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Call
from svcserver.web.routes import EMPTY_OBJECT, Answer


@frozen
class CooldownActs:
    """Read and start; ``most``: ACHIEVEMENTS_MAX.

    Bodies are parsed within the transaction, so that a malformed one is recorded, too.
    """

    ledger: Ledger
    now: Callable[[], float]
    events: EventLog
    most: int

    async def read(self, account_id: AccountId) -> dict[str, str]:
        """Start times by id."""
        return await self.ledger.read(lambda tx: SqlCooldowns(tx).all(account_id))

    async def batch(self, call: Call[Late[wire.CooldownBatch]], account_id: AccountId) -> Answer:
        """Start several cooldowns; answers with all of the account's."""

        def work(tx: Connection, notes: list[str]) -> Answer:
            cooldowns, started = SqlCooldowns(tx), call.body.read().started(iso(self.now()))
            rules.start_all(cooldowns, account_id, started, self.most)
            return enveloped(cooldowns.all(account_id), code=200)

        return await self.events.write(call, account_id, work)

    async def start(self, call: Call, account_id: AccountId, cooldown_id: str) -> Answer:
        def work(tx: Connection, notes: list[str]) -> Answer:
            name, now = wire.cooldown_in_path(cooldown_id), self.now()
            yesterday = iso(now - DAY_S)
            rules.start(SqlCooldowns(tx), account_id, name, iso(now), yesterday, self.most)
            return Answer(200, EMPTY_OBJECT)

        return await self.events.write(call, account_id, work)
