"""The progression routes. Spec: 1 §4 Progression and hunt pass."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Literal, NotRequired, TypedDict, TypeVar

from attrs import frozen

from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting, shown
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import EventEntry
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.progression import config, rules, wire
from svcserver.metagame.achievements.progression.acts import (
    HuntPassActs,
    ManagementActs,
    ProgressionActs,
)
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.rules import Objective, Track
from svcserver.metagame.achievements.progression.wire import (
    GrantBody,
    Granted,
    HuntPassRequest,
    ObjectiveRecord,
    TrackRecord,
)
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import Answer, Feature, Needed, bare


class RankNeeds(TypedDict):
    """The XP that a rank requires, counted from the rank below."""

    rank_id: int
    xp_required: int


class RewardEntitlement(TypedDict):
    """An entitlement that a rank grants, for ``duration`` hours; 0 means forever."""

    entitlement: str
    duration: NotRequired[float]


class RewardItem(TypedDict):
    """A quantity of one item; the client sorts items by ``priority`` and omits ``hidden`` items."""

    catalog_id: str
    quantity: int
    priority: NotRequired[int]
    hidden: NotRequired[bool]


class RankReward(TypedDict):
    """A rank's reward: entitlements, single items (their catalogue ids), and stacks of items."""

    rank_id: int
    entitlements: NotRequired[list[RewardEntitlement] | None]
    instanced_items: NotRequired[list[str]]
    ordered_instanced_items: NotRequired[list[str]]
    stacked_items: NotRequired[list[RewardItem]]


class PrestigeReward(TypedDict):
    """The reward of every prestige level (a level above the last rank)."""

    stacked_items: list[RewardItem]


class PrestigeStep(TypedDict):
    """The XP and the reward of every prestige level (a level above the last rank)."""

    xp_per_level: float
    free_rewards: NotRequired[PrestigeReward]
    premium_rewards: NotRequired[PrestigeReward]


class SeasonTrack(TypedDict):
    """A progression track; ``premium_gating_entitlement`` is needed for premium rewards."""

    progression_id: str
    requirements: list[RankNeeds]
    premium_gating_entitlement: NotRequired[str]
    progression_multiplier: NotRequired[float]
    start_date: NotRequired[str]
    end_date: NotRequired[str]
    prestige: NotRequired[PrestigeStep | None]
    free_rewards: NotRequired[list[RankReward]]
    premium_rewards: NotRequired[list[RankReward]]


class ConfigReply(TypedDict):
    """The configured tracks with their ranks and rewards, as in the season files."""

    paths: list[SeasonTrack]


def _show_choice(track_id: str) -> dict[str, Any]:
    return envelope(track_id, code="OK")


