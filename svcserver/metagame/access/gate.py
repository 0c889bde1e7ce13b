"""Access control: turns an access label and a request into a caller or an error. Spec: 1 §4, §5."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from attrs import define, field, frozen

from svcserver.kernel.cache import BoundedCache
from svcserver.kernel.digits import whole_in
from svcserver.kernel.headers import (
    ACCOUNT_KEY,
    ATTEMPT,
    GAME_SERVER_KEY,
    GATEWAY,
    MACHINE,
    REQUEST_ID,
)
from svcserver.kernel.machine import actor_of
from svcserver.kernel.refusals import Forbidden, Refusal, Unauthenticated, Unavailable
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import check_owner
from svcserver.metagame.access.attempts import WrongAdminKeys
from svcserver.metagame.access.keyring import Holder, KeyRing
from svcserver.metagame.access.origin import Origin, is_own_address
from svcserver.metagame.access.staff_sessions import PAGE_HEADER, StaffSessions, ticket_of
from svcserver.metagame.access.tokens import MAX_KNOWN, Claims, InvalidToken, Tokens
from svcserver.metagame.once import Again, Attempt
from svcserver.metagame.replies import OUTCOME_UNKNOWN
from svcserver.metagame.rows import NOBODY, Access, Call, Caller, Row
from svcserver.metagame.settings import MetagameSettings
from svcserver.web import front
from svcserver.web.front import UNPROVEN_BODY, AnsweredError, FrontDoor, Observer, PageError
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer


def machine_of(
    request: HttpRequest, settings: MetagameSettings, origin: Origin, now: float
) -> Caller | None:
    """Return the caller if the request is a signed command of this machine's owner, else None.

    This caller has no account, so routes that change the caller's own keys refuse it.
    """
    ticket = request.header(MACHINE)
    if ticket is None or not settings.login or not request.direct:
        return None
    if not origin.is_this_machine(request):
        return None
    secret = settings.signing_private_key.reveal()
    actor = actor_of(secret, ticket, request.method, request.target, now)
    return None if actor is None else Caller(admin=True, name=actor, role=Role.OWNER)


NOT_ALLOWED = (401, 403)


class TryLog(Protocol):
    """The interface of a log of refused requests."""

    def record(self, actor: str, address: str, row: str, why: str) -> Awaitable[None]: ...

    def miss(self) -> None: ...


@frozen
class RefusedRequests:
    """Records refused requests to staff routes in the audit log.

    Requests that game servers send are not recorded here. A GET request is recorded only
    if its credential does not permit the request.
    """

    keys: KeyRing
    staff: StaffSessions
    log: TryLog

    async def record_refusal(
        self, row: Row, request: HttpRequest, caller: Caller, why: Exception
    ) -> None:
        """Record a refusal if it belongs in the audit log and is not recorded yet."""
        if isinstance(why, Refusal) and why.recorded:
            return
        status = getattr(why, "status", 400)
        with_key = request.has_header(ACCOUNT_KEY)
        if row.access is Access.ADMIN_OR_GAME_SERVER and not with_key:
            return  # from a game server; the event log records it
        try:
            # proxied requests cannot use staff routes, and any player could fill the log with names
            name = caller.name or (await self._name(request) if request.direct else "")
        except Unavailable:
            self.log.miss()
            return
        if row.method == "GET":
            let_in = caller.name and status not in NOT_ALLOWED  # allowed, but no such target
            if let_in or not (name or with_key or request.has_header(MACHINE)):
                return  # without a credential: the dashboard's requests before sign-in
        await self.log.record(name, request.peer, row.name, _reason_of(why, status))

    async def _name(self, request: HttpRequest) -> str:
        """Return the name of the key's account or, if no key was sent, of the signed-in account."""
        key = request.header(ACCOUNT_KEY)
        if key is not None:
            opened = await self.keys.staff_of_key(key)
            return "" if opened is None else opened.account.username
        ticket = ticket_of(request.header(b"cookie"), request.header(PAGE_HEADER))
        session = None if ticket is None else await self.staff.find(ticket)
        holder = None if session is None else await self.keys.staff_of_id(session.account_id)
        return "" if holder is None else holder[0].username


def _reason_of(why: Exception, status: int) -> str:
    if isinstance(why, Refusal):
        return why.message or why.code or str(status)
    return f"answered {status}: the body is not what the route takes"


ATTEMPT_DIGITS = 3


