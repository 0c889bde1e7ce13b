"""Two hosts with separate folders that share a database and an engine: one game in two cells.

The test does what ``docs/owners/scale.md`` describes, with both cells on one machine. Real
processes are needed because each cell has its own gateway and metagame.
"""

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
    """Create two hosts; the second has the signing keys of the first."""
    shared = Scale(1, database, live)
    first, second = (
        demo_host(folder / entry, shared, f"owner_{entry}") for entry in ("one", "two")
    )
    for name in KEYS:
        change(second, "metagame", name, value(first, "metagame", name))
    return [first, second]


def request_cell(
    cell: Path, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Send a request through a cell's gateway; return the status and the parsed body."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(value(cell, "gateway", "GATEWAY_PORT"))
    line = HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    try:
        data = None if body is None else orjson.dumps(body)
        line.request(method, path, data, {"Content-Type": "application/json", **headers})
        reply = line.getresponse()
        answer = reply.read()
        return reply.status, orjson.loads(answer) if answer[:1] in (b"{", b"[") else answer
    finally:
        line.close()


def arrive(cell: Path, name: str) -> dict[str, str]:
    """Register a new player at a cell."""
    status, body = request_cell(cell, "POST", "/svc/api/Register", {"Username": name})
    assert status == 200, body
    return log_in(cell, str(body["UUK"]))


def log_in(cell: Path, key: str) -> dict[str, str]:
    """Log in with an account key."""
    status, body = request_cell(cell, "POST", "/account/api/oauth/token", {"exchange_code": key})
    assert status == 200, body
    return {"key": key, "token": body["access_token"], "id": body["account_id"]}


def test_players_of_two_cells_are_in_one_game(tmp_path: Path) -> None:
    first, second = cells(tmp_path, fresh_database(), fresh_url())
    with ExitStack() as stack:
        for cell in (first, second):
            stack.enter_context(services(cell))
        ann, bob = arrive(first, "Ann_1"), arrive(second, "Bob_1")
        assert log_in(second, ann["key"])["id"] == ann["id"]
        status, [character] = request_cell(first, "GET", "/character", **bearer(ann))
        assert status == 200
        save = {"characterId": character["id"], "data": '{"a":"1"}', "updateVersion": 2}
        assert request_cell(first, "POST", "/character", save, **bearer(ann))[0] == 200
        assert request_cell(second, "GET", "/character", **bearer(ann))[1][0]["data"] == '{"a":"1"}'
        party = request_cell(first, "POST", "/party", {}, **bearer(ann))[1]["partyId"]
        request = {"recipientPlayerId": bob["id"]}
        assert request_cell(first, "PUT", "/party/invite", request, **bearer(ann))[0] == 200
        accept = f"/party/invite/accept/{party}"
        assert request_cell(second, "PUT", accept, {}, **bearer(bob))[1]["partyId"] == party


def test_without_shared_keys_a_player_is_unknown_elsewhere(tmp_path: Path) -> None:
    """Check that the previous test fails without the shared keys."""
    first, second = cells(tmp_path, fresh_database(), fresh_url())
    stored = demo_host(tmp_path / "three")
    for name in KEYS:
        change(second, "metagame", name, value(stored, "metagame", name))
    with ExitStack() as stack:
        for cell in (first, second):
            stack.enter_context(services(cell))
        ann = arrive(first, "Ann_1")
        assert request_cell(second, "GET", "/character", **bearer(ann))[0] == 401
