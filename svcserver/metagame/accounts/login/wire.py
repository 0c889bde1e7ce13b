"""Request and reply shapes of a login, fixed by the client's online library. Spec: 1 §4 Login."""

from __future__ import annotations

from typing import TypedDict

from attrs import frozen

from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.shapes import Lenient, Moment, TextWithNul
from svcserver.kernel.times import FAR_FUTURE
from svcserver.metagame.access.tokens import LIFETIME_S

NOBODYS_ID = "9626f441055349ce8cb7d7d5a483eaa2"
"""The placeholder account id of the verify route; no account has it."""

# The client's online library may compare these with its build's own values.
FEATURES = ("Achievements", "AntiCheat", "Ecom", "Voice")
ORGANIZATION = "o-krlzxj88qrtb69fredeuaf887bl5az"
PRODUCT = "prod-jackal"
SANDBOX = "jackal"
DEPLOYMENT = "53565ba467df4edbb6f5a3d939a8b4f2"
CLIENT_ID = "xyza7891lhxMVYGCON7LgnKZZ8HQGD5H"
APPLICATION_ID = "fghi4567O03HROxEjwbn7kgXpBhnhWwv"


@frozen
class LoginWish:
    """The account key, as JSON or as a form. Nothing else is read."""

    exchange_code: Lenient[TextWithNul] = ""


@frozen
class QueueWish:
    """The caller's own account id, which the client calls ``email``."""

    email: Lenient[TextWithNul | None]


class LoginReply(TypedDict):
    """The token, for so many seconds (``expires_in``), and whose; all else are constants."""

    access_token: str
    token_type: str
    expires_in: int
    expires_at: Moment
    features: list[str]
    organization_id: str
    product_id: str
    sandbox_id: str
    deployment_id: str
    refresh_token: str
    refresh_expires_at: Moment
    account_id: str


class VerifyReply(TypedDict):
    """Whether a token is valid; always yes."""

    active: bool
    scope: str
    token_type: str
    expires_in: int
    expires_at: Moment
    account_id: str
    client_id: str
    application_id: str


class GameSession(TypedDict):
    """``sessionToken`` is the caller's own bearer, as sent."""

    error_code: None
    sessionid: str
    sessionToken: str


class TicketReply(TypedDict):
    """The turn to log in, which always comes at once."""

    error_code: str
    message: str
    state: str
    timeout: int
    title: str


def show_login(token: str, account_id: AccountId) -> LoginReply:
    """The body of a successful login."""
    return {
        "access_token": token,
        "token_type": "bearer",
        "expires_in": LIFETIME_S,
        "expires_at": FAR_FUTURE,
        "features": list(FEATURES),
        "organization_id": ORGANIZATION,
        "product_id": PRODUCT,
        "sandbox_id": SANDBOX,
        "deployment_id": DEPLOYMENT,
        "refresh_token": "unused",
        "refresh_expires_at": FAR_FUTURE,
        "account_id": account_id,
    }


def show_token(account_id: AccountId) -> VerifyReply:
    """The reply of the verify route."""
    return {
        "active": True,
        "scope": "basic_profile friends_list presence",
        "token_type": "bearer",
        "expires_in": LIFETIME_S,
        "expires_at": FAR_FUTURE,
        "account_id": account_id,
        "client_id": CLIENT_ID,
        "application_id": APPLICATION_ID,
    }


def show_ticket() -> TicketReply:
    """The reply of the login queue."""
    return {
        "error_code": "TicketRateOk",
        "message": "",
        "state": "OPEN",
        "timeout": 8000,
        "title": "",
    }


def show_session(bearer: str) -> GameSession:
    """The reply with a new session of that token."""
    return {"error_code": None, "sessionid": new_id(), "sessionToken": bearer}
