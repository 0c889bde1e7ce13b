"""The client for the deploy server, over plain HTTP on this machine. Spec: 2 §4 Deploy server.

The specification describes only two of the deploy server's routes. This client signs its requests
to the other routes (``kernel.machine``).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, DeferredSemaphore, succeed
from twisted.internet.error import ConnectError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.kernel.headers import MATCH
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.machine import machine_headers
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Refusal, Unanswered, Unavailable
from svcserver.kernel.secrets import Secret, fingerprint
from svcserver.kernel.system import epoch
from svcserver.metagame.play.matches import Server

log = Logger()

LIST_TIMEOUT_S = 2.0
HANDLE_TIMEOUT_S = 30.0  # a game server that ignores signals is killed after ten seconds
RESTARTS_S = 3.0  # the time that a restart of the deploy server takes
AGAIN_S = 0.25  # seconds between two attempts during a restart
ACTOR = "svc-metagame"
REFUSALS: dict[int, type[Refusal]] = {400: Malformed, 404: Missing, 409: Conflict}
PATH = "/api/matchmaker/handle-matchmaking-for-player"


class Busy(Exception):
    """The error if the deploy server has no capacity at the moment; a later retry may succeed."""


class DeployFailed(Exception):
    """The error for a reply of the deploy server that is missing or unusable.

    ``was_asked`` is true if the request may have reached the deploy server. ``status`` is the HTTP
    status if the reply was not JSON, and otherwise 0.
    """

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status

    @property
    def was_asked(self) -> bool:
        return not (self.__cause__ is None or isinstance(self.__cause__, ConnectError))


@frozen
class Usage:
    """The memory of a game server, and its CPU time in percent of one core (None: unknown)."""

    memory_bytes: int
    cpu_percent: float | None


@frozen
class KeyHolder:
    """The game server that has a launch key."""

    kind: str = ""
    server: Server = field(factory=lambda: Server("", 0))
    match_id: str = ""
    players: frozenset[str] = frozenset()  # account ids that the launch request named

    @property
    def is_persistent(self) -> bool:
        """True for the city and the dojo, which serve more than one match."""
        return self.kind in ("city", "dojo")


@frozen
class DeployClient:
    """The client for the deploy server; ``http`` is a treq client.

    ``address`` is host:port without a scheme. ``secret`` is the key that signs the tickets for
    requests to the owner's routes.
    """

    http: Any
    clock: IReactorTime
    address: str
    timeout_s: float
    secret: Secret = field(default=Secret(""), repr=False)

    async def launch(self, request: LaunchRequest, match_id: str = "") -> Server:
        """Start a game server and return it; all calls for one match return the same game server.

        Raises only Busy or DeployFailed.
        """
        body: dict[str, object] = {
            "GameMode": request.game_mode,
            "GameArgs": request.game_args,
            "HuntId": request.hunt_id,
        }
        if request.players:
            body["ExpectedPlayers"] = list(request.players)
        # in a header, because the specification fixes the body
        headers = {MATCH: match_id.encode()} if match_id else {}
        status, reply = await self._ask_again(
            "POST", PATH, self.timeout_s, json=body, headers=headers
        )
        match status, reply:
            case 200, {"host": str(host), "port": int(port), **rest} if host and _is_port(port):
                return Server(host, port, str(rest.get("node", "")))
            case 503, {"error": "capacity_unavailable", "reason": "memory" | "ports"}:
                raise Busy
        raise DeployFailed(f"status {status}")

    async def game_servers(self) -> list[dict[str, Any]]:
        """Return the records of ``GET /gameservers``; empty if no reply comes within 2 s."""
        return await self.listed() or []

    async def ports(self) -> set[int] | None:
        """Return the UDP ports of the running game servers, or None if there is no reply.

        If the deploy server has no route that lists game servers, the set is empty.
        """
        status, listed = await self._list()
        if listed is None:
            return set() if _has_no_list(status) else None
        return {record["port"] for record in listed if "port" in record}

    async def listed(self) -> list[dict[str, Any]] | None:
        """Return the records of the game servers, or None if there is no usable reply."""
        return (await self._list())[1]

    async def _list(self) -> tuple[int, list[dict[str, Any]] | None]:
        """Return the HTTP status (0 without a reply), and the records in the reply, if any."""
        try:
            status, reply = await self._send_request("GET", "/gameservers", LIST_TIMEOUT_S)
        except DeployFailed as error:
            return error.status, None
        match status, reply:
            case 200, {"servers": list(servers)}:
                return status, [record for record in servers if _is_record(record)]
        return status, None

    async def handle(self, act: str, server_id: str, kind: str) -> str | None:
        """Start, stop or restart a game server, or drain a machine.

        Returns the id of a started or restarted game server, else None. Raises Refusal; its
        subclass Unanswered means that the action may have succeeded.
        """
        body = {"Act": act, "Id": server_id, "Kind": kind}
        reply = await self._owners("POST", "/gameservers/handle", HANDLE_TIMEOUT_S, json=body)
        match reply:
            case {"id": str(made)}:
                return made
        return None

    async def report_players(self, server_ids: Sequence[str]) -> None:
        """Report that these game servers have players; failures are ignored."""
        try:
            path, body = "/gameservers/heard", {"Ids": server_ids}
            await self._send_request(
                "POST", path, LIST_TIMEOUT_S, **self._ticket("POST", path), json=body
            )
        except DeployFailed:
            return

    async def refresh_servers(self) -> None:
        """Make the deploy server update its list of game servers now; failures are ignored."""
        try:
            path = "/gameservers/look"
            await self._send_request("POST", path, LIST_TIMEOUT_S, **self._ticket("POST", path))
        except DeployFailed:
            return

    async def console(self, server_id: str) -> list[str]:
        """Return the last console lines of a game server; raises Refusal."""
        path = f"/gameservers/console?id={quote(server_id, safe='')}"
        match await self._owners("GET", path, LIST_TIMEOUT_S):
            case {"lines": list(lines)}:
                return [str(line) for line in lines]
        return []

    async def output(self, server_id: str, cursor: str) -> dict[str, Any]:
        """Return a game server's output after ``cursor``, or its last lines; raises Refusal."""
        path = f"/gameservers/output?id={quote(server_id, safe='')}&after={quote(cursor, safe='')}"
        match await self._owners("GET", path, LIST_TIMEOUT_S):
            case {
                "lines": list(lines),
                "cursor": str(after),
                "fresh": bool(fresh),
                "missed": bool(missed),
                **more,
            }:
                return {
                    "lines": [str(line) for line in lines],
                    "cursor": after,
                    "fresh": fresh,
                    "missed": missed,
                    "ended": more.get("ended") is True,  # an older deploy server does not send it
                }
        raise Unavailable("the deploy server sent no output", code="refused")

    async def in_use(self) -> tuple[list[dict[str, Any]], dict[str, Usage], int] | None:
        """Return the game servers, their usage by server id, and a number.

        The number changes whenever the launch history changes. Returns None if there is no usable
        reply.
        """
        try:
            reply = await self._owners("GET", "/gameservers/usage", LIST_TIMEOUT_S)
        except Refusal:
            return None
        match reply:
            case {"servers": list(servers), "usage": list(entries), "launches": int(launches)}:
                records = [record for record in servers if _is_record(record)]
                usage = dict(pair for pair in map(_usage, entries) if pair is not None)
                return records, usage, launches
        return None

    async def begin_check(self, node: str) -> dict[str, Any]:
        """Start a test of a node's game ports; return what the node's agent must check.

        Raises Refusal.
        """
        path = "/gameservers/check"
        match await self._owners("POST", path, LIST_TIMEOUT_S, json={"Node": node}):
            case {"image": str(image), "trial": dict() | None as trial}:
                return {"image": image, "trial": trial}
        raise Unavailable("the deploy server's reply describes no check", code="refused")

    async def machines(self) -> list[dict[str, Any]]:
        """Return the machines that run game servers; raises Refusal."""
        match await self._owners("GET", "/gameservers/machines", LIST_TIMEOUT_S):
            case {"machines": list(machines)}:
                return [entry for entry in machines if _is_machine(entry)]
        return []

    async def history(self) -> list[dict[str, Any]]:
        """Return the launches that ended last, newest first; raises Refusal."""
        match await self._owners("GET", "/gameservers/history", LIST_TIMEOUT_S):
            case {"launches": list(launches)}:
                return [entry for entry in launches if isinstance(entry, dict)]
        return []

    def _ticket(self, method: str, path: str) -> dict[str, dict[bytes, bytes]]:
        """Return the header fields that sign a request, so that the deploy server accepts it."""
        fields = machine_headers(self.secret.reveal(), ACTOR, method, path, epoch())
        return {"headers": {name.encode(): value.encode() for name, value in fields.items()}}

    async def _owners(self, method: str, path: str, timeout_s: float, **sent: Any) -> object:
        sent |= self._ticket(method, path)
        try:
            status, reply = await self._send_request(method, path, timeout_s, **sent)
        except DeployFailed as error:
            if method == "GET" or not error.was_asked:
                raise Conflict("the deploy server does not answer", code="no_deploy") from error
            text = "the deploy server does not answer; the action may have succeeded"
            raise Unanswered(text, code="no_answer") from error
        if status == 200:
            return reply
        words = str(reply["message"]) if isinstance(reply, dict) and "message" in reply else ""
        if status == 500 and method != "GET":
            text = "the deploy server failed; the action may have succeeded in part"
            raise Unanswered(text, code="no_answer")
        refusal = REFUSALS.get(status, Unavailable)
        raise refusal(words or f"the deploy server answered {status}", code="refused")

    async def find_launch_key(self, key_hash: str) -> KeyHolder | None:
        """Return the running game server whose launch key has the SHA-256 ``key_hash``.

        Returns None if there is no such game server, or no usable reply from the deploy server.
        """
        path = f"/gameservers/key?sha256={key_hash}"
        try:
            sent = self._ticket("GET", path)
            status, reply = await self._ask_again("GET", path, LIST_TIMEOUT_S, **sent)
        except DeployFailed:
            return None
        match status, reply:
            case 200, {"known": True, **fields}:
                return _key_holder(fields)
        return None

    async def _ask_again(
        self, method: str, path: str, timeout_s: float, **sent: Any
    ) -> tuple[int, object]:
        """Send a request; retry a refused connection, as the deploy server may be restarting."""
        deadline = self.clock.seconds() + RESTARTS_S
        while True:
            try:
                return await self._send_request(method, path, timeout_s, **sent)
            except DeployFailed as error:
                if not isinstance(error.__cause__, Refused) or self.clock.seconds() >= deadline:
                    raise
            await deferLater(self.clock, AGAIN_S)

    async def _send_request(
        self, method: str, path: str, timeout_s: float, **sent: Any
    ) -> tuple[int, object]:
        if self.http is None or not self.address:
            raise DeployFailed("DEPLOYSERVER_URL is not set")
        status = 0
        try:
            url = f"http://{self.address}{path}"
            request = self.http.request(method, url, **sent)
            reply = await request.addTimeout(timeout_s, self.clock)
            status = int(reply.code)
            content = await reply.json().addTimeout(timeout_s, self.clock)
        except Exception as error:  # refused, cut off, timed out or not JSON
            log.debug("no answer from the deploy server: {why}", why=repr(error))
            raise DeployFailed("no usable answer", status) from error
        return status, content


