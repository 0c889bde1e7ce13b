"""Checks after a session, independent of the clients that played it.

The players' data is read over HTTP, after a new login from another address. The database
is read too if this process can access the host's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, text
from twisted.internet.task import deferLater

from svcserver.ctl import database
from svcserver.ctl.host import Host
from svcserver.ctl.play import owned
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.together import Downloaded
from svcserver.ctl.play.wire import HttpWire
from svcserver.kernel import json

STATUS_S = 8.0  # the status page is cached for 5 s
GONE_S = 90.0  # without a farewell from its players, a game server ends only when idle
_ACCOUNTS = text("SELECT id, username FROM accounts WHERE id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)
_CHARACTERS = text(
    "SELECT c.id AS id, c.update_version AS version, s.data AS data FROM characters c "
    "JOIN character_saves s ON s.id = c.save_id WHERE c.account_id = :account"
)
_SAVES = text(
    "SELECT count(*) FROM character_saves WHERE character_id = :wanted AND reason = 'save:client'"
)


def stored(host: Host, players: Sequence[Player]) -> tuple[int, int]:
    """Compare the database with what the host's replies confirmed.

    Returns the numbers of saves and of transactions.
    """

    def work(tx: Connection) -> tuple[int, int]:
        _accounts(tx, players)
        saves = sum(_character(tx, player) for player in players)
        return saves, sum(owned.stored(tx, player) for player in players)

    return database.transact(host, work)


def _accounts(tx: Connection, players: Sequence[Player]) -> None:
    present = {
        row.id: row.username
        for row in tx.execute(_ACCOUNTS, {"ids": [player.account for player in players]})
    }
    wanted = {player.account: player.name for player in players}
    if present != wanted:
        raise PlayFailed(
            "database", f"holds {len(present)} of the {len(wanted)} accounts as registered"
        )


def _character(tx: Connection, player: Player) -> int:
    rows = tx.execute(_CHARACTERS, {"account": player.account}).all()
    if [row.id for row in rows] != [player.character]:
        raise PlayFailed("database", f"{player.name} has {len(rows)} characters instead of one")
    document = json.parse(b"[" + bytes(rows[0].data) + b"]")[0]
    if document != player.data or rows[0].version != player.version:
        raise PlayFailed(
            "database", f"{player.name}'s document is not the last one that was acknowledged"
        )
    saves = int(tx.execute(_SAVES, {"wanted": player.character}).scalar_one())
    if saves != player.saves:
        raise PlayFailed(
            "database", f"{player.name} has {saves} saves in the history instead of {player.saves}"
        )
    return saves


async def read_again(
    reactor: Any, base: str, player: Player, source: str, features: frozenset[str]
) -> None:
    """Log in again from another address, and check all that the player saved and earned."""
    wire = HttpWire(reactor, base, source)
    fresh = Player(reactor, wire, player.name, key=player.key)
    try:
        await fresh.log_in()
        await fresh.load()
        _same_document(fresh, player)
        await owned.compare(fresh, player, features)
    finally:
        await wire.close()


def _same_document(fresh: Player, player: Player) -> None:
    if fresh.account != player.account or fresh.character != player.character:
        raise PlayFailed("metagame", f"{player.name}'s second login led to another account")
    if fresh.data != player.data or fresh.version != player.version:
        raise PlayFailed(
            "metagame", f"{player.name}'s document is not the last one that was acknowledged"
        )


async def online(reactor: Any, base: str, players: Sequence[Player], owner_key: str) -> None:
    """Wait until ServerStatus lists every player and a city."""
    wire = HttpWire(reactor, base)
    deadline = reactor.seconds() + STATUS_S
    try:
        while True:
            headers = {"x-svc-user-api-key": owner_key}
            status = (await wire.send_request("GET", "/svc/api/ServerStatus", headers=headers)).json
            names = {entry["name"] for entry in status["players"]}
            missing = [entry.name for entry in players if entry.name not in names]
            if not missing:
                break
            if reactor.seconds() > deadline:
                raise PlayFailed("metagame", f"ServerStatus does not list {missing[0]} as online")
            await deferLater(reactor, 0.5)
    finally:
        await wire.close()
    if not any(entry["kind"] == "city" for entry in status["instances"]):
        raise PlayFailed("deploy", "ServerStatus lists no city")


async def running(reactor: Any, deploy: str, groups: Mapping[int, Set[str]]) -> None:
    """Check that on each port, a game server was launched for the accounts in ``groups[port]``."""
    servers = {int(server["port"]): server for server in await _servers(reactor, deploy)}
    for port, accounts in groups.items():
        if port not in servers:
            raise PlayFailed("deploy", f"lists no game server on port {port}")
        if missing := set(accounts) - set(servers[port]["expectedPlayers"]):
            raise PlayFailed("deploy", f"the server on port {port} does not expect {min(missing)}")


async def gone(reactor: Any, deploy: str, players: Sequence[Player]) -> list[str]:
    """Wait until the players' game servers have ended; return the kinds of the other servers."""
    ours, deadline = {entry.account for entry in players}, reactor.seconds() + GONE_S
    while True:
        servers = await _servers(reactor, deploy)
        ports = [int(entry["port"]) for entry in servers if ours & set(entry["expectedPlayers"])]
        if not ports:
            return sorted(str(entry["kind"]) for entry in servers)
        if reactor.seconds() > deadline:
            fault = f"{len(ports)} game servers still run {GONE_S:.0f} s after their players left"
            raise PlayFailed("deploy", f"{fault}, one on port {min(ports)}")
        await deferLater(reactor, 0.25)


async def _servers(reactor: Any, deploy: str) -> list[dict[str, Any]]:
    wire = HttpWire(reactor, deploy, link="deploy")
    try:
        servers: list[dict[str, Any]] = (await wire.send_request("GET", "/gameservers")).json[
            "servers"
        ]
    finally:
        await wire.close()
    return servers


def same_files(folder: Path, downloads: Sequence[Sequence[Downloaded]]) -> None:
    """Compare every player's downloads with the files on the owner's disk."""
    for files in downloads:
        for file in files:
            if (folder / file.path).read_bytes() != file.body:
                raise PlayFailed("content", f"{file.path} is not the file in {folder}")
