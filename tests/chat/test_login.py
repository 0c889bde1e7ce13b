"""The chat log-in, from the first ``open`` to the bound session."""

import base64

from twisted.internet.defer import fail
from twisted.logger import LogLevel, capturedLogs

from svcserver.chat import stanza
from svcserver.chat.stanza import serialize
from svcserver.kernel.counters import Counted
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.signals import Blocked, SessionsEnded
from tests.chat.fixture import DOMAIN, ChatFixture, Client, account, resource
from tests.chat.stanzas import ChatFixtureTests
from tests.support.proves import proves

FAILURE = '<failure xmlns="urn:ietf:params:xml:ns:xmpp-sasl"><{}/></failure>'
LEGACY = '<iq type="set" id="z"><query xmlns="jabber:iq:auth"><username>a</username></query></iq>'


class SequenceTests(ChatFixtureTests):
    @proves("chat: Login")
    def test_open_offers_plain_and_keeps_the_domain_byte_for_byte(self) -> None:
        opened, features = self.fixture.connect(1).open("Host-1.Example:61000")
        parsed = stanza.parse(opened)
        self.assertEqual(parsed.name, "open")
        self.assertEqual(parsed.uri, "urn:ietf:params:xml:ns:xmpp-framing")
        self.assertEqual(parsed["from"], "Host-1.Example:61000")
        self.assertRegex(parsed["id"], r"\A[0-9a-f]{16}\Z")
        self.assertTrue(opened.endswith('version="1.0" xml:lang="en"/>'))
        self.assertEqual(
            features,
            '<stream:features xmlns:stream="http://etherx.jabber.org/streams">'
            '<mechanisms xmlns="urn:ietf:params:xml:ns:xmpp-sasl"><mechanism>PLAIN</mechanism>'
            "</mechanisms></stream:features>",
        )

    @proves("chat: Login")
    def test_without_a_usable_domain_the_configured_domain_applies(self) -> None:
        for to in ("", "a b", "a/b"):
            self.assertIn('from="svc.local"', self.fixture.connect(1).open(to)[0])

    @proves("state: Chat connection", "chat: Login", "credentials: chat")
    def test_a_login_ends_with_the_bound_address(self) -> None:
        client = self.fixture.opened(1)
        self.assertEqual(client.auth(), [f'<success xmlns="{stanza.SASL}"/>'])
        opened, features = client.open()
        self.assertIn("<open ", opened)
        self.assertIn(
            '<bind xmlns="urn:ietf:params:xml:ns:xmpp-bind"/></stream:features>', features
        )
        self.assertEqual(
            client.bind(),
            [
                '<iq xmlns="jabber:client" type="result" id="b">'
                '<bind xmlns="urn:ietf:params:xml:ns:xmpp-bind">'
                f"<jid>{client.account}@{DOMAIN}/{resource(1)}</jid></bind></iq>"
            ],
        )
        self.assertEqual(
            client.send('<iq type="set" id="y"><session xmlns="urn:x"/></iq>'),
            ['<iq xmlns="jabber:client" type="result" id="y"/>'],
        )

    @proves("chat: Login")
    def test_an_empty_resource_is_replaced_and_a_bad_resource_refused(self) -> None:
        for bad in ("x" * 257, "a\nb"):
            client = self.logged_in(1)
            self.assertIn("<bad-request", client.bind(bad)[0])
            self.assertRegex(client.bind("")[0], r"/srv-[0-9a-f]{32}</jid>")

    def test_a_second_bind_answers_the_bound_address(self) -> None:
        client = self.fixture.bound(1)
        self.assertIn(f"<jid>{client.jid}</jid>", client.bind("other")[0])

    def test_an_authzid_may_name_the_same_account(self) -> None:
        for zid in (account(1), account(1).lower(), f"{account(1)}@{DOMAIN}"):
            client = self.fixture.opened(1)
            self.assertIn("success", client.auth(zid=zid)[0])

    def logged_in(self, number: int) -> Client:
        client = self.fixture.opened(number)
        client.auth()
        client.open()
        return client


