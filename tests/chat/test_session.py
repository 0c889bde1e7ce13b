"""The counters, timeouts and end of a session. Spec: 2 §4 Chat."""

from twisted.logger import capturedLogs

from svcserver.chat import readings
from svcserver.chat import session as sessions
from svcserver.chat.settings import ChatSettings
from tests.chat.fixture import ChatFixture, account
from tests.chat.stanzas import ChatFixtureTests

GET = '<iq type="get" id="1"/>'


class Case(ChatFixtureTests):
    def held_back(self, number: int, address: str = "", token: str | None = None) -> bool:
        client = self.fixture.connect(number, "another", address)
        client.open()
        return "temporary-auth-failure" in "".join(client.auth(token))


class CountingTests(Case):
    def test_session_timeouts_and_limits_match_the_documentation(self) -> None:
        waiting = (sessions.LOGIN_S, sessions.BIND_S, sessions.SILENCE_S, sessions.ANSWER_S)
        self.assertEqual(waiting, (15.0, 10.0, 50.0, 100.0))
        counts = (sessions.MAX_WAITING, sessions.MAX_REFUSED, sessions.MAX_DROPPED)
        self.assertEqual(counts, (128, 1000, 1000))
        self.assertEqual(readings.FRESH_S, 1.0)

    def test_a_session_has_no_account_and_address_before_its_login(self) -> None:
        client = self.fixture.connect(1)
        session = client.session
        self.assertEqual((session.account, session.last_received), ("", session.since))
        self.assertEqual(
            (session.claim, session.resource, session.jid, session.why_ended), ("", "", "", "")
        )

    def test_queued_stanzas_are_limited_and_more_are_dropped(self) -> None:
        client = self.fixture.bound(1)
        client.session.wait()
        for _ in range(130):
            client.session.received(b"<iq/>")
        self.assertEqual((len(client.session._inbox), client.session._dropped), (128, 2))

    def test_an_end_sends_its_code_and_clears_the_queue(self) -> None:
        for reason, code in (("size", 1009), ("replaced", 1000), ("timeout", None)):
            client = ChatFixture().bound(1)
            client.session.wait()
            client.session.received(b"<iq/>")
            client.session.end(reason)
            self.assertEqual((client.wire.ended, client.session._inbox), ([code], []), reason)

    def test_dropped_stanzas_are_counted_per_minute(self) -> None:
        self.patch(sessions, "MAX_DROPPED", 10)
        client = self.fixture.bound(1)
        for _ in range(5):
            for _ in range(10):
                client.session.perform(client.session.drop())
            self.assertEqual(client.end, "")
            self.fixture.clock.advance(60)
        for _ in range(11):
            client.session.perform(client.session.drop())
        self.assertEqual(client.end, "abuse")

    def test_account_data_is_read_again_after_a_second(self) -> None:
        client = self.fixture.joined(1)
        self.fixture.clock.advance(2)
        client.say("City-1", "x")
        requests = self.fixture.game.requests
        self.fixture.clock.advance(0.9)
        client.say("City-1", "x")
        self.assertEqual(self.fixture.game.requests, requests)
        self.fixture.clock.advance(0.1)
        client.say("City-1", "x")
        self.assertEqual(self.fixture.game.requests, requests + 1)


class EndTests(Case):
    def reasons(self, act: object) -> list[str]:
        with capturedLogs() as events:
            act()  # type: ignore[operator]
        return [event["why"] for event in events if event["log_format"].startswith("leave room")]

    def test_the_log_distinguishes_replaced_from_disconnected(self) -> None:
        first, second = self.fixture.pair()
        self.assertEqual(self.reasons(lambda: first.session.end("replaced")), ["replaced"])
        self.assertEqual(self.reasons(second.session.on_connection_lost), ["disconnect"])

    def test_an_end_for_cause_holds_the_account_a_minute(self) -> None:
        for number, reason in enumerate(("replaced", "abuse", "size", "backlog"), 1):
            self.fixture.bound(number).session.end(reason)
            self.assertTrue(self.held_back(number), reason)
        for number, reason in enumerate(("close", "socket", "ping-timeout", "shutdown"), 11):
            self.fixture.bound(number).session.end(reason)
            self.assertFalse(self.held_back(number), reason)
        self.fixture.clock.advance(60)
        self.assertFalse(self.held_back(1))

    def test_only_too_large_frames_count_as_failures(
        self,
    ) -> None:
        for reason, held in (("socket", False), ("size", True)):
            for _ in range(10):
                self.fixture.connect(1, address="203.0.113.9").session.end(reason)
            self.assertIs(self.held_back(2, "203.0.113.9", "bad"), held)
            self.assertFalse(self.held_back(3, "203.0.113.10", "bad"))
            self.assertFalse(self.held_back(4, "203.0.113.9"))

    def test_unbound_sessions_are_not_held_back_after_a_shutdown(self) -> None:
        for _ in range(3):
            client = self.fixture.opened(1)
            client.auth()
            client.session.end("shutdown")
        self.assertFalse(self.held_back(1))

    def test_friends_learn_of_a_session_end_but_not_of_a_shutdown(self) -> None:
        self.fixture = ChatFixture(ChatSettings(presence=True))
        self.fixture.game.befriend(account(1), account(2))
        for end, news in (("socket", 1), ("shutdown", 0)):
            first, second = self.fixture.bound(1), self.fixture.bound(2)
            first.send("<presence/>"), second.send("<presence/>")
            second.take_texts()
            first.session.end(end)
            self.assertEqual(len(second.take_texts()), news, end)
            second.session.end("socket")

    def test_the_trace_shows_both_directions(self) -> None:
        client = ChatFixture(ChatSettings(trace=True)).bound(1)
        with capturedLogs() as events:
            client.send(GET)
        self.assertEqual(
            [event["log_format"].split()[2] for event in events if "trace" in event["log_format"]],
            ["in", "out"],
        )
