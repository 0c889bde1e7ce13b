"""The address of a request's client, behind the gateway."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.http.peers import forwarded_for, vouched_address
from svcserver.kernel.secrets import Secret

SECRET = "s" * 32


class ForwardedTests(SynchronousTestCase):
    def test_the_right_most_entry_counts_and_only_from_loopback(self) -> None:
        sent = ["1.1.1.1, 2.2.2.2", "6.6.6.6 , 203.0.113.7 "]
        for peer in ("127.0.0.1", "::1"):
            self.assertEqual(forwarded_for(peer, sent), "203.0.113.7")
        self.assertEqual(forwarded_for("192.0.2.1", sent), "")

    def test_text_that_is_no_address_is_not_a_peer(self) -> None:
        for sent in ([], [""], ["203.0.113.7,"], ["unknown"], ["203.0.113.7:80"]):
            self.assertEqual(forwarded_for("127.0.0.1", sent), "", sent)
        self.assertEqual(forwarded_for("127.0.0.1", ["2001:DB8::0:1"]), "2001:db8::1")

    def test_only_the_gateway_is_believed(self) -> None:
        def vouched(peer: str, secret: Secret | None, offered: str | None) -> str:
            return vouched_address(peer, ["203.0.113.7"], secret=secret, offered=offered)

        stored = Secret(SECRET)
        self.assertEqual(vouched("127.0.0.1", stored, SECRET), "203.0.113.7")
        for peer, secret, offered in (
            ("127.0.0.1", stored, None),
            ("127.0.0.1", stored, "wrong"),
            ("127.0.0.1", None, SECRET),
            ("192.0.2.1", stored, SECRET),
        ):
            self.assertEqual(vouched(peer, secret, offered), "")
