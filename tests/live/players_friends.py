"""Simulated players of a real host who need no launcher: they log in, make friends and hunt."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from attrs import define, field

from svcserver.players import requests
from svcserver.players.http import body_of
from svcserver.players.requests import BUILD
from tests.ctl.hosts import run, value
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.players_host import metagame
from tests.support.processes import eventually

PASS = "season09b"  # ACTIVE_HUNT_PASS of a host that sets none


@define
class Friend:
    """A logged-in account on the host; if ``key`` is missing, the account is created."""

    host: Path
    name: str
    key: str = field(default="", repr=False)
    id: str = field(init=False)
    token: str = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.key:
            ran = run("account", "create", self.name, "--json", "--config", self.host)
            assert ran.returncode == 0, ran.stderr
            self.key = json.loads(ran.stdout)["key"]
        reply = self._ask(*requests.log_in(self.key), {})
        self.id, self.token = reply["account_id"], reply["access_token"]

    def _ask(self, method: str, path: str, replies: Any, headers: dict[str, str]) -> Any:
        body, kind = body_of(replies)
        url = metagame(self.host) + path
        sent = urllib.request.Request(url, body, headers | kind, method=method)  # noqa: S310
        with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def send(self, method: str, path: str, reply: Any = None) -> Any:
        """Send a request as the game does."""
        return self._ask(method, path, reply or {}, {"Authorization": f"Bearer {self.token}"})

    def save(self, name: str) -> None:
        """Create a character with this name and save it once."""
        character = self.send("PUT", "/character", {"name": name})["id"]
        self.send(*requests.save(character, 1, '{"level":7}'))

    def meets(self, second: Friend) -> None:
        """Let both players send each other a friend request, so that they become friends."""
        self.send(*requests.befriend(self.id, second.id))
        second.send(*requests.befriend(second.id, self.id))

    def beat(self, state: str) -> None:
        """Send a heartbeat that reports ``state`` as the player's place."""
        self.send("POST", "/heartbeat", {"state": state, "session_id": "1"})

    def hunt(self, hunt_id: str) -> None:
        """Join this hunt alone; matchmaking does not wait for others if a request names a map."""
        request = {**TUTORIAL, "playerHuntId": hunt_id, "buildId": BUILD}
        self.send("POST", "/candidate/join", request)
        eventually(lambda: self.send("GET", "/candidate/status")["status"] == "IN_PROGRESS")

    def create_guild(self, guild: str) -> None:
        """Create a guild with this name."""
        self.send(*requests.check_guild(guild))
        self.earn(*requests.found_guild(self.id, guild))

    def has_been_about(self, guild: str, hunt_id: str) -> None:
        """Give the player a character, a guild, the hunt pass, masteries and a finished hunt."""
        self.save("Ranger")
        self.create_guild(guild)
        self.earn(*requests.choose_pass(self.id, PASS))
        seeded = run("account", "seed", self.name, "grandfather", "--config", self.host)
        assert seeded.returncode == 0, seeded.stderr
        self.hunt(hunt_id)

    def earn(self, method: str, path: str, reply: Any) -> None:
        """Report a friend's progress as the friend's game server does."""
        key = value(self.host, "deploy", "METAGAME_API_KEY")
        self._ask(method, path, reply, {"x-svc-gameserver-apikey": key})
