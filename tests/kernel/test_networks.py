"""The addresses that count as one network."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.networks import network_of


class NetworkTests(SynchronousTestCase):
    def test_an_ipv4_address_is_counted_alone_in_either_spelling(self) -> None:
        self.assertEqual(network_of("203.0.113.9"), "203.0.113.9")
        self.assertEqual(network_of("::ffff:203.0.113.9"), "203.0.113.9")
        self.assertEqual(network_of("203.0.113.9", 48), "203.0.113.9")

    def test_an_ipv6_address_is_counted_with_its_network(self) -> None:
        self.assertEqual(network_of("2001:db8:1:2:ffff::9"), "2001:db8:1:2::/64")
        self.assertEqual(network_of("2001:db8:1:2ff::9", 56), "2001:db8:1:200::/56")
        self.assertEqual(network_of("2001:db8:1:2::9", 48), "2001:db8:1::/48")
        self.assertEqual(network_of("fe80::1%eth0"), network_of("fe80::2%eth1"))

    def test_text_that_is_no_address_is_unchanged(self) -> None:
        self.assertEqual([network_of(""), network_of("unix")], ["", "unix"])
