"""The desk behind the project's channel; an answer's body may be a file."""

from __future__ import annotations

from attrs import define
from twisted.internet.defer import Deferred

from svcserver.content.files import Transfer, Transfers
from svcserver.content.routes import Desk, FileAnswer, Said
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer


@define
class Sender:
    """Asks the desk, and makes a transfer of a file."""

    desk: Desk
    transfers: Transfers

    @property
    def max_json(self) -> int:
        """Bytes of a body nobody wants."""
        return self.desk.max_json

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        """The desk words the channel's refusals."""
        return self.desk.early(request, length)

    def page(self, status: int, why: BaseException | None) -> Answer:
        """An error of the channel's own."""
        return self.desk.page(status, why)

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        """Answer one request; fails only with CancelledError."""
        said = self.desk.answer(request)
        if isinstance(said, Deferred):
            return said.addCallback(self._as_answer)
        return self._as_answer(said)

    def _as_answer(self, said: Said) -> Answer:
        if not isinstance(said, FileAnswer):
            return said
        transfer = Transfer(said.file, said.span, said.ended, said.spoiled, self.transfers)
        return Answer(said.head.status, transfer, said.head.headers)
