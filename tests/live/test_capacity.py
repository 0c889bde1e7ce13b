"""``svcctl capacity`` on a whole host while hunts run.

Real processes are needed because the kernel reports memory and CPU time per process.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.ctl.command import svcctl
from tests.ctl.hosts import demo_host, read_output, stack
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.test_maintenance import MetagameClient
from tests.support.processes import eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live


# slow: a stack of five processes, each capacity measured for two seconds
@proves("svcctl capacity")
def test_running_hunts_are_measured_and_the_first_limit_is_named(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with stack(folder):
        eventually(lambda: "stack ready: " in read_output(folder))
        ran = svcctl("capacity", "--config", folder)
        assert ran.out.startswith("a hunt takes 1536 MB"), ran.err
        assert "0 hunts run, " in ran.out
        client = MetagameClient(folder)
        for name in ("Ann_1", "Bob_1"):
            player = client.player(name)
            assert (
                client.join(player, TUTORIAL) == 200
            )  # the player gets a separate hunt immediately
            eventually(lambda entry=player: client.status(entry).get("serverInfo"))

        def measured() -> Any:
            result = svcctl("capacity", "--config", folder, "--json").data
            # one of the hunts was just beginning
            return result if result["hunt"]["measured"] == 2 else None

        result = eventually(measured)
        assert result["running"] == 2
        # a simulated game server is a small Python process
        assert 5 < result["hunt"]["memory_mb"] < 200
        assert 0 <= result["hunt"]["cores"] < 1
        assert result["left"]["ports"] == 4
        more = {entry["name"]: entry["more"] for entry in result["limits"]}
        assert (more["ports"], result["more"]) == (4, min(more.values()))
        assert more[result["first"]] == result["more"]
        lines = svcctl("capacity", "--config", folder).out.splitlines()
        assert "(measured on 2)" in lines[0] and lines[1].startswith("2 hunts run, ")
        assert lines[1].endswith(f"the limit is {lines[4].split()[0]}")
