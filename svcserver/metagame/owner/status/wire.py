"""The banner's shape and text, and the constant replies. Spec: 1 §4 Status."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from svcserver.kernel.envelope import envelope

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

MIGRATED = {"migration_failed": False, "migration_finished": True}
TREATMENTS = {"treatments": ["CohortTreatment.Dojo.B"]}
NO_STATS: dict[str, list[Any]] = {"stats": []}
NO_MAIL = envelope({"messages": []})
NO_EVENTS = envelope({"ScheduledItems": []})
HUNT_PASS_XP = envelope(
    {
        "EventConfigs": [],
        "GlobalConfig": {"DifficultyBias": 1, "GlobalMultiplier": 1, "MaxXPAwarded": 200},
    }
)
CREATOR = {"expirationDate": "2099-01-01T01:00:00.041Z", "slug": "NONE", "success": True}
MOVED_ITEMS = {"code": None, "message": ""}
