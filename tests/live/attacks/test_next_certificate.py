"""A relay whose invite names the gateway's current and next certificates (fp2).

Real processes are needed because the gateway is restarted with another certificate.
"""

from pathlib import Path
from urllib.request import urlopen

import pytest

from svcserver.edge.certificate import make_pair
from tests.live.edge_host import DEADLINE_S, await_ready, running, start
from tests.support.processes import free_port

pytestmark = pytest.mark.live


def test_only_the_two_pinned_certificates_are_accepted(tmp_path: Path) -> None:
    with running(tmp_path) as host:
        old, second = (make_pair(["127.0.0.1"]).fingerprint for _ in range(2))
        for pins, works in (((old, host.pair.fingerprint), True), ((old, second), False)):
            port = free_port()
            deliveries = (
                f"mode=public&host=127.0.0.1&port={host.gateway_port}&fp={pins[0]}&fp2={pins[1]}"
            )
            invite = f"svc://join?v=2&{deliveries}&code=ABCD-EFGH&name=Hunts"
            log = tmp_path / f"{works}.log"
            process = start(
                "svc-relay", {"SVC_RELAY_PORT": str(port), "SVC_RELAY_INVITE": invite}, log
            )
            try:
                await_ready(process, log)
                before = len(host.received)
                if works:
                    with urlopen(f"http://127.0.0.1:{port}/account", timeout=DEADLINE_S) as reply:
                        assert reply.status == 200
                else:
                    with pytest.raises(OSError):
                        urlopen(f"http://127.0.0.1:{port}/account", timeout=DEADLINE_S).close()
                assert len(host.received) - before == int(works)
            finally:
                process.terminate()
                process.wait(DEADLINE_S)
