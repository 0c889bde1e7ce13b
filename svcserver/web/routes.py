"""A route is data: everything the front door must know of a route hangs on its row.

    class NoteRoutes:
        routes = Routes(coded)

        @routes.row("PUT", "/note", access=Access.PLAYER, body=NoteSave, reply=Note)
        async def save(self, call: Call[NoteSave]) -> Answer: ...

The front door (``web.front``) binds the rows; the gate reads access and marks; HEAD,
letter case, trailing slash, redaction and the OpenAPI document all follow from the row.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Generic, Protocol, TypedDict

from attrs import define, field, frozen
from typing_extensions import TypeVar

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.redaction import OTHER, shown
from svcserver.kernel.refusals import Forbidden, Refusal
from svcserver.web.request import HttpRequest


class Access(StrEnum):
    """Who may call a route. Spec: 1 §4 access labels."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - a label, not a secret
    PLAYER = "player"
    OPTIONAL_TOKEN = "optional token"  # noqa: S105
    ACCOUNT_KEY = "account key"
    ADMIN_KEY = "admin key"
    REGISTERED = "registered"
    GAME_SERVER = "game-server key"
    ADMIN_OR_GAME_SERVER = "admin key, or game-server key"
    DIRECT = "direct"  # no proxy on the way; nothing to prove: the page that asks for the key
    LOCAL = "local"  # direct loopback callers: deploy server and allowlist helper


@frozen
class Answer:
    """A status, a body and extra headers.

    ``body`` is None for no body, bytes as they are, anything else as JSON.
    """

    status: int = 200
    body: Json | bytes | None = field(default=None, repr=False)  # of a login, a token
    headers: Mapping[str, str] = field(factory=dict)
    content_type: str = "application/json; charset=utf-8"


@frozen
class Caller:
    """Who is calling, as far as the gate could prove it."""

    account: AccountId | None = None
    game_server: bool = False
    admin: bool = False
    bearer: str = field(default="", repr=False)  # the player token as sent
    name: str = ""  # the account's, where an account key proved it


NOBODY = Caller()


B = TypeVar("B", default=Any)


@frozen
class Call(Generic[B]):
    """What a handler gets: the proven caller, the request, and its body in the row's shape."""

    caller: Caller
    body: B = field(repr=False)
    request: HttpRequest

    @property
    def player(self) -> AccountId:
        """The account the caller acts as; a game server alone names none (403)."""
        if self.caller.account is None:
            raise Forbidden("this needs a player")
        return self.caller.account


Handler = Callable[..., Awaitable[Answer]]
H = TypeVar("H", bound=Handler)
P = TypeVar("P")
Refuse = Callable[[int, Refusal], Answer]


@frozen
class Row:
    """One route.

    ``path`` is a werkzeug rule; ``when`` decides from the settings whether the row is
    mounted at all (an unmounted row is the empty 404). ``body`` is a shape
    (``kernel.shapes``), None where the body is ignored.
    """

    method: str
    path: str
    access: Access
    handler: Handler
    refuse: Refuse
    body: Any = None
    when: Callable[[Any], bool] | None = None
    own: bool = False  # with real progression a player token names only its own <user_id>
    real_only: bool = False  # exists only for accounts with real progression
    game_server: bool = False  # with real progression only a game server may write
    reply: Any = None  # the type of the success body, for OpenAPI and the docs
    query: tuple[str, ...] = ()  # names of the query's arguments, for the same
    bad_json: Answer | None = None  # instead of the HTML 400 page
    body_log: bool = False  # LOG_BODIES captures it
    secret_path: tuple[str, ...] = ()  # path parameters replaced in every log
    public: bool = False  # management routes the gateway lets through
    quiet: bool = False  # not counted in BackendHealth

    @property
    def name(self) -> str:
        """The endpoint name: unique, and what an operator reads."""
        return f"{self.method} {self.path}"

    @property
    def parameters(self) -> list[str]:
        """Names of the path parameters, in order."""
        return re.findall(r"<(\w+)>", self.path)


def logged_path(path: bytes, row: Row | None = None) -> str:
    """A request's path for a log line: without secrets, nor the row's secret parameters."""
    if row is None or not row.secret_path:
        return shown(path)
    hidden = {f"<{name}>" for name in row.secret_path}
    pattern = [segment for segment in row.path.split("/") if segment]
    sent = [segment for segment in path.decode("latin-1").split("/") if segment]
    kept = [OTHER if p in hidden else s for p, s in zip(pattern, sent, strict=False)]
    return shown(("/" + "/".join(kept)).encode("latin-1"))


@define
class Routes:
    """The rows of one feature, and what all of them share.

    How the feature words a refusal, the switch it is mounted under, and whether LOG_BODIES
    captures it; a row may say otherwise of itself.
    """

    refuse: Refuse
    when: Callable[[Any], bool] | None = None
    body_log: bool = False
    rows: list[Row] = field(factory=list, init=False)

    def row(
        self, method: str, path: str, *, access: Access, refuse: Refuse | None = None, **marks: Any
    ) -> Callable[[H], H]:
        """Register the decorated method; ``marks`` are further fields of ``Row``."""
        shared = {"when": self.when, "body_log": self.body_log}

        def note(handler: H) -> H:
            said = refuse or self.refuse
            self.rows.append(Row(method, path, access, handler, said, **(shared | marks)))
            return handler

        return note


class Page(str):
    """The reply of a row that answers HTML."""


class Feature(Protocol):
    """An object with rows; the handlers are its methods."""

    @property
    def routes(self) -> Routes: ...


def bare(status: int, refusal: Refusal) -> Answer:
    """The most common refusal: a status and an empty body."""
    return Answer(status)


def coded(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message}``. Spec: 1 §7 Store refusals."""
    return Answer(status, {"code": str(status), "message": refusal.message})


def worded(status: int, refusal: Refusal) -> Answer:
    """``{error: <code>, message}``: how nine management routes refuse. Spec: 2 §7.

    Refused credentials carry no code and have no body there either.
    """
    if not refusal.code:
        return Answer(status)
    return Answer(status, {"error": refusal.code, "message": refusal.message})


BAD_JSON = Answer(400, {"error": "bad_request", "message": "the body is not JSON"})


class Envelope(TypedDict, Generic[P]):
    """What ``enveloped`` makes, for ``Row.reply``; nothing in the client acts on ``code``."""

    code: str | int | None
    message: str
    payload: P


def enveloped(payload: Json, *, code: Json = None, message: str = "OK") -> Answer:
    """The envelope many routes answer with. Spec: 1 §4 convention 5."""
    return Answer(200, {"code": code, "message": message, "payload": payload})


NO_CONTENT = Answer(204)
NO_STORE = {"Cache-Control": "no-store"}
EMPTY_OBJECT: dict[str, Json] = {}
