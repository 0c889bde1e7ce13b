"""The loadout routes. Spec: 1 §4 Loadouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.json import Fragment
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.characters.rules import reason_of
from svcserver.metagame.belongings.loadouts import rules
from svcserver.metagame.belongings.loadouts.rules import (
    ACCOUNT_SLOTS,
    MAX_CHARACTER_SLOTS,
    PERSISTENT,
    Defaults,
    Loadout,
)
from svcserver.metagame.belongings.loadouts.store import SqlRack
from svcserver.web.routes import Access, Answer, Call, Envelope, Routes, bare, enveloped

Whole = tuple[Loadout, dict[str, bytes]]


class SlotCounts(TypedDict):
    """All four must be there and unquoted, or the client stumbles."""

    num_account_slots: int
    max_account_slots: int
    num_character_slots: int
    max_character_slots: int


class LoadoutPayload(SlotCounts):
    """Every saved slot, the persistent part, and the counts."""

    loadouts: list[dict[str, Any]]
    persistent: dict[str, Any]
    active_index: int
    needs_migration: bool


class LoadoutSave(TypedDict):
    """The JSON text of a slot, or of the persistent part."""

    data: str


class Activated(TypedDict):
    """An envelope without anything in it."""

    code: None
    message: str


class AfterSave(Protocol):
    """What runs in the transaction of every save (thinning of the history)."""

    def __call__(self, tx: Connection, character_id: CharacterId, now: float) -> None: ...


@frozen
class Loadouts:
    """Read, save, unlock, activate. ``real`` says whose progression is stored."""

    routes: ClassVar[Routes] = Routes(bare)
    defaults: Defaults
    real: Callable[[AccountId], bool]
    data: AccountData
    now: Callable[[], float]
    acting: Acting
    most_bytes: int
    after_save: AfterSave | None = None

    @routes.row(
        "GET",
        "/loadout/<user_id>/<character_id>/all",
        access=Access.TOKEN,
        reply=Envelope[LoadoutPayload],
    )
    async def read(self, call: Call, user_id: str, character_id: str) -> Answer:
        """Every saved slot, the persistent part and the counts."""
        account_id, defaults = self.acting.reads(call, user_id), self.defaults

        def work(tx: Connection) -> Whole:
            return rules.read(SqlRack(tx), account_id, character_id, defaults)

        loadout, elements = await self.data.read(account_id, work)
        return _shown(loadout, elements, real=self.real(account_id))

    @routes.row(
        "POST",
        "/loadout/<user_id>/<character_id>/<index>",
        access=Access.TOKEN,
        body=object,
        sends=LoadoutSave,
        reply=Envelope[LoadoutPayload],
    )
    async def save(self, call: Call, user_id: str, character_id: str, index: str) -> Answer:
        """One slot or the persistent part; answered with the whole, after it is on disk."""
        account_id = self.acting.writes(call, user_id)
        data = call.fields.get("data")
        reason = reason_of(game_server=call.caller.game_server)
        real, defaults, after = self.real(account_id), self.defaults, self.after_save

        def work(tx: Connection) -> Whole:
            rack, now = SqlRack(tx), self.now()
            saved = rules.save(
                rack,
                account_id,
                character_id,
                index,
                data,
                defaults,
                now,
                reason,
                real=real,
                most=self.most_bytes,
            )
            if after is not None:
                after(tx, character_id, now)
            return saved

        loadout, elements = await self.data.write(account_id, len(call.request.body), work)
        return _shown(loadout, elements, real=real)

    @routes.row(
        "POST",
        "/loadout/<user_id>/<character_id>/unlock/<num_slots>",
        access=Access.TOKEN,
        real_only=True,
        game_server=True,
        reply=Envelope[SlotCounts],
    )
    async def unlock(self, call: Call, user_id: str, character_id: str, num_slots: str) -> Answer:
        """More character slots, up to 5."""
        account_id = self.acting.writes(call, user_id)
        loadout = await self.data.write(
            account_id,
            len(call.request.body),
            lambda tx: rules.unlock(SqlRack(tx), account_id, character_id, num_slots),
        )
        return enveloped(counts(loadout, real=True))

    @routes.row(
        "GET",
        "/loadout/<user_id>/<character_id>/slotcount",
        access=Access.TOKEN,
        real_only=True,
        reply=Envelope[SlotCounts],
    )
    async def slot_count(self, call: Call, user_id: str, character_id: str) -> Answer:
        """The counts alone."""
        account_id = self.acting.reads(call, user_id)
        loadout = await self.data.read(
            account_id, lambda tx: rules.own(SqlRack(tx), account_id, character_id)
        )
        return enveloped(counts(loadout, real=True))

    @routes.row(
        "POST",
        "/loadout/<user_id>/<character_id>/active/<index>",
        access=Access.TOKEN,
        real_only=True,
        game_server=True,
        reply=Activated,
    )
    async def activate(self, call: Call, user_id: str, character_id: str, index: str) -> Answer:
        """Choose the active slot."""
        account_id = self.acting.writes(call, user_id)
        await self.data.write(
            account_id,
            len(call.request.body),
            lambda tx: rules.activate(SqlRack(tx), account_id, character_id, index),
        )
        reply: Activated = {"code": None, "message": "OK"}
        return Answer(200, reply)


def counts(loadout: Loadout, *, real: bool) -> SlotCounts:
    """Slot counts; fixed at one of each without real progression."""
    return {
        "num_account_slots": ACCOUNT_SLOTS,
        "max_account_slots": ACCOUNT_SLOTS,
        "num_character_slots": loadout.character_slots if real else 1,
        "max_character_slots": MAX_CHARACTER_SLOTS if real else 1,
    }


def _shown(loadout: Loadout, elements: Mapping[str, bytes], *, real: bool) -> Answer:
    slots = sorted(name for name in elements if name != PERSISTENT)
    return enveloped(
        {
            "loadouts": [Fragment(elements[name]) for name in slots],
            "persistent": Fragment(elements[PERSISTENT]),
            **counts(loadout, real=real),
            "active_index": loadout.active_index if real else 0,
            "needs_migration": False,
        }
    )
