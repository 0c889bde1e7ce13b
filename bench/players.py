"""Simulated players, which remember acknowledged data and read it back at the end."""

import json
import random
import secrets
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field

from bench.client import Connection, connect, request
from svcserver.players import requests

DOCUMENT_BYTES = (20_000, 60_000)


def document(rng: random.Random) -> str:
    """Return a character document in the client's format: JSON text within JSON text."""
    series, size = {}, 0
    wanted = rng.randint(*DOCUMENT_BYTES)
    while size < wanted:
        quest = {"ID": f"serie_{len(series):03d}", "Status": rng.randrange(4)}
        for _ in range(3):
            goal = {"Status": 0, "CurrentAmount": rng.randrange(200), "LastUpdateAmount": 0}
            quest[uuid.UUID(int=rng.getrandbits(128)).hex] = goal
        text = json.dumps(quest, separators=(",", ":"))
        series[f"SERIE_{len(series):03d}"] = text
        size += len(json.dumps(text)) + 16
    return json.dumps(series, separators=(",", ":"))


START_OF_SESSION = (
    "status",
    "login",
    "character-read",
    "inventory-read",
    "loadout-read",
    "progression-config",
    "progression-read",
    "objectives-read",
    "huntpass-read",
    "entitlements-read",
    "cooldown-read",
    "bounty-read",
    "balance",
    "reconcile",
    "party",
    "party-invites",
    "heartbeat",
)
PERIODS_S = {  # how often a client in play asks
    "party": 10,
    "party-invites": 30,
    "heartbeat": 20,
    "save": 30,
    "inventory": 45,
    "balance": 60,
    "progression-read": 120,
    "inventory-read": 120,
}
SESSION_S = 300


def timeline(rng: random.Random) -> list[tuple[float, str]]:
    """Return five minutes of play as (seconds from the login, request name) pairs."""
    later = [
        (rng.random() * period + turn * period, name)
        for name, period in PERIODS_S.items()
        for turn in range(SESSION_S // period)
    ]
    return [*((0.0, name) for name in START_OF_SESSION), *sorted(later)]


def session(rng: random.Random) -> list[str]:
    """Return the request names of ``timeline`` without the times, for a run without pauses."""
    return [name for _, name in timeline(rng)]


@define
class Player:
    """One simulated player on one connection."""

    port: int
    rng: random.Random
    name: str = ""
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    account: str = ""
    character: str = ""
    version: int = 0
    stacks: int = 0
    _document: str = ""
    _saved: str = ""
    _wire: Connection | None = field(default=None, init=False)
    _constant: dict[str, bytes] = field(factory=dict, init=False)
    _script: list[str] = field(factory=list, init=False)
    _step: int = field(default=-1, init=False)

    async def arrive(self, key: str = "", *, saves: bool = True) -> None:
        """Log in with the account's key, or register first; read the first character.

        If ``saves`` is true, also make a document to save.
        """
        self._wire = await connect(self.port)
        if not key:
            self.name = "b" + secrets.token_hex(5)
            key = (await self._request_json(*requests.register(self.name)))["UUK"]
        self.key = key
        login = await self._request_json(*requests.log_in(self.key))
        self.token, self.account = login["access_token"], login["account_id"]
        [character] = await self._request_json("GET", "/character")
        self.character, self.version = character["id"], character["updateVersion"]
        self._document = document(self.rng) if saves else "{}"
        self._constant = {
            "status": request("GET", "/svc-status"),
            "login": request(*requests.log_in(self.key)),
            "heartbeat": request(*requests.heartbeat("Map_LoginMenu", "menu"), token=self.token),
            "character-read": request("GET", "/character", token=self.token),
            "balance": request("GET", "/balance", token=self.token),
        }
        self._prepare_session()
        if not self.name:  # an old account may hold items of an earlier run
            self.stacks = await self._bench_items()

    async def sit_down(self) -> None:
        """Connect without an account, to load a baseline.

        The requests have the same size as those of a player with an account.
        """
        self._wire = await connect(self.port)
        self.token, self.character = secrets.token_hex(300), str(uuid.uuid4())
        self._document = document(self.rng)

    def _prepare_session(self) -> None:
        """Prepare the reads and polls of a play session, as the client sends them."""
        own, character = self.account, self.character
        for name, path in {
            "inventory-read": f"/inventory/{own}/{character}",
            "loadout-read": f"/loadout/{own}/{character}/all",
            "progression-config": "/progression/config",
            "progression-read": f"/progression/{own}",
            "objectives-read": f"/progression/objectives/{own}",
            "huntpass-read": f"/huntpass/{own}",
            "entitlements-read": "/entitlementsv2",
            "cooldown-read": f"/cooldown/{own}",
            "bounty-read": f"/bounty/{own}",
            "party-invites": "/party/invites",
        }.items():
            self._constant[name] = request("GET", path, token=self.token)
        for name, path in {"reconcile": "/reconcile", "party": "/party"}.items():
            self._constant[name] = request("POST", path, {}, token=self.token)
        self._script = session(self.rng)

    async def _request_json(self, method: str, path: str, body: object = None) -> Any:
        assert self._wire is not None
        status, reply = await self._wire.send(request(method, path, body, token=self.token))
        assert status == 200, (path, status, reply[:200])
        return json.loads(reply)

    def operation(self, scenario: str) -> Callable[[], Awaitable[bool]]:
        """Return a function that sends the scenario's request and returns whether it succeeded."""
        return {"save": self.save, "inventory": self.earn, "mix": self.live}.get(
            scenario, lambda: self._send(scenario)
        )

    async def live(self) -> bool:
        """Send the next request of a play session."""
        self._step = (self._step + 1) % len(self._script)
        return await self.operation(self._script[self._step])()

    async def _send(self, scenario: str) -> bool:
        assert self._wire is not None
        status, _ = await self._wire.send(self._constant[scenario])
        return status == 200

    async def save(self) -> bool:
        """Save the whole document; every save differs from the previous one."""
        assert self._wire is not None
        version = self.version + 1
        text = self._document[:-1] + f',"SaveCounter":"{version:012d}"}}'
        sent = requests.save(self.character, version, text)
        status, _ = await self._wire.send(request(*sent, token=self.token))
        if status == 200:
            self.version, self._saved = version, text
        return status == 200

    async def earn(self) -> bool:
        """Add three stacks of loot in one transaction."""
        assert self._wire is not None
        names = [f"ITEM_BENCH_{self.rng.randrange(120):03d}" for _ in range(3)]
        loot = [requests.stack(name, 1) for name in names]
        sent = requests.transact(self.character, str(uuid.uuid4()), "bench", addStackedItems=loot)
        status, _ = await self._wire.send(request(*sent, token=self.token))
        self.stacks += 3 if status == 200 else 0
        return status == 200

    async def missing(self) -> int:
        """Return how many acknowledged changes the server does not have; above 0 is a bug."""
        count = 0
        if self._saved:
            [character] = await self._request_json("GET", "/character")
            count += character["updateVersion"] != self.version
            count += character["data"] != self._saved
        if self.stacks:
            count += await self._bench_items() != self.stacks
        return count

    async def _bench_items(self) -> int:
        held = await self._request_json(*requests.inventory(self.account, self.character))
        items = [stack for stack in held["stackedItems"] if "BENCH" in stack["catalogId"]]
        return sum(int(stack["quantity"]) for stack in items)

    def leave(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._wire.close()
