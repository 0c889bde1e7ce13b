"""The credentials of the metagame's routes, for the OpenAPI document."""

from __future__ import annotations

from svcserver.kernel.headers import ACCOUNT_KEY, GAME_SERVER_KEY
from svcserver.metagame.rows import Access
from svcserver.web.openapi import Credentials

_ACCOUNT, _GAME_SERVER, _TOKEN = "accountKey", "gameServerKey", "playerToken"

CREDENTIALS = Credentials(
    schemes={
        _ACCOUNT: {"type": "apiKey", "in": "header", "name": ACCOUNT_KEY.decode()},
        _GAME_SERVER: {"type": "apiKey", "in": "header", "name": GAME_SERVER_KEY.decode()},
        _TOKEN: {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    },
    taken={
        Access.TOKEN: [_TOKEN, _GAME_SERVER],
        Access.PLAYER: [_TOKEN],
        Access.OPTIONAL_TOKEN: [_TOKEN, ""],
        Access.ACCOUNT_KEY: [_ACCOUNT],
        Access.ADMIN_KEY: [_ACCOUNT],
        Access.REGISTERED: [_ACCOUNT, _TOKEN, ""],
        Access.GAME_SERVER: [_GAME_SERVER],
        Access.ADMIN_OR_GAME_SERVER: [_ACCOUNT, _GAME_SERVER],
    },
    failures={
        Access.TOKEN: "A game server forwarded a player token that is not valid.",
        Access.PLAYER: "A game server forwarded a player token that is not valid.",
        Access.ACCOUNT_KEY: "No login method is configured (AUTH_MODE).",
        Access.ADMIN_KEY: "No login method is configured (AUTH_MODE).",
    },
)
