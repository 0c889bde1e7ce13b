"""Request handling: the conventions of spec 1 §4, the routes' marks, the order of rejections."""

from typing import Any, ClassVar

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, TooMany
from svcserver.kernel.shapes import Late
from svcserver.metagame.once import Again
from svcserver.metagame.replies import coded
from svcserver.metagame.rows import NOBODY, Access, Call, Routes
from svcserver.web.front import UNPROVEN_BODY, FinishedRequest, FrontDoor
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, WebRow, bare
from svcserver.web.table import BadPath, RouteTable
from tests.support.browser import Browser
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves


@frozen
class Shape:
    text: str
    count: int
    flag: bool = False


@frozen
class Example:
    """A feature with one route of each kind."""

    routes: ClassVar[Routes] = Routes(coded, again=Again.NATURAL)
    held: Deferred[None]

    @routes.row("GET", "/Some/Fixed/", access=Access.NONE)
    async def fixed(self, call: Call) -> Answer:
        return Answer(200, {"fixed": True})

    @routes.row("GET", "/thing/<first>/all", access=Access.NONE)
    async def everything(self, call: Call, first: str) -> Answer:
        return Answer(200, ["all", first])

    @routes.row("GET", "/thing/<first>/<second>", access=Access.NONE, secret_path=("second",))
    async def show_pair(self, call: Call, first: str, second: str) -> Answer:
        return Answer(200, [first, second])

    @routes.row("POST", "/thing/<first>/<second>", access=Access.NONE)
    async def put(self, call: Call, first: str, second: str) -> Answer:
        return Answer(200, ["put", first, second])

    @routes.row("POST", "/shaped", access=Access.NONE, body=Shape)
    async def shaped(self, call: Call) -> Answer:
        return Answer(200, call.body.text * call.body.count)

    @routes.row("POST", "/ignored", access=Access.NONE)
    async def ignored(self, call: Call) -> Answer:
        return Answer(204)

    @routes.row("GET", "/conflict", access=Access.NONE)
    async def conflict(self, call: Call) -> Answer:
        raise Conflict("not now")

    @routes.row("GET", "/busy", access=Access.NONE)
    async def busy(self, call: Call) -> Answer:
        raise TooMany("later", retry_after_s=7)

    @routes.row("GET", "/broken", access=Access.NONE)
    async def broken(self, call: Call) -> Answer:
        raise ZeroDivisionError("<b>")

    @routes.row("GET", "/held", access=Access.NONE)
    async def hold(self, call: Call) -> Answer:
        await self.held
        return Answer(200)

    @routes.row("GET", "/off", access=Access.NONE, when=lambda settings: settings["on"])
    async def off(self, call: Call) -> Answer:
        return Answer(200)


@frozen
class Switched:
    """A feature whose routes share marks; one of the routes overrides them."""

    routes: ClassVar[Routes] = Routes(
        coded, when=lambda settings: settings["on"], body_log=True, again=Again.NATURAL
    )

    @routes.row("POST", "/late/<name>", access=Access.NONE, body=Late[Shape])
    async def late(self, call: Call[Late[Shape]], name: str) -> Answer:
        if name != "here":
            raise Conflict("asked first")
        return Answer(200, call.body.parse_value().text)

    @routes.row("GET", "/always", access=Access.NONE, when=None, body_log=False, refuse=bare)
    async def always(self, call: Call) -> Answer:
        raise Conflict("not now")


class Open:
    """A gate that allows every request."""

    def exists(self, row: Any, parameters: Any) -> bool:
        return True

    def early(self, row: Any, request: Any, length: Any) -> None:
        return None

    def address(self, request: Any) -> str:
        return ""

    async def admit(self, row: Any, request: Any, parameters: Any) -> Any:
        return NOBODY


class ConventionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.finished: list[FinishedRequest] = []
        self.held: Deferred[None] = Deferred()
        self.door = FrontDoor(Open(), {"on": False}, observers=[self.finished.append])
        self.door.mount(Example(self.held))
        self.browse = Browser(self, self.door)

    def test_a_late_body_is_parsed_before_the_rule_and_checked_after(self) -> None:
        browse = Browser(self, FrontDoor(Open(), {"on": True}).mount(Switched()))
        good = {"text": "a", "count": 2}
        self.assertEqual(browse("POST", "/late/here", json=good).json, "a")
        for body in ([], {"text": 5}):
            self.assertEqual(browse("POST", "/late/gone", json=body).status, 409)
            page = browse("POST", "/late/here", json=body)
            self.assertEqual((page.status, page.json["code"]), (400, "400"))
        self.assertEqual(browse("POST", "/late/gone", data=b"{").status, 400)

    def test_rows_of_a_feature_share_marks(self) -> None:
        door = FrontDoor(Open(), {"on": False}).mount(Switched())
        self.assertEqual([row.name for row in door.rows], ["GET /always"])
        late, always = Switched.routes.rows
        self.assertEqual((late.body_log, always.body_log), (True, False))
        page = Browser(self, door)("GET", "/always")
        self.assertEqual((page.status, page.body), (409, b""))

    @proves("convention 1: letter case, trailing slash, HEAD")
    def test_static_segments_match_in_any_case_and_parameters_keep_theirs(self) -> None:
        for path in ("/some/fixed", "/SOME/fixed/", "/Some/Fixed/"):
            self.assertEqual(self.browse("GET", path).json, {"fixed": True})
        self.assertEqual(self.browse("GET", "/THING/MiXed/CaSe").json, ["MiXed", "CaSe"])
        self.assertEqual(self.browse("GET", "/thing/MiXed/ALL/").json, ["all", "MiXed"])

    def test_a_static_segment_of_another_method_hides_no_parameter(self) -> None:
        self.assertEqual(self.browse("POST", "/thing/a/all").json, ["put", "a", "all"])

    def test_parameters_are_decoded_once(self) -> None:
        self.assertEqual(self.browse("GET", "/thing/a%20b/%252F").json, ["a b", "%2F"])
        self.assertEqual(self.browse("GET", "/thing/%C3%A9/x").json, ["é", "x"])
        self.assertEqual(self.browse("GET", "/thing/%FF/x").status, 400)

    @proves("convention 1: letter case, trailing slash, HEAD")
    def test_head_works_on_every_get_route(self) -> None:
        page = self.browse("HEAD", "/some/fixed")
        self.assertEqual((page.status, page.body, page.headers["content-length"]), (200, b"", "14"))

    @proves("convention 2: empty 404, logged as unstubbed", "No route matches")
    def test_an_unknown_or_switched_off_route_is_an_empty_404(self) -> None:
        for method, path in (
            ("GET", "/nope"),
            ("POST", "/some/fixed"),
            ("GET", "/off"),
            ("GET", "/thing//x"),
            ("GET", "/"),
            ("GET", "//some/fixed"),
            ("OPTIONS", "/some/fixed"),
            ("BREW", "/some/fixed"),
            ("GET", "/thing/a/b/c"),
        ):
            page = self.browse(method, path)
            self.assertEqual((page.status, page.body), (404, b""), (method, path))

    def test_a_body_has_the_shape_or_is_400(self) -> None:
        self.assertEqual(self.browse("POST", "/shaped", json={"text": "a", "count": 3}).json, "aaa")
        for body in (
            {"text": "a"},
            {"text": 1, "count": 1},
            {"text": "a", "count": "1"},
            {"text": "a", "count": True},
            {"text": "a", "count": 1.0},
            {"text": "a", "count": 1, "flag": 1},
            {"text": "a\x00", "count": 1},
            [],
            {},
        ):
            page = self.browse("POST", "/shaped", json=body)
            self.assertEqual((page.status, page.json["code"]), (400, "400"), body)

    @proves(
        "convention 4: unparseable JSON, HTML pages",
        "unparseable JSON elsewhere, unexpected errors",
    )
    def test_hostile_json_is_an_html_400_even_with_an_ignored_body(self) -> None:
        for path in ("/shaped", "/ignored"):
            for data in (
                b"{",
                b"nul",
                b"7",
                b'"x"',
                b"\x00",
                b'{"a":"\xff"}',
                b"[" * 100_000,
                b'{"a":NaN}',
                b'{"a":Infinity}',
                b'{"a":"\\ud800"}',
                b"{} {}",
                b"{'a':1}",
            ):
                page = self.browse("POST", path, data=data)
                self.assertEqual(page.status, 400, data[:20])
                self.assertIn(b"<!DOCTYPE html>", page.body)
        self.assertEqual(self.browse("POST", "/ignored", data=b"").status, 204)

    @given(st.binary(max_size=200))
    def test_any_body_is_200_or_400(self, data: bytes) -> None:
        self.assertIn(self.browse("POST", "/shaped", data=data).status, (200, 400))

    def test_refusals_are_worded_by_the_feature_and_carry_retry_after(self) -> None:
        page = self.browse("GET", "/conflict")
        self.assertEqual((page.status, page.json), (409, {"code": "409", "message": "not now"}))
        self.assertEqual(self.browse("GET", "/busy").headers["retry-after"], "7")

    @proves("unparseable JSON elsewhere, unexpected errors")
    def test_a_defect_is_an_html_500_and_one_logged_failure(self) -> None:
        page = self.browse("GET", "/broken")
        self.assertEqual(page.status, 500)
        self.assertNotIn(b"ZeroDivisionError", page.body)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    @proves("unparseable JSON elsewhere, unexpected errors")
    def test_the_traceback_is_shown_only_in_development_and_escaped(self) -> None:
        door = FrontDoor(Open(), {"on": True}, traces=True).mount(Example(self.held))
        page = Browser(self, door)("GET", "/broken")
        self.assertIn(b"ZeroDivisionError: &lt;b&gt;", page.body)
        self.flushLoggedErrors(ZeroDivisionError)
        self.assertEqual(Browser(self, door)("GET", "/off").status, 200)

    def test_work_is_cancelled_when_the_client_leaves(self) -> None:
        request = HttpRequest("GET", b"/held", b"", _NoHeaders(), "127.0.0.1")
        requests = maybeDeferred(self.door.answer, request)
        requests.cancel()
        self.failureResultOf(requests, CancelledError)
        self.assertTrue(self.finished[-1].aborted)

    def early(self, method: str, path: bytes, length: int | None) -> int | None:
        length_line = self.door.early(
            HttpRequest(method, path, b"", _NoHeaders(), "127.0.0.1"), length
        )
        return None if length_line is None else length_line.status

    def test_a_refusal_before_the_body_is_reported_to_observers(self) -> None:
        too_long = self.door.max_json + 1
        self.assertEqual(self.early("POST", b"/shaped", too_long), 413)
        self.assertEqual(self.early("POST", b"/nope", too_long), 404)
        self.assertEqual(self.early("POST", b"/thing/%FF/x", 5), 400)
        self.assertEqual([done.status for done in self.finished], [413, 404, 400])
        self.assertEqual([done.row is None for done in self.finished], [False, True, True])
        self.assertIsNone(self.early("POST", b"/shaped", 5))
        self.assertIsNone(self.early("POST", b"/shaped", None))
        self.assertEqual(len(self.finished), 3)

    def test_a_large_body_for_a_path_that_nobody_answers_is_not_read(self) -> None:
        self.assertIsNone(self.early("POST", b"/nope", UNPROVEN_BODY))
        self.assertEqual(self.early("POST", b"/nope", UNPROVEN_BODY + 1), 404)
        self.assertEqual(self.early("POST", b"/nope", None), 404)

    def test_mounting_the_same_path_twice_is_a_defect(self) -> None:
        with self.assertRaises(ValueError):
            self.door.mount(Example(self.held))


