"""Players of a real host who need no launcher: they log in, make friends, save, beat and hunt."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from attrs import define, field

from svcserver.players.gameclient import BUILD
from tests.ctl.hosts import run, value
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.players_host import metagame
from tests.support.processes import eventually

PASS = "season09b"  # ACTIVE_HUNT_PASS of a host that sets none


@define
class Friend:
    """An account of the host's, logged in; it is made unless its ``key`` is known."""

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
        form = {"grant_type": "exchange_code", "exchange_code": self.key}
        said = self._ask("/account/api/oauth/token", urllib.parse.urlencode(form).encode(), {})
        self.id, self.token = said["account_id"], said["access_token"]

    def _ask(self, path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> Any:
        url = metagame(self.host) + path
        sent = urllib.request.Request(url, body, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def send(self, method: str, path: str, said: Any = None) -> Any:
        """As the game asks for it."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self._ask(path, json.dumps(said or {}).encode(), headers, method)

    def save(self, name: str) -> None:
        """A character of this name, saved once."""
        character = self.send("PUT", "/character", {"name": name})["id"]
        said = {"characterId": character, "data": '{"level":7}', "updateVersion": 1}
        self.send("POST", "/character", said)

    def meets(self, other: Friend) -> None:
        """Both ask, so both are friends."""
        self.send("POST", f"/friends/api/public/friends/{self.id}/{other.id}")
        other.send("POST", f"/friends/api/public/friends/{other.id}/{self.id}")

    def beat(self, state: str) -> None:
        """Be online, in this place."""
        self.send("POST", "/heartbeat", {"state": state, "session_id": "1"})

    def hunt(self, hunt_id: str) -> None:
        """Be sent to this hunt, alone: where the map is named nobody else is waited for."""
        wish = {**TUTORIAL, "playerHuntId": hunt_id, "buildId": BUILD}
        self.send("POST", "/candidate/join", wish)
        eventually(lambda: self.send("GET", "/candidate/status")["status"] == "IN_PROGRESS")

    def found(self, guild: str) -> None:
        """A guild of this name."""
        said = {"leader_account_id": self.id, "name": guild, "nameplate": ""}
        self.send("POST", "/guild/validate", said)
        self.earn("/guild", said)

    def has_been_about(self, guild: str, hunt_id: str) -> None:
        """A guild, the hunt pass, masteries, a saved character and a hunt."""
        self.save("Ranger")
        self.found(guild)
        self.earn(f"/huntpass/{self.id}", {"progression_id": PASS})
        seeded = run("account", "seed", self.name, "grandfather", "--config", self.host)
        assert seeded.returncode == 0, seeded.stderr
        self.hunt(hunt_id)

    def earn(self, path: str, said: Any) -> None:
        """What the game server that the player is on tells the host of them."""
        key = value(self.host, "deploy", "METAGAME_API_KEY")
        headers = {"x-svc-gameserver-apikey": key, "Content-Type": "application/json"}
        self._ask(path, json.dumps(said).encode(), headers)
