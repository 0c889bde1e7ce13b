"""The adapter between the content routes and the HTTP channel, with files as bodies."""

from __future__ import annotations

from attrs import define
from twisted.internet.defer import Deferred
from twisted.web.resource import IResource

from svcserver.content.files import Transfer, Transfers
from svcserver.content.routes import PATHS, ContentHandler, ContentReply, FileAnswer
from svcserver.kernel.headers import GATEWAY
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer


@define
class Sender:
    """An ``HttpHandler`` that asks the routes and sends files as transfers."""

    handler: ContentHandler
    transfers: Transfers

    @property
    def max_json(self) -> int:
        """Return the maximum bytes of a body."""
        return self.handler.max_json

    def resource(self) -> IResource:
        """Return the resource of an ordinary Klein app with these routes."""
        from svcserver.web.klein_site import AppResource  # our own channel needs no Klein

        routes = [
            ("GET", path.decode() + ("<path:name>" if path.endswith(b"/") else ""))
            for path in PATHS
        ]
        return AppResource(self, routes, (GATEWAY,))

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        return self.handler.early(request, length)

    def page(self, status: int, why: BaseException | None) -> Answer:
        return self.handler.page(status, why)

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        """Answer one request; fails only with CancelledError."""
        reply = self.handler.answer(request)
        if isinstance(reply, Deferred):
            return reply.addCallback(self._as_answer)
        return self._as_answer(reply)

    def _as_answer(self, reply: ContentReply) -> Answer:
        if not isinstance(reply, FileAnswer):
            return reply
        transfer = Transfer(reply.file, reply.span, reply.ended, reply.spoiled, self.transfers)
        return Answer(reply.head.status, transfer, reply.head.headers)
