"""Another user of the machine calls the deploy server's owner routes. Spec: 2 §4.

Real processes are needed because the attacker is another user's process.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.deploying import as_owner, deploy, servers
from tests.support.processes import PATIENCE_S, Service, eventually

pytestmark = pytest.mark.live

NOBODY = 65534
STRANGER = """
import encodings.idna, http.client, json, os, sys
port, nobody, asked = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(nobody); os.setuid(nobody)
said = []
for method, path, body in asked:
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/json", "X-Svc-Machine": "1:svcctl:00"}
    wire.request(method, path, body and json.dumps(body), headers)
    reply = wire.getresponse()
    said.append([reply.status, reply.read().decode()])
print(json.dumps(said))
"""


def by_a_stranger(service: Service, *request: tuple[str, str, Any]) -> list[tuple[int, str]]:
    """Send requests to the service as another user of the machine, and return the replies.

    If the test does not run as root, its own user sends the requests.
    """
    words = [sys.executable, "-I", "-c", STRANGER, str(service.port), str(NOBODY)]
    ran = subprocess.run(
        [*words, json.dumps(request)], capture_output=True, timeout=PATIENCE_S, check=True
    )
    return [(status, text) for status, text in json.loads(ran.stdout)]


def test_a_stranger_reads_no_console_and_stops_nothing(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        [city] = eventually(lambda: servers(service))
        console = f"/gameservers/console?id={city['id']}"
        eventually(lambda: as_owner(service, "GET", console)[1]["lines"])
        reply = by_a_stranger(
            service,
            ("GET", console, None),
            ("GET", f"/gameservers/output?id={city['id']}", None),
            ("GET", "/gameservers/usage", None),
            ("GET", "/gameservers/history", None),
            ("POST", "/gameservers/handle", {"Act": "stop", "Id": city["id"]}),
            ("POST", "/gameservers/handle", {"Act": "restart", "Id": city["id"]}),
            ("POST", "/gameservers/handle", {"Act": "start", "Kind": "dojo"}),
            ("POST", "/gameservers/heard", {"Ids": [city["id"]]}),
            ("GET", f"/gameservers/key?sha256={'0' * 64}", None),
            ("GET", "/gameservers", None),
        )
        assert [status for status, _ in reply] == [403] * 9 + [200]
        assert not any("listening" in text for _, text in reply)
        assert servers(service) == [city]
        stop = {"Act": "stop", "Id": city["id"]}
        assert as_owner(service, "POST", "/gameservers/handle", stop)[0] == 200
        assert servers(service) == []


def test_game_servers_do_not_inherit_the_signing_key(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        assert service.process is not None
        children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
        [pid] = eventually(lambda: children.read_text().split())
        assert b"AUTH_SIGNING" not in Path(f"/proc/{pid}/environ").read_bytes()
