"""The entitlement routes. Spec: 1 §4 Progression, hunt pass, entitlements."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.refusals import Missing
from svcserver.metagame.accounts.eventlog import EventLog, hold
from svcserver.metagame.achievements.entitlements import rules
from svcserver.metagame.achievements.entitlements.records import (
    EntitlementRecord,
    listing,
    show,
    wish,
)
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant
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


class EntitlementList(TypedDict):
    """Flat: no envelope."""

    entitlements: list[EntitlementRecord]


class EntitlementWish(TypedDict):
    """``duration`` in hours; 0 or absent for ever."""

    entitlement: str
    duration: NotRequired[float]


LISTED = EntitlementList | Envelope[list[EntitlementRecord]]
"""The list, or the empty envelope of fixed progression."""


@frozen
class Entitlements:
    """List, grant, revoke."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    ledger: Ledger
    now: Callable[[], float]
    log: EventLog

    @routes.row("GET", "/entitlementsv2", access=Access.TOKEN, reply=LISTED)
    async def read(self, call: Call) -> Answer:
        """The token's account; a game server must forward the player's token."""
        account, defaults = call.caller.account, self.settings.entitlements_default
        if account is None or not self.settings.real_progression(account):
            return enveloped([])
        held = await self.ledger.read(lambda tx: SqlEntitlements(tx).all(account))
        if not rules.missing_defaults(held, defaults):
            return Answer(200, {"entitlements": show(held, round(self.now() * 1000))})

        def first_use(tx: Connection) -> list[EntitlementRecord]:
            try:
                hold(tx, account)
            except Missing:  # a token may outlive its account, and AUTH_MODE=NONE needs none
                at = round(self.now() * 1000)
                return show(rules.with_defaults(held, defaults, at), at)
            return listing(tx, account, defaults, self.now())

        return Answer(200, {"entitlements": await self.ledger.write(first_use, turn=account)})

    @routes.row(
        "POST",
        "/entitlementv2/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        body=object,
        sends=EntitlementWish,
        reply=LISTED,
    )
    async def grant(self, call: Call, user_id: str) -> Answer:
        """Grant; answered with the full list."""
        if not self.settings.real_progression(user_id):
            return enveloped([])
        defaults = self.settings.entitlements_default

        def work(tx: Connection, notes: list[str]) -> Answer:
            name, sent = wish(call.body, "entitlement", "name")
            duration = rules.hours(sent.get("duration"))
            now = self.now()
            check_room(SqlEntitlements(tx).all(user_id), [name], self.settings.achievements_max)
            listing(tx, user_id, defaults, now)
            grant(tx, user_id, name, duration, "game server", now)
            return Answer(200, {"entitlements": listing(tx, user_id, defaults, now)})

        return await self.log.write(call, user_id, work)

    @routes.row(
        "DELETE",
        "/entitlement/<user_id>/<entitlement>",
        access=Access.TOKEN,
        real_only=True,
        game_server=True,
        reply=dict,
    )
    async def revoke(self, call: Call, user_id: str, entitlement: str) -> Answer:
        """Revoke; fine when not owned."""
        defaults = self.settings.entitlements_default

        def work(tx: Connection, notes: list[str]) -> Answer:
            rights, at = SqlEntitlements(tx), round(self.now() * 1000)
            held = rules.add_defaults(rights, user_id, defaults, at)
            rules.revoke(rights, user_id, held.get(entitlement), at)
            return Answer(200, EMPTY_OBJECT)

        return await self.log.write(call, user_id, work)
