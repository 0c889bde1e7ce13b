"""A stranger writes into the engine of live state, and what that opens: nothing.

Why processes: the metagame and the engine, which the stranger reaches beside it.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from svcserver.metagame.access.staff_sessions import PAGE_HEADER, Ticket
from tests.ctl.command import svcctl
from tests.live.test_workers import workers
from tests.support.processes import Service
from tests.support.valkey import BlockingEngine, fresh_url

pytestmark = pytest.mark.live

STAMP = b"x" * 12


def test_a_session_written_into_the_engine_opens_nothing(tmp_path: Path) -> None:
    url = fresh_url()
    with workers(tmp_path, url) as both, engine(url) as stranger:
        owner = owner_of(both.one)
        ticket = Ticket("1" * 64, "2" * 32)
        record = {"account_id": owner, "not_before": 4_000_000_000, "ways": ""}
        for key in (ticket.key, f"{ticket.secret} {ticket.word}"):
            name = f"svc:dashboard_sessions:{key}"
            stranger.command("SET", name, STAMP + orjson.dumps(record))
        sent = {"Cookie": f"{ticket.cookie}={ticket.secret}", PAGE_HEADER.decode(): ticket.word}
        for service in (both.one, both.other):
            assert service.ask("GET", "/svc/api/GetAllUsers", headers=sent)[0] == 401


def engine(url: str) -> BlockingEngine:
    """A stranger's connection to the engine of the host."""
    port, _, database = url.rpartition(":")[2].partition("/")
    return BlockingEngine(int(port), int(database or 0))


def owner_of(service: Service) -> str:
    """The id of an owner of the host."""
    environ = service.folder / "metagame.env"
    environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
    made = svcctl("account", "create", "Olga", "--admin", "--env-file", environ, "--json")
    return str(made.data["id"])
