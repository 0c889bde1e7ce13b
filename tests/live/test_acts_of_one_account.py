"""Concurrent transactions, each of which changes the data of only one account.

Two metagame processes share one PostgreSQL, as in ``test_acts_across_accounts.py``.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from attrs import define, frozen
from sqlalchemy import select
from twisted.internet import reactor
from twisted.internet.defer import gatherResults, maybeDeferred
from twisted.internet.task import Clock

from svcserver.db.engine import database_url, make_engine
from svcserver.db.factory import ledger_for
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.belongings.housekeeping import forgetting, housekeeping
from svcserver.metagame.owner.people.acts import LastSeen
from svcserver.metagame.owner.people.store import ACCOUNT_SEEN
from svcserver.metagame.play.presence.rules import Beat
from tests.live.test_belongings_durability import BUNDLE, ITEM, SIZE
from tests.live.two_processes import ROUNDS, Both, Player, at_once, on_two_metagames, statuses
from tests.support.isolates import isolates

pytestmark = pytest.mark.live

API = "/svc/api"


async def character_of(both: Both, player: Player) -> str:
    return str((await both.good("GET", "/character", player))[0]["id"])


@isolates("belongings/savehistory: roll_back")
@on_two_metagames
async def test_a_save_during_a_rollback_precedes_it_or_is_refused(
    both: Both,
) -> None:
    for _ in range(ROUNDS):
        ann = await both.player()
        character = await character_of(both, ann)
        saves = [
            {"characterId": character, "updateVersion": n, "data": f'{{"n":{n}}}'}
            for n in (1, 2, 3)
        ]
        for save in saves[:2]:
            await both.good("POST", "/character", ann, save)
        back = {"CharacterId": character, "Version": 1}
        saved, (status, rolled) = await at_once(
            both.call("POST", "/character", ann, saves[2]),
            both.call("POST", f"{API}/RollbackCharacter", body=back, at=1),
        )
        assert status == 200
        assert (saved[0], rolled["PreviousVersion"]) in ((200, 3), (409, 2))
        [held] = await both.good("GET", "/character", ann)
        assert (held["data"], held["updateVersion"]) == ('{"n":1}', rolled["UpdateVersion"])


@isolates("belongings/savehistory: roll_back_loadout")
@on_two_metagames
async def test_a_loadout_saved_during_a_rollback_is_not_lost_unseen(both: Both) -> None:
    for _ in range(ROUNDS):
        ann = await both.player()
        character = await character_of(both, ann)
        slot = f"/loadout/{ann['id']}/{character}/0"
        texts = [f'{{"slot_index":0,"n":{n}}}' for n in (1, 2, 3)]
        for text in texts[:2]:
            await both.good("POST", slot, ann, {"data": text})
        back = {"CharacterId": character, "Version": 2}  # the first save made it
        saved, (status, rolled) = await at_once(
            both.call("POST", slot, ann, {"data": texts[2]}),
            both.call("POST", f"{API}/RollbackLoadout", body=back, at=1),
        )
        assert (saved[0], status) == (200, 200)
        held = await both.good("GET", f"/loadout/{ann['id']}/{character}/all", ann)
        [slot_0] = held["payload"]["loadouts"]
        assert (rolled["Version"], slot_0["n"]) in ((5, 1), (4, 3))


@isolates(
    "belongings/shop: issue",
    "belongings/shop: redeem",
    "belongings/housekeeping: housekeeping",
    "belongings/housekeeping: forgetting",
)
@on_two_metagames
async def test_a_purchase_counts_once_while_old_purchases_are_deleted(both: Both) -> None:
    engine = make_engine(database_url(both.database))
    ledger = Waited(ledger_for(engine, reactor, accounts=ACCOUNTS.c.id))
    ledger.expected.startService()
    try:
        for _ in range(ROUNDS):
            ann = await both.player()
            character = await character_of(both, ann)
            tidy = [make(ledger, Clock(), time.time) for make in (housekeeping, forgetting)]
            for entry in tidy:
                entry.startService()
            issued = await at_once(
                *(both.call("GET", f"/token/platinum/{BUNDLE}", ann, at=at) for at in range(4))
            )
            for entry in tidy:
                entry.stopService()
            assert statuses(issued) == [200] * 4
            token = issued[0][1]["purchaseToken"]
            tidy = [make(ledger, Clock(), time.time) for make in (housekeeping, forgetting)]
            for entry in tidy:
                entry.startService()
            redeemed = await at_once(
                *(
                    both.call("POST", f"/notification/platinum?token={token}", ann, at=at)
                    for at in range(6)
                )
            )
            for entry in tidy:
                entry.stopService()
            assert statuses(redeemed) == [204] * 6
            held = await both.good("GET", f"/inventory/{ann['id']}/{character}", ann)
            stacks = {make["catalogId"]: make["quantity"] for make in held["stackedItems"]}
            assert stacks.get(ITEM) == SIZE
    finally:
        await maybeDeferred(ledger.expected.stopService)
        engine.dispose()
    assert ledger.done == 4 * ROUNDS  # after stopping, the ledger has finished all its transactions


@isolates("owner/people: _store_last_seen")
@on_two_metagames
async def test_two_processes_note_the_same_players_at_once(both: Both) -> None:
    players = [player["id"] for player in await both.players(20)]

    @frozen
    class Online:
        """A presence service in which the players of ``order`` were last seen at time ``at``."""

        at: int
        order: list[str]

        async def all(self) -> list[Beat]:
            return [Beat(first, "", "", float(self.at)) for first in self.order]

    engine = make_engine(database_url(both.database))
    ledger = ledger_for(engine, reactor, accounts=ACCOUNTS.c.id)
    ledger.startService()
    try:
        for number in range(ROUNDS):
            entry: Any = Online(10 * number, players)
            second: Any = Online(10 * number + 1, players[::-1])
            await gatherResults(
                [
                    LastSeen(ledger, entry).store_last_seen(),
                    LastSeen(ledger, second).store_last_seen(),
                ]
            )
            view = await ledger.read_snapshot(lambda tx: tx.execute(select(ACCOUNT_SEEN)).all())
            assert {row.account_id for row in view} == set(players)
            assert {row.at - 10 * number for row in view} <= {0, 1}
    finally:
        await maybeDeferred(ledger.stopService)
        engine.dispose()


@define(eq=False)
class Waited:
    """A ledger that counts its finished transactions."""

    expected: Any
    done: int = 0

    def write(self, work: Any, scope: Any) -> Any:
        def note(result: Any) -> Any:
            self.done += 1
            return result

        return self.expected.write(work, scope).addCallback(note)
