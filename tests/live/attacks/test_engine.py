"""A stranger who writes into the live-state engine gains no rights.

Real processes are needed because the stranger connects to the engine that a metagame uses.
"""

from pathlib import Path

import orjson
import pytest

from svcserver.metagame.access.staff_sessions import PAGE_HEADER, Ticket
from tests.ctl.command import svcctl
from tests.live.test_workers import send_request, workers
from tests.support.processes import Service, register
from tests.support.valkey import BlockingEngine, fresh_url

pytestmark = pytest.mark.live

STAMP = b"x" * 12


def test_a_session_written_into_the_engine_opens_nothing(tmp_path: Path) -> None:
    url = fresh_url()
    with workers(tmp_path, url) as both, engine(url) as stranger:
        owner = owner_of(both.first)
        ticket = Ticket("1" * 64, "2" * 32)
        record = {"account_id": owner, "not_before": 4_000_000_000, "ways": ""}
        for key in (ticket.key, f"{ticket.secret} {ticket.word}"):
            name = f"svc:dashboard_sessions:{key}"
            stranger.command("SET", name, STAMP + orjson.dumps(record))
        sent = {"Cookie": f"{ticket.cookie}={ticket.secret}", PAGE_HEADER.decode(): ticket.word}
        for service in (both.first, both.second):
            assert service.ask("GET", "/svc/api/GetAllUsers", headers=sent)[0] == 401


def test_an_old_registration_mode_put_back_lets_nobody_in(tmp_path: Path) -> None:
    url = fresh_url()
    with workers(tmp_path, url, REGISTRATION_MODE="INVITECODE") as both, engine(url) as stranger:
        head = {"x-svc-user-api-key": owner_of(both.first, "key")}
        for mode in ("OPEN", "INVITECODE"):
            sent = {"RegistrationStatus": mode}
            assert both.first.ask("POST", "/svc/api/RegistrationStatus", sent, head)[0] == 200
            if mode == "OPEN":
                register(both.second, "Ann_1")
                old = entries(stranger)
        for name, value in old.items():
            stranger.command("SET", name, value)
        for name, value in old.items():  # and as one of each other key
            stranger.command("SET", f"svc:registration_mode:{name.decode()}", value)
        stranger.command("SET", "svc:registration_mode:", STAMP + b'"OPEN"')
        for service in (both.first, both.second):
            assert service.ask("POST", "/svc/api/Register", {"Username": "Eve_1"})[0] >= 400


def test_forged_engine_entries_do_not_add_a_player_to_a_party(tmp_path: Path) -> None:
    url = fresh_url()
    with workers(tmp_path, url) as both, engine(url) as stranger:
        ann, eve = register(both.first, "Ann_1"), register(both.first, "Eve_1")
        party = send_request(both.first, "POST", "/party", ann, {})[1]["partyId"]
        for name, value in entries(stranger).items():
            copied = name.replace(ann["id"].encode(), eve["id"].encode())
            stranger.command("SET", copied, value.replace(ann["id"].encode(), eve["id"].encode()))
        for service in (both.first, both.second):
            assert send_request(service, "POST", "/party", eve, {})[1]["partyId"] != party


def test_damage_to_every_entry_stops_no_player(tmp_path: Path) -> None:
    url = fresh_url()
    with workers(tmp_path, url) as both, engine(url) as stranger:
        ann = register(both.first, "Ann_1")
        send_request(both.first, "POST", "/party", ann, {})
        send_request(both.first, "POST", "/heartbeat", ann, {})
        for spoil in (("SET", b"x" * 40), ("HSET", b"a", b"b"), ("SET", b"")):
            for name in stranger.command("KEYS", "*"):
                stranger.command("DEL", name)
                stranger.command(spoil[0], name, *spoil[1:])
            for service in (both.first, both.second):
                assert send_request(service, "POST", "/party", ann, {})[0] == 200, spoil
                assert send_request(service, "POST", "/heartbeat", ann, {})[0] == 200, spoil
                online = service.ask("GET", "/svc/api/PublicOnlineStats", None, owner_head(ann))
                assert online[0] == 200, spoil


def entries(stranger: BlockingEngine) -> dict[bytes, bytes]:
    """Return a dict from each key on the engine to its value, for string values only."""
    names = [entry for entry in stranger.command("KEYS", "*") if b":news" not in entry]
    return {
        entry: stranger.command("GET", entry)
        for entry in names
        if kind_of(stranger, entry) == b"string"
    }


def kind_of(stranger: BlockingEngine, name: bytes) -> bytes:
    """Return the type that the engine reports for the value under a key."""
    result = stranger.command("TYPE", name)
    return result if isinstance(result, bytes) else str(result).encode()


def owner_head(player: dict[str, str]) -> dict[str, str]:
    """Return the header that holds the player's account key."""
    return {"x-svc-user-api-key": player["key"]}


def engine(url: str) -> BlockingEngine:
    """Open a stranger's connection to the host's engine."""
    port, _, database = url.rpartition(":")[2].partition("/")
    return BlockingEngine(int(port), int(database or 0))


def owner_of(service: Service, what: str = "id") -> str:
    """Create an owner account; return one field of the command's result, such as the key."""
    environ = service.folder / "metagame.env"
    environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
    made = svcctl("account", "create", "Olga", "--admin", "--env-file", environ, "--json")
    return str(made.data[what])
