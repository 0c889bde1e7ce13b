"""A Klein app in a standard twisted.web site gives the same answers as our own channel."""

import random
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson
from treq import content
from treq.testing import StubTreq
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource

from svcserver.kernel.system import System, owned
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from svcserver.web.openapi import template
from svcserver.web.routes import WebRow
from tests.support.browser import Browser, Page
from tests.support.examples import EXAMPLES
from tests.support.game import GAME_SERVER_KEY, Game, Player

# headers that twisted.web or a connection adds or omits by itself
OWN = {"date", "server", "content-length", "connection", "transfer-encoding"}


def chance(seed: int) -> System:
    """Return a source of ids and random numbers that is deterministic for each seed."""
    numbers = random.Random(seed)
    return System(
        random_hex=lambda count: numbers.randbytes(count).hex(),
        uuid4=lambda: uuid.UUID(bytes=numbers.randbytes(16), version=4),
        below=numbers.randrange,
        fraction=numbers.random,
        epoch=lambda: 1_790_000_000.0,
        elapsed=lambda: 0.0,
        monotonic=lambda: 0.0,
    )


def comparable(body: bytes) -> bytes:
    """Return the body without row numbers and memory sizes, which differ between the two sites.

    PostgreSQL does not reset row numbers between tests.
    """
    return re.sub(rb'"(id|rss|heapUsed)":[\d.]+', rb'"\1":0', body)


class KleinSiteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.sides: list[tuple[Browser, Player, Player]] = []
        for on_klein in (False, True):
            with owned(chance(1)):
                game = Game(self, **EVERY_ROUTE)
                self.addCleanup(game.described.faults.clear)  # bad bodies are sent on purpose
                browser = Browser(self, game.door, on_klein=on_klein)
                self.sides.append((browser, game.player("Ann_1"), game.player("Boss", admin=True)))
        self.rows = game.door.rows

    def same(self, seed: int, method: str, path: str, **sent: Any) -> Page:
        """Send a request to both sites and assert equal responses."""
        pages = []
        for browser, player, admin in self.sides:
            credentials = {
                "player": {"token": player.token},
                "admin": {"key": admin.key},
                "gameserver": {"game_server": GAME_SERVER_KEY},
            }
            by = credentials.get(sent.get("by", ""), {})
            body = {name: value for name, value in sent.items() if name != "by"}
            with owned(chance(seed)):
                pages.append(browser(method, path, **by, **body))
        ours, kleins = pages
        about = f"{method} {path} {sent}"
        self.assertEqual(kleins.status, ours.status, about)
        self.assertEqual(comparable(kleins.body), comparable(ours.body), about)
        self.assertEqual(heads(kleins), heads(ours), about)
        for page in pages:
            if method != "HEAD" and "content-length" in page.headers:
                self.assertEqual(int(page.headers["content-length"]), len(page.body), about)
        return ours

    def requests(self) -> Iterator[tuple[WebRow, str]]:
        """Yield each row and an example of its path, except rows that answer with a stream."""
        names: dict[str, str] = defaultdict(lambda: "x")
        names |= {"user_id": self.sides[0][1].id, "name": "Ann_1", "file": "app.js"}
        for row in self.rows:
            if "Stream" not in row.name and "Events" not in row.name:
                yield row, template(row.path).format_map(names)

    def test_every_row_answers_good_and_bad_requests_alike(self) -> None:
        examples = orjson.loads(EXAMPLES.read_bytes())
        statuses: set[int] = set()
        for seed, (row, path) in enumerate(self.requests()):
            good = examples.get(row.name, {}).get("sent", {})
            for by in ("", "player", "admin", "gameserver"):
                page = self.same(seed, row.method, path, by=by, json=good)
                statuses.add(page.status)
            for bad in (b"{", b"[]", b"nonsense"):
                self.same(seed, row.method, path, by="player", data=bad)
        self.assertLessEqual({200, 400, 401, 403, 404}, statuses)

    def test_the_site_replies_the_same_below_another_resource(self) -> None:
        browser, player, _ = self.sides[0]
        root, below = Resource(), Resource()
        root.putChild(b"a", below)
        below.putChild(b"game", browser.front.resource())
        site = StubTreq(root)
        headers = {"Authorization": f"Bearer {player.token}"}
        for path in ("/character", "/Character", "/nowhere"):
            page = browser("GET", path, token=player.token)
            reply = self.successResultOf(
                site.get(f"http://127.0.0.1/a/game{path}", headers=headers)
            )
            self.assertEqual(reply.code, page.status)
            self.assertEqual(self.successResultOf(content(reply)), page.body)

    def test_odd_spellings_of_paths_and_methods_are_answered_alike(self) -> None:
        for row, path in list(self.requests())[:40]:
            for odd in (path.upper(), f"{path}/", f"/{path}", f"{path}/%FF", f"{path}?a=%FF&b"):
                self.same(1, row.method, odd, by="player")
            for verb in ("HEAD", "PATCH", "OPTIONS"):
                self.same(1, verb, path, by="player")


def heads(page: Page) -> dict[str, str]:
    """Return the headers that our own channel sets."""
    return {name: value for name, value in page.headers.items() if name.lower() not in OWN}
