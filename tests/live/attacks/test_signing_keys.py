"""A change of the signing key during play, and the later removal of the old key. Spec: 1 §5.

Real processes are needed because the service is restarted with new keys.
"""

from pathlib import Path

import orjson
import pytest

from tests.ctl.command import svcctl
from tests.support.processes import Service, bearer, free_port, metagame_environ, register

pytestmark = pytest.mark.live


def test_rotation_logs_nobody_out_and_retires_old_tokens(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "metagame.env"
    environ = metagame_environ(tmp_path, port, CHAT="0")
    file.write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    service = Service("svc-metagame", tmp_path, {}, port, ["--env-file", str(file)])
    service.start()
    try:
        ann = register(service, "Ann_1")
        ran = svcctl("keys", "rotate", "--config", tmp_path, "--json")
        assert ran.status == 0, ran.err
        # the token is valid before and after the restart
        assert _status(service, ann["token"]) == 200
        _restart(service)
        fresh = _log_in(service, ann["key"])
        assert fresh.partition(".")[0] != ann["token"].partition(".")[0]  # another key's name
        assert [_status(service, entry) for entry in (ann["token"], fresh)] == [200, 200]
        assert svcctl("keys", "retire", "--config", tmp_path).status == 1  # too soon
        _restart(service)
        assert [_status(service, entry) for entry in (ann["token"], fresh)] == [200, 200]
        ran = svcctl("keys", "retire", "--now", "--config", tmp_path)
        assert ran.status == 0, ran.err
        _restart(service)
        assert [_status(service, entry) for entry in (ann["token"], fresh)] == [401, 200]
    finally:
        service.stop()


def _restart(service: Service) -> None:
    service.stop()
    service.start()


def _log_in(service: Service, key: str) -> str:
    status, body = service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})
    assert status == 200, body
    return str(orjson.loads(body)["access_token"])


def _status(service: Service, token: str) -> int:
    return service.ask("GET", "/accountinfo", headers=bearer({"token": token}))[0]
