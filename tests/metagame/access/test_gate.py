"""Checks of a request's origin and of the game-server key. Spec: 1 §5.5, §5.9."""

import socket
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.kernel.counters import Counted
from svcserver.metagame.access.attempts import TRIES, TRIES_S
from svcserver.metagame.access.gate import GAME_SERVER_KEY
from svcserver.metagame.access.origin import Origin, is_own_address
from svcserver.metagame.rows import Access
from svcserver.web.front import UNPROVEN_BODY
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from tests.support import game
from tests.support.browser import Page
from tests.support.game import Game
from tests.support.proves import proves


def request(peer: str, **headers: str) -> HttpRequest:
    sent = Headers()
    sent.setRawHeaders(GAME_SERVER_KEY, [game.GAME_SERVER_KEY.encode()])
    for name, value in headers.items():
        sent.setRawHeaders(name.encode(), [value.encode()])
    return HttpRequest("GET", b"/eventstats/", b"", sent, peer)


class WrongKeyTests(SynchronousTestCase):
    """Wrong admin keys are throttled; the right key is always accepted. Spec: 1 §5."""

    PATH = "/svc/api/InviteCodes"

    def setUp(self) -> None:
        self.game = Game(self)
        self.admin = self.game.player("Olga", admin=True)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    def ask(self, key: str | None) -> Page:
        return self.game.browse("GET", self.PATH, key=key)

    def test_too_many_wrong_keys_are_429_for_a_minute(self) -> None:
        statuses = [self.ask(f"UUK_{number:048x}").status for number in range(TRIES + 5)]
        self.assertEqual(statuses, [401] * TRIES + [429] * 5)
        self.assertEqual(self.ask("x").headers["retry-after"], "60")
        self.assertEqual(self.ask(self.admin.key).status, 200)
        counted = self.game.parts.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"admin_key": TRIES + 6})
        self.game.clock.advance(TRIES_S)
        self.assertEqual(self.ask("x").status, 401)

    @proves("label: admin key")
    def test_each_admin_route_refuses_wrong_keys_and_players(self) -> None:
        rows = [row for row in self.game.door.rows if row.access is Access.ADMIN_KEY]
        self.assertGreater(len(rows), 20)
        for row in rows:
            path = row.path.replace("<", "").replace(">", "")
            for key, status in (("UUK_x", 401), ("y", 401), (None, 401), (self.ann.key, 403)):
                page = self.game.browse(row.method, path, key=key)
                self.assertEqual(page.status, status, row.path)

    def test_wrong_keys_of_one_player_throttle_no_other_caller(self) -> None:
        statuses = [self.ask(self.ann.key).status for _ in range(TRIES + 1)]
        self.assertEqual(statuses, [403] * TRIES + [429])
        self.assertEqual([self.ask(self.bob.key).status, self.ask("x").status], [403, 401])
        page = self.game.browse("GET", "/svc/api/GetUserInfo", key=self.ann.key)
        self.assertEqual(page.status, 200)

    def test_a_request_without_a_key_does_not_count_as_an_attempt(self) -> None:
        self.assertEqual({self.ask(None).status for _ in range(TRIES + 1)}, {401})

    def test_failed_logins_of_players_are_counted(self) -> None:
        self.game.browse("POST", "/account/api/oauth/token", json={"exchange_code": "UUK_x"})
        counted = self.game.parts.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"account_key": 1})

    def test_a_wrong_key_counts_as_a_failed_login_without_a_rate_limit(self) -> None:
        self.game.browse("GET", "/svc/api/GetUserInfo", key="UUK_x")
        self.game.browse("GET", "/svc/api/GetUserInfo")
        guess = {"x-svc-gameserver-apikey": "guessed"}
        reply = self.game.browse("GET", f"/progression/{self.ann.id}", headers=guess)
        self.assertEqual(reply.status, 401)
        counted = self.game.parts.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"account_key": 1, "game_server_key": 1})


