"""The progression routes. Spec: 1 §4 Progression, hunt pass."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.shapes import Late
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.acts import HuntPassActs, ProgressionActs
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.wire import (
    GrantBody,
    Granted,
    HuntPassWish,
    ObjectiveRecord,
    TrackRecord,
)
from svcserver.metagame.replies import Envelope, enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Answer, bare


def confirms(settings: Any) -> bool:
    """Whether PROGRESSION_CONFIRM is on."""
    return bool(settings.progression_confirm)


@frozen
class ProgressionRoutes:
    """Tracks and objectives: read, grant, confirm, reset."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    tracks: Tracks
    acts: ProgressionActs

    @routes.row("GET", "/progression/config", access=Access.TOKEN, reply=Envelope[wire.ConfigReply])
    async def config(self, call: Call) -> Answer:
        """Tracks, ranks and rewards."""
        return enveloped(self.tracks.wire)

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[list[ObjectiveRecord] | Granted],
    )
    async def objectives(self, call: Call, user_id: str) -> Answer:
        """Stored objectives by id: an array."""
        if not self.settings.real_progression(user_id):
            return wire.show_stub_objectives(call.caller.account or user_id, self.tracks.paths)
        return wire.show_objectives(user_id, await self.acts.objectives(user_id))

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>/<objective_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[ObjectiveRecord],
    )
    async def objective(self, call: Call, user_id: str, objective_id: str) -> Answer:
        """One objective; zeros when none is stored."""
        if not self.settings.real_progression(user_id):
            return enveloped(wire.stub_objective(user_id, objective_id), code="OK")
        found = await self.acts.objective(user_id, objective_id)
        return enveloped(wire.objective_record(user_id, found), code="OK")

    @routes.row(
        "GET",
        "/progression/<user_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[list[TrackRecord]],
    )
    async def read(self, call: Call, user_id: str) -> Answer:
        """Every track, stored or zeros."""
        paths = self.tracks.paths
        if not self.settings.real_progression(user_id):
            return enveloped(wire.stub_tracks(call.caller.account or user_id, paths))
        return wire.show_tracks(user_id, rules.in_order(await self.acts.stored(user_id), paths))

    @routes.row(
        "GET",
        "/progression/<user_id>/<progression_id>",
        access=Access.TOKEN,
        own=True,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def one(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """One stored track."""
        found = (await self.acts.stored(user_id)).get(progression_id)
        if found is None:
            raise Missing("no such track")
        return wire.show_track(user_id, found)

    @routes.row(
        "POST",
        "/progression/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        body=Late[GrantBody],
        reply=Envelope[Granted],
    )
    async def grant(self, call: Call[Late[GrantBody]], user_id: str) -> Answer:
        """Add to tracks, replace objectives; a retry gets the stored reply."""
        if not self.settings.real_progression(user_id):
            raise Malformed("fixed progression takes no grant")
        return await self.acts.grant(call, user_id)

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<amount>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def add(self, call: Call, user_id: str, progression_id: str, amount: str) -> Answer:
        """Add an amount to one track, up to the cap."""
        return await self.acts.add(call, user_id, progression_id, amount)

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<rank>/confirm/<kind>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        when=confirms,
        reply=Envelope[TrackRecord],
    )
    async def confirm(
        self, call: Call, user_id: str, progression_id: str, rank: str, kind: str
    ) -> Answer:
        """Confirm a rank; grants permanent entitlements only where the switch says so."""
        return await self.acts.confirm(call, user_id, progression_id, rank, kind)

    @routes.row(
        "DELETE",
        "/progression/<user_id>/<progression_id>",
        access=Access.ADMIN_OR_GAME_SERVER,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def reset(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """Reset one track; a game server only with PROGRESSION_ALLOW_DELETE=1."""
        return await self.acts.reset(call, user_id, progression_id)


@frozen
class HuntPassRoutes:
    """The selected hunt pass."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    tracks: Tracks
    acts: HuntPassActs

    @routes.row("GET", "/huntpass/<user_id>", access=Access.TOKEN, own=True, reply=Envelope[str])
    async def read(self, call: Call, user_id: str) -> Answer:
        """The stored selection while it is configured, else the default."""
        if not self.settings.real_progression(user_id):
            return enveloped(self.tracks.active)
        return enveloped(await self.acts.read(user_id), code="OK")

    @routes.row(
        "POST",
        "/huntpass/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        body=Late[HuntPassWish],
        reply=Envelope[str],
    )
    async def choose(self, call: Call[Late[HuntPassWish]], user_id: str) -> Answer:
        """Store any configured track."""
        return await self.acts.choose(call, user_id)
