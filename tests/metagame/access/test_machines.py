"""Machine tickets that the gate checks: their origins, purposes and accounts."""

import re
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.kernel.counters import Counted
from svcserver.kernel.machine import LIVES_S, machine_headers
from svcserver.metagame.access.attempts import TRIES
from svcserver.metagame.rows import Access
from svcserver.web.front import UNPROVEN_BODY
from svcserver.web.request import HttpRequest
from tests.support.browser import Page
from tests.support.game import Game, signing_keys
from tests.support.proves import proves

PATH = "/svc/api/InviteCodes"
OF_A_PAGE = {("POST", "DashboardSession"), ("GET", "DashboardEvents")}  # a key only; a stream


class MachineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")

    def ticket(self, method: str = "GET", path: str = PATH, secret: str = "") -> dict[str, str]:
        now = self.game.clock.seconds()
        return machine_headers(secret or signing_keys()[0], "svcctl:ada", method, path, now)

    def ask(self, sent: dict[str, str], method: str = "GET", path: str = PATH, **more: Any) -> Page:
        return self.game.browse(method, path, headers=sent, **more)

    def status(self, peer: str, **more: str) -> int:
        sent = Headers()
        for name, value in {**self.ticket(), **more}.items():
            sent.setRawHeaders(name.encode(), [value.encode()])
        incoming = HttpRequest("GET", PATH.encode(), b"", sent, peer)
        answer = self.successResultOf(maybeDeferred(self.game.door.answer, incoming))
        return int(answer.status)

    @proves("svcctl: as the owner, whatever opens the dashboard to people")
    def test_a_ticket_opens_all_staff_routes_except_sign_in_routes(self) -> None:
        closed = set()
        for row in self.game.door.rows:
            route = row.path.rpartition("/")[2]
            if row.access is not Access.ADMIN_KEY or (row.method, route) in OF_A_PAGE:
                continue
            path = re.sub(r"<\w+>", "x", row.path)
            page = self.ask(self.ticket(row.method, path), row.method, path, json={})
            self.assertNotEqual(page.status, 401, row.name)
            if page.status == 403:
                closed.add(route)
        own = {"DashboardSession", "DashboardAccess", "DashboardSecondFactor", "DashboardOwnKey"}
        self.assertLessEqual(closed, own)
        self.assertGreater(len(closed), 1)

    @proves("svcctl: as the owner, whatever opens the dashboard to people")
    def test_a_ticket_is_refused_from_another_machine_proxy_or_page(self) -> None:
        self.assertEqual((self.status("127.0.0.1"), self.status("::1")), (200, 200))
        for peer in ("203.0.113.7", "10.0.0.7", "2001:db8::7", ""):
            self.assertEqual(self.status(peer), 401, peer)
        for proxy in ("X-Forwarded-For", "Via", "Forwarded"):
            self.assertEqual(self.status("127.0.0.1", **{proxy: "127.0.0.1"}), 403, proxy)
        for page in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
            self.assertEqual(self.status("127.0.0.1", **page), 403, page)

    def test_a_ticket_opens_only_its_own_request_for_two_minutes(self) -> None:
        made = self.ticket()
        self.assertEqual(self.ask(made).status, 200)
        self.assertEqual(self.ask(made, path="/svc/api/DashboardAudit").status, 401)
        self.assertEqual(self.ask(made, path=f"{PATH}?a=b").status, 401)
        self.game.clock.advance(LIVES_S + 1)
        self.assertEqual(self.ask(made).status, 401)

    def test_a_ticket_for_a_route_without_staff_access_opens_nothing(self) -> None:
        for path in ("/accountinfo", "/svc/api/GetUserInfo"):
            self.assertEqual(self.ask(self.ticket(path=path), path=path).status, 401, path)
        path = "/svc/api/ServerStatus"
        self.assertFalse(self.ask(self.ticket(path=path), path=path).json["limited"])
        self.assertTrue(self.ask(self.ticket(), path=path).json["limited"])

    def test_wrong_tickets_are_counted_and_slowed_down(self) -> None:
        wrong = self.ticket(secret="another")
        answers = [self.ask(wrong) for _ in range(TRIES + 1)]
        self.assertEqual([answer.status for answer in answers], [401] * TRIES + [429])
        counted = self.game.parts.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"admin_key": TRIES + 1})
        self.assertEqual(self.ask(self.ticket()).status, 200)

    def test_a_large_body_is_read_only_with_a_valid_ticket(self) -> None:
        path = "/svc/api/RenameUser"
        for secret, status in (("", None), ("another", 401)):
            sent = Headers()
            for name, value in self.ticket("POST", path, secret).items():
                sent.setRawHeaders(name.encode(), [value.encode()])
            incoming = HttpRequest("POST", path.encode(), b"", sent, "127.0.0.1")
            answer = self.game.door.early(incoming, UNPROVEN_BODY + 1)
            self.assertEqual(None if answer is None else answer.status, status)

    def test_a_metagame_without_a_signing_key_accepts_no_ticket(self) -> None:
        self.game = Game(self, AUTH_SIGNING_PRIVKEY_B64="")
        for secret in ("", " ", signing_keys()[0]):
            self.assertEqual(self.ask(self.ticket(secret=secret)).status, 401)
        self.flushLoggedErrors()
