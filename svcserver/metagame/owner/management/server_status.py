"""``GET /svc/api/ServerStatus``: the same shape for everyone, players only for the registered.

Spec: 2 §2 Server status reply shape, §4 Server status rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypedDict

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.rules import MODES
from svcserver.metagame.owner.status.build import Build
from svcserver.metagame.play.presence.online import Beat, Online
from svcserver.metagame.play.presence.places import Place, place
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Routes, bare

log = Logger()

CACHED_S = 5.0
HEADERS = {"Cache-Control": "no-store", "Vary": "x-svc-user-api-key, Authorization"}


class PlayerStatus(TypedDict):
    """A player in the list."""

    name: str
    where: str
    instance: str | None


class ServerStatusReply(TypedDict):
    """The whole reply, in the order of its keys."""

    name: str
    online: bool
    version: str
    commit: str
    sourceUrl: str
    registration: str
    playersOnline: int
    players: list[PlayerStatus]
    instances: list[dict[str, Json]]
    contentPort: int | None
    uptimeSeconds: int
    limited: bool


@frozen
class Whereabouts:
    """One online player as the instance list needs them."""

    account_id: AccountId
    where: Place
    map: str


@frozen
class Placed:
    """The instance list, and the instance id of each player who is in one."""

    instances: list[dict[str, Json]]
    of_player: dict[AccountId, str]


class Instances(Protocol):
    """Asks the deploy server for its game servers and joins them with the players.

    Never fails: no answer within 2 s is an empty list.
    """

    def place(self, players: list[Whereabouts]) -> Deferred[Placed]: ...


@define
class _Variant:
    """One cached variant; requests that come while it is built share the build."""

    made_at: float = float("-inf")
    reply: Any = None
    waiting: list[Deferred[Any]] | None = None


@define
class ServerStatus:
    """The status route."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    build: Build
    registration: Registration
    online: Online
    directory: Directory
    instances: Instances
    now: Callable[[], float]
    started_at: float
    _full: _Variant = field(factory=_Variant, init=False)
    _limited: _Variant = field(factory=_Variant, init=False)

    @routes.row(
        "GET",
        "/svc/api/ServerStatus",
        access=Access.REGISTERED,
        reply=ServerStatusReply,
        public=True,
        quiet=True,
    )
    async def status(self, call: Call) -> Answer:
        """Never refuses; strangers get the shape with nothing in it."""
        if call.caller.account is None:
            reply = await self._cached(self._limited, self._nobody)
        else:
            reply = await self._cached(self._full, self._everybody)
        return Answer(200, reply, HEADERS)

    def _cached(self, variant: _Variant, make: Callable[[], Any]) -> Deferred[Any]:
        """The variant's reply, at most 5 s old."""
        if self.now() - variant.made_at < CACHED_S:
            return succeed(variant.reply)
        # a waiter that is cancelled (its client left) must not end the others' build
        mine: Deferred[Any] = Deferred()
        if variant.waiting is not None:
            variant.waiting.append(mine)
            return mine
        variant.waiting = [mine]
        building = Deferred.fromCoroutine(make())
        building.addBoth(self._made, variant)
        return mine

    def _made(self, reply: Any, variant: _Variant) -> None:
        waiting, variant.waiting = variant.waiting or [], None
        if isinstance(reply, dict):
            variant.made_at, variant.reply = self.now(), reply
        for one in waiting:
            if not one.called:
                one.callback(reply)

    async def _nobody(self) -> ServerStatusReply:
        return self._reply([], [], limited=True)

    async def _everybody(self) -> ServerStatusReply:
        beats = self.online.all(self.now())
        names = await self.directory.accounts(beat.account_id for beat in beats)
        known = [self._whereabouts(beat) for beat in beats if beat.account_id in names]
        placed = await self.instances.place(known)
        players: list[PlayerStatus] = [
            {
                "name": names[one.account_id].username,
                "where": one.where.value,
                "instance": placed.of_player.get(one.account_id),
            }
            for one in known
        ]
        players.sort(key=lambda player: player["name"].lower())
        return self._reply(players, placed.instances, limited=False)

    def _whereabouts(self, beat: Beat) -> Whereabouts:
        where = place(beat.map, beat.state, self.settings.city_map)
        return Whereabouts(beat.account_id, where, beat.map)

    def _reply(
        self, players: list[PlayerStatus], instances: list[dict[str, Json]], *, limited: bool
    ) -> ServerStatusReply:
        mode = self.registration.mode
        return {
            "name": self.settings.server_name,
            "online": True,
            "version": self.build.version,
            "commit": self.build.commit,
            "sourceUrl": self.build.source_url,
            "registration": mode if mode in MODES else "NONE",
            "playersOnline": len(players),
            "players": players,
            "instances": instances,
            "contentPort": self.settings.content_port,
            "uptimeSeconds": int(self.now() - self.started_at),
            "limited": limited,
        }
