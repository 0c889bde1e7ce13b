"""The banner's shape and text, and the constant replies. Spec: 1 §4 Status."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from svcserver.metagame.replies import enveloped
from svcserver.web.routes import EMPTY_OBJECT, Answer

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

EMPTY = Answer(200, EMPTY_OBJECT)
MIGRATED = Answer(200, {"migration_failed": False, "migration_finished": True})
TREATMENTS = Answer(200, {"treatments": ["CohortTreatment.Dojo.B"]})
NO_STATS = Answer(200, {"stats": []})
NO_MAIL = enveloped({"messages": []})
NO_EVENTS = enveloped({"ScheduledItems": []})
HUNT_PASS_XP = enveloped(
    {
        "EventConfigs": [],
        "GlobalConfig": {"DifficultyBias": 1, "GlobalMultiplier": 1, "MaxXPAwarded": 200},
    }
)
CREATOR = Answer(
    200, {"expirationDate": "2099-01-01T01:00:00.041Z", "slug": "NONE", "success": True}
)
MOVED_ITEMS = Answer(200, {"code": None, "message": ""})
