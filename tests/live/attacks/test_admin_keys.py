"""Somebody on the host's own network guesses admin keys. Spec: 1 §5."""

from __future__ import annotations

import http.client
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from svcserver.metagame.access.attempts import TRIES
from tests.ctl.command import svcctl
from tests.support.processes import free_port, metagame

pytestmark = pytest.mark.live

PATH = "/svc/api/InviteCodes"
GUESSES = 2 * TRIES


def test_guesses_are_throttled_and_counted_and_the_owner_gets_in(tmp_path: Path) -> None:
    environ, figures = tmp_path / "metagame.env", free_port()
    environ.write_text(f"DATABASE_URL=sqlite:///{tmp_path}/svc.db\n")
    with metagame(tmp_path, METRICS_PORT=str(figures)) as service:
        made = svcctl("account", "create", "Olga", "--admin", "--env-file", environ, "--json")
        said = Counter(
            service.ask("GET", PATH, None, {"x-svc-user-api-key": f"UUK_{number:048x}"})[0]
            for number in range(GUESSES)
        )
        assert said == {401: TRIES, 429: GUESSES - TRIES}
        owner = {"x-svc-user-api-key": made.data["key"]}
        assert service.ask("GET", PATH, None, owner)[0] == 200
        shown = _figures(figures)
    assert f'failed_logins_total{{reason="admin_key"}} {GUESSES}' in shown, shown


def _figures(port: int) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
