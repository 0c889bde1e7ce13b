"""The router of a service (``FrontDoor``), the only place where an exception becomes a status.

A request is checked in this order: route, declared size, credential, JSON syntax, shape of the
body, rules of the feature.
"""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import MethodType
from typing import Any, Protocol, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import IResource

from svcserver.kernel import json
from svcserver.kernel.buggify import buggify
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Refusal, TooLarge
from svcserver.kernel.system import system
from svcserver.web.coroutines import start_coroutine
from svcserver.web.request import HttpRequest, parse_query
from svcserver.web.routes import NOBODY, Answer, Feature, WebCall, WebCaller, WebRow, logged_path
from svcserver.web.table import BadPath, Parameters, RouteTable

log = Logger()

R = TypeVar("R", bound=WebRow, contravariant=True)

UNPROVEN_BODY = 64 * 1024  # bytes that are read before the credential is checked
MAX_FORM = 100 * 1024  # bytes; the original web framework's default. Spec: 1 §4 convention 3


class WebGate(Protocol[R]):
    """The access control; it finds the caller of a request, or refuses the request.

    It decides by the access label of the route.
    """

    def exists(self, row: R, parameters: Parameters) -> bool:
        """Return False if the route must answer 404 for the account in the path."""

    async def admit(self, row: R, request: HttpRequest, parameters: Parameters) -> WebCaller:
        """Return the authenticated caller; raises a refusal if the credential is insufficient."""

    def early(self, row: R, request: HttpRequest, length: int | None) -> Answer | None:
        """Return a refusal that can be given before the body is read, or None to continue."""

    def address(self, request: HttpRequest) -> str:
        """Return the client's address as a trusted proxy reports it, or "" without such a proxy."""


@define(eq=False)  # not frozen: one is created for every request
class FinishedRequest:
    """An answered request, for the observers: request log, counters, health figures."""

    request: HttpRequest
    row: WebRow | None
    caller: Any  # of the class that the service's gate returns
    status: int
    seconds: float
    address: str = ""  # the client's address, if a trusted proxy sent it
    aborted: bool = False
    answer: Answer | None = field(default=None, repr=False)  # None when aborted


Observer = Callable[[FinishedRequest], None]
OnRefusal = Callable[[Any, HttpRequest, Any, Exception], Awaitable[None]]


