"""Writes of a hunt: loot, progress, bounties, loadouts, as a game server sends them.

A game server acts with its key and forwards the player's token. Like the real one it sends some
writes twice concurrently, with the same transaction id; they must count once.
"""

from __future__ import annotations

import secrets
from typing import Any
from uuid import uuid4

from attrs import define, field

from svcserver.ctl.play.crowd import gather
from svcserver.ctl.play.earned import CURRENCY, PERSISTENT, SEASON, Item
from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.wire import Wire
from svcserver.kernel import json
from svcserver.kernel.headers import GAME_SERVER_KEY

KEY_HEADER = GAME_SERVER_KEY.decode()
MATERIAL = "MAT_SCALE_FLAME"
WEAPON = "WP_EB_TRAINING"
SPENT = 5  # of CURRENCY a hunt, on a repair
OBJECTIVE = "MasteryObjective_Sword_Craft"
GRANT = 100  # experience a hunt, about


@define(eq=False)
class GameServer:
    """The game server of a hunt; ``wire`` connects to the metagame directly, as in production."""

    wire: Wire
    key: str = field(repr=False)

    async def ask(self, player: Player, method: str, path: str, sent: Any = None) -> Any:
        """Send a request with the key for this player; returns the answer's JSON."""
        headers = {KEY_HEADER: self.key, "Authorization": f"Bearer {player.token}"}
        more = {} if sent is None else {"json": sent}
        return (await self.wire.ask(method, path, headers=headers, **more)).json

    async def reward(self, player: Player, hunt: int) -> None:
        """Write what a hunt brings the player besides loot; ``hunt`` counts from 1."""
        await self.grant(player, hunt)
        await self.bounty(player, hunt)
        if hunt == 1:
            await self.choose_pass(player)
            await self.unlock(player)

    async def loot(self, player: Player, hunt: int) -> None:
        """Add currency, material and a weapon; every other time sent twice at once."""
        stacks = {CURRENCY: SPENT + 1 + secrets.randbelow(200), MATERIAL: 1 + secrets.randbelow(9)}
        item = Item(WEAPON, 1, json.dump({"Power": hunt}).decode())
        instance = str(uuid4())
        wish = {
            **_transaction(player, "Hunt"),
            "accountId": player.account,
            "addStackedItems": [{"catalogId": k, "quantity": n} for k, n in stacks.items()],
            "addInstancedItems": [_sent(instance, item)],
        }
        asked = [self.ask(player, "POST", "/inventory", wish) for _ in range(1 + hunt % 2)]
        answers = await gather(asked)
        player.earned.add(stacks, {instance: item})
        _totals(player, answers, list(stacks))

    async def grant(self, player: Player, hunt: int) -> None:
        """Grant experience and an objective, sent twice: the repeat must get the same answer."""
        amount, done = GRANT + secrets.randbelow(50), hunt
        wish = {
            "progress_tracks": [{"progression_id": SEASON, "progress": amount}],
            "objectives": [{"objective_id": OBJECTIVE, "value": done, "completed_count": 0}],
        }
        path = f"/progression/{player.account}"
        answers = await gather([self.ask(player, "POST", path, wish) for _ in range(2)])
        player.earned.tracks[SEASON] += amount
        player.earned.objectives[OBJECTIVE] = done
        for said in answers:
            [track] = said["payload"]["progress_tracks"]
            if track["progress"] != player.earned.tracks[SEASON]:
                seen = f"{track['progress']} experience, not {player.earned.tracks[SEASON]}"
                raise PlayFailed("metagame", f"{player.name} is told {seen}")

    async def bounty(self, player: Player, hunt: int) -> None:
        """Write a bounty: the first hunt drafts it, the others update it."""
        name, version = "Bounty_Bronze_Evening", hunt
        element = {
            "bounty_id": name,
            "premium_bounty": False,
            "slot_index": 0,
            "objectives": [{"objective_id": OBJECTIVE, "progress": hunt}],
            "update_version": version,
        }
        path = f"/bounty/{player.account}"
        await self.ask(player, "POST", path, {"bounties": [element]})
        player.earned.bounties[name] = version

    async def choose_pass(self, player: Player) -> None:
        """Choose the season's hunt pass."""
        path = f"/huntpass/{player.account}"
        said = await self.ask(player, "POST", path, {"progression_id": SEASON})
        player.earned.hunt_pass = str(said["payload"])

    async def unlock(self, player: Player) -> None:
        """Unlock a loadout slot and make it the active one."""
        path = f"/loadout/{player.account}/{player.character}"
        said = await self.ask(player, "POST", f"{path}/unlock/1")
        player.earned.character_slots = int(said["payload"]["num_character_slots"])
        await self.ask(player, "POST", f"{path}/active/1")
        player.earned.active_slot = 1


async def repair(player: Player) -> None:
    """Spend currency and save the repaired weapon, as the client itself does."""
    instance, item = next(reversed(player.earned.items.items()))
    better = Item(item.catalog_id, item.version + 1, '{"Repaired":"yes"}')
    wish = {
        **_transaction(player, "Repair"),
        "removeStackedItems": [{"catalogId": CURRENCY, "quantity": SPENT}],
        "saveInstancedItems": [_sent(instance, better)],
    }
    said = (await player.wire.ask("POST", "/inventory", json=wish)).json
    player.earned.spend(CURRENCY, SPENT)
    player.earned.items[instance] = better
    _totals(player, [said], [CURRENCY])


async def arm(player: Player, hunt: int) -> None:
    """Save the loadout as the client does: the first slot and the persistent part."""
    path = f"/loadout/{player.account}/{player.character}"
    slot = {"slot_index": 0, "update_version": hunt, "custom_name": f"Hunt {hunt}", "flask": "ü"}
    worn = {"banner": f"B{hunt}", "update_version": hunt}
    for name, document in (("0", slot), (PERSISTENT, worn)):
        wish = {"data": json.dump(document).decode()}
        await player.wire.ask("POST", f"{path}/{name}", json=wish)
        player.earned.slots[name] = document


def _transaction(player: Player, source: str) -> dict[str, Any]:
    return {"characterId": player.character, "transactionId": str(uuid4()), "source": source}


def _sent(instance: str, item: Item) -> dict[str, Any]:
    return {
        "catalogId": item.catalog_id,
        "instanceId": instance,
        "itemData": item.data,
        "updateVersion": item.version,
    }


def _totals(player: Player, answers: list[Any], touched: list[str]) -> None:
    """Check that every answer, also a repeated one, names the new totals."""
    wanted = {name: player.earned.stacks[name] for name in touched}
    for said in answers:
        told = {one["catalogId"]: one["quantity"] for one in said["updatedStackedItems"]}
        if told != wanted:
            raise PlayFailed("metagame", f"{player.name} was told {told} and earned {wanted}")
