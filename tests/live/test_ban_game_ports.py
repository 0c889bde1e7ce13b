"""A ban ends the place in a hunt that runs: the firewall rule no longer lets the player in.

Why processes: gateway, metagame, deploy server and allowlist helper, each with its part in it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from svcserver.ctl.rehearse.host import Player, Wrong
from svcserver.edge.certificate import fingerprint
from svcserver.kernel.json import BadJson
from tests.ctl.hosts import demo_host, run, said, stack, value
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.test_moderation import AT_MOST_S
from tests.support.processes import eventually
from tests.support.proves import proves
from tests.support.watch import Watch

pytestmark = pytest.mark.live

HERE = "127.0.0.1"  # from where everybody plays


class Hunting:
    """Players of one host, all at one address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pinned = fingerprint((folder / "gateway-cert.pem").read_bytes())

    def player(self, name: str) -> Player:
        """Who has come by the gateway."""
        made = Player(int(value(self.folder, "gateway", "GATEWAY_PORT")), self.pinned)
        made.come(name)
        return made

    def open(self) -> bool:
        """Whether the rule that is in force lets them in, or one that is under way does not."""
        asked = HTTPConnection(
            HERE, int(value(self.folder, "allowlist", "ALLOWLIST_PORT")), timeout=20
        )
        secret = value(self.folder, "allowlist", "ALLOWLIST_SECRET")
        asked.request("GET", "/status", headers={"x-allowlist-secret": secret})
        status: dict[str, Any] = json.loads(asked.getresponse().read())
        asked.close()
        return HERE in [one["ip"] for one in status["entries"]] or bool(status["pending"])

    def act(self, *words: str) -> None:
        """What staff types."""
        ran = run(*words, "--config", self.folder)
        assert ran.returncode == 0, ran.stderr


def hunt(player: Player) -> None:
    """Go on one alone, for which nobody else is waited for, until its game server is there."""
    player.ask("/candidate/join", TUTORIAL)
    for _ in range(400):  # the gateway bounds how often one address connects
        if player.ask("/candidate/status")["status"] == "IN_PROGRESS":
            break
        Event().wait(0.5)
    else:
        pytest.fail("no game server is there")
    beat(player)


def beat(player: Player) -> None:
    with suppress(BadJson):  # the answer is a number
        player.ask("/heartbeat", {"map": "cora_jamima", "state": "island"})


def shut_in_time(hunting: Hunting) -> None:
    """The firewall rule lets nobody in any more, and that soon."""
    with Watch() as watch:
        eventually(lambda: not hunting.open())
    assert watch.seconds < AT_MOST_S


# slow: a stack of six processes, and the time that a rule of the firewall takes
@proves("a ban or a kick shuts the game ports")
def test_a_ban_during_a_hunt_shuts_the_game_ports(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with stack(folder):
        eventually(lambda: "stack ready" in said(folder))
        hunting = Hunting(folder)
        ann = hunting.player("Ann_1")
        hunt(ann)
        eventually(hunting.open)

        hunting.act("ban", "Ann_1", "--for", "1h", "--reason", "cheats")
        shut_in_time(hunting)
        assert '"withdrawn","ip":"127.0.0.1"' in (folder / "allowlist-audit.log").read_text()
        with pytest.raises(Wrong, match="401"):
            beat(ann)

        bob = hunting.player("Bob_1")  # of the same house, within the gateway's minute
        eventually(hunting.open)
        hunting.act("unban", "Ann_1")
        ann.log_in()
        hunting.act("kick", "Ann_1", "--reason", "afk")
        with pytest.raises(Wrong, match="401"):
            for _ in range(100):
                beat(ann)
                Event().wait(0.2)
        assert hunting.open()  # Bob plays there
        beat(bob)
        hunting.act("kick", "Bob_1", "--reason", "afk")
        shut_in_time(hunting)
