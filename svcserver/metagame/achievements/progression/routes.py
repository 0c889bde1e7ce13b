"""The progression routes. Spec: 1 §4 Progression, hunt pass."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

from attrs import frozen

from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting, shown
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import Entry
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.acts import HuntPassActs, ProgressionActs
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.config_wire import ConfigReply
from svcserver.metagame.achievements.progression.rules import Track
from svcserver.metagame.achievements.progression.wire import (
    GrantBody,
    Granted,
    HuntPassWish,
    ObjectiveRecord,
    TrackRecord,
)
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Answer, bare


def _show_choice(track_id: str) -> dict[str, Any]:
    return envelope(track_id, code="OK")


@frozen
class ProgressionRoutes:
    """Tracks and objectives: read, grant, confirm, reset."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    tracks: Tracks
    acts: ProgressionActs
    acting: Acting

    @routes.row("GET", "/progression/config", access=Access.TOKEN, reply=Envelope[ConfigReply])
    async def config(self, call: Call) -> Answer:
        """The configured tracks with their ranks and rewards, the same for all."""
        return enveloped(self.tracks.wire)

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[list[ObjectiveRecord] | Granted],
    )
    async def read_objectives(self, call: Call, user_id: str) -> Answer:
        """The objectives that are stored, as a list."""
        if not self.settings.real_progression(user_id):
            found = wire.show_stub_objectives(shown(call, user_id), self.tracks.paths)
            return Answer(200, found)
        return Answer(200, wire.show_objectives(user_id, await self.acts.objectives(user_id)))

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>/<objective_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[ObjectiveRecord],
    )
    async def read_objective(self, call: Call, user_id: str, objective_id: str) -> Answer:
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
    async def read_tracks(self, call: Call, user_id: str) -> Answer:
        """Every configured track of the account, with zeros where it has earned nothing yet."""
        paths = self.tracks.paths
        if not self.settings.real_progression(user_id):
            return enveloped(wire.stub_tracks(shown(call, user_id), paths))
        stored = rules.in_order(await self.acts.stored(user_id), paths)
        return Answer(200, wire.show_tracks(user_id, stored))

    @routes.row(
        "GET",
        "/progression/<user_id>/<progression_id>",
        access=Access.TOKEN,
        own=True,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def read_track(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """One track of the account; 404 if it was never added to."""
        found = (await self.acts.stored(user_id)).get(progression_id)
        if found is None:
            raise Missing("no such track")
        return Answer(200, wire.show_track(user_id, found))

    @routes.row(
        "POST",
        "/progression/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        body=Late[GrantBody],
        reply=Envelope[Granted],
        again=Again.NATURAL,
    )
    async def grant(self, call: Call[Late[GrantBody]], user_id: str) -> Answer:
        """Add experience to tracks, and set objectives. A request that is repeated at once is
        answered as the first time, and adds nothing.
        """
        if not self.settings.real_progression(user_id):
            raise Malformed("fixed progression takes no grant")
        entry = recorded.entry(self.acting, call, user_id, recorded.as_stored)
        return Answer(200, await self.acts.grant(entry, call.body))

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<amount>",
        path_types={"amount": int},
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        reply=Envelope[TrackRecord],
        again=Again.NATURAL,
    )
    async def add(self, call: Call, user_id: str, progression_id: str, amount: str) -> Answer:
        """Add an amount to one track, up to the cap."""
        entry = self._entry(call, user_id)
        return Answer(200, entry.show(await self.acts.add(entry, progression_id, amount)))

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<rank>/confirm/<kind>",
        path_types={"rank": int, "kind": Literal["public", "premium"]},
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        when=lambda settings: settings.progression_confirm,
        reply=Envelope[TrackRecord],
        again=Again.NATURAL,
    )
    async def confirm(
        self, call: Call, user_id: str, progression_id: str, rank: str, kind: str
    ) -> Answer:
        """Confirm that the client has seen a rank. With PROGRESSION_CONFIRM_ENTITLEMENTS the
        account gets the rank's permanent entitlements, too.
        """
        entry = self._entry(call, user_id)
        return Answer(200, entry.show(await self.acts.confirm(entry, progression_id, rank, kind)))

    @routes.row(
        "DELETE",
        "/progression/<user_id>/<progression_id>",
        access=Access.ADMIN_OR_GAME_SERVER,
        real_only=True,
        reply=Envelope[TrackRecord],
        query={"Reason": str},
        again=Again.NEVER,
    )
    async def reset(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """Reset one track; a game server only with PROGRESSION_ALLOW_DELETE=1."""
        entry = self._entry(call, user_id, "delete progression")
        return Answer(200, entry.show(await self.acts.reset(entry, progression_id)))

    def _entry(self, call: Call, user_id: str, action: str = "") -> Entry[Track]:
        show = partial(wire.show_track, user_id)
        return recorded.entry(self.acting, call, user_id, show, action)


@frozen
class HuntPassRoutes:
    """Which track is the account's hunt pass."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: Settings
    tracks: Tracks
    acts: HuntPassActs
    acting: Acting

    @routes.row("GET", "/huntpass/<user_id>", own=True, reply=Envelope[str])
    async def read_hunt_pass(self, call: Call, user_id: str) -> Answer:
        """Which track is the account's hunt pass: its own choice while that is configured, else the
        default.
        """
        if not self.settings.real_progression(user_id):
            return enveloped(self.tracks.active)
        return Answer(200, _show_choice(await self.acts.read(user_id)))

    @routes.row(
        "POST",
        "/huntpass/<user_id>",
        game_server=True,
        real_only=True,
        body=Late[HuntPassWish],
        reply=Envelope[str],
        again=Again.NATURAL,
    )
    async def choose_hunt_pass(self, call: Call[Late[HuntPassWish]], user_id: str) -> Answer:
        """Choose which of the configured tracks is the account's hunt pass."""
        entry = recorded.entry(self.acting, call, user_id, _show_choice)
        return Answer(200, _show_choice(await self.acts.choose(entry, call.body)))
