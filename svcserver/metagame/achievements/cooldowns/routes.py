"""The cooldown routes. Spec: 1 §4 Progression, cooldowns."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.cooldowns import rules
from svcserver.metagame.achievements.cooldowns.store import SqlCooldowns
from svcserver.metagame.achievements.room import check_room
from svcserver.metagame.settings import Settings
from svcserver.web.routes import (
    EMPTY_OBJECT,
    Access,
    Answer,
    Call,
    Envelope,
    Routes,
    bare,
    enveloped,
)


class CooldownStart(TypedDict):
    """When a cooldown started, kept as sent; without a date it starts now."""

    cooldown_id: str
    cooldown_started_date: NotRequired[str | None]


class CooldownBatch(TypedDict):
    """Cooldowns to start."""

    cooldowns: list[CooldownStart] | dict[str, str]


@frozen
class Cooldowns:
    """When each cooldown of an account started."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    ledger: Ledger
    now: Callable[[], float]
    log: EventLog

    @routes.row(
        "GET", "/cooldown/<user_id>", access=Access.TOKEN, own=True, reply=Envelope[dict[str, str]]
    )
    async def read(self, call: Call, user_id: str) -> Answer:
        """Start times by id."""
        if not self.settings.real_progression(user_id):
            return enveloped(EMPTY_OBJECT)
        found = await self.ledger.read(lambda tx: SqlCooldowns(tx).all(user_id))
        return enveloped(found, code=200)

    @routes.row(
        "PUT",
        "/cooldown/batch/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        body=object,
        sends=CooldownBatch,
        reply=Envelope[dict[str, str]],
    )
    async def batch(self, call: Call, user_id: str) -> Answer:
        """Start several; answered with the whole map."""
        if not self.settings.real_progression(user_id):
            return enveloped(EMPTY_OBJECT)

        def work(tx: Connection, notes: list[str]) -> Answer:
            cooldowns = SqlCooldowns(tx)
            started = rules.read_batch(call.body, iso(self.now()))
            check_room(cooldowns.all(user_id), started, self.settings.achievements_max)
            cooldowns.keep(user_id, started)
            return enveloped(cooldowns.all(user_id), code=200)

        return await self.log.write(call, user_id, work)

    @routes.row(
        "PUT",
        "/cooldown/<user_id>/<cooldown_id>",
        access=Access.TOKEN,
        real_only=True,
        game_server=True,
        reply=dict,
    )
    async def start(self, call: Call, user_id: str, cooldown_id: str) -> Answer:
        """Start one now; throw-away ids of yesterday are dropped."""

        def work(tx: Connection, notes: list[str]) -> Answer:
            if not is_name(cooldown_id):
                raise Malformed("not a cooldown's id")
            cooldowns, now = SqlCooldowns(tx), self.now()
            started, yesterday = iso(now), iso(now - rules.DAY_MS / 1000)
            stored = cooldowns.all(user_id)
            old = [
                name
                for name, date in stored.items()
                if rules.is_throwaway(name) and date < yesterday
            ]
            kept = stored.keys() - set(old)
            check_room(kept, [cooldown_id], self.settings.achievements_max)
            cooldowns.drop(user_id, old)
            cooldowns.keep(user_id, {cooldown_id: started})
            return Answer(200, EMPTY_OBJECT)

        return await self.log.write(call, user_id, work)