class RefusalTests(ChatFixtureTests):
    @proves("chat: Refused login", "credentials: chat")
    def test_a_bad_proof_is_refused_and_keeps_the_connection(self) -> None:
        auth = f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">'
        zeros = base64.b64encode(b"\0" * 9_000).decode()  # 12,000 characters
        for reason, try_it in (
            ("bad-token", lambda item: item.auth("bad")),
            ("bad-token", lambda item: item.auth("x" * 8192)),
            ("expired", lambda item: item.auth("expired")),
            ("uid-mismatch", lambda item: item.auth(f"token {account(2)}")),
            ("no-account", lambda item: item.auth(f"token {account(999)}", who=account(999))),
            ("bad-format", lambda item: item.auth(zid=account(2))),
            ("bad-format", lambda item: item.auth("x" * 8193)),
            ("bad-format", lambda item: item.auth("")),
            ("bad-format", lambda item: item.auth(who="a b")),
            ("bad-format", lambda item: item.send(f"{auth}%%%</auth>")),
            ("bad-format", lambda item: item.send(f"{auth}</auth>")),
            ("bad-format", lambda item: item.send(f"{auth}{zeros}</auth>")),
            ("bad-format", lambda item: item.send(f"{auth}{zeros}AAAA</auth>")),
        ):
            self.fixture = ChatFixture()
            client = self.fixture.opened()
            with capturedLogs() as events:
                self.assertEqual(try_it(client), [FAILURE.format("not-authorized")])
            self.assertEqual([item["reason"] for item in events], [reason])
            self.assertEqual(client.end, "")
            replies = client.send(LEGACY)
            self.assertEqual(replies, [serialize(stanza.failed("z", "not-authorized", "auth"))])
            self.assertEqual(client.wire.ended, [None])

    def test_an_unknown_sasl_mechanism_is_refused_and_logged(self) -> None:
        client = self.fixture.opened()
        with capturedLogs() as events:
            replies = client.send(f'<auth xmlns="{stanza.SASL}" mechanism="X-OAUTH2">AA==</auth>')
        self.assertEqual(replies, [FAILURE.format("invalid-mechanism")])
        self.assertEqual([event["reason"] for event in events], ["bad-mechanism"])

    @proves("chat: Refused login", "limit: Chat")
    def test_a_second_auth_or_a_fifth_frame_is_cut_without_answer(self) -> None:
        client = self.fixture.opened()
        client.auth("bad")
        self.assertEqual((client.auth(), client.end), ([], "refused"))
        client = self.fixture.opened()
        for _ in range(3):
            self.assertEqual(len(client.open()), 2)
        self.assertEqual((client.open(), client.end), ([], "refused"))
        client = self.fixture.opened()
        for _ in range(2):
            client.open()
        self.assertIn("success", client.auth()[0])

    def test_any_other_stanza_before_login_is_cut(self) -> None:
        for another in ("<presence/>", "<message/>", "<iq type='get' id='1'/>", "<x/>", "no xml"):
            client = self.fixture.opened()
            self.assertEqual((client.send(another), client.end), ([], "refused"))

    def test_forbidden_xml_before_login_is_named_and_cut(self) -> None:
        client = self.fixture.opened()
        self.assertEqual(client.send("<!DOCTYPE a><a/>"), [serialize(stanza.RESTRICTED_XML)])
        self.assertEqual(client.wire.ended, [None])

    @proves("chat: Refused login")
    def test_ten_failures_throttle_failing_logins_for_ten_minutes(self) -> None:
        for _ in range(10):
            self.assertEqual(self.fixture.opened().auth("bad"), [FAILURE.format("not-authorized")])
        for try_it in (
            lambda item: item.auth("bad"),
            lambda item: item.auth("expired"),
            lambda item: item.auth(f"token {account(2)}"),
        ):
            replies = try_it(self.fixture.opened())
            self.assertEqual(replies, [FAILURE.format("temporary-auth-failure")])
        self.fixture.clock.advance(601)
        self.assertEqual(self.fixture.opened().auth("bad"), [FAILURE.format("not-authorized")])

    @proves("chat: Refused login")
    def test_no_number_of_failures_keeps_a_valid_token_out(self) -> None:
        for number in range(40):
            for address in (f"2001:db8:0:{number}::1", "203.0.113.9", ""):
                client = self.fixture.opened(1, address)
                client.auth("bad")
                client.session.on_connection_lost()
        for address in ("2001:db8:0:7::9", "203.0.113.9", ""):
            client = self.fixture.opened(1, address)
            self.assertIn("success", client.auth()[0], address)
            client.bind()
            client.send(serialize(stanza.CLOSE))

    @proves("chat: Refused login")
    def test_failures_count_per_forwarded_address(self) -> None:
        for number in range(1, 11):
            self.fixture.opened(number, "203.0.113.9").auth("bad")
            self.fixture.opened(number + 20).auth("bad")
            self.fixture.pass_time(16)
        with capturedLogs() as events:
            replies = self.fixture.opened(50, "203.0.113.9").auth("bad")
        self.assertEqual(replies, [FAILURE.format("temporary-auth-failure")])
        self.assertEqual(events[-1]["reason"], "throttled")
        for address in ("203.0.113.10", ""):
            replies = self.fixture.opened(50, address).auth("bad")
            self.assertEqual(replies, [FAILURE.format("not-authorized")])
        self.assertIn("success", self.fixture.opened(51).auth()[0])

    def test_failures_are_counted_by_their_reason(self) -> None:
        for token in ("bad", "expired", "bad", f"token {account(2)}"):
            self.fixture.opened().auth(token)
        self.fixture.opened().auth()
        counted = self.fixture.server.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"chat_bad_token": 2, "chat_expired": 1, "chat_uid_mismatch": 1})

    def test_a_game_that_does_not_answer_is_a_temporary_failure(self) -> None:
        self.fixture.game.silent = True
        clients = [self.fixture.opened(), self.fixture.opened(2)]
        for client in clients:
            self.assertEqual(client.auth(), [])
        with capturedLogs() as events:
            self.fixture.clock.advance(11)
        for client in clients:
            self.assertIn("temporary-auth-failure", client.take_texts()[0])
        warnings = [event for event in events if event["log_level"] is LogLevel.warn]
        self.assertEqual([event["seconds"] for event in warnings], [10], "told once a minute")
        self.assertFalse([event for event in events if "log_failure" in event])

    def test_a_game_that_fails_is_a_temporary_failure_and_logged(self) -> None:
        self.patch(type(self.fixture.game), "about", lambda *_: fail(RuntimeError("down")))
        with capturedLogs() as events:
            self.assertIn("temporary-auth-failure", self.fixture.opened().auth()[0])
        self.assertEqual(events[-1]["reason"], "unavailable")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_database_that_is_away_logs_no_failure_for_each_login(self) -> None:
        away = Unavailable("the database cannot serve now")
        self.patch(type(self.fixture.game), "about", lambda *_: fail(away))
        with capturedLogs() as events:
            for _ in range(3):
                self.assertIn("temporary-auth-failure", self.fixture.opened().auth()[0])
        self.assertFalse([event for event in events if "log_failure" in event])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_stanzas_during_a_login_wait_their_turn(self) -> None:
        self.fixture.game.silent = True
        client = self.fixture.opened()
        client.auth()
        client.open()
        self.assertEqual(client.bind(), [])
        self.fixture.game.answer()
        replies = client.take_texts()
        self.assertIn("success", replies[0])
        self.assertIn("<jid>", replies[-1])

    def test_news_during_a_second_login_is_not_lost(self) -> None:
        self.fixture.bound(1, "a")
        before = self.fixture.game.people[account(1)]
        self.fixture.game.silent = True
        self.fixture.opened().auth()
        self.fixture.server.on_blocked(Blocked(account(2), account(1)))
        [(answer, _)] = self.fixture.game.waiting
        answer.callback(before)
        person = self.fixture.server.people.get(account(1))
        assert person is not None
        self.assertEqual((len(person.sessions), person.about.blocked_by), (2, {account(2)}))

    def test_a_connection_that_ends_during_its_login_is_forgotten(self) -> None:
        self.fixture.game.silent = True
        client = self.fixture.opened()
        client.auth()
        client.session.on_connection_lost()
        self.fixture.game.answer()
        self.assertEqual((len(self.fixture.server), len(self.fixture.server.people)), (0, 0))

    @proves("state: Chat connection", "limit: Chat")
    def test_a_session_ends_without_login_in_15_s_or_bind_in_10_more(self) -> None:
        silent, lazy = self.fixture.opened(), self.fixture.opened(2)
        self.fixture.pass_time(14)
        lazy.auth()
        self.assertEqual(silent.end, "")
        self.fixture.pass_time(1)
        self.assertEqual((silent.end, lazy.end), ("timeout", ""))
        self.fixture.pass_time(8)
        self.assertEqual(lazy.end, "")
        self.fixture.pass_time(1)
        self.assertEqual(lazy.end, "timeout")

    def test_three_logins_that_never_bound_hold_the_account_for_a_minute(self) -> None:
        for _ in range(3):
            client = self.fixture.opened()
            client.auth()
            client.session.on_connection_lost()
        self.assertIn("temporary", self.fixture.opened().auth()[0])
        self.fixture.clock.advance(61)
        self.assertIn("success", self.fixture.opened().auth()[0])


