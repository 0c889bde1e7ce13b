"""The status banner and the routes with constant replies.

Spec: 1 §4 Status, heartbeat, fixed replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NoReturn, NotRequired, TypedDict

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.shapes import Moment
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.owner.announcements.rules import Announcement, in_language
from svcserver.metagame.owner.build import Build
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MISC_ROUTES, MetagameSettings
from svcserver.web.routes import EMPTY_OBJECT, NO_CONTENT, Answer, Feature, NoContent, bare

WELCOME = {
    "en": "Welcome to {name}!",
    "fr": "Bienvenue sur {name} !",
    "it": "Benvenuti su {name}!",
    "es": "¡Bienvenido a {name}!",
    "de": "Willkommen bei {name}!",
    "pt": "Bem-vindo a {name}!",
    "ru": "Добро пожаловать на {name}!",
    "ja": "{name}へようこそ！",  # noqa: RUF001 - Japanese
}

StatusBanner = TypedDict(  # the functional form, because of the hyphen
    "StatusBanner",
    {
        "show-status": bool,
        "en": str,
        "fr": str,
        "it": str,
        "es": str,
        "de": str,
        "pt": str,
        "ru": str,
        "ja": str,
        "name": NotRequired[str],
        "version": NotRequired[str],
        "commit": NotRequired[str],
        "sourceUrl": NotRequired[str],
    },
)
StatusBanner.__doc__ = (
    "The banner that the client shows, in each language, and the server's version."
)


class Migrated(TypedDict):
    """The state of the migration of an old account."""

    migration_failed: bool
    migration_finished: bool


class Treatments(TypedDict):
    """The variants of experiments, which are the same for all players."""

    treatments: list[str]


class EventStats(TypedDict):
    """The statistics of a seasonal event: a list that is always empty."""

    stats: list[Empty]


class Mailbox(TypedDict):
    """The messages to a player: a list that is always empty."""

    messages: list[Empty]


class Schedule(TypedDict):
    """The scheduled events: a list that is always empty."""

    ScheduledItems: list[Empty]


class HuntPassLimits(TypedDict):
    """The factors and the upper limit of the experience that a hunt gives."""

    DifficultyBias: float
    GlobalMultiplier: float
    MaxXPAwarded: float


class HuntPass(TypedDict):
    """The experience that a hunt adds to the hunt pass."""

    EventConfigs: list[Empty]
    GlobalConfig: HuntPassLimits


class Creator(TypedDict):
    """The reply that the player supports no content creator."""

    expirationDate: Moment
    slug: str
    success: bool


class Moved(TypedDict):
    """The reply about moved items: an envelope without payload."""

    code: None
    message: str


MIGRATED: Migrated = {"migration_failed": False, "migration_finished": True}
TREATMENTS: Treatments = {"treatments": ["CohortTreatment.Dojo.B"]}
NO_STATS: EventStats = {"stats": []}
NO_MAIL: Mailbox = {"messages": []}
NO_EVENTS: Schedule = {"ScheduledItems": []}
HUNT_PASS_XP: HuntPass = {
    "EventConfigs": [],
    "GlobalConfig": {"DifficultyBias": 1, "GlobalMultiplier": 1, "MaxXPAwarded": 200},
}
CREATOR: Creator = {
    "expirationDate": "2099-01-01T01:00:00.041Z",
    "slug": "NONE",
    "success": True,
}
MOVED_ITEMS: Moved = {"code": None, "message": ""}


@frozen
class BannerRoutes:
    """The route of the status banner.

    The body of the reply is constant, except while there is an announcement.
    """

    routes: ClassVar[Routes] = Routes(bare)
    banner: dict[str, json.Json]
    body: bytes
    announced: Callable[[], Announcement | None]
    wall_clock: Callable[[], float]

    @classmethod
    def with_welcome(
        cls,
        settings: MetagameSettings,
        build: Build,
        announced: Callable[[], Announcement | None],
        wall_clock: Callable[[], float],
    ) -> BannerRoutes:
        banner: dict[str, json.Json] = {"show-status": True}
        name = settings.server_name
        banner |= {key: text.format(name=name) for key, text in WELCOME.items()}
        if settings.status_extra:
            banner |= {
                "name": name,
                "version": build.version,
                "commit": build.commit,
                "sourceUrl": build.source_url,
            }
        return cls(banner, json.dump(banner), announced, wall_clock)

    @routes.row("GET", "/svc-status", access=Access.NONE, reply=StatusBanner)
    async def read(self, call: Call) -> Answer:
        """Return the banner: the announcement, or a welcome if there is no announcement."""
        announcement = self.announced()
        if announcement is None:
            return Answer(200, self.body)
        now = self.wall_clock()
        texts = {language: in_language(announcement, language, now) for language in WELCOME}
        return Answer(200, self.banner | texts)


@frozen
class FixedReplyRoutes:
    """Routes with constant replies, which the client needs in order to continue."""

    routes: ClassVar[Routes] = Routes(bare)

    @routes.row("POST", "/event", access=Access.NONE, reply=Empty, again=Again.NATURAL)
    async def event(self, call: Call) -> Answer:
        """Accept the client's telemetry and discard it. Spec: 1 §6.2."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST", "/account/migrate", access=Access.TOKEN, reply=Migrated, again=Again.NATURAL
    )
    async def migrate(self, call: Call) -> Answer:
        """Report that an old account's migration is finished; this host has no old accounts.

        Without this answer, the client would repeat the request forever.
        """
        return Answer(200, MIGRATED)

    @routes.row("POST", "/profile/update", access=Access.TOKEN, again=Again.NATURAL)
    async def profile(self, call: Call) -> Answer:
        """Accept the client's profile and discard it."""
        return Answer(200)

    @routes.row("GET", "/vivox/login", access=Access.TOKEN, reply=NoReturn)
    async def voice(self, call: Call) -> Answer:
        """Refuse a log-in to voice chat with 404, because this host has no voice chat."""
        return Answer(404)

    @routes.row("POST", "/motd/", access=Access.TOKEN, reply=NoContent, again=Again.NATURAL)
    async def message_of_the_day(self, call: Call) -> Answer:
        """Return an empty message of the day; the banner is in `/svc-status`."""
        return NO_CONTENT

    @routes.row("GET", "/motd/trigger", access=Access.NONE, reply=NoContent, when=MISC_ROUTES)
    async def message_trigger(self, call: Call) -> Answer:
        """Return an empty reply, because there is no message of the day to show."""
        return NO_CONTENT

    @routes.row("GET", "/playertreatments/<user_id>", access=Access.TOKEN, reply=Treatments)
    async def treatments(self, call: Call, user_id: str) -> Answer:
        """Return the variants of experiments, which are the same for all players."""
        return Answer(200, TREATMENTS)

    @routes.row("GET", "/eventstats/", access=Access.TOKEN, reply=EventStats)
    async def event_stats(self, call: Call) -> Answer:
        """Return the statistics of an event, which are always empty, because no event ever runs."""
        return Answer(200, NO_STATS)

    @routes.row("GET", "/all/", access=Access.TOKEN, reply=Envelope[Mailbox])
    async def mailbox(self, call: Call) -> Answer:
        """Return the mailbox, which is always empty."""
        return enveloped(NO_MAIL)

    @routes.row(
        "GET",
        "/game_tuning/seasonal_event_schedule",
        access=Access.NONE,
        reply=Envelope[Schedule],
    )
    async def schedule(self, call: Call) -> Answer:
        """Return the list of scheduled events, which is always empty."""
        return enveloped(NO_EVENTS)

    @routes.row(
        "GET", "/game_tuning/huntpass_xp_config", access=Access.NONE, reply=Envelope[HuntPass]
    )
    async def hunt_pass_xp(self, call: Call) -> Answer:
        """Return the experience that a hunt adds to the hunt pass."""
        return enveloped(HUNT_PASS_XP)

    @routes.row("GET", "/creator", access=Access.TOKEN, reply=Creator)
    async def creator(self, call: Call) -> Answer:
        """Report that the player has chosen no content creator to support."""
        return Answer(200, CREATOR)

    @routes.row(
        "POST",
        "/inventory/<character_id>/<change_list>",
        access=Access.TOKEN,
        reply=Moved,
        again=Again.NATURAL,
    )
    async def migrate_items(self, call: Call, character_id: str, change_list: str) -> Answer:
        """Report that the migration of old items is finished; this host has no old items."""
        return Answer(200, MOVED_ITEMS)


def status(
    parts: Parts, about: Build, announced: Callable[[], Announcement | None]
) -> Iterator[Feature]:
    """Yield the status banner and the routes with constant replies."""
    yield BannerRoutes.with_welcome(parts.settings, about, announced, parts.wall_clock)
    yield FixedReplyRoutes()
