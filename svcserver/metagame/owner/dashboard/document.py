"""The OpenAPI document of this very server, for admins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from attrs import frozen

from svcserver.web.openapi import document
from svcserver.web.routes import NO_STORE, Access, Answer, Call, Routes, Row, bare

TITLE = "svc-metagame"


@frozen
class ApiDocument:
    """``rows`` are all that are mounted, this one among them."""

    routes: ClassVar[Routes] = Routes(bare)
    rows: Callable[[], Sequence[Row]]
    version: str

    @routes.row(
        "GET",
        "/svc/api/DashboardOpenApi",
        access=Access.ADMIN_KEY,
        reply=dict[str, Any],
        quiet=True,
    )
    async def read(self, call: Call) -> Answer:
        """Every route that these settings switch on, as an OpenAPI 3.1 document."""
        return Answer(200, document(self.rows(), TITLE, self.version), NO_STORE)