class PageError(Exception):
    """An error that is answered with the framework's HTML error page. Spec: 1 §4 convention 4."""

    def __init__(self, status: int, cause: BaseException | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.cause = cause


class AnsweredError(Exception):
    """An error that already has its complete answer, which is sent unchanged."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def parse_body(request: HttpRequest) -> json.Json:
    """Parse a body as JSON or form, by its Content-Type. Raises ``json.BadJson``."""
    if not request.body:
        return {}
    kind = request.header(b"content-type")
    if kind is not None and kind.lower().startswith("application/x-www-form-urlencoded"):
        if len(request.body) > MAX_FORM:
            raise TooLarge("the form is too large")
        return dict(parse_query(request.body))
    return json.parse(request.body)


@define(eq=False)
class Mounted:
    """A mounted route with everything that its requests need."""

    row: WebRow
    make: Callable[[], Callable[..., Any]] = field(repr=False)  # its endpoint
    hides: bool
    lost_answer: str  # the buggify point of an answer that had to wait; "" for a GET
    run: Callable[..., Any] = field(init=False, repr=False)  # the endpoint, made at the first call

    def __attrs_post_init__(self) -> None:
        self.run = self._first

    @classmethod
    def mount_row(cls, row: WebRow, make: Callable[[], Callable[..., Any]]) -> Mounted:
        """Return the mounted route; ``make`` creates its endpoint."""
        family = row.path.split("/")[1]
        lost_answer = "" if row.method == "GET" else f"web: an answer of /{family} is lost"
        return cls(row, make, row.hides, lost_answer)

    def _first(self, *args: Any, **parameters: str) -> Any:
        self.run = run = self.make()
        return run(*args, **parameters)


@define
class FrontDoor:
    """The router of a service: all its routes, behind its access control (gate).

    ``answer`` handles requests from our own ``WebChannel``. ``resource`` is for a ``twisted.web``
    site, and uses a Klein app. Both run the same endpoints.

    ``traces`` puts the Python traceback on error pages (development only); ``max_json`` limits a
    body, in bytes. Before a refusal is sent, ``on_refusal(row, request, caller, error)`` is called
    if the route's ``tells`` is True. ``call`` is the class of the handlers' argument. ``nobody`` is
    the caller of a request before authentication.
    """

    gate: WebGate[Any]
    settings: Any = None
    traces: bool = False
    max_json: int = 50 * 1024 * 1024
    observers: Sequence[Observer] = ()
    unmatched: Callable[[HttpRequest], Answer] = field(default=lambda request: Answer(404))
    on_refusal: OnRefusal | None = None
    call: Callable[[Any, Any, HttpRequest], Any] = WebCall
    nobody: WebCaller = NOBODY
    rows: list[WebRow] = field(factory=list, init=False)
    _table: RouteTable[Mounted] = field(factory=RouteTable, init=False)
    _elapsed: Callable[[], float] = field(factory=lambda: system().elapsed, init=False)

    def mount(
        self, *features: Feature, serves: Callable[[Any], bool] = lambda row: True
    ) -> FrontDoor:
        """Bind each route that is switched on and for which ``serves`` returns true.

        Each endpoint is created at the first request for its route.
        """
        for feature in features:
            for row in feature.routes.rows:
                if serves(row) and (row.when is None or row.when(self.settings)):
                    self._mount(row, feature)
        return self

    def _mount(self, row: WebRow, feature: Feature) -> None:
        self._table.add(row, Mounted.mount_row(row, partial(self._made, row, feature)))
        self.rows.append(row)

    def _made(self, row: WebRow, feature: Feature) -> Callable[..., Any]:
        return self._endpoint(row, MethodType(row.handler, feature))

    def resource(self, *, proxy_headers: tuple[bytes, ...] = ()) -> IResource:
        """Return all routes as a ``twisted.web`` resource, for another program's site."""
        from svcserver.web.klein_site import AppResource  # our own channel needs no Klein

        routes = [(row.method, row.path) for row in self.rows]
        return AppResource(self, routes, proxy_headers)

    def _endpoint(self, row: WebRow, handler: Callable[..., Any]) -> Callable[..., Any]:
        gate, shape, call = self.gate, row.body, self.call
        read = reader(shape) if shape is not None else None

        async def answer(
            request: HttpRequest, context: dict[str, Any], **parameters: str
        ) -> Answer:
            context["caller"] = caller = await gate.admit(row, request, parameters)
            try:
                body = parse_body(request) if request.body or shape is not None else None
            except json.BadJson as error:
                if row.bad_json is not None:
                    await self._report_refusal(row, request, context, error)
                    return row.bad_json
                raise PageError(400, error) from error
            except TooLarge as error:
                raise PageError(413, error) from error
            if read is not None:
                body = read(body)
            answer: Answer = await handler(call(caller, body, request), **parameters)
            return answer

        async def answer_or_report(
            request: HttpRequest, context: dict[str, Any], **parameters: str
        ) -> Answer:
            try:
                return await answer(request, context, **parameters)
            except (Refusal, PageError, AnsweredError) as error:
                await self._report_refusal(row, request, context, error)
                raise

        chosen = answer_or_report if row.tells and self.on_refusal is not None else answer
        # most handlers never wait, and need no Deferred
        return lambda request, context, **parameters: start_coroutine(
            chosen(request, context, **parameters)
        )

    async def _report_refusal(
        self, row: WebRow, request: HttpRequest, context: dict[str, Any], error: Exception
    ) -> None:
        if row.tells and self.on_refusal is not None:
            await self.on_refusal(row, request, context["caller"], error)

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        """Return the refusal that can be given before the body is read, or None.

        Reports such a refusal to the observers.
        """
        started = self._elapsed()
        try:
            match = self._match(request)
        except BadPath as error:
            return self._observed_early(None, request, started, self.page(400, error))
        too_long = length is not None and length > self.max_json
        if match is None:
            in_vain = length is None or length > UNPROVEN_BODY
            answer = self.unmatched(request) if in_vain else None
            return self._observed_early(None, request, started, answer)
        row = match[0].row
        answer = self.page(413, None) if too_long else self.gate.early(row, request, length)
        return self._observed_early(row, request, started, answer)

    def _observed_early(
        self, row: WebRow | None, request: HttpRequest, started: float, answer: Answer | None
    ) -> Answer | None:
        if answer is not None:
            self._note(answer, row, request, {"caller": self.nobody}, started)
        return answer

    def _match(self, request: HttpRequest) -> tuple[Mounted, Parameters] | None:
        """Return the route and its parameters, or None for a 404; raises BadPath."""
        match = self._table.match(request.method, request.path)
        if match is not None and match[0].hides:
            return match if self.gate.exists(match[0].row, match[1]) else None
        return match

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        """Answer one request. Never fails, except with CancelledError."""
        started = self._elapsed()
        context: dict[str, Any] = {"caller": self.nobody}
        try:
            match = self._match(request)
        except BadPath as error:
            return self._observed(self.page(400, error), None, request, context, started)
        if match is None:
            return self._observed(self.unmatched(request), None, request, context, started)
        mounted, parameters = match
        row = mounted.row
        try:
            reply: Answer | Deferred[Answer] = mounted.run(request, context, **parameters)
        except Exception as error:
            reply = self._refusal(error, row, request)
        if isinstance(reply, Answer):
            self._note(reply, row, request, context, started)
            return reply
        return reply.addBoth(self._note_result, mounted, request, context, started)

    def _refusal(
        self, error: Exception, row: WebRow, request: HttpRequest, failure: Failure | None = None
    ) -> Answer:
        if isinstance(error, Refusal):
            answer = row.refuse(error.status, error)
            if error.retry_after_s is None:
                return answer
            headers = {**answer.headers, "Retry-After": str(error.retry_after_s)}
            return Answer(answer.status, answer.body, headers, answer.content_type)
        if isinstance(error, PageError):
            return self.page(error.status, error.cause)
        if isinstance(error, AnsweredError):
            return error.answer
        log.failure("{path} failed", failure or Failure(error), path=logged_path(request.path, row))
        return self.page(500, error)

    def _note_result(
        self,
        answer: Answer | Failure,
        mounted: Mounted,
        request: HttpRequest,
        context: Any,
        started: float,
    ) -> Answer | Failure:
        """Report to the observers how an asynchronous answer has ended."""
        if isinstance(answer, Failure):
            error = answer.value
            if isinstance(error, Exception) and not isinstance(error, CancelledError):
                answer = self._refusal(error, mounted.row, request, answer)
        if mounted.lost_answer and buggify(mounted.lost_answer):
            answer = Failure(CancelledError())  # the request has been executed
        done = answer if isinstance(answer, Answer) else None
        self._note(done, mounted.row, request, context, started)
        return answer

    def _observed(
        self, answer: Answer, row: WebRow | None, request: HttpRequest, context: Any, started: float
    ) -> Answer:
        self._note(answer, row, request, context, started)
        return answer

    def _note(
        self,
        answer: Answer | None,
        row: WebRow | None,
        request: HttpRequest,
        context: Any,
        started: float,
    ) -> None:
        status = 0 if answer is None else answer.status
        took, address = self._elapsed() - started, self.gate.address(request)
        caller: WebCaller = context["caller"]
        done = FinishedRequest(request, row, caller, status, took, address, answer is None, answer)
        for observe in self.observers:
            observe(done)

    def page(self, status: int, why: BaseException | None) -> Answer:
        """Return the HTML error page; the traceback is included only if ``traces`` is on."""
        title = {400: "Bad Request", 413: "Payload Too Large"}.get(status, "Internal Server Error")
        text = title
        if self.traces and why is not None:
            trace = Failure(why, type(why), why.__traceback__).getTraceback()
            text = "\n".join(map(visible, trace.split("\n")))
        body = (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>Error</title>\n</head>\n<body>\n<pre>{html.escape(text)}</pre>\n"
            "</body>\n</html>\n"
        )
        headers = {"X-Content-Type-Options": "nosniff"}
        return Answer(status, body.encode(), headers, "text/html; charset=utf-8")
