"""The route of the OpenAPI document of this very server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from attrs import frozen

from svcserver.metagame.owner.dashboard.document import describe
from svcserver.metagame.owner.dashboard.wire import ApiDocument
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer, Row, bare


@frozen
class ApiDocumentRoutes:
    """``rows`` are all that are mounted, this one among them."""

    routes: ClassVar[Routes] = Routes(bare)
    rows: Callable[[], Sequence[Row]]
    version: str

    @routes.row(
        "GET",
        "/svc/api/DashboardOpenApi",
        access=Access.ADMIN_KEY,
        reply=ApiDocument,
        quiet=True,
    )
    async def api_document(self, call: Call) -> Answer:
        """Every route that these settings switch on, as an OpenAPI 3.1 document."""
        return Answer(200, describe(self.rows(), self.version), NO_STORE)
