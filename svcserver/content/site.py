"""twisted.web under the desk: the project's channel with its limits, and file bodies."""

from __future__ import annotations

from typing import Any, cast

from attrs import define
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from svcserver.content.files import Transfer, Transfers
from svcserver.content.routes import Desk, FileAnswer, Said
from svcserver.web.request import HttpRequest
from svcserver.web.site import FrontFactory, FrontRequest, deliver

log = Logger()


@define
class Sender:
    """Asks the desk and sends what it says."""

    desk: Desk
    transfers: Transfers

    def serve(self, request: Any) -> None:
        """Answer one request of the channel."""
        client = request.getClientAddress()
        seen = HttpRequest(
            request.method.decode("latin-1"),
            request.path,
            b"",
            request.requestHeaders,
            getattr(client, "host", "") or "",
        )
        asked = self.desk.answer(seen)
        if not asked.called or isinstance(getattr(asked, "result", None), Deferred):
            request.notifyFinish().addErrback(lambda _: asked.cancel())
        asked.addCallback(self._send, request)
        asked.addErrback(lambda why: why.trap(CancelledError))
        asked.addErrback(lambda why: log.failure("an answer could not be written", why))

    def _send(self, said: Said, request: Any) -> None:
        if not isinstance(said, FileAnswer):
            deliver(request, succeed(said))
            return
        if request._disconnected:
            said.file.close()
            said.ended(0, False)
            return
        request.setResponseCode(said.head.status)
        for name, value in said.head.headers.items():
            request.responseHeaders.setRawHeaders(name.encode(), [value.encode("latin-1")])

        def ended(sent: int, complete: bool) -> None:
            self.transfers.discard(transfer)
            said.ended(sent, complete)

        transfer = Transfer(request, said.file, said.span, ended, said.spoiled)
        self.transfers.add(transfer)
        transfer.begin()


class ContentRequest(FrontRequest):
    """A request whose answer may be a file."""

    def process(self) -> None:
        """The request is whole; what came with it as a body does not matter."""
        channel: Any = self.channel
        if self._refused:
            channel.loseConnection()
        else:
            channel.factory.sender.serve(self)


class ContentFactory(FrontFactory):
    """Listens for the desk, with the limits of every service of ours."""

    def __init__(self, sender: Sender, clock: IReactorTime) -> None:
        super().__init__(cast(Any, sender.desk), clock)  # the desk words the channel's refusals
        self.sender = sender

    def buildProtocol(self, addr: Any) -> Any:
        """A channel that makes our requests."""
        channel: Any = super().buildProtocol(addr)
        channel.requestFactory = ContentRequest
        return channel


class ContentResource(Resource):
    """The desk as a twisted.web resource, for in-memory tests."""

    isLeaf = True

    def __init__(self, sender: Sender) -> None:
        super().__init__()
        self._sender = sender

    def render(self, request: Any) -> int:
        """Answer through the desk."""
        self._sender.serve(request)
        return NOT_DONE_YET
