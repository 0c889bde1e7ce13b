"""The addresses that are allowed: examples in a table, and Hypothesis tests."""

import ipaddress

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist.entries import Entries, Full, InvalidIp, OpenAddress, canonical, order
from tests.support.proves import proves

REASONS = {
    "not_a_string": [None, 7, True, ["203.0.113.7"], {}],
    "range_not_allowed": [
        "203.0.113.0/24",
        "203.0.113.1-203.0.113.9",
        "203.0.113.1,203.0.113.2",
        "203.0.113.*",
        "any",
        "LocalSubnet",
        "2001:db8::/32",
    ],
    "not_an_ip": [
        "",
        " 203.0.113.7",
        "203.0.113.7 ",
        "203.0.113.07",
        "203.0.113",
        "203.0.113.256",
        "2001:db8::1%eth0",
        "[2001:db8::1]",
        "203.0.113.7; reboot",
        "203.0.113.7\n",
        "\u0661.2.3.4",
        "1" * 5000,
        "0x7f.1.2.3",
    ],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "64:ff9b::1", "4000::1", "fec0::1"],
    "private": [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.1.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:192.168.0.1",
    ],
}


class CanonicalTests(SynchronousTestCase):
    @proves("allowlist: POST /allow")
    def test_each_invalid_address_is_refused_with_its_reason(self) -> None:
        for reason, inputs in REASONS.items():
            for value in inputs:
                with self.assertRaises(InvalidIp) as caught:
                    canonical(value)
                self.assertEqual(caught.exception.reason, reason, value)

    def test_public_addresses_are_written_in_one_canonical_form(self) -> None:
        for value, spelled in {
            "203.0.113.7": "203.0.113.7",
            "::ffff:203.0.113.7": "203.0.113.7",
            "2001:DB8:0:0::1": "2001:db8::1",
            "172.32.0.1": "172.32.0.1",
            "100.128.0.1": "100.128.0.1",
        }.items():
            self.assertEqual(canonical(value), spelled)

    def test_private_addresses_pass_where_the_owner_allows_them(self) -> None:
        for value in REASONS["private"]:
            canonical(value, allow_private=True)
        for reason in ("unspecified", "multicast", "reserved"):
            for value in REASONS[reason]:
                with self.assertRaises(InvalidIp):
                    canonical(value, allow_private=True)

    @given(st.text(alphabet="0123456789abcdef.:/-%,*[] xX\n", max_size=60))
    @settings(max_examples=300, deadline=None)
    def test_an_accepted_text_is_one_canonical_address(self, text: str) -> None:
        try:
            replies = canonical(text)
        except InvalidIp:
            return
        self.assertEqual(str(ipaddress.ip_address(replies)), replies)
        self.assertEqual(canonical(replies), replies)

    @given(st.ip_addresses())
    @settings(max_examples=200, deadline=None)
    def test_any_text_is_accepted_or_refused_with_a_known_reason(self, address: object) -> None:
        for allow in (False, True):
            try:
                canonical(str(address), allow_private=allow)
            except InvalidIp as why:
                self.assertIn(why.reason, REASONS)


