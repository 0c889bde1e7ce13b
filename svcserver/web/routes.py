"""Routes as data: a route's row contains everything that the router needs.

    class GreetingRoutes:
        routes = Routes(bare)

        @routes.row("PUT", "/greeting", access="member", body=GreetingRequest, reply=Greeting)
        async def save(self, call: Call[GreetingRequest]) -> Answer: ...

The router (``web.front``) binds the routes. A row also determines which callers are admitted,
how log lines are redacted, and what the OpenAPI document says.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol

from attrs import define, field, frozen
from typing_extensions import TypeVar

from svcserver.kernel.json import Json
from svcserver.kernel.redaction import REDACTED, redact_bytes
from svcserver.kernel.refusals import Refusal
from svcserver.web.request import HttpRequest


@define  # not frozen: one is created for every request
class Answer:
    """A status, a body and extra headers.

    A ``body`` of None means no body. Bytes are sent unchanged; anything else is sent as JSON.
    """

    status: int = 200
    body: Json | bytes | None = field(default=None, repr=False)  # a log-in answer contains a token
    headers: Mapping[str, str] = field(factory=dict)
    content_type: str = "application/json; charset=utf-8"


@frozen
class WebCaller:
    """The authenticated caller of a request; a service's subclass adds its fields."""


NOBODY = WebCaller()


B = TypeVar("B", default=Any)
C = TypeVar("C", bound=WebCaller, default=Any)


@define(eq=False)  # not frozen: one is created for every request
class WebCall(Generic[B, C]):
    """A handler's argument: the caller, the request, and the body in the route's shape."""

    caller: C
    body: B = field(repr=False)
    request: HttpRequest


Handler = Callable[..., Awaitable[Answer]]
H = TypeVar("H", bound=Handler)
Refuse = Callable[[int, Refusal], Answer]


@frozen
class Needed:
    """The type of a required argument or header."""

    kind: Any


@frozen
class WebRow:
    """One route.

    ``path`` is a werkzeug rule. If ``when(settings)`` is false, the route is not mounted: a request
    gets an empty 404. ``access`` is a label that the service's gate knows. ``body`` is a shape
    (``kernel.shapes``), or None if the body is ignored. A service whose gate needs further fields
    has its own subclass.
    """

    method: str
    path: str
    access: str
    handler: Handler
    refuse: Refuse
    body: Any = None
    when: Callable[[Any], bool] | None = None
    # the type of the success body, for OpenAPI and the docs; or ``Media``, ``NoContent``,
    # ``Redirect``, and NoReturn where every request is refused
    reply: Any = None
    # the types of arguments, headers and path parameters (else ``str``), for the document
    query: Mapping[str, Any] = field(factory=dict, hash=False)
    headers: Mapping[str, Any] = field(factory=dict, hash=False)
    path_types: Mapping[str, Any] = field(factory=dict, hash=False)
    form: bool = False  # documented: clients may send the body as a form
    refusals: Mapping[int, Any] = field(factory=dict, hash=False)  # other wordings than ``refuse``
    bad_json: Answer | None = None  # instead of the HTML 400 page
    body_log: bool = False  # a log of bodies captures it
    secret_path: tuple[str, ...] = ()  # path parameters replaced in every log
    quiet: bool = False  # not counted in health figures

    @property
    def name(self) -> str:
        """The endpoint name, which is unique and shown to operators."""
        return f"{self.method} {self.path}"

    @property
    def hides(self) -> bool:
        """True if ``WebGate.exists`` must be called for each request to the route."""
        return False

    @property
    def tells(self) -> bool:
        """True if ``FrontDoor.on_refusal`` is called when the route refuses a request."""
        return False

    @property
    def parameters(self) -> list[str]:
        """The names of the path parameters, in order."""
        return list(_parameters(self.path))


@lru_cache(maxsize=1024)
def _parameters(path: str) -> tuple[str, ...]:
    """Return a path's parameters; cached, because tests mount the same routes many times."""
    return tuple(re.findall(r"<(\w+)>", path))


def logged_path(path: bytes, row: WebRow | None = None) -> str:
    """Return a request's path for a log line; secrets and ``row.secret_path`` are replaced."""
    if row is None:
        return redact_bytes(path)
    if path == row.path.encode():  # none of it comes from the caller
        return row.path
    if not row.secret_path:
        return redact_bytes(path)
    hidden = {f"<{name}>" for name in row.secret_path}
    pattern = [segment for segment in row.path.split("/") if segment]
    sent = [segment for segment in path.decode("latin-1").split("/") if segment]
    segments = [REDACTED if p in hidden else s for p, s in zip(pattern, sent, strict=False)]
    return redact_bytes(("/" + "/".join(segments)).encode("latin-1"))


R = TypeVar("R", bound=WebRow, default=WebRow)


class WebRoutes(Generic[R]):
    """The routes of one feature, and the options that they share.

    ``refuse`` and the fields in ``shared`` apply to each route that does not override them.
    """

    make: ClassVar[type[WebRow]] = WebRow

    def __init__(self, refuse: Refuse, **shared: Any) -> None:
        self.shared = {"refuse": refuse, **shared}
        self.rows: list[R] = []

    def row(self, method: str, path: str, **marks: Any) -> Callable[[H], H]:
        """Register the decorated method as a route's handler.

        ``marks`` are the other fields of the route, such as ``access``.
        """
        make: Any = self.make

        def note(handler: H) -> H:
            self.rows.append(
                make(method=method, path=path, handler=handler, **(self.shared | marks))
            )
            return handler

        return note


class Page(str):
    """The reply type of a route that answers with HTML."""


@frozen
class Media:
    """The reply type of a route that answers with the content types ``kinds`` instead of JSON."""

    kinds: tuple[str, ...]


class NoContent:
    """The reply type of a route that answers 204.

    If a route answers 204 only in some cases, its type is ``Greeting | NoContent``.
    """


class Redirect:
    """The reply type of a route that answers 302."""


class Feature(Protocol):
    """An object that has routes and the methods that handle them."""

    @property
    def routes(self) -> WebRoutes[Any]: ...


def bare(status: int, refusal: Refusal) -> Answer:
    """Return a refusal that has an empty body."""
    return Answer(status)


NO_CONTENT = Answer(204)
NO_STORE = {"Cache-Control": "no-store"}
EMPTY_OBJECT: dict[str, Json] = {}