class _NoHeaders:
    def getRawHeaders(self, name: bytes) -> None:
        return None

    def hasHeader(self, name: bytes) -> bool:
        return False


class TableTests(SynchronousTestCase):
    @given(st.binary(max_size=60))
    def test_any_path_matches_or_not_or_raises_bad_path(self, path: bytes) -> None:
        table: RouteTable[WebRow] = RouteTable()
        for row in Example.routes.rows:
            table.add(row, row)
        try:
            table.match("GET", b"/thing/" + path)
        except BadPath as why:
            self.assertIn("path parameter", str(why))


class MarkTests(SynchronousTestCase):
    """Routes with the marks ``own``, ``real only`` and ``game server``.

    Only the gate reads these marks.
    """

    def game(self, **environ: str) -> Game:
        game = Game(self, **environ)
        game.door.mount(Marked())
        return game

    @proves("label: own", "another account's progression: 403")
    def test_a_row_marked_own_lets_a_player_read_only_its_own_account(self) -> None:
        game = self.game()
        ann, bob = game.player("Ann_1"), game.player("Bob_1")
        self.assertEqual(game.browse("GET", f"/marked/own/{ann.id}", token=ann.token).status, 200)
        self.assertEqual(game.browse("GET", f"/marked/own/{bob.id}", token=ann.token).status, 403)
        page = game.browse(
            "GET", f"/marked/own/{bob.id}", token=ann.token, game_server=GAME_SERVER_KEY
        )
        self.assertEqual(page.status, 200)

    def test_real_only_comes_before_the_size_of_a_body(self) -> None:
        game = self.game(PROGRESSION_MODE="stub")
        request = HttpRequest("POST", b"/huntpass/UID-x", b"", _NoHeaders(), "127.0.0.1")
        reply = game.door.early(request, game.door.max_json + 1)
        self.assertEqual(reply and reply.status, 404)

    def test_with_fixed_progression_neither_own_nor_game_server_refuses(self) -> None:
        game = self.game(PROGRESSION_MODE="stub")
        ann = game.player("Ann_1")
        self.assertEqual(game.browse("GET", "/marked/own/UID-b", token=ann.token).status, 200)
        self.assertEqual(
            game.browse("POST", f"/marked/write/{ann.id}", token=ann.token).status, 200
        )

    @proves("label: game server", "player token where a game server is needed: 403")
    def test_only_a_game_server_writes_real_progression(self) -> None:
        game = self.game()
        ann = game.player("Ann_1")
        self.assertEqual(
            game.browse("POST", f"/marked/write/{ann.id}", token=ann.token).status, 403
        )
        self.assertEqual(
            game.browse("POST", f"/marked/write/{ann.id}", game_server=GAME_SERVER_KEY).status, 200
        )

    @proves("label: real only")
    def test_real_only_is_the_empty_404_before_any_credential(self) -> None:
        game = self.game(PROGRESSION_MODE=" STUB ", PROGRESSION_REAL_ACCOUNTS=" UID-a , UID-b")
        self.assertEqual(game.browse("GET", "/marked/real/UID-x").status, 404)
        self.assertEqual(game.browse("GET", "/marked/real/UID-a").status, 401)
        self.assertEqual(self.game().browse("GET", "/marked/real/UID-x").status, 401)


@frozen
class Marked:
    routes: ClassVar[Routes] = Routes(coded, again=Again.NATURAL)

    @routes.row("GET", "/marked/own/<user_id>", access=Access.TOKEN, own=True)
    async def own(self, call: Call, user_id: str) -> Answer:
        return Answer(200)

    @routes.row("GET", "/marked/real/<user_id>", access=Access.TOKEN, real_only=True)
    async def real(self, call: Call, user_id: str) -> Answer:
        return Answer(200)

    @routes.row("POST", "/marked/write/<user_id>", access=Access.TOKEN, game_server=True)
    async def write(self, call: Call, user_id: str) -> Answer:
        return Answer(200)
