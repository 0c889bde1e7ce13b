"""The front door: the routes of a service, and the only place where an exception becomes a status.

Order of refusal: route and switch, the gate's 404, declared size, credential, JSON
syntax, shape, rule.
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
from svcserver.web import bodies
from svcserver.web.coroutines import start_coroutine
from svcserver.web.request import HttpRequest
from svcserver.web.routes import NOBODY, Answer, Call, Caller, Feature, Row, logged_path
from svcserver.web.table import BadPath, Parameters, RouteTable

log = Logger()

R = TypeVar("R", bound=Row, contravariant=True)

UNPROVEN_BODY = 64 * 1024  # bytes that are read before a look at the credential


class Gate(Protocol[R]):
    """Access control: turns a row's access label and a request into a caller, or refuses."""

    def exists(self, row: R, parameters: Parameters) -> bool:
        """False where the row does not exist for whom the path names."""

    async def admit(self, row: R, request: HttpRequest, parameters: Parameters) -> Caller:
        """The proven caller; raises a refusal for a credential that does not do."""

    def early(self, row: R, request: HttpRequest, length: int | None) -> Answer | None:
        """A refusal that needs no body, before the body is read; None to go on."""

    def address(self, request: HttpRequest) -> str:
        """The client's address as a proxy sent it, where that is trusted; else empty."""


@define(eq=False)  # not frozen: one is made for every request
class FinishedRequest:
    """An answered request, for the observers: request log, counters, health figures."""

    request: HttpRequest
    row: Row | None
    caller: Any  # of the class that the service's gate gives
    status: int
    seconds: float
    address: str = ""  # the client's, where a proxy that counts has named it
    aborted: bool = False
    answer: Answer | None = field(default=None, repr=False)  # None when aborted


Observer = Callable[[FinishedRequest], None]
Told = Callable[[Any, HttpRequest, Any, Exception], Awaitable[None]]


