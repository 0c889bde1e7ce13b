"""The access control of services that only this machine may call.

A request must come from loopback, through no proxy, and not from another site's web page
(``http.crosssite``). Any other request gets 403 before its body is read. Every user of the machine
can reach loopback, so a route for the owner needs a ticket as well (``kernel.machine``). Spec: 2 §4
Deploy server.
"""

from collections.abc import Callable, Iterable, Mapping

from attrs import field, frozen

from svcserver.http.crosssite import is_loopback
from svcserver.kernel.headers import MACHINE
from svcserver.kernel.machine import actor_of
from svcserver.kernel.refusals import Forbidden
from svcserver.kernel.system import epoch
from svcserver.web.request import HttpRequest
from svcserver.web.routes import NOBODY, Answer, WebCaller, WebRow

OWNER = "owner"  # the access label of routes that need a ticket
NO_TICKET = "this route needs a ticket of the machine"


@frozen
class LocalGate:
    """A ``WebGate`` that admits only programs on this machine; some routes also need a ticket.

    ``keys`` returns the keys that can sign valid tickets.
    """

    keys: Callable[[], Iterable[str]] = field(default=tuple, repr=False)

    def exists(self, row: WebRow, parameters: Mapping[str, str]) -> bool:
        return True

    def address(self, request: HttpRequest) -> str:
        return ""

    def early(self, row: WebRow, request: HttpRequest, length: int | None) -> Answer | None:
        refusal = self._refusal(row, request)
        return None if refusal is None else row.refuse(403, refusal)

    async def admit(
        self, row: WebRow, request: HttpRequest, parameters: Mapping[str, str]
    ) -> WebCaller:
        refusal = self._refusal(row, request)
        if refusal is not None:
            raise refusal
        return NOBODY

    def _refusal(self, row: WebRow, request: HttpRequest) -> Forbidden | None:
        if not is_direct(request):
            return Forbidden("only direct requests from this machine are allowed")
        if row.access == OWNER and not self._has_ticket(request):
            return Forbidden(NO_TICKET)
        return None

    def _has_ticket(self, request: HttpRequest) -> bool:
        ticket = request.header(MACHINE)
        if ticket is None:
            return False
        now = epoch()
        return any(
            actor_of(secret, ticket, request.method, request.target, now) is not None
            for secret in self.keys()
        )


def is_direct(request: HttpRequest) -> bool:
    """Return whether a request is from loopback, not proxied, and not from another site's page."""
    return is_loopback(request.peer) and request.direct
