"""What an evening left behind, read independently of the clients that lived it.

The database is read beside the running metagame, on a connection of our own; without a
host's folder the same is read over HTTP by a fresh login from another address.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, text

from svcserver.ctl import database
from svcserver.ctl.host import Host
from svcserver.ctl.play.broken import Broken
from svcserver.ctl.play.player import Player, pause
from svcserver.ctl.play.together import Downloaded
from svcserver.ctl.play.wire import Wire
from svcserver.kernel import json

STATUS_S = 8.0  # the status page is remembered for 5 s
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


def stored(host: Host, players: Sequence[Player]) -> int:
    """Compare the database with what was acknowledged; the number of saves found there."""
    with database.ledger(host) as tx:
        _accounts(tx, players)
        return sum(_character(tx, one) for one in players)


def _accounts(tx: Connection, players: Sequence[Player]) -> None:
    found = {
        row.id: row.username for row in tx.execute(_ACCOUNTS, {"ids": [p.account for p in players]})
    }
    wanted = {one.account: one.name for one in players}
    if found != wanted:
        raise Broken("database", f"holds {len(found)} of the {len(wanted)} accounts as registered")


def _character(tx: Connection, player: Player) -> int:
    rows = tx.execute(_CHARACTERS, {"account": player.account}).all()
    if [row.id for row in rows] != [player.character]:
        raise Broken("database", f"{player.name} has {len(rows)} characters instead of one")
    document = json.parse(b"[" + bytes(rows[0].data) + b"]")[0]
    if document != player.data or rows[0].version != player.version:
        raise Broken("database", f"{player.name}'s document is not the one acknowledged last")
    saves = int(tx.execute(_SAVES, {"wanted": player.character}).scalar_one())
    if saves != player.saves:
        raise Broken(
            "database", f"{player.name} has {saves} saves in the history, not {player.saves}"
        )
    return saves


async def read_again(reactor: Any, base: str, player: Player, source: str) -> None:
    """A fresh login from elsewhere reads the document byte for byte."""
    wire = Wire(reactor, base, source)
    other = Player(reactor, wire, player.name, key=player.key)
    try:
        await other.log_in()
        await other.load()
    finally:
        await wire.close()
    if other.account != player.account or other.character != player.character:
        raise Broken("metagame", f"{player.name}'s second login is another account")
    if other.data != player.data or other.version != player.version:
        raise Broken("metagame", f"{player.name}'s document is not the one acknowledged last")


async def online(reactor: Any, base: str, players: Sequence[Player], owner_key: str) -> None:
    """The owner's server status names every player, and a city."""
    wire = Wire(reactor, base)
    deadline = reactor.seconds() + STATUS_S
    try:
        while True:
            headers = {"x-svc-user-api-key": owner_key}
            said = (await wire.ask("GET", "/svc/api/ServerStatus", headers=headers)).json
            names = {one["name"] for one in said["players"]}
            missing = [one.name for one in players if one.name not in names]
            if not missing:
                break
            if reactor.seconds() > deadline:
                raise Broken("metagame", f"ServerStatus does not list {missing[0]} as online")
            await pause(reactor, 0.5)
    finally:
        await wire.close()
    if not any(one["kind"] == "city" for one in said["instances"]):
        raise Broken("deploy", "ServerStatus lists no city")


async def running(reactor: Any, deploy: str, ports: set[int]) -> list[dict[str, Any]]:
    """The deploy server's own list has a live game server on each of ``ports``."""
    wire = Wire(reactor, deploy, link="deploy")
    try:
        servers = (await wire.ask("GET", "/gameservers")).json["servers"]
    finally:
        await wire.close()
    missing = ports - {int(one["port"]) for one in servers}
    if missing:
        raise Broken("deploy", f"lists no game server on port {min(missing)}")
    return [one for one in servers if int(one["port"]) in ports]


def same_files(folder: Path, downloads: Sequence[Sequence[Downloaded]]) -> None:
    """Every player's files are those on the owner's disk."""
    for got in downloads:
        for one in got:
            if (folder / one.path).read_bytes() != one.body:
                raise Broken("content", f"{one.path} is not the file in {folder}")
