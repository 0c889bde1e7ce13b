"""One IPv6 /64 reports more addresses than the allowlist holds: other players still get in.

Real processes are needed because the gateway and the helper enforce separate limits.
"""

from pathlib import Path

import orjson
import pytest

from tests.live.attacks.test_web_pages import SECRET, helper

pytestmark = pytest.mark.live


def test_one_network_does_not_fill_the_allowlist(tmp_path: Path) -> None:
    key = {"X-Allowlist-Secret": SECRET}
    with helper(tmp_path) as service:
        for number in range(300):
            body = {"ip": f"2001:db8:7::{number:x}"}
            assert service.ask("POST", "/allow", body, key)[0] == 200
        for ip in ("203.0.113.7", "2001:db8:8::1"):
            status, reply = service.ask("POST", "/allow", {"ip": ip}, key)
            assert (status, orjson.loads(reply)["added"]) == (200, True)
        entries = orjson.loads(service.ask("GET", "/status", None, key)[1])["entries"]
    assert len(entries) == 16 + 2
    assert "2001:db8:7::12b" in {entry["ip"] for entry in entries}  # the newest stays
