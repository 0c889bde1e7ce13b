"""Asking the deploy server, over plain HTTP on this machine. Spec: 2 §4 Deploy server."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.metagame.play.matches import Server

log = Logger()

LIST_TIMEOUT_S = 2.0
PATH = "/api/matchmaker/handle-matchmaking-for-player"


class Busy(Exception):
    """The deploy server has no room now; asking again later makes sense."""


class Failed(Exception):
    """There is no usable answer."""


@frozen
class DeployClient:
    """``http`` is a treq client; ``address`` is host:port without a scheme."""

    http: Any
    clock: IReactorTime
    address: str
    timeout_s: float

    async def launch(self, wish: LaunchRequest, match_id: str = "") -> Server:
        """Where the players go: for one match one server, however often it is asked for.

        Raises Busy or Failed, nothing else.
        """
        body: dict[str, object] = {
            "GameMode": wish.game_mode,
            "GameArgs": wish.game_args,
            "HuntId": wish.hunt_id,
        }
        if wish.players:
            body["ExpectedPlayers"] = list(wish.players)
        if match_id:
            body["MatchId"] = match_id
        status, said = await self._ask("POST", PATH, self.timeout_s, json=body)
        match status, said:
            case 200, {"host": str(host), "port": int(port)} if host and _is_port(port):
                return Server(host, port)
            case 503, {"error": "capacity_unavailable", "reason": "memory" | "ports"}:
                raise Busy
        raise Failed(f"status {status}")

    async def game_servers(self) -> list[dict[str, Any]]:
        """The records of ``GET /gameservers``; no answer within 2 s is an empty list."""
        return await self.listed() or []

    async def ports(self) -> set[int] | None:
        """The UDP ports of the running game servers; None when the deploy server does not say."""
        listed = await self.listed()
        return None if listed is None else {one["port"] for one in listed if "port" in one}

    async def listed(self) -> list[dict[str, Any]] | None:
        """The records; None when the deploy server does not say."""
        try:
            status, said = await self._ask("GET", "/gameservers", LIST_TIMEOUT_S)
        except Failed:
            return None
        match status, said:
            case 200, {"servers": list(servers)}:
                return [one for one in servers if _is_record(one)]
        return None

    async def knows_launch_key(self, key_hash: str) -> bool:
        """Whether a living game server was launched with that key; no answer is a no."""
        path = f"/gameservers/key?sha256={key_hash}"
        try:
            status, said = await self._ask("GET", path, LIST_TIMEOUT_S)
        except Failed:
            return False
        match status, said:
            case 200, {"known": True}:
                return True
        return False

    async def _ask(
        self, method: str, path: str, timeout_s: float, **sent: Any
    ) -> tuple[int, object]:
        if self.http is None or not self.address:
            raise Failed("DEPLOYSERVER_URL is not set")
        try:
            url = f"http://{self.address}{path}"
            asked = self.http.request(method, url, **sent)
            reply = await asked.addTimeout(timeout_s, self.clock)
            said = await reply.json().addTimeout(timeout_s, self.clock)
        except Exception as why:  # refused, cut, silent, not JSON: all the same to a player
            log.debug("no answer from the deploy server: {why}", why=repr(why))
            raise Failed("no usable answer") from why
        return int(reply.code), said


def _is_record(one: object) -> bool:
    """Whether it has what ``instances`` reads without asking."""
    match one:
        case {"id": str(), "map": str(), "expectedPlayers": list()}:
            return True
    return False


def _is_port(port: int) -> bool:
    return not isinstance(port, bool) and 1 <= port <= 65535
