"""The maximum numbers of sessions and connections per account and per server."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat import stanza
from svcserver.chat.settings import ChatSettings
from svcserver.chat.stanza import serialize
from svcserver.kernel.counters import Counted
from tests.chat.fixture import ChatFixture, Client
from tests.chat.stanzas import ChatFixtureTests


class SessionLimitTests(ChatFixtureTests):
    def test_a_third_session_replaces_the_longest_silent_session(self) -> None:
        first, second = self.fixture.bound(1, "a"), self.fixture.bound(1, "b")
        self.fixture.clock.advance(1)
        first.send('<iq type="get" id="1"/>')
        self.fixture.bound(1, "c")
        self.assertEqual((first.end, second.end), ("", "replaced"))
        self.assertEqual(second.take_texts()[-1], serialize(stanza.CLOSE))
        self.assertEqual(second.wire.ended, [1000])

    def test_the_same_resource_replaces_the_older_session(self) -> None:
        first = self.fixture.bound(1, "a")
        self.fixture.bound(1, "a")
        self.assertEqual(first.end, "replaced")

    def test_after_a_replacement_the_account_waits_a_minute(self) -> None:
        self.fixture.bound(1, "a")
        self.fixture.bound(1, "a")
        client = self.fixture.opened(1)
        self.assertIn("temporary-auth-failure", client.auth()[0])
        counted = self.fixture.server.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted, {"chat_throttled": 1})

    def test_a_login_after_a_plain_close_needs_no_wait(self) -> None:
        self.fixture.bound(1).send(serialize(stanza.CLOSE))
        self.fixture.bound(1)

    def test_a_fourth_connection_cuts_the_oldest_unbound(self) -> None:
        bound = [self.fixture.bound(1, "a"), self.fixture.bound(1, "b")]
        waiting = [self.fixture.connect(1), self.fixture.connect(1)]
        for item in waiting:
            item.open()
            item.auth()
        self.assertEqual([client.end for client in bound], ["", ""])
        self.assertEqual([client.end for client in waiting], ["refused", ""])

    def test_three_connections_of_an_account_are_fine_while_they_log_in(self) -> None:
        waiting = [self.fixture.connect(1) for _ in range(3)]
        for item in waiting:
            item.open()
            self.assertIn("success", item.auth()[0])
        self.assertEqual([client.end for client in waiting], ["", "", ""])

    def test_a_new_bind_pings_the_other_session_for_ten_seconds(self) -> None:
        first, second = self.fixture.bound(1, "a"), self.fixture.bound(1, "b")
        self.assertIn("<ping ", first.take_texts()[-1])
        self.fixture.pass_time(10)
        self.assertEqual((first.end, second.end), ("ping-timeout", ""))

    def test_eight_unbound_connections_per_forwarded_address(self) -> None:
        for _ in range(8):
            self.assertTrue(self.fixture.server.may_connect("203.0.113.9"))
            self.fixture.connect(1, address="203.0.113.9")
        self.assertFalse(self.fixture.server.may_connect("203.0.113.9"))
        self.assertTrue(self.fixture.server.may_connect("203.0.113.8"))
        self.assertTrue(self.fixture.server.may_connect(""))

    def test_the_addresses_of_an_ipv6_network_are_one(self) -> None:
        for number in range(8):
            self.assertTrue(self.fixture.server.may_connect(f"2001:db8:1:2::{number}"))
            self.fixture.connect(1, address=f"2001:db8:1:2::{number}")
        self.assertFalse(self.fixture.server.may_connect("2001:db8:1:2:ffff::1"))
        self.assertTrue(self.fixture.server.may_connect("2001:db8:1:3::1"))
        refused = self.fixture.server.counters.by_reason(Counted.REFUSALS)
        self.assertEqual(refused, {"chat_unbound": 1})


class FullTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = ChatFixture(ChatSettings(max_connections=4))

    def come(self, number: int, address: str) -> Client | None:
        """Open a connection; return None if it is rejected."""
        if not self.fixture.server.may_connect(address):
            return None
        return self.fixture.connect(number, address=address)

    def test_the_oldest_unbound_is_closed_for_another_network(self) -> None:
        flood = [self.fixture.connect(n, address=f"2001:db8::{n}") for n in range(4)]
        self.assertIsNotNone(self.come(9, "203.0.113.9"))
        self.assertEqual([client.end for client in flood], ["full", "", "", ""])
        self.assertEqual(len(self.fixture.server), 4)
        evicted = self.fixture.server.counters.by_reason(Counted.EVICTED_CONNECTIONS)
        self.assertEqual(evicted, {"chat_full": 1})

    def test_a_connection_closed_during_login_may_return_at_once(self) -> None:
        for _ in range(4):
            client = self.fixture.opened(1)
            self.assertIn("success", client.auth()[0])
            client.session.end("full")

    def test_a_full_chat_refuses_the_network_that_fills_it(self) -> None:
        for number in range(4):
            self.fixture.connect(number, address=f"2001:db8::{number}")
        self.assertIsNone(self.come(9, "2001:db8::9"))
        refused = self.fixture.server.counters.by_reason(Counted.REFUSALS)
        self.assertEqual(refused, {"chat_full": 1})

    def test_players_are_closed_only_for_a_smaller_network(self) -> None:
        players = [
            self.fixture.connect(1, address="203.0.113.1").log_in(),
            *(self.fixture.connect(n, address=f"2001:db8::{n}").log_in() for n in (2, 3, 4)),
        ]
        newcomer = self.come(5, "203.0.113.5")
        assert newcomer is not None
        newcomer.log_in()
        self.assertEqual([client.end for client in players], ["", "full", "", ""])
        self.assertIsNone(self.come(6, "203.0.113.5"))
        self.assertIsNone(self.come(2, "2001:db8::2"))
        players[3].session.end("close")
        again = self.come(2, "2001:db8::2")
        assert again is not None
        again.log_in()
