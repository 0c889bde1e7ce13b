"""An attacker on the host's own network guesses admin keys. Spec: 1 §5."""

from collections import Counter

import pytest

from svcserver.metagame.access.attempts import TRIES
from tests.ctl.command import svcctl
from tests.support.joined import FREE, Beside, beside_a_metagame
from tests.support.processes import ask

pytestmark = pytest.mark.live

PATH = "/svc/api/InviteCodes"
GUESSES = 2 * TRIES


@beside_a_metagame(METRICS_PORT=FREE)
def test_guesses_are_throttled_and_counted_and_the_owner_gets_in(service: Beside) -> None:
    environ = service.folder / "metagame.env"
    environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
    made = svcctl("account", "create", "Olga", "--admin", "--env-file", environ, "--json")
    reply = Counter(
        service.ask("GET", PATH, None, {"x-svc-user-api-key": f"UUK_{number:048x}"})[0]
        for number in range(GUESSES)
    )
    assert reply == {401: TRIES, 429: GUESSES - TRIES}
    owner = {"x-svc-user-api-key": made.data["key"]}
    assert service.ask("GET", PATH, None, owner)[0] == 200
    shown = ask(service.port("METRICS_PORT"), "GET", "/metrics")[1].decode()
    assert f'failed_logins_total{{reason="admin_key"}} {GUESSES}' in shown, shown
