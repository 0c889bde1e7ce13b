"""The banner's shape and text, and the constant replies. Spec: 1 §4 Status."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from svcserver.kernel.envelope import Empty
from svcserver.kernel.shapes import Moment

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
StatusBanner.__doc__ = "What the client shows of the server, in each language, and what runs here."


class Migrated(TypedDict):
    """Where the move of an account to the launcher's accounts stands."""

    migration_failed: bool
    migration_finished: bool


class Treatments(TypedDict):
    """Which variants of experiments a player sees."""

    treatments: list[str]


class EventStats(TypedDict):
    """Statistics of a seasonal event; there are none."""

    stats: list[Empty]


class Mailbox(TypedDict):
    """Messages to a player; there are none."""

    messages: list[Empty]


class Schedule(TypedDict):
    """Scheduled events; there are none."""

    ScheduledItems: list[Empty]


class HuntPassLimits(TypedDict):
    """How the experience of a hunt is counted."""

    DifficultyBias: float
    GlobalMultiplier: float
    MaxXPAwarded: float


class HuntPass(TypedDict):
    """How much experience a hunt gives the hunt pass; no event changes it."""

    EventConfigs: list[Empty]
    GlobalConfig: HuntPassLimits


class Creator(TypedDict):
    """The content creator whom the player supports; fixed."""

    expirationDate: Moment
    slug: str
    success: bool


class Moved(TypedDict):
    """The reply to a list of moved items: an envelope without payload."""

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