@frozen
class ProgressionRoutes:
    """The routes that read, grant, confirm and reset tracks and objectives."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: MetagameSettings
    tracks: Tracks
    acts: ProgressionActs
    acting: Acting

    @routes.row("GET", "/progression/config", reply=Envelope[ConfigReply])
    async def config(self, call: Call) -> Answer:
        """Return the configured tracks with ranks and rewards, which are the same for everybody."""
        return enveloped(self.tracks.wire)

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>",
        own=True,
        reply=Envelope[list[ObjectiveRecord] | Granted],
    )
    async def read_objectives(self, call: Call, user_id: str) -> Answer:
        """Return the account's stored objectives as a list."""
        if not self.settings.real_progression(user_id):
            mastery = wire.stub_tracks(shown(call, user_id), self.tracks.paths)[1:]
            return enveloped({"objectives": [], "progress_tracks": mastery})
        stored = await self.acts.objectives(user_id)
        records = [wire.objective_record(user_id, stored[name]) for name in sorted(stored)]
        return enveloped(records, code=200)

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>/<objective_id>",
        own=True,
        reply=Envelope[ObjectiveRecord],
    )
    async def read_objective(self, call: Call, user_id: str, objective_id: str) -> Answer:
        """Return one objective; if it is not stored, its values are 0."""
        if not self.settings.real_progression(user_id):
            objective = Objective(objective_id, wire.STUB_COUNT, wire.STUB_COUNT, 0, 0)
        else:
            objective = await self.acts.objective(user_id, objective_id)
        return enveloped(wire.objective_record(user_id, objective), code="OK")

    @routes.row("GET", "/progression/<user_id>", own=True, reply=Envelope[list[TrackRecord]])
    async def read_tracks(self, call: Call, user_id: str) -> Answer:
        """Return all configured tracks; the values of a track without progress are 0."""
        paths = self.tracks.paths
        if not self.settings.real_progression(user_id):
            return enveloped(wire.stub_tracks(shown(call, user_id), paths))
        stored = rules.in_order(await self.acts.stored(user_id), paths)
        return enveloped([wire.track_record(user_id, track) for track in stored], code=200)

    @routes.row(
        "GET",
        "/progression/<user_id>/<progression_id>",
        own=True,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def read_track(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """Return one track of the account; the reply is 404 if the track never had progress."""
        track = (await self.acts.stored(user_id)).get(progression_id)
        if track is None:
            raise Missing("no such track")
        return Answer(200, wire.show_track(user_id, track))

    @routes.row(
        "POST",
        "/progression/<user_id>",
        game_server=True,
        body=Late[GrantBody],
        reply=Envelope[Granted],
        again=Again.NATURAL,
    )
    async def grant(self, call: Call[Late[GrantBody]], user_id: str) -> Answer:
        """Add XP to tracks, and replace the values of objectives.

        If the same grant is sent again within PROGRESSION_REPLAY_WINDOW_S seconds, it adds nothing.
        """
        if not self.settings.real_progression(user_id):
            raise Malformed("this account has fixed progression")
        entry = recorded.entry(self.acting, call, user_id, recorded.as_stored)
        return Answer(200, await self.acts.grant(entry, call.body))

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<amount>",
        path_types={"amount": int},
        game_server=True,
        real_only=True,
        reply=Envelope[TrackRecord],
        again=Again.NATURAL,
    )
    async def add(self, call: Call, user_id: str, progression_id: str, amount: str) -> Answer:
        """Add XP to one track, up to the configured maximum per request."""
        entry = self._entry(call, user_id)
        return Answer(200, entry.show(await self.acts.add(entry, progression_id, amount)))

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<rank>/confirm/<kind>",
        path_types={"rank": int, "kind": Literal["public", "premium"]},
        game_server=True,
        real_only=True,
        when=lambda settings: settings.progression_confirm,
        reply=Envelope[TrackRecord],
        again=Again.NATURAL,
    )
    async def confirm(
        self, call: Call, user_id: str, progression_id: str, rank: str, kind: str
    ) -> Answer:
        """Confirm that the client has shown a rank.

        With PROGRESSION_CONFIRM_ENTITLEMENTS, the account gets the rank's permanent entitlements.
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
        """Reset one track; game servers may do this only with PROGRESSION_ALLOW_DELETE=1."""
        entry = self._entry(call, user_id, "delete progression")
        return Answer(200, entry.show(await self.acts.reset(entry, progression_id)))

    def _entry(self, call: Call, user_id: str, action: str = "") -> EventEntry[Track]:
        show = partial(wire.show_track, user_id)
        return recorded.entry(self.acting, call, user_id, show, action)


@frozen
class HuntPassRoutes:
    """The routes that read and choose an account's hunt pass."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: MetagameSettings
    tracks: Tracks
    acts: HuntPassActs
    acting: Acting

    @routes.row("GET", "/huntpass/<user_id>", own=True, reply=Envelope[str])
    async def read_hunt_pass(self, call: Call, user_id: str) -> Answer:
        """Return the hunt pass that the account chose, or the default if the choice is invalid."""
        if not self.settings.real_progression(user_id):
            return enveloped(self.tracks.active)
        return Answer(200, _show_choice(await self.acts.read_chosen_pass(user_id)))

    @routes.row(
        "POST",
        "/huntpass/<user_id>",
        game_server=True,
        real_only=True,
        body=Late[HuntPassRequest],
        reply=Envelope[str],
        again=Again.NATURAL,
    )
    async def choose_hunt_pass(self, call: Call[Late[HuntPassRequest]], user_id: str) -> Answer:
        """Choose one of the configured tracks as the account's hunt pass."""
        entry = recorded.entry(self.acting, call, user_id, _show_choice)
        return Answer(200, _show_choice(await self.acts.choose(entry, call.body)))


