"""The OpenAPI document of the game: of this very server for admins, and for ``svcctl``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from svcserver.kernel.datafiles import read
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.web.openapi import document
from svcserver.web.routes import Row

TITLE = "svc-metagame"
EXAMPLES = "examples.json"  # what the rows were sent and answered when the tests ran
EVERY_ROUTE = {  # settings that mount every route; all others that do so by themselves are on
    "BACKEND_HEALTH": "1",
    "ESCALATION_MODE": "real",
    "MATCHMAKING_CANCEL": "1",
    "STORE": "free",
}


def describe(rows: Iterable[Row], version: str) -> dict[str, Any]:
    """The OpenAPI document of these rows, with who may ask and an example where one is kept."""
    return document(rows, TITLE, version, CREDENTIALS, read(str(__package__), EXAMPLES))
