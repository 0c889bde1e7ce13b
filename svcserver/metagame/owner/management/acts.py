"""The server status and the list of online players, for launchers and the owner.

Spec: 2 §2 Server status reply shape, Online entry; §4 Server status rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed

from svcserver.kernel.json import Json
from svcserver.kernel.launch_requests import ISLAND, LaunchRequest
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.rules import MODES
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.management import wire
from svcserver.metagame.owner.management.rules import Instances, Whereabouts
from svcserver.metagame.play.matches import Sent, is_world
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.rules import Place, place
from svcserver.metagame.play.presence.store import Beat, Online
from svcserver.metagame.settings import Settings

CACHED_S = 5.0


@define
class _Variant:
    """A cached variant of the status; concurrent requests share one build of it."""

    made_at: float = float("-inf")
    reply: Any = None
    waiting: list[Deferred[Any]] | None = None


@define
class StatusReports:
    """The server status, built at most every ``CACHED_S``."""

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

    def full(self) -> Deferred[wire.ServerStatusReply]:
        """The status for registered callers, with the players."""
        return self._cached(self._full, self._everybody)

    def limited(self) -> Deferred[wire.ServerStatusReply]:
        """The status for anybody else, without players and instances."""
        return self._cached(self._limited, self._nobody)

    def _cached(self, variant: _Variant, make: Callable[[], Any]) -> Deferred[Any]:
        """The variant's reply, at most 5 s old."""
        if self.now() - variant.made_at < CACHED_S:
            return succeed(variant.reply)
        # each waits on its own Deferred, so that one cancelled client does not end the build
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

    async def _nobody(self) -> wire.ServerStatusReply:
        return await self._reply([], [], limited=True)

    async def _everybody(self) -> wire.ServerStatusReply:
        beats = await self.online.all()
        names = await self.directory.accounts(beat.account_id for beat in beats)
        known = [self._whereabouts(beat) for beat in beats if beat.account_id in names]
        placed = await self.instances.place(known)
        players: list[wire.PlayerStatus] = [
            {
                "name": names[one.account_id].username,
                "where": one.where.value,
                "instance": placed.of_player.get(one.account_id),
            }
            for one in known
        ]
        players.sort(key=lambda player: player["name"].lower())
        return await self._reply(players, placed.instances, limited=False)

    def _whereabouts(self, beat: Beat) -> Whereabouts:
        where = place(beat.map, beat.state, self.settings.city_map)
        return Whereabouts(beat.account_id, where, beat.map)

    async def _reply(
        self, players: list[wire.PlayerStatus], instances: list[dict[str, Json]], *, limited: bool
    ) -> wire.ServerStatusReply:
        mode = await self.registration.mode()
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


@frozen
class OnlinePlayers:
    """The online players, with their hunts."""

    settings: Settings
    online: Online
    matches: LiveMatches

    async def all(self) -> list[tuple[Beat, Sent | None]]:
        """The last heartbeats by account id, each with the hunt that the player was sent to."""
        beats = sorted(await self.online.all(), key=lambda beat: beat.account_id)
        sent = await self.matches.sent_to(beat.account_id for beat in beats)
        return [(beat, self._hunt(beat, sent.get(beat.account_id))) for beat in beats]

    def _hunt(self, beat: Beat, sent: Sent | None) -> Sent | None:
        """The hunt the player was last sent to, if the heartbeat shows them in a hunt."""
        if place(beat.map, beat.state, self.settings.city_map) is not Place.HUNT:
            return None
        if sent is None or is_world(LaunchRequest(ISLAND, "", sent.hunt_id)):
            return None
        return sent
