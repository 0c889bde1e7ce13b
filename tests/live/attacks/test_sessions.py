"""A stolen token, after its owner has got a new key. Spec: 1 §5."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest

from tests.ctl.command import svcctl
from tests.support.processes import Service, bearer, metagame, register

pytestmark = pytest.mark.live

AT_MOST_S = 1.0


def test_a_stolen_token_opens_nothing_a_second_after_a_new_key(tmp_path: Path) -> None:
    with metagame(tmp_path, CHAT="0") as service:
        ann, bob = register(service, "Ann_1"), register(service, "Bob_1")
        assert _status(service, ann) == 200
        environ = tmp_path / "metagame.env"
        environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        ran = svcctl("account", "new-key", "Ann_1", "--env-file", environ, "--json")
        assert ran.status == 0, ran.err
        began = time.monotonic()
        said = orjson.loads(_log_in(service, ran.data["key"])[1])
        while (stolen := _status(service, ann)) == 200:
            assert time.monotonic() - began < AT_MOST_S
        assert stolen == 401
        assert _status(service, {"token": said["access_token"]}) == 200
        assert _status(service, bob) == 200
        assert _log_in(service, ann["key"])[0] == 400
    with metagame(tmp_path, CHAT="0") as service:  # nor after a restart
        assert (_status(service, ann), _status(service, bob)) == (401, 200)


def _log_in(service: Service, key: str) -> tuple[int, bytes]:
    return service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})


def _status(service: Service, player: dict[str, str]) -> int:
    return service.ask("GET", "/accountinfo", headers=bearer(player))[0]
