"""The check that a player still has everything that the host's replies confirmed."""

from typing import Any

from sqlalchemy import Connection, text

from svcserver.ctl.play.player import CURRENCY, SEASON, Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.kernel import json
from svcserver.players import requests

_STACKS = text("SELECT catalog_id, quantity FROM item_stacks WHERE character_id = :wanted")
_ITEMS = text(
    "SELECT instance_id, catalog_id, update_version FROM item_instances "
    "WHERE character_id = :wanted"
)
_LOGGED = text("SELECT count(*) FROM item_log WHERE character_id = :wanted")
_TRACKS = text("SELECT progression_id, progress FROM progression_tracks WHERE account_id = :wanted")


async def compare(fresh: Player, player: Player, features: frozenset[str]) -> None:
    """Raise PlayFailed if a player's belongings differ from those that ``fresh`` reads.

    ``fresh`` is a new login of the same player.
    """
    await _inventory(fresh, player)
    if "balance" in features and player.earned.stacks[CURRENCY]:
        await _balance(fresh, player)
    if player.earned.slots:
        await _loadout(fresh, player)
    if "progression" in features and player.earned.tracks:
        await _progress(fresh, player)
        await _bounties(fresh, player)
    await _ties(fresh, player)


async def _inventory(fresh: Player, player: Player) -> None:
    inventory = (
        await fresh.wire.send_request(*requests.inventory(fresh.account, fresh.character))
    ).json
    stacks = {entry["catalogId"]: entry["quantity"] for entry in inventory["stackedItems"]}
    _same(player, "stacks", stacks, dict(player.earned.stacks))
    items = {
        entry["instanceId"]: (entry["catalogId"], entry["updateVersion"], entry.get("itemData"))
        for entry in inventory["instancedItems"]
    }
    wanted = {
        name: (entry.catalog_id, entry.version, entry.data)
        for name, entry in player.earned.items.items()
    }
    _same(player, "single items", items, wanted)


async def _balance(fresh: Player, player: Player) -> None:
    balance = (await fresh.wire.send_request("GET", "/balance")).json
    held = {name: balance.get(name) for name in (CURRENCY, f"id_{CURRENCY.lower()}")}
    _same(player, "balance", held, dict.fromkeys(held, player.earned.stacks[CURRENCY]))


async def _loadout(fresh: Player, player: Player) -> None:
    earned, path = player.earned, f"/loadout/{fresh.account}/{fresh.character}/all"
    loadouts = (await fresh.wire.send_request("GET", path)).json["payload"]
    slots = {str(slot["slot_index"]): slot for slot in loadouts["loadouts"]}
    slots["persistent"] = loadouts["persistent"]
    _same(player, "loadout", {name: slots.get(name) for name in earned.slots}, earned.slots)
    counts = loadouts["num_character_slots"], loadouts["active_index"]
    _same(player, "loadout slots", counts, (earned.character_slots, earned.active_slot))


async def _progress(fresh: Player, player: Player) -> None:
    earned, who = player.earned, fresh.account
    payload = (await fresh.wire.send_request("GET", f"/progression/{who}")).json["payload"]
    tracks = {entry["progression_id"]: entry["progress"] for entry in payload if entry["progress"]}
    _same(player, "experience", tracks, dict(earned.tracks))
    payload = (await fresh.wire.send_request("GET", f"/progression/objectives/{who}")).json[
        "payload"
    ]
    objectives = {entry["objective_id"]: entry["progress"] for entry in payload}
    _same(player, "objectives", objectives, earned.objectives)
    payload = (await fresh.wire.send_request("GET", f"/huntpass/{who}")).json["payload"]
    _same(player, "hunt pass", payload, earned.hunt_pass or SEASON)


async def _bounties(fresh: Player, player: Player) -> None:
    payload = (await fresh.wire.send_request("GET", f"/bounty/{fresh.account}")).json["payload"]
    board = {bounty["bounty_id"]: bounty["update_version"] for bounty in payload["bounties"]}
    _same(player, "bounties", board, player.earned.bounties)


async def _ties(fresh: Player, player: Player) -> None:
    relations = player.relations
    reply = (await fresh.wire.send_request("GET", f"{requests.FRIENDS}/{fresh.account}")).json
    friends = sorted(entry["accountId"] for entry in reply if entry["status"] == "ACCEPTED")
    _same(player, "friends", friends, sorted(relations.friends))
    if relations.guild is not None:
        reply = (await fresh.wire.send_request("GET", "/guild")).json
        membership = reply["id"], sorted(entry["phx_account_id"] for entry in reply["members"])
        _same(
            player,
            "guild and its members",
            membership,
            (relations.guild, sorted(relations.fellows)),
        )
    if relations.links:
        reply = (await fresh.wire.send_request("GET", "/slayerlink/links")).json["payload"]["links"]
        _same(
            player,
            "slayer links",
            {entry["account_id"]: entry["link_id"] for entry in reply},
            relations.links,
        )


def stored(tx: Connection, player: Player) -> int:
    """Check that the database has what ``player`` earned; return the player's transaction count."""
    earned, wanted = player.earned, {"wanted": player.character}
    stacks = {row.catalog_id: int(row.quantity) for row in tx.execute(_STACKS, wanted)}
    _same(player, "stacks", stacks, dict(earned.stacks), "database")
    items = {row[0]: (row[1], row[2]) for row in tx.execute(_ITEMS, wanted)}
    held = {name: (item.catalog_id, item.version) for name, item in earned.items.items()}
    _same(player, "single items", items, held, "database")
    tracks = {row[0]: int(row[1]) for row in tx.execute(_TRACKS, {"wanted": player.account})}
    _same(player, "experience", tracks, dict(earned.tracks), "database")
    logged = int(tx.execute(_LOGGED, wanted).scalar_one())
    _same(player, "transactions", logged, earned.transactions, "database")
    return logged


def _same(player: Player, what: str, present: Any, expected: Any, link: str = "metagame") -> None:
    if present != expected:
        difference = f"{_short(present)} instead of {_short(expected)}"
        raise PlayFailed(link, f"{player.name}'s {what} are not what was earned: {difference}")


def _short(value: Any) -> str:
    """Return the value as JSON, shortened to fit on a line."""
    shown = json.dump(value).decode()
    return shown if len(shown) <= 160 else f"{shown[:160]}…"