class PageError(Exception):
    """Raised for the framework's HTML error page. Spec: 1 §4 convention 4."""

    def __init__(self, status: int, why: BaseException | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.why = why


class AnsweredError(Exception):
    """Raised for an answer that is no documented refusal, so that no row words it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


@define(eq=False)
class Mounted:
    """A row with what each of its requests needs."""

    row: Row
    make: Callable[[], Callable[..., Any]] = field(repr=False)  # its endpoint
    hides: bool
    lost: str  # the rare thing that an answer which had to wait never leaves; "" where that is dull
    run: Callable[..., Any] = field(init=False, repr=False)  # the endpoint, made when first asked

    def __attrs_post_init__(self) -> None:
        self.run = self._first

    @classmethod
    def of(cls, row: Row, make: Callable[[], Callable[..., Any]]) -> Mounted:
        """Return the row with its endpoint; losing the answer to a reading shows nothing."""
        family = row.path.split("/")[1]
        lost = "" if row.method == "GET" else f"web: an answer of /{family} is lost"
        return cls(row, make, row.hides, lost)

    def _first(self, *args: Any, **parameters: str) -> Any:
        self.run = run = self.make()
        return run(*args, **parameters)


@define
class FrontDoor:
    """All rows of a service, behind the gate.

    ``answer`` finds a row by our own table, for our channel; ``resource`` has a Klein app do it,
    for a site of ``twisted.web``. Both run the same endpoints.

    ``traces`` puts the Python traceback on error pages (development only);
    ``max_json`` bounds a body in bytes. ``told(row, request, caller, why)`` hears of each refusal
    of a row that ``tells``, before it is answered. ``call`` makes what a handler gets, and
    ``nobody`` is who calls as long as nothing is proven; both are classes of the service where it
    has its own.
    """

    gate: Gate[Any]
    settings: Any = None
    traces: bool = False
    max_json: int = 50 * 1024 * 1024
    observers: Sequence[Observer] = ()
    unmatched: Callable[[HttpRequest], Answer] = field(default=lambda request: Answer(404))
    told: Told | None = None
    call: Callable[[Any, Any, HttpRequest], Any] = Call
    nobody: Caller = NOBODY
    rows: list[Row] = field(factory=list, init=False)
    _table: RouteTable[Mounted] = field(factory=RouteTable, init=False)
    _elapsed: Callable[[], float] = field(factory=lambda: system().elapsed, init=False)

    def mount(self, *features: Feature) -> FrontDoor:
        """Bind every row of the features whose switch is on.

        A row's endpoint is made at its first request: few of a hundred rows are asked soon,
        and to make them all would take longer than all else that puts a service together.
        """
        for feature in features:
            for row in feature.routes.rows:
                if row.when is None or row.when(self.settings):
                    self._mount(row, feature)
        return self

    def _mount(self, row: Row, feature: Feature) -> None:
        self._table.add(row, Mounted.of(row, partial(self._made, row, feature)))
        self.rows.append(row)

    def _made(self, row: Row, feature: Feature) -> Callable[..., Any]:
        return self._endpoint(row, MethodType(row.handler, feature))

    def resource(self, *, proxy_headers: tuple[bytes, ...] = ()) -> IResource:
        """Return the resource of an ordinary Klein app with all rows (``web/klein_site.py``)."""
        from svcserver.web.klein_site import AppResource  # our own channel needs no Klein

        routes = [(row.method, row.path) for row in self.rows]
        return AppResource(self, routes, proxy_headers)

    def _endpoint(self, row: Row, handler: Callable[..., Any]) -> Callable[..., Any]:
        gate, shape, call = self.gate, row.body, self.call
        read = reader(shape) if shape is not None else None

        async def answer(request: HttpRequest, seen: dict[str, Any], **parameters: str) -> Answer:
            seen["caller"] = caller = await gate.admit(row, request, parameters)
            try:
                body = bodies.parse(request) if request.body or shape is not None else None
            except json.BadJson as why:
                if row.bad_json is not None:
                    await self._tell(row, request, seen, why)
                    return row.bad_json
                raise PageError(400, why) from why
            except TooLarge as why:
                raise PageError(413, why) from why
            if read is not None:
                body = read(body)
            answer: Answer = await handler(call(caller, body, request), **parameters)
            return answer

        async def told(request: HttpRequest, seen: dict[str, Any], **parameters: str) -> Answer:
            try:
                return await answer(request, seen, **parameters)
            except (Refusal, PageError, AnsweredError) as why:
                await self._tell(row, request, seen, why)
                raise

        chosen = told if row.tells and self.told is not None else answer
        # most never wait, and need no Deferred
        return lambda request, seen, **parameters: start_coroutine(
            chosen(request, seen, **parameters)
        )

    async def _tell(
        self, row: Row, request: HttpRequest, seen: dict[str, Any], why: Exception
    ) -> None:
        if row.tells and self.told is not None:
            await self.told(row, request, seen["caller"], why)

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        """The refusal that can be given before the body is read, or None.

        It is observed like any other answer: a request refused here never reaches ``answer``.
        """
        started = self._elapsed()
        try:
            found = self._found(request)
        except BadPath as why:
            return self._observed_early(None, request, started, self.page(400, why))
        too_long = length is not None and length > self.max_json
        if found is None:
            in_vain = length is None or length > UNPROVEN_BODY
            answer = self.unmatched(request) if in_vain else None
            return self._observed_early(None, request, started, answer)
        row = found[0].row
        answer = self.page(413, None) if too_long else self.gate.early(row, request, length)
        return self._observed_early(row, request, started, answer)

    def _observed_early(
        self, row: Row | None, request: HttpRequest, started: float, answer: Answer | None
    ) -> Answer | None:
        if answer is not None:
            self._note(answer, row, request, {"caller": self.nobody}, started)
        return answer

    def _found(self, request: HttpRequest) -> tuple[Mounted, Parameters] | None:
        """The row that exists for whom the path names; raises BadPath."""
        found = self._table.match(request.method, request.path)
        if found is not None and found[0].hides:
            return found if self.gate.exists(found[0].row, found[1]) else None
        return found

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        """Answer one request. Never fails, except with CancelledError."""
        started = self._elapsed()
        seen: dict[str, Any] = {"caller": self.nobody}
        try:
            found = self._found(request)
        except BadPath as why:
            return self._observed(self.page(400, why), None, request, seen, started)
        if found is None:
            return self._observed(self.unmatched(request), None, request, seen, started)
        mounted, parameters = found
        row = mounted.row
        try:
            asked: Answer | Deferred[Answer] = mounted.run(request, seen, **parameters)
        except Exception as why:
            asked = self._refusal(why, row, request)
        if isinstance(asked, Answer):
            self._note(asked, row, request, seen, started)
            return asked
        return asked.addBoth(self._seen, mounted, request, seen, started)

    def _refusal(
        self, why: Exception, row: Row, request: HttpRequest, failure: Failure | None = None
    ) -> Answer:
        if isinstance(why, Refusal):
            answer = row.refuse(why.status, why)
            if why.retry_after_s is None:
                return answer
            headers = {**answer.headers, "Retry-After": str(why.retry_after_s)}
            return Answer(answer.status, answer.body, headers, answer.content_type)
        if isinstance(why, PageError):
            return self.page(why.status, why.why)
        if isinstance(why, AnsweredError):
            return why.answer
        log.failure("{path} failed", failure or Failure(why), path=logged_path(request.path, row))
        return self.page(500, why)

    def _seen(
        self,
        answer: Answer | Failure,
        mounted: Mounted,
        request: HttpRequest,
        seen: Any,
        started: float,
    ) -> Answer | Failure:
        """What an answer that had to wait came to; one call, for each takes a microsecond."""
        if isinstance(answer, Failure):
            why = answer.value
            if isinstance(why, Exception) and not isinstance(why, CancelledError):
                answer = self._refusal(why, mounted.row, request, answer)
        if mounted.lost and buggify(mounted.lost):
            answer = Failure(CancelledError())  # what it would say has been done
        done = answer if isinstance(answer, Answer) else None
        self._note(done, mounted.row, request, seen, started)
        return answer

    def _observed(
        self, answer: Answer, row: Row | None, request: HttpRequest, seen: Any, started: float
    ) -> Answer:
        self._note(answer, row, request, seen, started)
        return answer

    def _note(
        self,
        answer: Answer | None,
        row: Row | None,
        request: HttpRequest,
        seen: Any,
        started: float,
    ) -> None:
        status = 0 if answer is None else answer.status
        took, address = self._elapsed() - started, self.gate.address(request)
        caller: Caller = seen["caller"]
        done = FinishedRequest(request, row, caller, status, took, address, answer is None, answer)
        for observe in self.observers:
            observe(done)

    def page(self, status: int, why: BaseException | None) -> Answer:
        """The HTML error page; with the traceback only where ``traces`` is on."""
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
