"""A friend of the owner, outside the container, who connects to the container's published port."""

import json
from collections.abc import Sequence
from pathlib import Path

from svcserver.edge.invite import Invite, decode
from tests.live.players_host import LAUNCHER
from tests.live.players_terminal import Player
from tests.packages.support import run


def invite(container: str, engine: str = "podman") -> str:
    """Create a join string in the container."""
    words = ("svcctl", "invite", "create", "--json", "--config", "/data")
    join: str = json.loads(run(engine, "exec", container, *words))["join"]
    return join


def joins(home: Path, join: str, name: str, command: Sequence[str] = (LAUNCHER,)) -> Invite:
    """Register with an invite in the launcher; return the decoded invite.

    The launcher, which ``command`` starts, accepts only the certificate that the invite names.
    """
    home.mkdir()
    player = Player(home, command)
    try:
        player.say(join)
        player.hears("Type agree to continue.")
        player.say("agree")
        player.hears("choose a name")
        player.say(f"name {name}")
        player.hears(f"you are {name}.")
        player.say("quit")
        player.end()
    finally:
        player.process.kill()
    assert player.process.returncode == 0, player.history
    return decode(join)
