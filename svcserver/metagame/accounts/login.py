"""Logging in, and what the client's online library asks around it. Spec: 1 §4 Login."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.kernel.times import FAR_FUTURE
from svcserver.metagame.access.tokens import LIFETIME_S, Tokens, is_usable
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.settings import Settings
from svcserver.web.routes import (
    EMPTY_OBJECT,
    Access,
    Answer,
    Call,
    Envelope,
    Routes,
    bare,
    enveloped,
)

log = Logger()

NOBODYS_ID = "9626f441055349ce8cb7d7d5a483eaa2"
"""The placeholder account id of the verify route; no account has it."""

# The client's online library may compare these with what it was built with.
FEATURES = ("Achievements", "AntiCheat", "Ecom", "Voice")
ORGANIZATION = "o-krlzxj88qrtb69fredeuaf887bl5az"
PRODUCT = "prod-jackal"
SANDBOX = "jackal"
DEPLOYMENT = "53565ba467df4edbb6f5a3d939a8b4f2"
CLIENT_ID = "xyza7891lhxMVYGCON7LgnKZZ8HQGD5H"
APPLICATION_ID = "fghi4567O03HROxEjwbn7kgXpBhnhWwv"


class LoginWish(TypedDict):
    """The account key; a form may carry it as well. Nothing else is read."""

    exchange_code: str


class QueueWish(TypedDict):
    """The caller's own account id, under the name the client gives it."""

    email: str


class LoginReply(TypedDict):
    """What the client's online library reads of a login."""

    access_token: str
    token_type: str
    expires_in: int
    expires_at: str
    features: list[str]
    organization_id: str
    product_id: str
    sandbox_id: str
    deployment_id: str
    refresh_token: str
    refresh_expires_at: str
    account_id: str


class VerifyReply(TypedDict):
    """Whether a token is good; always yes."""

    active: bool
    scope: str
    token_type: str
    expires_in: int
    expires_at: str
    account_id: str
    client_id: str
    application_id: str


class GameSession(TypedDict):
    """``sessionToken`` is the caller's own bearer, as sent."""

    error_code: None
    sessionid: str
    sessionToken: str


class TicketReply(TypedDict):
    """The answer of the login queue: come in."""

    error_code: str
    message: str
    state: str
    timeout: int
    title: str


@frozen
class Login:
    """Token, verification and session routes."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    directory: Directory
    tokens: Tokens
    counters: Counters

    @routes.row(
        "POST",
        "/account/api/oauth/token",
        access=Access.NONE,
        body=object,
        sends=LoginWish,
        reply=LoginReply,
    )
    async def log_in(self, call: Call) -> Answer:
        """Exchange the account key for a player token; only ``exchange_code`` is read."""
        if not self.settings.login:
            log.warn("No login method configured! Set AUTH_MODE=APIKEY")
            call.request.hopeless = True
            await Deferred()  # the contract: never an answer
        asked_at = self.tokens.now()
        code = call.fields.get("exchange_code")
        account_id = await self._account(code) if isinstance(code, str) and code else None
        if account_id is None:
            self.counters.add(Counted.FAILED_LOGINS, "account_key")
            raise Malformed("not a known account key")
        return Answer(200, login_reply(self.tokens.sign(account_id, asked_at), account_id))

    async def _account(self, code: str) -> AccountId | None:
        if self.settings.login == "NONE":
            return code if is_usable(code) else None
        account = await self.directory.account_of_key(code)
        if account is None:
            return None
        self.tokens.epochs.learn(account.id, account.tokens_not_before)
        return account.id

    @routes.row("GET", "/account/api/oauth/verify", access=Access.OPTIONAL_TOKEN, reply=VerifyReply)
    async def verify(self, call: Call) -> Answer:
        """Always 200; a placeholder account id without a valid token."""
        account_id = call.caller.account
        if account_id is None or self.settings.verify_stub_account:
            account_id = NOBODYS_ID
        reply: VerifyReply = {
            "active": True,
            "scope": "basic_profile friends_list presence",
            "token_type": "bearer",
            "expires_in": LIFETIME_S,
            "expires_at": FAR_FUTURE,
            "account_id": account_id,
            "client_id": CLIENT_ID,
            "application_id": APPLICATION_ID,
        }
        return Answer(200, reply)

    @routes.row("DELETE", "/account/api/oauth/sessions/kill", access=Access.NONE, reply=dict)
    async def kill_sessions(self, call: Call) -> Answer:
        """Revokes nothing: tokens are stateless."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/account/api/oauth/sessions/kill/<token>",
        access=Access.NONE,
        reply=dict,
        secret_path=("token",),
    )
    async def kill_session(self, call: Call, token: str) -> Answer:
        """The same for one session."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST", "/login", access=Access.TOKEN, body=object, sends=QueueWish, reply=TicketReply
    )
    async def queue(self, call: Call) -> Answer:
        """The login queue; ``email`` must be the token's own, existing account."""
        email = call.fields.get("email")
        own = call.caller.account
        if own is None or email != own or await self.directory.account_of_id(own) is None:
            raise Malformed("email is not the caller's account id")
        reply: TicketReply = {
            "error_code": "TicketRateOk",
            "message": "",
            "state": "OPEN",
            "timeout": 8000,
            "title": "",
        }
        return Answer(200, reply)

    @routes.row("PUT", "/gamesession/epic", access=Access.TOKEN, reply=Envelope[GameSession])
    async def game_session(self, call: Call) -> Answer:
        """Echo the caller's own bearer token."""
        if not call.caller.bearer:
            raise Forbidden("this needs a player's token")
        payload: GameSession = {
            "error_code": None,
            "sessionid": new_id(),
            "sessionToken": call.caller.bearer,
        }
        return enveloped(payload)


def login_reply(token: str, account_id: AccountId) -> LoginReply:
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
