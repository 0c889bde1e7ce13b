"""Log-in and related routes that the game client calls. Spec: 1 §4 Login."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import ClassVar, TypedDict, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.refusals import Forbidden, Malformed, Unavailable
from svcserver.kernel.shapes import Lenient, Moment, OrEmpty, TextWithNul
from svcserver.metagame.access.acting import own_or_none
from svcserver.metagame.access.tokens import LIFETIME_S, Tokens, is_usable
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.networks import Networks
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.request import HttpRequest
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare

T = TypeVar("T")
AT_ONCE = 32  # log-ins that run at once; a signature takes 0.25 ms of the event loop
MAX_WAITING = 10_000  # log-ins that wait for their turn
FAR_FUTURE = "2085-09-09T01:01:01.703Z"

NOBODYS_ID = "9626f441055349ce8cb7d7d5a483eaa2"
"""The placeholder account id of the verify route; no account has it."""


@frozen
class LoginRequest:
    """The account key, as JSON or as a form; other fields are ignored."""

    exchange_code: Lenient[TextWithNul] = ""


@frozen
class QueueRequest:
    """The request to pass the log-in queue; ``email`` is the caller's own account id."""

    email: Lenient[TextWithNul | None]


class LoginReply(TypedDict):
    """The token, its lifetime in seconds (``expires_in``), its account, and constant fields."""

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
    """The token's account id, or a placeholder if the token is invalid; the rest is constant."""

    active: bool
    scope: str
    token_type: str
    expires_in: int
    expires_at: Moment
    account_id: str
    client_id: str
    application_id: str


class GameSession(TypedDict):
    """The caller's own player token, in the field ``sessionToken``."""

    error_code: None
    sessionid: str
    sessionToken: str


class TicketReply(TypedDict):
    """The reply of the log-in queue: the caller may always log in immediately."""

    error_code: str
    message: str
    state: str
    timeout: int
    title: str


def show_login(token: str, account_id: AccountId) -> LoginReply:
    """Return the body of a successful log-in.

    Most values are constants; the client may compare them with the values in its own build.
    """
    return {
        "access_token": token,
        "token_type": "bearer",
        "expires_in": LIFETIME_S,
        "expires_at": FAR_FUTURE,
        "features": ["Achievements", "AntiCheat", "Ecom", "Voice"],
        "organization_id": "o-krlzxj88qrtb69fredeuaf887bl5az",
        "product_id": "prod-jackal",
        "sandbox_id": "jackal",
        "deployment_id": "53565ba467df4edbb6f5a3d939a8b4f2",
        "refresh_token": "unused",
        "refresh_expires_at": FAR_FUTURE,
        "account_id": account_id,
    }


def show_token(account_id: AccountId) -> VerifyReply:
    """Return the reply to a request to verify a token."""
    return {
        "active": True,
        "scope": "basic_profile friends_list presence",
        "token_type": "bearer",
        "expires_in": LIFETIME_S,
        "expires_at": FAR_FUTURE,
        "account_id": account_id,
        "client_id": "xyza7891lhxMVYGCON7LgnKZZ8HQGD5H",
        "application_id": "fghi4567O03HROxEjwbn7kgXpBhnhWwv",
    }


TICKET: TicketReply = {
    "error_code": "TicketRateOk",
    "message": "",
    "state": "OPEN",
    "timeout": 8000,
    "title": "",
}
TRIES = 3  # look-ups of a key, if the account's sessions end meanwhile


@frozen
class LoginActs:
    """The operation of logging in.

    If ``by_id`` is true (AUTH_MODE=NONE), the key is the account id, and the account need not
    exist.
    """

    directory: Directory
    tokens: Tokens
    counters: Counters
    networks: Networks
    by_id: bool = False
    on_login: Callable[[AccountId, str], object] | None = None  # gets the account and its network

    async def log_in(self, key: str, network: str = "") -> tuple[str, AccountId]:
        """Return a token and its account; raises Malformed for an unknown key or a banned account.

        ``network`` is the caller's network, or empty if the caller is on this machine.
        """
        if self.by_id:
            login = (self.tokens.sign(key), key) if await self._may_enter(key) else None
        else:
            login = await self._by_key(key, network) if key else None
        if login is None:
            self.counters.add(Counted.FAILED_LOGINS, "account_key")
            raise Malformed("not a known account key")
        if self.on_login is not None:
            self.on_login(login[1], network)
        return login

    async def _may_enter(self, account_id: AccountId) -> bool:
        return is_usable(account_id) and not await self.directory.is_banned(account_id)

    async def _by_key(self, key: str, network: str) -> tuple[str, AccountId] | None:
        for _ in range(TRIES):
            asked_at = self.tokens.wall_clock()
            account = await self.directory.account_of_key(key)
            if account is None or asked_at < account.banned_until:
                break  # clients know only one log-in error, whatever the reason
            if not await self.networks.admit(account, network):
                break
            # False: the account data is old, and the key may have been replaced since; read again
            if self.tokens.epochs.learn(account.id, account.tokens_not_before):
                return self.tokens.sign(account.id, asked_at), account.id
        return None


