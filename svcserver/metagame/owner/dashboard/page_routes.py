"""The routes of the dashboard's page and its files. Spec: 2 §4 Management API; 1 §5.9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import field, frozen

from svcserver.kernel.refusals import Missing
from svcserver.metagame.owner.dashboard.pages import HEADERS, KINDS, PAGE, read_files
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Media, Page, Redirect, bare

FILE = Media(tuple(one.partition(";")[0] for one in KINDS.values()))
NOTHING = Answer(404)
TO_THE_PAGE = Answer(302, b"", HEADERS | {"Location": "/svc/dashboard"})


@frozen
class DashboardPageRoutes:
    """The page, its styles, scripts and icon."""

    routes: ClassVar[Routes] = Routes(bare, quiet=True)
    kept: Mapping[str, Answer] = field(factory=read_files)

    @routes.row("GET", "/", access=Access.NONE, reply=Redirect)
    async def root(self, call: Call) -> Answer:
        """Send a browser on this machine to the owner's page; 404 for everybody else."""
        request = call.request
        wanted = (request.header(b"accept") or "").lower()
        if "text/html" not in wanted or not request.direct:
            return NOTHING
        return TO_THE_PAGE

    @routes.row("GET", "/svc/dashboard", access=Access.DIRECT, reply=Page)
    async def page(self, call: Call) -> Answer:
        """The owner's page, for a browser on this machine."""
        return self.kept[PAGE]

    @routes.row("GET", "/svc/dashboard/<file>", access=Access.DIRECT, reply=FILE)
    async def part(self, call: Call, file: str) -> Answer:
        """One of the page's files."""
        found = self.kept.get(file)
        if found is None:
            raise Missing("the page has no such file")
        return found
