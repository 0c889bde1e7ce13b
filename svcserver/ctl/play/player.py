"""A simulated game client that remembers what the host's replies confirmed."""

import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen
from twisted.internet.task import deferLater

from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.wire import HttpWire
from svcserver.players import requests

CURRENCY = "CURRENCY_NOTES"
SEASON = "season09b"
SAVE_BYTES = 40_000  # the size of a character after many sessions
MATCH = "matchmaking, from join to address"
POLL_S = 1.0  # the game polls only every 10 s; a simulated session is short
MATCH_S = 120.0  # on a full host, players wait


@frozen
class ServerAddress:
    """The address of a game server, as the client received it."""

    host: str
    port: int


@frozen
class Item:
    """A single item that is not part of a stack."""

    catalog_id: str
    version: int
    data: str | None


@define
class Earned:
    """The belongings and progress that a player has according to the host's replies."""

    stacks: Counter[str] = field(factory=Counter)
    items: dict[str, Item] = field(factory=dict)  # by instance id
    tracks: Counter[str] = field(factory=Counter)
    objectives: dict[str, int] = field(factory=dict)
    bounties: dict[str, int] = field(factory=dict)  # id to version
    slots: dict[str, Any] = field(factory=dict)  # loadout slots by number, as saved
    character_slots: int = 1
    active_slot: int = 0
    hunt_pass: str | None = None
    transactions: int = 0  # requests that changed something

    def add(self, stacks: Mapping[str, int], items: Mapping[str, Item]) -> None:
        """Record stacks and items that the host has confirmed as added."""
        self.stacks.update(stacks)
        self.items.update(items)
        self.transactions += 1

    def spend(self, catalog_id: str, quantity: int) -> None:
        """Record items that the host has confirmed as removed; delete a stack that is now empty."""
        self.stacks[catalog_id] -= quantity
        if not self.stacks[catalog_id]:
            del self.stacks[catalog_id]
        self.transactions += 1


@define
class Relations:
    """A player's friends (account ids), guild (id and members) and slayer links."""

    friends: set[str] = field(factory=set)
    guild: str | None = None
    fellows: set[str] = field(factory=set)  # the guild's members, including the player
    links: dict[str, str] = field(factory=dict)  # account to link id


@define(eq=False)
class Player:
    """A simulated player, who registers, logs in, loads, saves and joins matches."""

    reactor: Any
    wire: HttpWire
    name: str
    invite: str | None = None
    city: str = "/Game/Maps/city"
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    account: str = ""
    character: str = ""
    version: int = 0
    data: str = field(default="{}", repr=False)  # as last acknowledged
    saves: int = 0  # acknowledged
    place: ServerAddress | None = None
    hunting: bool = False  # connected to a game server, and has not left
    asked_at: float = 0.0  # time of the request for a game server
    earned: Earned = field(factory=Earned, repr=False)
    relations: Relations = field(factory=Relations, repr=False)

    async def register(self) -> None:
        reply = await self.wire.send_request(*requests.register(self.name, self.invite))
        self.key = str(reply.json["UUK"])

    async def log_in(self) -> None:
        """Exchange the account key for a token, as the game does when it starts."""
        reply = (await self.wire.send_request(*requests.log_in(self.key))).json
        self.token, self.account = str(reply["access_token"]), str(reply["account_id"])
        self.wire.headers["Authorization"] = f"Bearer {self.token}"
        verified = (await self.wire.send_request("GET", "/account/api/oauth/verify")).json
        if verified.get("account_id") != self.account:
            raise PlayFailed("metagame", "does not accept its own token (AUTH_SIGNING_*_B64)")
        request = {"email": self.account, "env": "prod", "lang": "en"}
        reply = (await self.wire.send_request("POST", "/login", request)).json
        if reply.get("state") != "OPEN":
            raise PlayFailed("metagame", "the login queue did not open")

    async def load(self) -> None:
        """Read the character, which the host creates at the first read."""
        characters = (await self.wire.send_request("GET", "/character")).json
        if len(characters) != 1 or characters[0]["accountId"] != self.account:
            raise PlayFailed(
                "metagame", f"{self.name} has {len(characters)} characters instead of one"
            )
        self.character, self.data = str(characters[0]["id"]), str(characters[0]["data"])
        self.version = int(characters[0]["updateVersion"])

    async def save(self, size: int = SAVE_BYTES) -> None:
        """Save a document of about ``size`` bytes; record the save when the host confirms it."""
        body = secrets.token_urlsafe(size * 3 // 4)[:size]
        data = '{"LoginTime":"2026.09.21-09.36.26","Words":"é ☃ \\u0041","Body":"' + body + '"}'
        call = requests.save(self.character, self.version + 1, data)
        reply = (await self.wire.send_request(*call)).json
        if reply.get("data") != data or reply.get("updateVersion") != self.version + 1:
            raise PlayFailed("metagame", f"{self.name}'s save came back changed")
        self.version, self.data, self.saves = self.version + 1, data, self.saves + 1

    async def beat(self, where: str, state: str = "") -> None:
        """Send a heartbeat with the player's map and state."""
        await self.wire.send_request(*requests.heartbeat(where, state))

    async def join(self, mode: str, hunt: str = "", arguments: str = "") -> str:
        """Request a match; return its ``candidateId``, with which the party's members join it."""
        self.asked_at = self.reactor.seconds()
        reply = await self.wire.send_request(*requests.join(mode, hunt, arguments), want=(200, 400))
        if reply.status == 400:
            raise PlayFailed("metagame", "matchmaking refused the join (MATCHMAKING_MODE)")
        return str(reply.json["candidateId"])

    async def wait_for_server(self) -> ServerAddress:
        """Poll until the game server's address arrives; raises PlayFailed("deploy", ...)."""
        began = self.reactor.seconds()
        while self.reactor.seconds() - began < MATCH_S:
            status = (await self.wire.send_request("GET", "/candidate/status")).json
            if status["status"] == "IN_PROGRESS":
                server = status["serverInfo"]
                self.place = ServerAddress(str(server["host"]), int(server["port"]))
                if self.wire.timings is not None:
                    self.wire.timings.note(MATCH, self.reactor.seconds() - self.asked_at)
                return self.place
            if status["status"] == "FAILED":
                raise PlayFailed("deploy", "no game server could be started")
            await deferLater(self.reactor, POLL_S)
        fault = f"no game server within {MATCH_S:.0f} s: no port is free, or too little memory"
        raise PlayFailed("deploy", f"{fault}; the [deploy] lines of the log say which")


async def follow(player: Player, candidate: str) -> None:
    """Join the hunt that the leader of the party requested."""
    player.asked_at = player.reactor.seconds()
    await player.wire.send_request(*requests.follow(candidate))