class RevokedTests(ChatFixtureTests):
    def end(self, number: int) -> None:
        self.fixture.server.on_sessions_ended(SessionsEnded(account(number), 0))

    def test_every_session_of_the_account_gets_the_reason_and_ends(self) -> None:
        mine, another = (
            [self.fixture.bound(1, "a"), self.fixture.bound(1, "b")],
            self.fixture.bound(2),
        )
        for item in mine:
            item.take_texts()
        self.end(1)
        for item in mine:
            self.assertEqual(
                item.take_texts(),
                [
                    '<stream:error xmlns:stream="http://etherx.jabber.org/streams">'
                    '<not-authorized xmlns="urn:ietf:params:xml:ns:xmpp-streams"/></stream:error>',
                    serialize(stanza.CLOSE),
                ],
            )
            self.assertEqual((item.end, item.wire.ended), ("revoked", [1000]))
        self.assertEqual(another.end, "")

    def test_a_login_with_a_new_token_works_at_once(self) -> None:
        for _ in range(4):
            client = self.fixture.opened(1)
            self.assertIn("success", client.auth()[0])
            self.end(1)
        self.fixture.bound(1)
        self.end(1)
        self.fixture.bound(1)

    def test_a_pending_login_with_a_revoked_token_ends_as_revoked(self) -> None:
        self.fixture.game.silent = True
        client = self.fixture.opened(1)
        client.auth()
        self.end(1)
        self.fixture.game.answer()
        self.assertEqual((client.end, len(self.fixture.server.people)), ("revoked", 0))

    def test_an_ended_account_leaves_unauthenticated_clients_connected(self) -> None:
        stranger = self.fixture.opened(1)
        stranger.auth("bad")
        self.end(1)
        self.assertEqual(stranger.end, "")
