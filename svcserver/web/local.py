"""The access control of services that only this machine may call.

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

LOCAL = "local"  # the access label: direct loopback callers


@frozen
class LocalGate:
    """A ``front.Gate``: every row is for direct loopback callers."""

    def exists(self, row: Row, parameters: Mapping[str, str]) -> bool:
        return True

    def address(self, request: HttpRequest) -> str:
        return ""

    def early(self, row: Row, request: HttpRequest, length: int | None) -> Answer | None:
        return None if is_direct(request) else row.refuse(403, Forbidden())

    async def admit(self, row: Row, request: HttpRequest, parameters: Mapping[str, str]) -> Caller:
        if not is_direct(request):
            raise Forbidden("only direct loopback callers")
        return NOBODY


def is_direct(request: HttpRequest) -> bool:
    """Whether it comes from loopback, through no proxy, and not from another site's web page."""
    return is_loopback(request.peer) and request.direct
