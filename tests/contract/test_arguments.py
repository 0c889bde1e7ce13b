"""The headers and query arguments that a route reads are described in the OpenAPI document.

Feature tests compare the query arguments of every request that they send
(``tests/support/described.py``). This file tests the headers, and that comparison itself.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

import svcserver.metagame
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.metagame.rows import NOBODY, Access, Row
from svcserver.web.front import FinishedRequest
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, Routes, bare
from tests.support.described import Described
from tests.support.proves import proves

FOLDER = Path(svcserver.metagame.__file__).parent
READS = re.compile(r"\b(?:has_)?header\(([^)]*)\)")
OUTSIDE = {"accept", "cookie"}  # which OpenAPI has other places for
SHOWN = {scheme.get("name") for scheme in CREDENTIALS.schemes.values()} | OUTSIDE


async def _handler() -> Answer:
    return Answer()


class HeaderTests(SynchronousTestCase):
    @proves("svcctl openapi")
    def test_a_module_of_rows_that_reads_a_header_describes_it(self) -> None:
        read = 0
        for file in sorted(FOLDER.rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            named = set(READS.findall(text)) if "@routes.row" in text else None
            if not named:
                continue
            name = ".".join(file.relative_to(FOLDER.parent.parent).with_suffix("").parts)
            module = importlib.import_module(name)
            read_here = {eval(value, vars(module)).decode() for value in named}  # noqa: S307 - our own code
            features = [value for value in vars(module).values() if isinstance(value, type)]
            tables = [value.routes for value in features if hasattr(value, "routes")]
            rows = [row for value in tables if isinstance(value, Routes) for row in value.rows]
            described = {header for row in rows for header in row.headers}
            self.assertEqual(described - read_here, set(), f"{file} never reads these")
            self.assertEqual(
                read_here - described - SHOWN, set(), f"{file} does not describe these"
            )
            read += len(read_here)
        self.assertGreater(read, 4)


class ArgumentTests(SynchronousTestCase):
    def faults(self, name: str) -> list[str]:
        row = Row("GET", "/note", Access.NONE, _handler, bare, query={"page": int})
        request = HttpRequest("GET", b"/note", b"page=1&size=2", Headers(), "127.0.0.1", b"")
        request.argument(name)
        observer = Described()
        observer(FinishedRequest(request, row, NOBODY, 200, 0.0, answer=Answer()))
        return observer.faults

    def test_an_argument_that_is_read_and_not_described_is_a_fault(self) -> None:
        self.assertEqual(self.faults("page"), [])
        self.assertEqual(self.faults("size"), ["GET /note reads ?size= and does not say so"])