@define
class ConcurrentLogins:
    """Runs at most ``AT_ONCE`` log-ins at once; further log-ins wait in a queue.

    Between two queued log-ins, the event loop handles other requests.
    """

    clock: IReactorTime
    _running: int = field(default=0, init=False)
    _waiting: deque[Deferred[None]] = field(factory=deque, init=False, repr=False)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for a turn, and return the result of ``work``; raises Unavailable if too many wait.

        If the caller is cancelled while it waits, it leaves the queue.
        """
        if self._running < AT_ONCE:
            self._running += 1
        elif len(self._waiting) >= MAX_WAITING:
            raise Unavailable("too many log-ins at once", retry_after_s=1)
        else:
            turn: Deferred[None] = Deferred(self._waiting.remove)
            self._waiting.append(turn)
            await turn
        try:
            return await work()
        finally:
            if self._waiting:
                self.clock.callLater(0, self._next)  # other connections come first
            else:
                self._running -= 1

    def _next(self) -> None:
        if self._waiting:
            self._waiting.popleft().callback(None)
        else:
            self._running -= 1


log = Logger()


@frozen
class LoginRoutes:
    """The routes that the game client calls for a log-in."""

    routes: ClassVar[Routes] = Routes(bare, again=Again.NATURAL)
    settings: MetagameSettings
    directory: Directory
    acts: LoginActs
    network_of: Callable[[HttpRequest], str]
    logins: ConcurrentLogins

    @routes.row(
        "POST",
        "/account/api/oauth/token",
        access=Access.NONE,
        body=OrEmpty[LoginRequest],
        form=True,
        reply=LoginReply,
    )
    async def log_in(self, call: Call[LoginRequest]) -> Answer:
        """Exchange the account key for a player token; only the field ``exchange_code`` is read."""
        if not self.settings.login:
            log.warn("No login method configured! Set AUTH_MODE=APIKEY")
            call.request.hopeless = True
            await Deferred()  # the specification requires that this is never answered
        key, network = call.body.exchange_code, self.network_of(call.request)
        login = await self.logins.run(lambda: self.acts.log_in(key, network))
        return Answer(200, show_login(*login))

    @routes.row("GET", "/account/api/oauth/verify", access=Access.OPTIONAL_TOKEN, reply=VerifyReply)
    async def verify(self, call: Call) -> Answer:
        """Show the token's account; if the token is invalid, show a placeholder id."""
        known = None if self.settings.verify_stub_account else call.caller.account
        return Answer(200, show_token(known or NOBODYS_ID))

    @routes.row("DELETE", "/account/api/oauth/sessions/kill", access=Access.NONE, reply=Empty)
    async def kill_sessions(self, call: Call) -> Answer:
        """Reply with success, but end no session.

        To end the sessions of an account, give the account a new key.
        """
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/account/api/oauth/sessions/kill/<token>",
        access=Access.NONE,
        reply=Empty,
        secret_path=("token",),
    )
    async def kill_session(self, call: Call, token: str) -> Answer:
        """Reply with success, but leave the session as it is.

        The session's token, which is in the path, is never logged.
        """
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST", "/login", access=Access.TOKEN, body=OrEmpty[QueueRequest], reply=TicketReply
    )
    async def queue(self, call: Call[QueueRequest]) -> Answer:
        """Let the caller pass the log-in queue; the client sends the account id as ``email``."""
        own = own_or_none(call, call.body.email)
        if own is None or await self.directory.account_of_id(own) is None:
            raise Malformed("email is not the caller's account id")
        return Answer(200, TICKET)

    @routes.row("PUT", "/gamesession/epic", access=Access.TOKEN, reply=Envelope[GameSession])
    async def game_session(self, call: Call) -> Answer:
        """Answer with the caller's own player token as ``sessionToken``."""
        if not call.caller.bearer:
            raise Forbidden("this needs a player's token")
        session: GameSession = {
            "error_code": None,
            "sessionid": new_id(),
            "sessionToken": call.caller.bearer,
        }
        return enveloped(session)


def login(parts: Parts, on_login: Callable[[AccountId, str], object] | None) -> Iterator[Feature]:
    """Yield the log-in routes; each log-in calls ``on_login(account_id, network)``."""
    acts = LoginActs(
        parts.directory,
        parts.tokens,
        parts.counters,
        parts.networks,
        parts.directory.by_id,
        on_login,
    )
    logins = ConcurrentLogins(parts.clock)
    yield LoginRoutes(parts.settings, parts.directory, acts, parts.network_of, logins)
