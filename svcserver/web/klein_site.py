"""A service's routes on a Klein app, for another program's ``twisted.web`` site.

Each route of the service becomes a route of the app, with the same endpoint as in our own HTTP
server. So the app and our server give the same answers. If no route of the app matches a request,
for example because of letter case, the service's own route table is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field
from klein import Klein
from klein.interfaces import IKleinRequest
from klein.resource import KleinResource
from twisted.internet.defer import Deferred
from twisted.web.iweb import IRequest
from twisted.web.server import NOT_DONE_YET
from werkzeug.exceptions import HTTPException

from svcserver.http.peers import peer_of
from svcserver.web.request import PROXY_HEADERS, HttpRequest
from svcserver.web.response import BARE, Stream, encode_body
from svcserver.web.routes import Answer
from svcserver.web.site import HttpHandler

Route = tuple[str, str]
"""A method, and a path as a werkzeug rule."""


def klein_app(
    handler: HttpHandler, routes: Iterable[Route], *, proxy_headers: tuple[bytes, ...] = ()
) -> Klein:
    """Return a Klein app that has these routes and passes each request to ``handler``.

    ``proxy_headers`` are headers that mark a request as forwarded, in addition to the usual proxy
    headers. The site reads the whole body before it calls the app, so only the site can limit the
    size of bodies.
    """
    app = Klein()
    marks = (*proxy_headers, *PROXY_HEADERS)

    async def respond(request: IRequest, *_: Any, **__: Any) -> None:
        mount = IKleinRequest(request).mapper.script_name
        depth = len(list(filter(None, mount.split("/"))))
        await _respond(handler, request, depth, marks)

    for method, path in routes:
        name = f"{method} {path}"
        app.route(path, methods=[method], endpoint=name, strict_slashes=False)(respond)
    unmatched: Any = respond  # Klein's type requires a function that is not a coroutine
    app.handle_errors(HTTPException)(unmatched)
    return app


class AppResource(KleinResource):
    """The resource of ``klein_app``; it accepts a path or host that is not UTF-8."""

    def __init__(
        self, handler: HttpHandler, routes: Iterable[Route], proxy_headers: tuple[bytes, ...]
    ) -> None:
        super().__init__(klein_app(handler, routes, proxy_headers=proxy_headers))
        self._handler, self._marks = handler, (*proxy_headers, *PROXY_HEADERS)

    def render(self, request: Any) -> Any:
        """Pass the request to Klein if its path and host can be decoded."""
        try:
            b"/".join([request.getRequestHostname(), *request.prepath, *request.postpath]).decode()
        except UnicodeDecodeError:
            work = _respond(self._handler, request, len(request.prepath), self._marks)
            Deferred.fromCoroutine(work).addCallbacks(
                lambda _: request.finish(), request.processingFailed
            )
            return NOT_DONE_YET
        return super().render(request)


async def _respond(
    handler: HttpHandler, request: Any, depth: int, marks: tuple[bytes, ...]
) -> None:
    """Answer a twisted.web request to a resource that is ``depth`` segments below the root."""
    ours = HttpRequest(
        request.method.decode("latin-1"),
        b"/" + b"/".join(request.path.split(b"/")[1 + depth :]),
        request.uri.partition(b"?")[2],
        request.requestHeaders,
        peer_of(request.getClientAddress()),
        proxy_headers=marks,
    )
    length = request.getHeader(b"content-length")
    size = None if request.requestHeaders.hasHeader(b"transfer-encoding") else int(length or 0)
    answer: Answer | None = None
    if size != 0:
        answer = handler.early(ours, size)
    if answer is None:
        ours.body = request.content.read(handler.max_json + 1)
        if len(ours.body) > handler.max_json:
            answer = handler.page(413, None)
    if answer is None:
        work = handler.answer(ours)
        answer = work if isinstance(work, Answer) else await work
    await _write(answer, request)


async def _write(answer: Answer, request: Any) -> None:
    request.defaultContentType = None
    request.setResponseCode(answer.status)
    body = answer.body
    data = b"" if isinstance(body, Stream) else encode_body(answer)
    if data:
        request.setHeader("Content-Type", answer.content_type)
    if answer.status not in BARE and not isinstance(body, Stream):
        request.setHeader("Content-Length", str(len(data)))
    for name, value in answer.headers.items():
        if name != "Transfer-Encoding":  # twisted.web's own, where a length is missing
            request.setHeader(name, value)
    if isinstance(body, Stream):
        await _StreamOut(request, body).run()
    else:
        request.write(data)


@define(eq=False)
class _StreamOut:
    """The ``out`` argument of ``Stream.begin``, for a twisted.web request."""

    request: Any
    stream: Stream
    _done: Deferred[None] = field(factory=Deferred, init=False)

    @property
    def transport(self) -> _StreamOut:
        return self

    async def run(self) -> None:
        """Write the stream; return when the stream has ended or the client has disconnected."""
        self.request.notifyFinish().addBoth(lambda _: self.finish())
        self.stream.begin(self)
        await self._done

    def write(self, data: bytes) -> None:
        self.request.write(data)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.request.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self.request.unregisterProducer()

    def abortConnection(self) -> None:
        self.request.transport.abortConnection()

    def finish(self) -> None:
        """End the request, because the stream has written everything."""
        if not self._done.called:
            self.stream.over()
            self._done.callback(None)
