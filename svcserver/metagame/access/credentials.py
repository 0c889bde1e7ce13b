"""The descriptions of the metagame's credentials for the OpenAPI document."""

from svcserver.kernel.headers import ACCOUNT_KEY, GAME_SERVER_KEY
from svcserver.metagame.access.staff_sessions import COOKIE, PAGE_HEADER
from svcserver.metagame.rows import Access
from svcserver.web.openapi import PAGE, Credentials

_ACCOUNT, _GAME_SERVER, _TOKEN = ("accountKey",), ("gameServerKey",), ("playerToken",)
_SESSION = ("dashboardCookie", "dashboardWord")  # both are required
_NOTHING = ()
_BAD_TOKEN = {
    "description": "A game server forwarded a player token that is not valid: a page of HTML.",
    "content": PAGE,
}
_NO_LOGIN = {"description": "No login method is configured (AUTH_MODE): nothing but the status."}

CREDENTIALS = Credentials(
    schemes={
        "accountKey": {
            "type": "apiKey",
            "in": "header",
            "name": ACCOUNT_KEY.decode(),
            "description": (
                "The key of an account, which `POST /svc/api/Register` returns once."
                " It is the only credential for log-in."
            ),
        },
        "gameServerKey": {
            "type": "apiKey",
            "in": "header",
            "name": GAME_SERVER_KEY.decode(),
            "description": (
                "A key that the owner has registered for game servers (`svcctl gameserver-key`)."
                " It counts only from the machine of the server and from GAMESERVER_ALLOW_FROM;"
                " the gateway refuses it."
            ),
        },
        "playerToken": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": (
                "A player's token, valid for a day:"
                " `POST /account/api/oauth/token` gives it for an account key."
            ),
        },
        "dashboardCookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": (
                "The dashboard session's cookie, which `POST /svc/api/DashboardSession` sets."
                " Its name ends with the first 12 digits of the SHA-256 of the session's `Word`."
            ),
        },
        "dashboardWord": {
            "type": "apiKey",
            "in": "header",
            "name": PAGE_HEADER.decode(),
            "description": "The `Word` of the dashboard's session.",
        },
    },
    taken={
        Access.TOKEN: [_TOKEN, _GAME_SERVER],
        Access.PLAYER: [_TOKEN],
        Access.OPTIONAL_TOKEN: [_TOKEN, _NOTHING],
        Access.ACCOUNT_KEY: [_ACCOUNT],
        Access.ADMIN_KEY: [_ACCOUNT, _SESSION],
        Access.REGISTERED: [_ACCOUNT, _SESSION, _TOKEN, _NOTHING],
        Access.GAME_SERVER: [_GAME_SERVER],
        Access.ADMIN_OR_GAME_SERVER: [_ACCOUNT, _GAME_SERVER],
    },
    failures={
        Access.TOKEN: _BAD_TOKEN,
        Access.PLAYER: _BAD_TOKEN,
        Access.ACCOUNT_KEY: _NO_LOGIN,
        Access.ADMIN_KEY: _NO_LOGIN,
        Access.ADMIN_OR_GAME_SERVER: _NO_LOGIN,
    },
)
