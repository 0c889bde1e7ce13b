"""Compares what a player owns in the end with what was acknowledged."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.player import CURRENCY, SEASON, Player
from svcserver.kernel import json
from svcserver.players import requests

_STACKS = text("SELECT catalog_id, quantity FROM item_stacks WHERE character_id = :wanted")
_ITEMS = text(
    "SELECT instance_id, catalog_id, update_version FROM item_instances "
    "WHERE character_id = :wanted"
)
_LOGGED = text("SELECT count(*) FROM item_log WHERE character_id = :wanted")
_TRACKS = text("SELECT progression_id, progress FROM progression_tracks WHERE account_id = :wanted")


async def compare(seen: Player, player: Player, features: frozenset[str]) -> None:
    """``seen`` is a fresh login of ``player``; raises PlayFailed for the first difference."""
    await _inventory(seen, player)
    if "balance" in features and player.earned.stacks[CURRENCY]:
        await _balance(seen, player)
    if player.earned.slots:
        await _loadout(seen, player)
    if "progression" in features and player.earned.tracks:
        await _progress(seen, player)
        await _bounties(seen, player)
    await _ties(seen, player)


async def _inventory(seen: Player, player: Player) -> None:
    said = (await seen.wire.ask(*requests.inventory(seen.account, seen.character))).json
    stacks = {one["catalogId"]: one["quantity"] for one in said["stackedItems"]}
    _same(player, "stacks", stacks, dict(player.earned.stacks))
    items = {
        one["instanceId"]: (one["catalogId"], one["updateVersion"], one.get("itemData"))
        for one in said["instancedItems"]
    }
    wanted = {
        name: (one.catalog_id, one.version, one.data) for name, one in player.earned.items.items()
    }
    _same(player, "single items", items, wanted)


async def _balance(seen: Player, player: Player) -> None:
    said = (await seen.wire.ask("GET", "/balance")).json
    held = {name: said.get(name) for name in (CURRENCY, f"id_{CURRENCY.lower()}")}
    _same(player, "balance", held, dict.fromkeys(held, player.earned.stacks[CURRENCY]))


async def _loadout(seen: Player, player: Player) -> None:
    earned, path = player.earned, f"/loadout/{seen.account}/{seen.character}/all"
    said = (await seen.wire.ask("GET", path)).json["payload"]
    slots = {str(one["slot_index"]): one for one in said["loadouts"]}
    slots["persistent"] = said["persistent"]
    _same(player, "loadout", {name: slots.get(name) for name in earned.slots}, earned.slots)
    counts = said["num_character_slots"], said["active_index"]
    _same(player, "loadout slots", counts, (earned.character_slots, earned.active_slot))


async def _progress(seen: Player, player: Player) -> None:
    earned, who = player.earned, seen.account
    said = (await seen.wire.ask("GET", f"/progression/{who}")).json["payload"]
    tracks = {one["progression_id"]: one["progress"] for one in said if one["progress"]}
    _same(player, "experience", tracks, dict(earned.tracks))
    said = (await seen.wire.ask("GET", f"/progression/objectives/{who}")).json["payload"]
    objectives = {one["objective_id"]: one["progress"] for one in said}
    _same(player, "objectives", objectives, earned.objectives)
    said = (await seen.wire.ask("GET", f"/huntpass/{who}")).json["payload"]
    _same(player, "hunt pass", said, earned.hunt_pass or SEASON)


async def _bounties(seen: Player, player: Player) -> None:
    said = (await seen.wire.ask("GET", f"/bounty/{seen.account}")).json["payload"]
    board = {one["bounty_id"]: one["update_version"] for one in said["bounties"]}
    _same(player, "bounties", board, player.earned.bounties)


async def _ties(seen: Player, player: Player) -> None:
    relations = player.relations
    said = (await seen.wire.ask("GET", f"{requests.FRIENDS}/{seen.account}")).json
    friends = sorted(one["accountId"] for one in said if one["status"] == "ACCEPTED")
    _same(player, "friends", friends, sorted(relations.friends))
    if relations.guild is not None:
        said = (await seen.wire.ask("GET", "/guild")).json
        found = said["id"], sorted(one["phx_account_id"] for one in said["members"])
        _same(player, "guild and its members", found, (relations.guild, sorted(relations.fellows)))
    if relations.links:
        said = (await seen.wire.ask("GET", "/slayerlink/links")).json["payload"]["links"]
        _same(
            player, "slayer links", {x["account_id"]: x["link_id"] for x in said}, relations.links
        )


def stored(tx: Connection, player: Player) -> int:
    """Compare the database: sums, versions and logged transactions, whose number it returns."""
    earned, wanted = player.earned, {"wanted": player.character}
    stacks = {row.catalog_id: int(row.quantity) for row in tx.execute(_STACKS, wanted)}
    _same(player, "stacks", stacks, dict(earned.stacks), "database")
    items = {row[0]: (row[1], row[2]) for row in tx.execute(_ITEMS, wanted)}
    held = {name: (one.catalog_id, one.version) for name, one in earned.items.items()}
    _same(player, "single items", items, held, "database")
    tracks = {row[0]: int(row[1]) for row in tx.execute(_TRACKS, {"wanted": player.account})}
    _same(player, "experience", tracks, dict(earned.tracks), "database")
    logged = int(tx.execute(_LOGGED, wanted).scalar_one())
    _same(player, "transactions", logged, earned.transactions, "database")
    return logged


def _same(player: Player, what: str, found: Any, wanted: Any, link: str = "metagame") -> None:
    if found != wanted:
        told = f"{_short(found)} instead of {_short(wanted)}"
        raise PlayFailed(link, f"{player.name}'s {what} are not what was earned: {told}")


def _short(value: Any) -> str:
    """As JSON, cut to fit a line."""
    said = json.dump(value).decode()
    return said if len(said) <= 160 else f"{said[:160]}…"
