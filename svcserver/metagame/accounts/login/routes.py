"""Log-in and the related routes of the client's online library. Spec: 1 §4 Login."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.access.acting import own_or_none
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.login import wire
from svcserver.metagame.accounts.login.acts import LoginActs
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.request import HttpRequest
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare

log = Logger()


@frozen
class LoginRoutes:
    """Token, verification and session routes."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    directory: Directory
    acts: LoginActs
    network_of: Callable[[HttpRequest], str]

    @routes.row(
        "POST",
        "/account/api/oauth/token",
        access=Access.NONE,
        body=OrEmpty[wire.LoginWish],
        form=True,
        reply=wire.LoginReply,
        again=Again.NATURAL,
    )
    async def log_in(self, call: Call[wire.LoginWish]) -> Answer:
        """Exchange the account key for a player token; only ``exchange_code`` is read."""
        if not self.settings.login:
            log.warn("No login method configured! Set AUTH_MODE=APIKEY")
            call.request.hopeless = True
            await Deferred()  # the contract: never an answer
        found = await self.acts.log_in(call.body.exchange_code, self.network_of(call.request))
        return Answer(200, wire.show_login(*found))

    @routes.row(
        "GET", "/account/api/oauth/verify", access=Access.OPTIONAL_TOKEN, reply=wire.VerifyReply
    )
    async def verify(self, call: Call) -> Answer:
        """Whose token it is; always 200, with a placeholder account id without a valid token."""
        known = None if self.settings.verify_stub_account else call.caller.account
        return Answer(200, wire.show_token(known or wire.NOBODYS_ID))

    @routes.row(
        "DELETE",
        "/account/api/oauth/sessions/kill",
        access=Access.NONE,
        reply=Empty,
        again=Again.NATURAL,
    )
    async def kill_sessions(self, call: Call) -> Answer:
        """End sessions: answered, but none ends; a new account key ends them."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/account/api/oauth/sessions/kill/<token>",
        access=Access.NONE,
        reply=Empty,
        secret_path=("token",),
        again=Again.NATURAL,
    )
    async def kill_session(self, call: Call, token: str) -> Answer:
        """End one session: answered, but it goes on; the token in the path is never logged."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/login",
        access=Access.TOKEN,
        body=OrEmpty[wire.QueueWish],
        reply=wire.TicketReply,
        again=Again.NATURAL,
    )
    async def queue(self, call: Call[wire.QueueWish]) -> Answer:
        """Ask for a turn to log in, which comes at once; ``email`` is the caller's account id."""
        own = own_or_none(call, call.body.email)
        if own is None or await self.directory.account_of_id(own) is None:
            raise Malformed("email is not the caller's account id")
        return Answer(200, wire.show_ticket())

    @routes.row(
        "PUT",
        "/gamesession/epic",
        access=Access.TOKEN,
        reply=Envelope[wire.GameSession],
        again=Again.NATURAL,
    )
    async def game_session(self, call: Call) -> Answer:
        """Answer with the caller's own player token as ``sessionToken``, since the client asks for
        it.
        """
        if not call.caller.bearer:
            raise Forbidden("this needs a player's token")
        return enveloped(wire.show_session(call.caller.bearer))