class CallerTests(SynchronousTestCase):
    def status(self, played: Game, peer: str, **headers: str) -> int:
        answer: Any = played.door.answer  # an Answer, or a Deferred of one
        reply: Answer = self.successResultOf(maybeDeferred(answer, request(peer, **headers)))
        return reply.status

    @proves(
        "authentication 5: game-server key: local callers only",
        "game-server key from elsewhere: 403",
    )
    def test_a_game_server_key_from_another_machine_is_403(self) -> None:
        played = Game(self)
        for peer in ("127.0.0.1", "127.8.9.10", "::1"):
            self.assertEqual(self.status(played, peer), 200, peer)
        for peer in ("203.0.113.7", "192.168.77.77", "2001:db8::7", "", "unix"):
            self.assertEqual(self.status(played, peer), 403, peer)

    @proves("authentication 5: game-server key: local callers only", "GAMESERVER_ALLOW_FROM")
    def test_a_game_server_key_counts_from_hosts_the_owner_allows(self) -> None:
        played = Game(
            self, GAMESERVER_ALLOW_FROM=" 203.0.113.7,, nonsense, 2001:DB8:0::7, ::ffff:10.1.2.3"
        )
        for peer in ("203.0.113.7", "2001:db8::7", "10.1.2.3", "127.0.0.1"):
            self.assertEqual(self.status(played, peer), 200, peer)
        for peer in ("203.0.113.8", "nonsense", ""):
            self.assertEqual(self.status(played, peer), 403, peer)

    def test_a_host_of_the_fleet_must_use_the_fleets_port(self) -> None:
        played = Game(self, GAMESERVER_ALLOW_FROM="203.0.113.7", FLEET_PORT="61020")
        self.assertEqual(self.status(played, "203.0.113.7"), 403)
        self.assertEqual(self.status(played, "127.0.0.1"), 200)

    @proves(
        "authentication 5: game-server key: local callers only",
        "game-server key from elsewhere: 403",
    )
    def test_a_game_server_key_through_a_proxy_is_403(self) -> None:
        played = Game(self, GAMESERVER_ALLOW_FROM="203.0.113.7")
        for peer in ("203.0.113.7", "127.0.0.1"):
            self.assertEqual(self.status(played, peer, Via="x"), 403)

    def test_a_game_server_key_from_another_sites_page_is_403(self) -> None:
        played = Game(self)
        for page in (
            {"Host": "127.0.0.1:61000", "Origin": "http://evil.example"},
            {"Host": "127.0.0.1:61000", "Sec-Fetch-Site": "cross-site"},
        ):
            self.assertEqual(self.status(played, "127.0.0.1", **page), 403, page)
        for host in ("127.0.0.1:61000", "localhost:61000", "[::1]:61000", "game.example:61000"):
            self.assertEqual(self.status(played, "127.0.0.1", Host=host), 200, host)

    def test_without_a_key_only_dashboard_files_and_sign_in_are_open(self) -> None:
        """The gate checks the Host header only of requests from loopback.

        Requests from other addresses need no such check, because without a key they get only public
        files. They also get a session if they send the secret of a sign-in link that the host's
        owner has made.
        """
        rows = Game(self).door.rows
        opened = {row.path for row in rows if row.access is Access.DIRECT}
        link = "/svc/api/DashboardLinkSession"
        files = {f"/svc/dashboard{path}" for path in ("", "/<file>", "/<version>/<file>")}
        self.assertEqual(opened, {*files, link})

    @proves("authentication 5: game-server key: local callers only")
    def test_an_address_of_this_machine_counts_as_local(self) -> None:
        origin = Origin(game.settings(), lambda address: address == "100.64.0.5")
        self.assertTrue(origin.is_local(request("100.64.0.5")))
        self.assertFalse(origin.is_local(request("100.64.0.6")))

    @proves("authentication 5: game-server key: local callers only")
    def test_the_kernel_knows_which_addresses_are_ours(self) -> None:
        self.assertTrue(is_own_address("127.0.0.1"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
            try:
                outward.connect(("203.0.113.7", 9))
            except OSError:
                outward.connect(("127.0.0.1", 9))
            self.assertTrue(is_own_address(outward.getsockname()[0]))
        for foreign in ("203.0.113.7", "2001:db8::7", "", "x", "255.255.255.255", "300.1.1.1"):
            self.assertFalse(is_own_address(foreign), foreign)


class LargeBodyTests(SynchronousTestCase):
    """A caller without access is refused before a large body is read."""

    def early(self, played: Game, path: str, length: int | None, **headers: str) -> int | None:
        sent = Headers()
        for name, value in headers.items():
            sent.setRawHeaders(name.replace("_", "-").encode(), [value.encode()])
        incoming = HttpRequest("POST", path.encode(), b"", sent, "127.0.0.1")
        reply = played.door.early(incoming, length)
        return None if reply is None else reply.status

    def test_a_large_body_without_a_credential_is_refused_unread(self) -> None:
        played = Game(self)
        for path, headers, status in (
            ("/heartbeat", {}, 401),
            ("/heartbeat", {"x_svc_gameserver_apikey": "k", "via": "x"}, 403),
            ("/guild", {}, 401),
            ("/guild", {"authorization": "Bearer x"}, 403),
            ("/guild", {"x_svc_gameserver_apikey": "k", "forwarded": ""}, 403),
            ("/svc/api/RenameUser", {}, 401),
            ("/svc/api/RenameUser", {"x_svc_user_api_key": "k", "via": "x"}, 403),
            ("/svc/api/PartyInvite", {}, 401),
        ):
            for length in (None, UNPROVEN_BODY + 1):
                self.assertEqual(self.early(played, path, length, **headers), status, path)
            self.assertIsNone(self.early(played, path, UNPROVEN_BODY, **headers), path)

    def test_a_large_body_is_read_before_its_key_is_looked_up(self) -> None:
        played = Game(self)
        ann = played.player("Ann_1")
        for path, headers in (
            ("/svc/api/RenameUser", {"x_svc_user_api_key": "k"}),
            ("/svc/api/PartyInvite", {"x_svc_user_api_key": "k", "via": "x"}),
            ("/guild", {"x_svc_gameserver_apikey": "k"}),
            ("/heartbeat", {"authorization": f"Bearer {ann.token}"}),
            ("/event", {}),
        ):
            self.assertIsNone(self.early(played, path, None, **headers), path)

    def test_a_development_server_takes_nothing_from_a_proxy(self) -> None:
        played = Game(self, AUTH_MODE="NONE")
        self.assertEqual(self.early(played, "/event", None, via="x"), 403)