class EntriesTests(SynchronousTestCase):
    def test_the_defaults_are_ten_minutes_and_256_addresses(self) -> None:
        self.assertEqual((Entries().ttl_s, Entries().limit), (600.0, 256))
        longest = "0000:0000:0000:0000:0000:ffff:212.212.212.212"
        self.assertEqual((len(longest), canonical(longest)), (45, "212.212.212.212"))

    @proves("thing: Allowlist entry")
    def test_a_second_report_refreshes_and_is_not_new(self) -> None:
        entries = Entries(600)
        self.assertTrue(entries.report("203.0.113.7", 0))
        self.assertFalse(entries.report("203.0.113.7", 500))
        self.assertEqual(entries.expire(1099), [])
        self.assertEqual(entries.expire(1100), ["203.0.113.7"])

    @proves("thing: Allowlist entry")
    def test_a_full_allowlist_refuses_new_addresses_and_refreshes_known(self) -> None:
        entries = Entries(600, 2)
        entries.report("203.0.113.1", 0)
        entries.report("203.0.113.2", 0)
        self.assertRaises(Full, entries.report, "203.0.113.3", 1)
        self.assertFalse(entries.report("203.0.113.1", 1))

    def test_an_ipv6_network_is_bounded_and_its_oldest_entry_displaced(self) -> None:
        entries = Entries(600)
        for number in range(300):
            entries.report(f"2001:db8::{number:x}", number)
        self.assertEqual(len(entries), 16)
        self.assertEqual(entries.addresses()[0], "2001:db8::11c")
        entries.report("2001:db8::11c", 400)  # reported again, so the next address expires first
        self.assertEqual(entries.displace_for("2001:db8::ffff"), ["2001:db8::11d"])
        self.assertEqual(entries.displace_for("2001:db8::11c"), [])
        for number in range(300):
            entries.report(f"2001:db8:0:{number:x}::1", 500 + number)
        self.assertEqual(len(entries), 64)
        self.assertTrue(entries.report("2001:db8:1::1", 900))
        self.assertTrue(entries.report("203.0.113.7", 900))

    def test_a_network_has_a_larger_share_if_the_maximum_is_small(self) -> None:
        self.assertEqual(
            [Entries(600, most).share(64) for most in (1, 10, 256, 1000)], [1, 4, 16, 62]
        )
        entries = Entries(600, 1)
        entries.report("2001:db8::1", 0)
        self.assertTrue(entries.report("2001:db8::2", 0))
        self.assertRaises(Full, entries.report, "203.0.113.1", 0)

    def test_ipv4_addresses_of_one_network_may_fill_the_allowlist(self) -> None:
        entries = Entries(600)
        for number in range(256):
            entries.report(f"203.0.113.{number}", 0)
        self.assertEqual(len(entries), 256)

    def test_a_restored_network_keeps_its_share_of_the_newest(self) -> None:
        saved = [OpenAddress(f"2001:db8::{n:x}", 1000 - n) for n in range(100)]
        entries = Entries(600)
        self.assertEqual(entries.restore(saved, 500, allow_private=False), 16)
        self.assertEqual(entries.addresses()[0], "2001:db8::")

    @proves("thing: Allowlist entry")
    def test_addresses_are_listed_by_number_and_ipv4_before_ipv6(self) -> None:
        ips = ["2001:db8::2", "203.0.113.10", "203.0.113.9", "2001:db8::1"]
        entries = Entries()
        for ip in ips:
            entries.report(ip, 0)
        self.assertEqual(
            entries.addresses(), ("203.0.113.9", "203.0.113.10", "2001:db8::1", "2001:db8::2")
        )

    @proves("thing: Allowlist entry")
    def test_restored_entries_are_valid_and_last_one_ttl_at_most(self) -> None:
        saved = [
            OpenAddress("203.0.113.1", 1_000_000),
            OpenAddress("203.0.113.2", 100),
            OpenAddress("10.0.0.1", 1_000_000),
            OpenAddress("203.0.113.0/24", 1_000_000),
            OpenAddress("203.0.113.3", 150),
        ]
        entries = Entries(600)
        self.assertEqual(entries.restore(saved, 100, allow_private=False), 2)
        self.assertEqual(
            list(entries.all()), [OpenAddress("203.0.113.1", 700), OpenAddress("203.0.113.3", 150)]
        )

    @proves("thing: Allowlist entry")
    def test_no_more_than_the_maximum_is_restored(self) -> None:
        saved = [OpenAddress(f"203.0.113.{n}", 900) for n in range(9)]
        self.assertEqual(Entries(600, 3).restore(saved, 100, allow_private=False), 3)

    @proves("thing: Allowlist entry", "event: ports open for an address for 10 minutes")
    @given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20), st.booleans()), max_size=40))
    @settings(max_examples=60, deadline=None)
    def test_an_entry_is_open_exactly_until_a_ttl_after_its_last_report(
        self, steps: list[tuple[int, int, bool]]
    ) -> None:
        entries, last, now = Entries(10, 4), dict[str, int](), 0
        for number, wait, sweep in steps:
            now += wait
            if sweep:
                entries.expire(now)
                last = {ip: at for ip, at in last.items() if at + 10 > now}
            ip = f"203.0.113.{number}"
            try:
                self.assertEqual(entries.report(ip, now), ip not in last)
                last[ip] = now
            except Full:
                self.assertEqual(len(last), 4)
                self.assertNotIn(ip, last)
            self.assertEqual(entries.addresses(), tuple(sorted(last, key=order)))
