"""The gate of services that only this machine may call: deploy server, allowlist helper.

A caller that is not loopback, that any proxy touched, or that is a web page of somebody else
(``http.crosssite``) gets 403 before its body is read. Spec: 2 §4 Deploy server.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from svcserver.http.crosssite import is_loopback
from svcserver.kernel.refusals import Forbidden
from svcserver.web.request import HttpRequest
from svcserver.web.routes import NOBODY, Answer, Caller, Row


@frozen
class LocalGate:
    """Every row is for direct loopback callers."""

    def exists(self, row: Row, parameters: Mapping[str, str]) -> bool:
        """Every row exists."""
        return True

    def address(self, request: HttpRequest) -> str:
        """There is no gateway before this service."""
        return ""

    def early(self, row: Row, request: HttpRequest, length: int | None) -> Answer | None:
        """The refusal, before the body is read."""
        return None if is_direct(request) else row.refuse(403, Forbidden())

    async def admit(self, row: Row, request: HttpRequest, parameters: Mapping[str, str]) -> Caller:
        """The same for requests without a body."""
        if not is_direct(request):
            raise Forbidden("only direct loopback callers")
        return NOBODY


def is_direct(request: HttpRequest) -> bool:
    """From loopback, with no proxy on the way and no foreign web page behind it."""
    return is_loopback(request.peer) and request.direct
