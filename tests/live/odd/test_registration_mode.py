"""The registration mode after a restart of a single metagame, or of one or both of two metagames.

Real processes are needed because only a new process shows what a restart forgets.
"""

import signal
from pathlib import Path

import orjson
import pytest

from tests.ctl.command import svcctl
from tests.live.test_workers import workers
from tests.support.postgres import fresh_database
from tests.support.processes import Service, env_file, metagame, register
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live
PATH = "/svc/api/RegistrationStatus"


def mode(service: Service) -> str:
    """Return the registration mode from the public status."""
    status, body = service.ask("GET", PATH)
    assert status == 200, body
    return str(orjson.loads(body)["RegistrationMode"])


def close_registration(service: Service, env: Path) -> None:
    """Register an owner who then closes registration."""
    key = register(service, "Olga")["key"]
    assert svcctl("account", "promote", "Olga", "--env-file", str(env)).status == 0
    head = {"x-svc-user-api-key": key}
    assert service.ask("POST", PATH, {"RegistrationStatus": "NONE"}, head)[0] == 200
    assert mode(service) == "NONE"


@pytest.mark.parametrize("stored", ["sqlite", "postgresql", "engine"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_only_metagame_returns_to_its_setting(
    tmp_path: Path, stored: str, how: signal.Signals
) -> None:
    environ = {} if stored == "sqlite" else {"DATABASE_URL": fresh_database()}
    if stored == "engine":
        environ["LIVE_URL"] = fresh_url()
    with metagame(tmp_path, **environ) as service:
        env = tmp_path / "metagame.env"
        env.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        close_registration(service, env)
        service.stop(how)
        service.start()
        assert mode(service) == "OPEN"


def test_workers_agree_until_all_of_them_have_stopped(tmp_path: Path) -> None:
    with workers(tmp_path, fresh_url()) as both:
        close_registration(both.first, env_file(tmp_path, both.first.environ))
        for service in (both.first, both.second, both.first):
            service.stop()
            service.start()
            assert [mode(both.first), mode(both.second)] == ["NONE", "NONE"]
        for service in (both.first, both.second):
            service.stop(signal.SIGKILL)
        both.second.start()
        assert mode(both.second) == "OPEN"
        both.first.start()
        assert [mode(both.first), mode(both.second)] == ["OPEN", "OPEN"]
