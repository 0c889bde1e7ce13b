"""Two hosts, each in a folder of its own, on one database and one engine: a game of two cells.

What ``docs/owners/scale.md`` says to do, with both machines on loopback. Why processes: each cell
has a gateway and a metagame of its own.
"""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.ctl.blueprint import Scale
from tests.ctl.hosts import change, demo_host, value
from tests.live.evening import services
from tests.support.postgres import fresh_database
from tests.support.processes import bearer
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live
KEYS = "AUTH_SIGNING_PRIVKEY_B64", "AUTH_SIGNING_PUBKEY_B64"


def cells(folder: Path, database: str, live: str) -> list[Path]:
    """Two; the second has the keys of the first."""
    shared = Scale(1, database, live)
    first, second = (demo_host(folder / one, shared, f"owner_{one}") for one in ("one", "two"))
    for name in KEYS:
        change(second, "metagame", name, value(first, "metagame", name))
    return [first, second]


def asked(cell: Path, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """A request through a cell's gateway: the status and the parsed body."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(value(cell, "gateway", "GATEWAY_PORT"))
    line = HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    try:
        data = None if body is None else orjson.dumps(body)
        line.request(method, path, data, {"Content-Type": "application/json", **headers})
        reply = line.getresponse()
        said = reply.read()
        return reply.status, orjson.loads(said) if said[:1] in (b"{", b"[") else said
    finally:
        line.close()


def arrive(cell: Path, name: str) -> dict[str, str]:
    """A new player of a cell."""
    status, said = asked(cell, "POST", "/svc/api/Register", {"Username": name})
    assert status == 200, said
    return log_in(cell, str(said["UUK"]))


def log_in(cell: Path, key: str) -> dict[str, str]:
    """With an account key."""
    status, said = asked(cell, "POST", "/account/api/oauth/token", {"exchange_code": key})
    assert status == 200, said
    return {"key": key, "token": said["access_token"], "id": said["account_id"]}


def test_players_of_two_cells_are_in_one_game(tmp_path: Path) -> None:
    one, other = cells(tmp_path, fresh_database(), fresh_url())
    with ExitStack() as stack:
        for cell in (one, other):
            stack.enter_context(services(cell))
        ann, bob = arrive(one, "Ann_1"), arrive(other, "Bob_1")
        assert log_in(other, ann["key"])["id"] == ann["id"]
        status, [character] = asked(one, "GET", "/character", **bearer(ann))
        assert status == 200
        save = {"characterId": character["id"], "data": '{"a":"1"}', "updateVersion": 2}
        assert asked(one, "POST", "/character", save, **bearer(ann))[0] == 200
        assert asked(other, "GET", "/character", **bearer(ann))[1][0]["data"] == '{"a":"1"}'
        party = asked(one, "POST", "/party", {}, **bearer(ann))[1]["partyId"]
        wish = {"recipientPlayerId": bob["id"]}
        assert asked(one, "PUT", "/party/invite", wish, **bearer(ann))[0] == 200
        accept = f"/party/invite/accept/{party}"
        assert asked(other, "PUT", accept, {}, **bearer(bob))[1]["partyId"] == party


def test_without_the_keys_of_the_first_a_player_is_a_stranger_at_the_second(tmp_path: Path) -> None:
    """The sabotage: what the test above rests on."""
    one, other = cells(tmp_path, fresh_database(), fresh_url())
    kept = demo_host(tmp_path / "three")
    for name in KEYS:
        change(other, "metagame", name, value(kept, "metagame", name))
    with ExitStack() as stack:
        for cell in (one, other):
            stack.enter_context(services(cell))
        ann = arrive(one, "Ann_1")
        assert asked(other, "GET", "/character", **bearer(ann))[0] == 401
