"""The writes of a hunt (loot, progress, bounties, loadouts), as a game server sends them.

A game server authenticates with its key and forwards the player's token. Like a real game
server, it sends some writes twice at the same time. The metagame must apply each of these writes
only once.
"""

import secrets
from typing import Any
from uuid import uuid4

from attrs import define, field

from svcserver.ctl.play.crowd import gather
from svcserver.ctl.play.player import CURRENCY, SEASON, Item, Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.wire import HttpWire
from svcserver.kernel import json
from svcserver.kernel.headers import GAME_SERVER_KEY
from svcserver.players import requests

KEY_HEADER = GAME_SERVER_KEY.decode()
MATERIAL = "MAT_SCALE_FLAME"
WEAPON = "WP_EB_TRAINING"
PERSISTENT = "persistent"
SPENT = 5  # CURRENCY spent per hunt, on a repair
OBJECTIVE = "MasteryObjective_Sword_Craft"
GRANT = 100  # experience per hunt, approximately


@define(eq=False)
class HuntServer:
    """A simulated game server, which calls the metagame without a gateway, as a real one does."""

    wire: HttpWire
    key: str = field(repr=False)

    async def request_for_player(
        self, player: Player, method: str, path: str, sent: Any = None
    ) -> Any:
        """Send a request as a game server does for this player; return the reply's JSON."""
        headers = {KEY_HEADER: self.key, "Authorization": f"Bearer {player.token}"}
        return (await self.wire.send_request(method, path, sent, headers=headers)).json

    async def reward(self, player: Player, hunt: int) -> None:
        """Write the rewards of hunt number ``hunt`` (from 1), except the loot."""
        await self.grant(player, hunt)
        await self.bounty(player, hunt)
        if hunt == 1:
            await self.choose_pass(player)
            await self.unlock(player)

    async def loot(self, player: Player, hunt: int) -> None:
        """Add currency, material and a weapon; in every second hunt, send the request twice."""
        stacks = {CURRENCY: SPENT + 1 + secrets.randbelow(200), MATERIAL: 1 + secrets.randbelow(9)}
        item = Item(WEAPON, 1, json.dump({"Power": hunt}).decode())
        instance = str(uuid4())
        call = requests.transact(
            player.character,
            str(uuid4()),
            "Hunt",
            accountId=player.account,
            addStackedItems=[requests.stack(*entry) for entry in stacks.items()],
            addInstancedItems=[_sent(instance, item)],
        )
        requests_sent = [self.request_for_player(player, *call) for _ in range(1 + hunt % 2)]
        answers = await gather(requests_sent)
        player.earned.add(stacks, {instance: item})
        _totals(player, answers, list(stacks))

    async def grant(self, player: Player, hunt: int) -> None:
        """Send the same grant (experience and an objective) twice; both replies must be equal."""
        amount, count = GRANT + secrets.randbelow(50), hunt
        call = requests.grant(player.account, SEASON, amount, OBJECTIVE, count)
        answers = await gather([self.request_for_player(player, *call) for _ in range(2)])
        player.earned.tracks[SEASON] += amount
        player.earned.objectives[OBJECTIVE] = count
        for answer in answers:
            [track] = answer["payload"]["progress_tracks"]
            if track["progress"] != player.earned.tracks[SEASON]:
                fault = f"{track['progress']} experience, not {player.earned.tracks[SEASON]}"
                raise PlayFailed("metagame", f"the host reported to {player.name} {fault}")

    async def bounty(self, player: Player, hunt: int) -> None:
        """Write a bounty; the first hunt creates the bounty, later hunts update it."""
        name, version = "Bounty_Bronze_Evening", hunt
        element = {
            "bounty_id": name,
            "premium_bounty": False,
            "slot_index": 0,
            "objectives": [{"objective_id": OBJECTIVE, "progress": hunt}],
            "update_version": version,
        }
        await self.request_for_player(player, *requests.bounty(player.account, element))
        player.earned.bounties[name] = version

    async def choose_pass(self, player: Player) -> None:
        """Choose the hunt pass of the season."""
        answer = await self.request_for_player(
            player, *requests.choose_pass(player.account, SEASON)
        )
        player.earned.hunt_pass = str(answer["payload"])

    async def unlock(self, player: Player) -> None:
        """Unlock a loadout slot and activate it."""
        answer = await self.request_for_player(player, *_loadout(player, "unlock/1"))
        player.earned.character_slots = int(answer["payload"]["num_character_slots"])
        await self.request_for_player(player, *_loadout(player, "active/1"))
        player.earned.active_slot = 1


async def repair(player: Player) -> None:
    """Spend currency and save the repaired weapon, as the game client does."""
    instance, item = next(reversed(player.earned.items.items()))
    better = Item(item.catalog_id, item.version + 1, '{"Repaired":"yes"}')
    call = requests.transact(
        player.character,
        str(uuid4()),
        "Repair",
        removeStackedItems=[requests.stack(CURRENCY, SPENT)],
        saveInstancedItems=[_sent(instance, better)],
    )
    answer = (await player.wire.send_request(*call)).json
    player.earned.spend(CURRENCY, SPENT)
    player.earned.items[instance] = better
    _totals(player, [answer], [CURRENCY])


async def arm(player: Player, hunt: int) -> None:
    """Save the loadout as the game client does: the first slot and the persistent part."""
    slot = {"slot_index": 0, "update_version": hunt, "custom_name": f"Hunt {hunt}", "flask": "ü"}
    worn = {"banner": f"B{hunt}", "update_version": hunt}
    for name, document in (("0", slot), (PERSISTENT, worn)):
        request = {"data": json.dump(document).decode()}
        await player.wire.send_request(*_loadout(player, name, request))
        player.earned.slots[name] = document


def _loadout(player: Player, rest: str, sent: Any = None) -> requests.Call:
    return requests.loadout(player.account, player.character, rest, sent)


def _sent(instance: str, item: Item) -> dict[str, Any]:
    return requests.thing(item.catalog_id, instance, item.version, item.data)


def _totals(player: Player, answers: list[Any], touched: list[str]) -> None:
    """Check that every reply has the new totals, including the reply to a repeated request."""
    wanted = {name: player.earned.stacks[name] for name in touched}
    for answer in answers:
        totals = {entry["catalogId"]: entry["quantity"] for entry in answer["updatedStackedItems"]}
        if totals != wanted:
            raise PlayFailed(
                "metagame", f"{player.name} earned {wanted}, but the host reported {totals}"
            )