T = TypeVar("T")


@frozen
class ProgressionManagementRoutes:
    """The owner's progression routes: report, set all tracks, grant and revoke."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: ManagementActs
    acting: Acting

    @routes.row(
        "GET",
        "/svc/api/Progression",
        role=Role.HELPER,
        reply=wire.Report,
        query={"UserId": Needed(str)},
    )
    async def report(self, call: Call) -> Answer:
        """Return an account's tracks (with the earned ranks), objectives and entitlements."""
        user_id = call.request.argument("UserId")
        if not user_id:
            raise Malformed("UserId is missing", code="bad_request")
        return Answer(200, wire.show_report(user_id, await self.acts.report(user_id)))

    @routes.row("POST", "/svc/api/SeedProgression", body=wire.SeedRequest, reply=wire.Seeded)
    async def seed(self, call: Call[wire.SeedRequest]) -> Answer:
        """Set all tracks of an account to their maximum (``grandfather``) or to 0 (``fresh``)."""
        body = call.body
        entry = self._entry(call, wire.show_seeded, "seed progression")
        return Answer(200, entry.show(await self.acts.seed(entry, body.mode)))

    @routes.row(
        "POST", "/svc/api/GrantEntitlement", body=wire.GrantRequest, reply=wire.EntitlementsHeld
    )
    async def grant_entitlement(self, call: Call[wire.GrantRequest]) -> Answer:
        """Grant an account an entitlement for ``Duration`` hours; 0 or absent means forever."""
        body = call.body
        entry = self._entry(call, wire.show_held, "grant")
        return Answer(200, entry.show(await self.acts.grant(entry, body)))

    @routes.row(
        "POST", "/svc/api/RevokeEntitlement", body=wire.RevokeRequest, reply=wire.EntitlementRevoked
    )
    async def revoke_entitlement(self, call: Call[wire.RevokeRequest]) -> Answer:
        """Revoke an account's entitlement; ``Revoked`` is true if it was in force."""
        body = call.body
        entry = self._entry(call, wire.show_revoked, "revoke")
        return Answer(200, entry.show(await self.acts.revoke(entry, body.entitlement)))

    def _entry(
        self, call: Call[Any], show: Callable[[AccountId, T], Any], action: str
    ) -> EventEntry[T]:
        """Return the event-log entry for the account that the body names."""
        user_id = call.body.user_id
        return recorded.entry(self.acting, call, user_id, partial(show, user_id), action)


def progression(parts: Parts) -> Iterator[Feature]:
    """Yield the routes for tracks, objectives and the hunt pass; raises BadData."""
    settings, ledger, clock = parts.settings, parts.ledger, parts.wall_clock
    events, acting = parts.events, parts.acting
    tracks = config.load(settings.progression_config_dir, settings.active_hunt_pass)
    acts = ProgressionActs(settings, tracks, ledger, clock, events)
    yield ProgressionRoutes(settings, tracks, acts, acting)
    yield HuntPassRoutes(settings, tracks, HuntPassActs(tracks, ledger, events), acting)
    staff = ManagementActs(settings, tracks, ledger, clock, events)
    yield ProgressionManagementRoutes(staff, acting)
