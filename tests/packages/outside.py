"""A friend of the host's owner, outside the container: comes in by the port that it publishes."""

from __future__ import annotations

import json
from pathlib import Path

from svcserver.edge.invite import Invite, decode
from tests.live.players_terminal import Player
from tests.packages.support import run


def invite(container: str) -> str:
    """A join string, as the owner sends it."""
    words = ("svcctl", "invite", "create", "--json", "--config", "/data")
    join: str = json.loads(run("podman", "exec", container, *words))["join"]
    return join


def joins(home: Path, join: str, name: str) -> Invite:
    """Register by an invite and download the game, as the launcher does it; what the invite says.

    The launcher takes no certificate but the one that the invite names.
    """
    home.mkdir()
    player = Player(home)
    try:
        player.say(join)
        player.hears("Type agree to continue.")
        player.say("agree")
        player.hears("choose a name")
        player.say(f"name {name}")
        player.hears("Type get.")
        player.say("get")
        player.hears("Type play.")
        player.say("quit")
        player.end()
    finally:
        player.process.kill()
    assert player.process.returncode == 0, player.heard
    return decode(join)