@define
class Gate:
    """The metagame's access control, which verifies all credentials; see ``web.front.WebGate``."""

    settings: MetagameSettings
    tokens: Tokens
    keys: KeyRing
    origin: Origin
    attempts: WrongAdminKeys
    staff: StaffSessions
    refused: RefusedRequests
    _bearers: BoundedCache[bytes, tuple[Claims, Caller]] = field(
        factory=lambda: BoundedCache(MAX_KNOWN), init=False, repr=False
    )
    """Players by the Authorization header as sent; every request checks expiry and epoch."""
    _development: bool = field(init=False)

    @_development.default
    def _development_default(self) -> bool:
        return self.settings.login == "NONE"

    @classmethod
    def for_service(
        cls,
        settings: MetagameSettings,
        tokens: Tokens,
        keys: KeyRing,
        attempts: WrongAdminKeys,
        staff: StaffSessions,
        tries: TryLog,
    ) -> Gate:
        """Return the gate of a running service."""
        origin = Origin(settings, is_own_address)
        refused = RefusedRequests(keys, staff, tries)
        return cls(settings, tokens, keys, origin, attempts, staff, refused)

    def exists(self, row: Row, parameters: Mapping[str, str]) -> bool:
        """Return whether the route exists for the account that the path names.

        A ``real_only`` route does not exist for an account with fixed progression.
        """
        return not row.real_only or self.settings.real_progression(parameters.get("user_id", ""))

    def address(self, request: HttpRequest) -> str:
        """Return the player's address if the gateway forwarded the request, else ""."""
        if not request.headers.hasHeader(b"x-forwarded-for"):
            return ""
        return self.origin.player_address(request)

    def unmatched(self, request: HttpRequest) -> Answer:
        """Return the reply to a request that matches no route: 404.

        If AUTH_MODE=NONE, the reply to a proxied request is 403 instead.
        """
        try:
            self._check_development(request)
        except Forbidden as why:
            return Answer(why.status)
        return Answer(404)

    def early(self, row: Row, request: HttpRequest, length: int | None) -> Answer | None:
        """Check the credentials of a large request before its body is read.

        Returns the refusal, or None if the body may be read.
        """
        if length is not None and length <= UNPROVEN_BODY:
            return None
        try:
            self._check_without_database(row.access, request)
        except Refusal as why:
            return row.refuse(why.status, why)
        return None

    def _check_without_database(self, access: str, request: HttpRequest) -> None:
        """Raise an access error if it can be detected without the database."""
        self._check_development(request)
        if access in (Access.TOKEN, Access.PLAYER):
            if request.has_header(GAME_SERVER_KEY):
                self._local_only(request)
            else:
                self._bearer(request)
        elif access in (Access.ACCOUNT_KEY, Access.ADMIN_KEY):
            self._check_key_sent(access, request)
        elif access is Access.GAME_SERVER:
            self._check_game_server_key_sent(request)

    async def admit(self, row: Row, request: HttpRequest, parameters: Mapping[str, str]) -> Caller:
        """Return the verified caller, or raise the refusal that the specification requires."""
        access = row.access
        if self._development:
            self._check_development(request)
        if access is Access.NONE:
            caller = NOBODY
        elif access in _BY_TOKEN and not request.headers.hasHeader(GAME_SERVER_KEY):
            caller = self._bearer(request)
        else:
            caller = await self._prove(row, request)
        if row.own or row.game_server:
            named = parameters.get("user_id", "")
            if self.settings.real_progression(named):
                check_owner(row, caller, named)
        if row.again is not None and request.headers.hasHeader(_NAMED[row.again]):
            request.attempt = self._attempt(row, request, caller)
        return caller

    def _attempt(self, row: Row, request: HttpRequest, caller: Caller) -> Attempt | None:
        """Return the request's id and attempt number, or None if the gateway did not send them.

        Raises AnsweredError if the gateway repeats a request to a route marked ``Again.NEVER``.
        """
        secret, request_id = self.settings.gateway_secret, request.header(REQUEST_ID) or ""
        if secret is None or not secret.matches(request.header(GATEWAY) or ""):
            return None
        number = whole_in(request.header(ATTEMPT) or "1", ATTEMPT_DIGITS) or 1
        if number > 1 and row.again is Again.NEVER:
            raise AnsweredError(OUTCOME_UNKNOWN)
        account, seconds = caller.account or "", self.tokens.wall_clock
        return Attempt(request_id[:32], number, account, row.name, seconds)

    def _check_development(self, request: HttpRequest) -> None:
        """Raise Forbidden if AUTH_MODE=NONE and the request came through a proxy."""
        if self._development and request.proxied:
            raise Forbidden("a server with AUTH_MODE=NONE accepts no proxied requests")

    async def _prove(self, row: Row, request: HttpRequest) -> Caller:
        access = row.access
        if access is Access.ADMIN_KEY:
            return await self._admin_key(request, row.least(request), signs_in=row.signs_in)
        prove: dict[str, Callable[[HttpRequest], Awaitable[Caller]]] = {
            Access.TOKEN: self._token,
            Access.PLAYER: self._player,
            Access.OPTIONAL_TOKEN: self._optional_token,
            Access.ACCOUNT_KEY: self._account_key,
            Access.DIRECT: self._direct,
            Access.REGISTERED: self._registered,
            Access.GAME_SERVER: self._game_server_alone,
            Access.ADMIN_OR_GAME_SERVER: self._admin_or_game_server,
        }
        return await prove[access](request)

    async def _player(self, request: HttpRequest) -> Caller:
        caller = await self._token(request)
        if caller.account is None:
            raise Forbidden("this needs a player's token")
        return caller

    async def _optional_token(self, request: HttpRequest) -> Caller:
        return self._optional(request)

    async def _admin_or_game_server(self, request: HttpRequest) -> Caller:
        if request.has_header(ACCOUNT_KEY):
            return await self._admin_key(request)
        return await self._game_server_alone(request)

    async def _token(self, request: HttpRequest) -> Caller:
        if not request.has_header(GAME_SERVER_KEY):
            return self._bearer(request)
        await self._game_server_key(request)
        if not request.has_header(b"authorization"):
            return Caller(game_server=True)
        forwarded = (request.header(b"authorization") or "")[7:]
        try:
            account = self.tokens.verify(forwarded)
        except InvalidToken as why:
            # the game server trusts its player's token; the specification requires 500, not 401
            raise PageError(500, why) from why
        return Caller(account, game_server=True, bearer=forwarded)

    def _bearer(self, request: HttpRequest) -> Caller:
        sent = request.headers.getRawHeaders(b"authorization")
        if sent is None or len(sent) != 1:
            raise Unauthenticated("no player token")
        try:
            claims, caller = self._bearers.get(sent[0]) or self._read_bearer(sent[0])
            self.tokens.check(claims)
        except InvalidToken:
            raise Unauthenticated("not a valid player token") from None
        return caller

    def _read_bearer(self, sent: bytes) -> tuple[Claims, Caller]:
        header = sent.decode("utf-8", "replace")
        if header[:7].lower() != "bearer ":
            raise Unauthenticated("no player token")
        claims = self.tokens.claims(header[7:])
        read = claims, Caller(claims.account_id, bearer=header[7:])
        self._bearers.put(sent, read)
        return read

    def _optional(self, request: HttpRequest) -> Caller:
        try:
            return self._bearer(request)
        except Unauthenticated:
            return NOBODY

    def _local_only(self, request: HttpRequest) -> None:
        if not self.origin.is_local(request):
            raise Forbidden("game servers must call from this machine or an allowed address")

    async def _game_server_key(self, request: HttpRequest) -> None:
        self._local_only(request)
        key = request.header(GAME_SERVER_KEY)
        if key is None or not await self.keys.knows_game_server(key):
            self.attempts.note("game_server_key")
            raise Unauthenticated("not a registered game-server key")

    async def _game_server_alone(self, request: HttpRequest) -> Caller:
        """Admit a game server by its key alone; an invalid player token is ignored."""
        self._check_game_server_key_sent(request)
        await self._game_server_key(request)
        forwarded = self._optional(request)
        return Caller(forwarded.account, game_server=True, bearer=forwarded.bearer)

    def _check_game_server_key_sent(self, request: HttpRequest) -> None:
        """Raise an error if a request has no game-server key or comes from a forbidden address."""
        if not request.has_header(GAME_SERVER_KEY):
            if request.has_header(b"authorization"):
                raise Forbidden("only a game server may do this")
            raise Unauthenticated("no game-server key")
        self._local_only(request)

    def _check_key_sent(self, access: str, request: HttpRequest) -> None:
        """Raise an error if the request has none of the credentials that the route accepts.

        A staff route accepts only direct requests. Instead of an account key, it also accepts a
        dashboard session or svcctl's signature.
        """
        if access is Access.ADMIN_KEY and not request.direct:
            raise Forbidden("admin requests must come directly, not through a proxy")
        if not self.settings.login or request.header(ACCOUNT_KEY) is not None:
            return
        by_session = request.has_header(PAGE_HEADER)
        if access is Access.ADMIN_KEY and (by_session or self._machine(request) is not None):
            return
        raise Unauthenticated("no account key")

    async def _account_key(self, request: HttpRequest) -> Caller:
        """Return the caller who holds the account key.

        A staff member gets no staff rights if the key is only for playing or needs a second factor.
        """
        account = await self._holder(request)
        if account.role > Role.PLAYER and not await self._key_alone_suffices(request):
            return Caller(account.id, name=account.username, role=account.role)
        return _caller_of(account)

    async def _key_alone_suffices(self, request: HttpRequest) -> bool:
        """Return whether the key opens the dashboard without a second factor."""
        key = await self.keys.staff_of_key(request.header(ACCOUNT_KEY) or "")
        return key is not None and not key.plays_only and not key.second_factor

    async def _direct(self, request: HttpRequest) -> Caller:
        if not request.direct:
            raise Forbidden("admin requests must come directly, not through a proxy")
        return NOBODY

    async def _admin_key(
        self, request: HttpRequest, role: Role = Role.OWNER, *, signs_in: bool = False
    ) -> Caller:
        await self._direct(request)
        if (machine := self._machine(request)) is not None:
            return machine
        account = await self._signed_in(request) or await self._staff(request, signs_in)
        if account.role < role:
            no = Forbidden("the account's role does not allow this")
            raise await self.attempts.refused(no, request.peer, account.id)
        return _caller_of(account)

    async def _staff(self, request: HttpRequest, signs_in: bool) -> Holder:
        try:
            return await self._holder_of_staff_key(request, signs_in)
        except Unauthenticated as why:
            if not request.has_header(ACCOUNT_KEY) and not request.has_header(MACHINE):
                raise
            raise await self.attempts.refused(why, request.peer) from why

    def _machine(self, request: HttpRequest) -> Caller | None:
        return machine_of(request, self.settings, self.origin, self.tokens.wall_clock())

    async def _holder_of_staff_key(self, request: HttpRequest, signs_in: bool) -> Holder:
        """Return the holder of a key that opens staff routes; raises Unauthenticated."""
        key = request.header(ACCOUNT_KEY)
        if not self.settings.login or key is None:
            return await self._holder(request)
        staff_key = await self.keys.staff_of_key(key)
        if staff_key is None:
            raise Unauthenticated("not a known account key")
        if staff_key.plays_only:
            why = "this account has a separate dashboard key: use the dashboard key"
            raise Unauthenticated(why, code="another_key")
        if staff_key.second_factor and not signs_in:
            raise Unauthenticated("this account has a second factor: sign in to the dashboard")
        return self._not_banned(staff_key.account)

    async def _signed_in(self, request: HttpRequest) -> Holder | None:
        """Return the holder of the request's dashboard session.

        Returns None if there is no valid session, or if the request also has an account key.
        """
        if request.has_header(ACCOUNT_KEY) or not request.has_header(PAGE_HEADER):
            return None
        ticket = ticket_of(request.header(b"cookie"), request.header(PAGE_HEADER))
        if ticket is None or not self.settings.login or not request.direct:
            return None
        session = await self.staff.find(ticket)
        current = None if session is None else await self.keys.staff_of_id(session.account_id)
        if session is None or current is None:
            return None
        holder, ways = current
        ended = ways != session.ways or self.tokens.wall_clock() < holder.banned_until
        return None if ended else holder

    async def _holder(self, request: HttpRequest) -> Holder:
        if not self.settings.login:
            raise AnsweredError(Answer(500))
        key = request.header(ACCOUNT_KEY)
        account = await self.keys.account_of_key(key) if key is not None else None
        if account is None:
            if key is not None:
                self.attempts.note("account_key")
            raise Unauthenticated("not a known account key")
        return self._not_banned(account)

    def _not_banned(self, account: Holder) -> Holder:
        if self.tokens.wall_clock() < account.banned_until:
            raise Forbidden("this account is banned")
        return account

    async def _registered(self, request: HttpRequest) -> Caller:
        if (machine := self._machine(request)) is not None:
            return machine
        key = request.header(ACCOUNT_KEY)
        if key is not None and self.settings.login:
            account = await self.keys.account_of_key(key)
            if account is not None and self.tokens.wall_clock() >= account.banned_until:
                return Caller(account.id, admin=account.is_admin, role=account.role)
        if (signed_in := await self._signed_in(request)) is not None:
            return _caller_of(signed_in)
        offered = self._optional(request)
        if offered.account is not None and await self.keys.account_of_id(offered.account):
            return offered
        return NOBODY


# the header that the gateway must send: the request id, or only the attempt number
_NAMED = {Again.STORED: REQUEST_ID, Again.NATURAL: ATTEMPT, Again.NEVER: ATTEMPT}
_BY_TOKEN = (Access.TOKEN, Access.PLAYER)


def guarded(
    gate: front.WebGate[Row],
    settings: MetagameSettings,
    observers: Sequence[Observer],
    refused: RefusedRequests | None = None,
) -> FrontDoor:
    """Return an HTTP entry point that applies this gate and passes a ``Call`` to each handler."""
    return FrontDoor(
        gate,
        settings,
        traces=not settings.production,
        observers=observers,
        on_refusal=None if refused is None else refused.record_refusal,
        call=Call,
        nobody=NOBODY,
    )


def _caller_of(account: Holder) -> Caller:
    return Caller(account.id, admin=account.is_admin, name=account.username, role=account.role)