def _has_no_list(status: int) -> bool:
    return 200 <= status < 500 or status == 501


def _is_record(record: object) -> bool:
    """Return whether a record has the fields that ``owner/management/instances.py`` needs."""
    match record:
        case {"id": str(), "map": str(), "expectedPlayers": list()}:
            return True
    return False


def _is_machine(entry: object) -> bool:
    match entry:
        case {
            "id": str(),
            "name": str(),
            "address": str(),
            "state": str(),
            "memoryBytes": int(),
            "reservedBytes": int(),
            "hunts": int(),
            "players": int(),
            "version": str(),
            "room": int(),
            "own": bool(),
            "reached": bool() | None,
        }:
            return True
    return False


def _usage(entry: object) -> tuple[str, Usage] | None:
    match entry:
        case {"id": str(server_id), "memoryBytes": int(memory), "cpuPercent": cpu}:
            return server_id, Usage(memory, float(cpu) if isinstance(cpu, int | float) else None)
    return None


def _key_holder(fields: Mapping[Any, Any]) -> KeyHolder:
    match fields:
        case {
            "kind": str(kind),
            "host": str(host),
            "port": int(port),
            "node": str(node),
            "match": str(match_id),
            **more,
        }:
            named = frozenset(map(str, more.get("players", ())))
            return KeyHolder(kind, Server(host, port, node), match_id, named)
    return KeyHolder()  # a deploy server of an earlier version


