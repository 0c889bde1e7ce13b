"""One log line per request, without secrets. Spec: 1 §4 conventions 6 and 7, §5.8, §5.10."""

from __future__ import annotations

from io import StringIO
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.redaction import redact
from svcserver.kernel.throttle import EACH
from svcserver.kernel.times import iso
from svcserver.metagame.owner.requestlog import RequestLog, request_log
from svcserver.web.front import FinishedRequest
from svcserver.web.logs import LogLines
from svcserver.web.routes import logged_path
from tests.support.game import GAME_SERVER_KEY, START, Game
from tests.support.proves import proves


class RequestLogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.out = StringIO()

    def log(self, *, on: bool = True, as_json: bool = False) -> RequestLog:
        return request_log(LogLines(self.out, as_json=as_json), on, lambda: START)

    def lines(self, method: str, path: str, game: Game, **sent: Any) -> list[str]:
        self.out.truncate(self.out.seek(0))
        with capturedLogs() as events:
            game.browse(method, path, **sent)
        event = [e["log_format"].format(**e) for e in events if "requestlog" in e["log_namespace"]]
        written = self.out.getvalue().splitlines()
        return event + [line.partition(" info web.requestlog: ")[2] for line in written]

    def test_the_line_has_its_time_and_in_production_its_parts(self) -> None:
        game = Game(self, observers=[self.log()])
        game.browse("GET", "/svc-status")
        self.assertIn(f"{iso(START)} info web.requestlog: GET ", self.out.getvalue())
        self.out.truncate(self.out.seek(0))
        game = Game(self, observers=[self.log(as_json=True)])
        game.browse("GET", "/n'o")
        line = json.parse(self.out.getvalue())
        ms = line.pop("ms")
        self.assertEqual(
            line,
            {
                "time": iso(START),
                "level": "info",
                "namespace": "svcserver.metagame.owner.requestlog",
                "message": f"GET /n'o gs=0 404 {ms}ms",
                "method": "GET",
                "path": "/n'o",
                "gs": 0,
                "status": 404,
                "via": "",
                "by": "",
            },
        )

    def test_json_log_names_the_account_and_the_dashboard_session(self) -> None:
        game = Game(self, observers=[self.log(as_json=True)])
        olga = game.player("Olga", admin=True)
        by_key = {"x-svc-user-api-key": olga.key}
        page = game.browse("POST", "/svc/api/DashboardSession", headers=by_key)
        cookie = page.headers["set-cookie"].partition(";")[0]
        session = {"x-svc-dashboard": page.json["Word"], "Cookie": cookie}

        def line(**headers: str) -> dict[str, Any]:
            self.out.truncate(self.out.seek(0))
            game.browse("GET", "/svc/api/DashboardSanctions", headers=headers)
            entry: dict[str, Any] = json.parse(self.out.getvalue())
            return entry

        own = line(**session)
        self.assertEqual((own["by"], own["page"]), (olga.id, own["page"]))
        self.assertRegex(own["message"], f" by={olga.id} page={own['page']}$")
        self.assertEqual(line(**session)["page"], own["page"])
        self.assertNotIn(own["page"], f"{cookie} {page.json['Word']}")
        self.assertEqual(line(**by_key)["by"], olga.id)
        self.assertNotIn("page", line(**by_key))  # another who has the key, as with curl
        self.assertNotIn("page", line(**session | by_key))
        self.assertNotIn("page", line(**session | {"Cookie": cookie + "0"}))
        self.assertEqual(line()["by"], "")

    def test_log_level_warn_writes_no_request_lines(self) -> None:
        quiet = request_log(LogLines(self.out, level="warn"), True, lambda: START)
        Game(self, observers=[quiet]).browse("GET", "/svc-status")
        self.assertEqual(self.out.getvalue(), "")

    @proves("convention 6: request log line")
    def test_one_line_a_request_with_the_game_server_mark(self) -> None:
        game = Game(self, observers=[self.log()])
        [line] = self.lines("GET", "/svc-status?x=1", game)
        self.assertTrue(line.startswith("GET /svc-status gs=0 200 "))
        [line] = self.lines("GET", "/eventstats/", game, game_server=GAME_SERVER_KEY)
        self.assertTrue(line.startswith("GET /eventstats/ gs=1 "))

    @proves("convention 2: empty 404, logged as unstubbed")
    def test_the_request_log_off_still_shows_unstubbed_routes(self) -> None:
        game = Game(self, observers=[self.log(on=False)])
        self.assertEqual(self.lines("GET", "/svc-status", game), [])
        self.assertEqual(self.lines("GET", "/Nope/x", game), ["unstubbed GET /Nope/x"])

    @proves("convention 7: /progression warning")
    def test_an_unanswered_progression_request_is_a_warning(self) -> None:
        game = Game(self, observers=[self.log(on=False)])
        with capturedLogs() as events:
            game.browse("BREW", "/Progression/x/y/z")
        self.assertIn(
            "warn", [e["log_level"].name for e in events if "requestlog" in e["log_namespace"]]
        )

    def test_a_flood_of_refusals_is_sampled_but_no_server_error_is(self) -> None:
        log = self.log()
        done: list[FinishedRequest] = []
        Game(self, observers=[done.append]).browse("GET", "/accountinfo")
        done[0].request.peer = "192.0.2.7"
        for status, written in ((401, EACH.burst), (500, 100), (503, 100), (200, 100)):
            self.out.truncate(self.out.seek(0))
            for _ in range(100):
                log(evolve(done[0], status=status))
            self.assertEqual(len(self.out.getvalue().splitlines()), written, status)

    @proves(
        "convention 2: empty 404, logged as unstubbed",
        "convention 6: request log line",
        "convention 7: /progression warning",
    )
    def test_every_refusal_of_a_direct_local_caller_is_written(self) -> None:
        game = Game(self, observers=[self.log()])
        with capturedLogs() as events:
            for _ in range(3 * EACH.burst):
                game.browse("GET", "/progression/a/b/c/d")
        words = [e["log_format"].split()[0] for e in events if "requestlog" in e["log_namespace"]]
        self.assertEqual(words, ["unstubbed", "unanswered"] * 3 * EACH.burst)
        self.assertEqual(len(self.out.getvalue().splitlines()), 3 * EACH.burst)

    def test_refusals_through_a_local_proxy_are_sampled(self) -> None:
        log = self.log()
        done: list[FinishedRequest] = []
        game = Game(self, observers=[done.append])
        game.browse("GET", "/nope", headers={"X-Forwarded-For": "192.0.2.7"})
        for _ in range(100):
            log(done[0])
        self.assertEqual(len(self.out.getvalue().splitlines()), EACH.burst)

    @proves(
        "convention 6: request log line",
        "DELETE /account/api/oauth/sessions/kill",
        "DELETE /account/api/oauth/sessions/kill/:token",
        "authentication 10: secrets stay out of logs",
    )
    def test_secrets_in_paths_are_replaced(self) -> None:
        game = Game(self, observers=[self.log()])
        ann = game.player("Ann_1")
        for path in (
            f"/account/api/oauth/sessions/kill/{ann.token}",
            f"/nope/{ann.token}",
            f"/nope/{ann.key}",
            f"/nope/{GAME_SERVER_KEY}",
            f"/nope/UUK%5F{ann.key[4:24]}%{ord(ann.key[24]):02x}{ann.key[25:]}",
            "/account/api/oauth/sessions/kill/abc",
            "/svc/api/invitecodes/ABCD-EFGH-JKMN",
        ):
            for line in self.lines("DELETE", path, game):
                self.assertNotIn(path.rpartition("/")[2], line)
                self.assertRegex(line, "<(token|key|redacted)>")

    @proves("authentication 8: public mode", "credential: gateway secret")
    def test_the_gateways_address_is_logged_only_with_its_secret(self) -> None:
        game = Game(self, observers=[self.log()], GATEWAY_SECRET="s" * 32)
        sent = {"X-Forwarded-For": "9.9.9.9, 203.0.113.7", "X-Svc-Gateway": "s" * 32}
        [line] = self.lines("GET", "/svc-status", game, headers=sent)
        self.assertTrue(line.endswith(" via=gateway ip=203.0.113.7"))
        ann = game.player("Ann_1")
        [line] = self.lines("GET", "/tags", game, token=ann.token, headers=sent)
        self.assertTrue(line.endswith(f" by={ann.id} via=gateway ip=203.0.113.7"), line)
        for _ in range(EACH.burst):
            [line] = self.lines("GET", "/tags", game, headers=sent)
        self.lines("GET", "/tags", game, headers=sent)
        [line] = self.lines("GET", "/svc-status", game, headers=sent)
        self.assertTrue(line.endswith(" omitted=1 via=gateway ip=203.0.113.7"), line)
        for bad in (
            sent | {"X-Svc-Gateway": "s" * 31},
            {"X-Forwarded-For": "1.2.3.4"},
            sent | {"X-Forwarded-For": "no\tip"},
        ):
            [line] = self.lines("GET", "/svc-status", game, headers=bad)
            self.assertNotIn("via=gateway", line)

    @given(st.binary(max_size=300))
    def test_no_path_breaks_a_log_line(self, path: bytes) -> None:
        text = logged_path(b"/" + path)
        self.assertTrue(text.isascii() and text.isprintable())

    def test_redaction_spares_plain_words_and_ids(self) -> None:
        for path in (
            "/guild/invite/UID-1234",
            "/inventory/UID-747ff4fc-50e2-42d2-9de8-92626244fd34/533ca3f0-0853-4078-8afd-6b33608d0411",
        ):
            self.assertEqual(redact(path), path)
            self.assertEqual(logged_path(path.encode() + b"/a%20b"), path + "/a%20b")
