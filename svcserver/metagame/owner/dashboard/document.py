"""The OpenAPI document of the game: of this very server for admins, and for ``svcctl``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar

from attrs import frozen

from svcserver.kernel.datafiles import read
from svcserver.kernel.shapes import Opaque
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.openapi import document
from svcserver.web.routes import NO_STORE, Answer, Row, bare

TITLE = "svc-metagame"
ApiDocument = Annotated[dict[str, Any], Opaque("An OpenAPI 3.1 document.")]
EXAMPLES = "examples.json"  # what the rows were sent and answered when the tests ran


def describe(rows: Iterable[Row], version: str) -> dict[str, Any]:
    """The document of these rows."""
    return document(rows, TITLE, version, CREDENTIALS, read(str(__package__), EXAMPLES))


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
    async def read(self, call: Call) -> Answer:
        """Every route that these settings switch on, as an OpenAPI 3.1 document."""
        return Answer(200, describe(self.rows(), self.version), NO_STORE)
