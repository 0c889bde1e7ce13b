"""The status banner: what the client polls, and the health check. Spec: 1 §4 Status."""

from __future__ import annotations

from typing import ClassVar, NotRequired, TypedDict

from attrs import frozen

from svcserver.kernel import json
from svcserver.metagame.owner.status.build import Build
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Routes, bare

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

StatusBanner = TypedDict(  # written so because of the hyphen
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


@frozen
class Banner:
    """``GET /svc-status``; the bytes are made once."""

    routes: ClassVar[Routes] = Routes(bare)
    body: bytes

    @classmethod
    def of(cls, settings: Settings, build: Build) -> Banner:
        """The banner under these settings."""
        banner: dict[str, json.Json] = {"show-status": True}
        banner |= {key: text.format(name=settings.server_name) for key, text in WELCOME.items()}
        if settings.status_extra:
            banner |= {
                "name": settings.server_name,
                "version": build.version,
                "commit": build.commit,
                "sourceUrl": build.source_url,
            }
        return cls(json.dump(banner))

    @routes.row("GET", "/svc-status", access=Access.NONE, reply=StatusBanner)
    async def status(self, call: Call) -> Answer:
        """The banner; no player data."""
        return Answer(200, self.body)
