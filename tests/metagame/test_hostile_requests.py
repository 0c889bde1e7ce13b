"""Hostile text in every part of a request never changes a page, a header or a log line."""

import io
import json
import re
from typing import Any
from urllib.parse import quote

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.shapes import members
from svcserver.web.logs import LogLines
from svcserver.web.routes import WebRow
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.nasty import NASTY, unsafe_in

WORD = quote(NASTY, safe="")
MARKUP = b"<img src=x"


def body_of(row: WebRow) -> Any:
    """Return a body with hostile text in each member that the route knows."""
    shape = getattr(row.body, "__args__", (row.body,))[0]
    try:
        return dict.fromkeys(members(shape), NASTY)
    except (TypeError, AttributeError):  # any JSON
        return {"name": NASTY, NASTY: [NASTY]}


class HostileRequestTests(SynchronousTestCase):
    def test_every_route_answers_and_logs_it_harmlessly(self) -> None:
        out = [io.StringIO(), io.StringIO()]
        observers = [LogLines(out[0], level="debug"), LogLines(out[1], as_json=True, level="debug")]
        for observer in observers:
            globalLogPublisher.addObserver(observer)
            self.addCleanup(globalLogPublisher.removeObserver, observer)
        game = Game(self, NODE_ENV="development", LOG_REQUESTS="1", GUILDS="on", BACKEND_HEALTH="1")
        owner, ann = game.player("Olga", admin=True), game.player("Ann_1")
        callers: list[dict[str, Any]] = [
            {"token": ann.token},
            {"key": owner.key},
            {"game_server": GAME_SERVER_KEY},
        ]
        for row in game.door.rows:
            path = re.sub("<[^>]*>", WORD, row.path)
            request = "&".join(f"{name}={WORD}" for name in row.query)
            sent = {} if row.method in ("GET", "HEAD") else {"json": body_of(row)}
            for caller in callers:
                page = game.browse(row.method, f"{path}?{request}", **caller, **sent)
                self.check(row, page)
        # drop the faults of bodies that were accepted although they fit no shape
        game.described.faults.clear()
        for lines in out:
            self.assertIn("owned", lines.getvalue())
            for line in lines.getvalue().split("\n"):
                self.assertEqual(unsafe_in(line), "", ascii(line)[:400])

    def check(self, row: WebRow, page: Any) -> None:
        kind = page.headers.get("content-type", "")
        for value in page.headers.values():
            self.assertEqual(unsafe_in(value), "", row.name)
        if kind.startswith("text/html"):
            self.assertNotIn(MARKUP, page.body, row.name)
        elif kind.startswith("application/json"):
            json.loads(page.body)
        elif page.body and b"owned" in page.body:
            self.fail(f"{row.name}: {kind} repeats the text")
