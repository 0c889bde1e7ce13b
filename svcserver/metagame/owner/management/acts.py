"""The server status and the list of online players, for launchers and the owner.

Spec: 2 §2 Server status, Online entry; §4 ServerStatus.
"""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from svcserver.kernel.every import Every
from svcserver.kernel.launch_requests import ISLAND, LaunchRequest
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.rules import MODES
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.management import rules
from svcserver.metagame.owner.management.instances import DeployedInstances
from svcserver.metagame.play.matches import Sent, is_world
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.play.presence.rules import Beat, Place, place
from svcserver.metagame.settings import MetagameSettings

CACHED_S = 5.0


@define
class _Variant:
    """The full or the limited status; concurrent requests share one computation."""

    made_at: float = float("-inf")
    status: rules.Status | None = None
    waiting: list[Deferred[Any]] | None = None


@define
class StatusReports:
    """The server status in two variants; each is computed at most every ``CACHED_S`` seconds."""

    settings: MetagameSettings
    build: Build
    registration: Registration
    online: Online
    directory: Directory
    instances: DeployedInstances
    wall_clock: Callable[[], float]
    started_at: float
    _full: _Variant = field(factory=_Variant, init=False)
    _limited: _Variant = field(factory=_Variant, init=False)

    def full(self) -> Deferred[rules.Status]:
        """Return the status with players and instances, for registered callers."""
        return self._cached(self._full, self._everybody)

    def limited(self) -> Deferred[rules.Status]:
        """Return the status without players and instances, for unregistered callers."""
        return self._cached(self._limited, self._nobody)

    def _cached(self, variant: _Variant, make: Callable[[], Any]) -> Deferred[Any]:
        if 0 <= self.wall_clock() - variant.made_at < CACHED_S:
            return succeed(variant.status)
        # each caller has its own Deferred, so that a cancelled caller does not stop the computation
        mine: Deferred[Any] = Deferred()
        if variant.waiting is not None:
            variant.waiting.append(mine)
            return mine
        variant.waiting = [mine]
        building = Deferred.fromCoroutine(make())
        building.addBoth(self._made, variant)
        return mine

    def _made(self, made: rules.Status | Failure, variant: _Variant) -> None:
        waiting, variant.waiting = variant.waiting or [], None
        if isinstance(made, rules.Status):
            variant.made_at, variant.status = self.wall_clock(), made
        for waiter in waiting:
            if not waiter.called:
                waiter.callback(made)

    async def _nobody(self) -> rules.Status:
        return await self._status([], [], limited=True)

    async def _everybody(self) -> rules.Status:
        beats = await self.online.all()
        names = await self.directory.names(beat.account_id for beat in beats)
        known = [self._whereabouts(beat) for beat in beats if beat.account_id in names]
        placed = await self.instances.place(known)
        players = [
            rules.PlayerStatus(
                names[player.account_id], player.where, placed.of_player.get(player.account_id)
            )
            for player in known
        ]
        players.sort(key=lambda listed: listed.name.lower())
        return await self._status(players, placed.instances, limited=False)

    def _whereabouts(self, beat: Beat) -> rules.Whereabouts:
        where = place(beat.map, beat.state, self.settings.city_map)
        return rules.Whereabouts(beat.account_id, where, beat.map)

    async def _status(
        self,
        players: Sequence[rules.PlayerStatus],
        instances: Sequence[rules.RunningGameServer],
        *,
        limited: bool,
    ) -> rules.Status:
        mode = await self.registration.mode()
        return rules.Status(
            self.settings.server_name,
            self.build,
            mode if mode is not None and mode in MODES else "NONE",
            players,
            instances,
            self.settings.content_port,
            int(self.wall_clock() - self.started_at),
            limited,
        )


@frozen
class OnlinePlayers:
    """The online players, each with the hunt that the player is in."""

    settings: MetagameSettings
    online: Online
    matches: LiveMatches

    async def all(self) -> list[tuple[Beat, Sent | None]]:
        """Return each player's last heartbeat and current hunt (or None), sorted by account id."""
        _, players = await self.looked()
        return players

    async def looked(self) -> tuple[float, list[tuple[Beat, Sent | None]]]:
        """Return the board's time (epoch seconds), and the list that ``all`` returns."""
        at, online = await self.online.snapshot()
        beats = sorted(online, key=lambda beat: beat.account_id)
        sent = await self.matches.sent_to(beat.account_id for beat in beats)
        return at, [(beat, self._hunt(beat, sent.get(beat.account_id))) for beat in beats]

    def _hunt(self, beat: Beat, sent: Sent | None) -> Sent | None:
        """Return ``sent`` if the player is in a hunt, otherwise None.

        The player is in a hunt if the last heartbeat came from a hunt, and if the game server to
        which the player was sent runs a hunt.
        """
        if place(beat.map, beat.state, self.settings.city_map) is not Place.HUNT:
            return None
        if sent is None or is_world(LaunchRequest(ISLAND, "", sent.hunt_id)):
            return None
        return sent


# The deploy server uses players' heartbeats to distinguish slow game servers from frozen ones.
EVERY_S = 5.0
MOST = 1_000  # game servers reported at once


@define(eq=False)
class SeenPlayers:
    """Tells the deploy server which game servers have players."""

    online: Online
    placed: DeployedInstances
    city_map: str
    wall_clock: Callable[[], float]
    _looked: float = field(default=0.0, init=False)

    def report(self) -> Deferred[None]:
        """Report the game servers that have had players since the last report."""
        return Deferred.fromCoroutine(self._report())

    async def _report(self) -> None:
        since, self._looked = self._looked, self.wall_clock()
        fresh = [
            rules.Whereabouts(beat.account_id, place(beat.map, beat.state, self.city_map), beat.map)
            for beat in await self.online.all()
            if beat.at >= since
        ]
        if not fresh:
            return
        placed = await self.placed.place(fresh)
        if placed.of_player:
            await self.placed.deploy.report_players(sorted(set(placed.of_player.values()))[:MOST])


def seen_players_watch(seen_players: SeenPlayers, clock: IReactorTime) -> Every:
    """Return the service that calls ``seen_players.report`` every ``EVERY_S``."""
    return Every(clock, EVERY_S, seen_players.report, "reporting players to the deploy server")
