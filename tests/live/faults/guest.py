"""A player who keeps sending requests through the gateway while parts of the host are killed."""

from __future__ import annotations

import http.client
import itertools
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from attrs import define, field

from tests.ctl.hosts import value
from tests.support.processes import bearer

PATIENCE_S = 30.0
_tails = itertools.count(1)


def tls() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate, because the tests cover other faults."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@define
class Guest:
    """A player who opens one connection per request; ``version`` is the last acknowledged save."""

    folder: Path
    name: str
    player: dict[str, str] = field(factory=dict)
    address: str = field(factory=lambda: f"127.0.7.{next(_tails)}")  # limits count by address
    character: str = ""
    version: int = 0

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request through the gateway; return status 0 if no response arrives."""
        port = int(value(self.folder, "gateway", "GATEWAY_PORT"))
        connection = http.client.HTTPSConnection(
            "127.0.0.1",
            port,
            timeout=PATIENCE_S,
            context=tls(),
            source_address=(self.address, 0),
        )
        try:
            data = None if body is None else orjson.dumps(body)
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, data, sent)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def arrive(self) -> Guest:
        """Register, log in and read the character, which creates the character."""
        status, body = self.ask("POST", "/svc/api/Register", {"Username": self.name})
        assert status == 200, body
        key = orjson.loads(body)["UUK"]
        status, body = self.ask("POST", "/account/api/oauth/token", {"exchange_code": key})
        assert status == 200, body
        reply = orjson.loads(body)
        self.player = {"key": key, "token": reply["access_token"], "id": reply["account_id"]}
        self.character = self._loaded()[0]["id"]
        return self

    def _loaded(self) -> Any:
        status, body = self.ask("GET", "/character", headers=bearer(self.player))
        return orjson.loads(body) if status == 200 else None

    def saved(self) -> bool:
        """Save once more; return whether the save was acknowledged and is read back."""
        data = orjson.dumps({"n": str(self.version + 1)}).decode()
        sent = {"characterId": self.character, "data": data, "updateVersion": self.version + 1}
        if self.ask("POST", "/character", sent, bearer(self.player))[0] != 200:
            return False
        self.version += 1
        return bool(self._loaded()[0]["updateVersion"] == self.version)

    def has_save(self) -> bool:
        """Return whether the host still has the last acknowledged save."""
        loaded = self._loaded()
        return bool(loaded) and loaded[0]["updateVersion"] == self.version

    def in_the_city(self) -> bool:
        """Return whether matchmaking puts the player into the city."""
        sent = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": "ShatteredIsles_ReturnTo"}
        if self.ask("POST", "/candidate/join", sent, bearer(self.player))[0] != 200:
            return False
        status, body = self.ask("GET", "/candidate/status", headers=bearer(self.player))
        return status == 200 and orjson.loads(body).get("status") == "IN_PROGRESS"

    def downloads(self) -> bool:
        """Return whether the first file in the manifest can be downloaded with the player's key."""
        status, body = self.ask("GET", "/content/v1/manifest")
        if status != 200:
            return False
        first = orjson.loads(body)["files"][0]
        key = {"x-svc-user-api-key": self.player["key"]}
        status, body = self.ask("GET", f"/content/v1/files/{quote(first['path'])}", headers=key)
        return status == 200 and len(body) == first["size"]