def _is_port(port: int) -> bool:
    return not isinstance(port, bool) and 1 <= port <= 65535


# The deploy server makes a key for each game server that it launches. The metagame stores no keys
# but asks the deploy server. So a key is valid exactly as long as its game server runs.
AT_ONCE = 16  # concurrent look-ups
MAX_WAITING = 1_024
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@define
class LaunchKeys:
    """Asks the deploy server whether a key belongs to a running game server."""

    deploy: DeployClient
    _turns: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(AT_ONCE), init=False)

    def knows(self, key: str) -> Deferred[bool]:
        """Return whether a running game server received this key at its launch."""
        return self.find(key).addCallback(lambda holder: holder is not None)

    def find(self, key: str) -> Deferred[KeyHolder | None]:
        """Return the running game server that received this key at its launch."""
        if not _KEY.match(key):
            return succeed(None)
        if len(self._turns.waiting) >= MAX_WAITING:
            log.warn(
                "a game-server key was refused without a check, because {limit} other keys are "
                "already waiting for a check",
                limit=MAX_WAITING,
            )
            return succeed(None)
        return self._turns.run(self._find_holder, fingerprint(key))

    def _find_holder(self, key_hash: str) -> Deferred[KeyHolder | None]:
        return Deferred.fromCoroutine(self.deploy.find_launch_key(key_hash))
