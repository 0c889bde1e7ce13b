"""The commands for each kind of firewall, tested with fake programs."""

import errno
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist import scripts
from svcserver.allowlist.firewall import (
    DryRun,
    Iptables,
    Netsh,
    Nftables,
    NftablesSet,
    NoFirewall,
    Paths,
    Remembering,
    choose,
)
from svcserver.allowlist.programs import TIMEOUT_S, FirewallError, Programs, environment
from svcserver.allowlist.scripts import NftSet, PortRange, Rule
from tests.allowlist.support import FakeSpawner
from tests.support.proves import proves

PORTS = PortRange(8770, 8777)
IPS = ("203.0.113.7", "203.0.113.9", "2001:db8::1")


class ScriptTests(SynchronousTestCase):
    @proves("allowlist: backends")
    def test_nothing_but_canonical_addresses_enters_a_script(self) -> None:
        for bad in ("203.0.113.0/24", "1.2.3.4; flush", "2001:DB8::1", "1.2.3.4}", "", "fe80::1%e"):
            self.assertRaises(ValueError, Rule, (bad,), PORTS)

    @proves("allowlist: backends")
    @given(st.text(max_size=30))
    @settings(max_examples=200, deadline=None)
    def test_no_text_becomes_ports_unless_it_is_digits(self, text: str) -> None:
        try:
            ports = PortRange.parse(text)
        except ValueError:
            return
        self.assertRegex(str(ports), r"\A[0-9]+(-[0-9]+)?\Z")
        self.assertTrue(1 <= ports.low <= ports.high <= 65535)

    @proves("allowlist: backends")
    @given(st.text(max_size=30))
    @settings(max_examples=100, deadline=None)
    def test_no_text_becomes_a_set_unless_it_is_three_names(self, text: str) -> None:
        try:
            result = NftSet.parse(text)
        except ValueError:
            return
        self.assertRegex(str(result), r"\A[a-z0-9]+ [A-Za-z0-9_-]+ [A-Za-z0-9_-]+\Z")

    @proves("allowlist: backends")
    def test_nftables_replaces_its_own_table(self) -> None:
        script = scripts.nftables(Rule(IPS, PORTS))
        self.assertIn("delete table inet svc_gameports", script)
        self.assertIn("elements = { 203.0.113.7, 203.0.113.9 };", script)
        self.assertIn("elements = { 2001:db8::1 };", script)
        self.assertIn("udp dport 8770-8777 ip saddr @allow4 accept", script)
        self.assertIn("udp dport 8770-8777 drop", script)
        self.assertLess(script.index('iifname "lo"'), script.index(" drop"))

    @proves("allowlist: backends")
    def test_without_addresses_the_ports_are_shut_not_open(self) -> None:
        script = scripts.nftables(Rule((), PORTS))
        self.assertNotIn("elements", script)
        self.assertIn("udp dport 8770-8777 drop", script)

    @proves("allowlist: backends")
    def test_a_range_of_one_port_is_written_as_a_single_port(self) -> None:
        self.assertIn("udp dport 9000 drop", scripts.nftables(Rule((), PortRange(9000, 9000))))

    @proves("allowlist: backends")
    def test_the_windows_rule_is_one_line_and_disabled_when_empty(self) -> None:
        line = scripts.powershell(Rule(IPS, PORTS))
        self.assertEqual(line.count("\n"), 1)
        self.assertIn("-RemoteAddress @('203.0.113.7','203.0.113.9','2001:db8::1')", line)
        self.assertIn("-Enabled True", line)
        empty = scripts.powershell(Rule((), PORTS))
        self.assertNotIn("-Enabled True", empty)
        self.assertNotIn("RemoteAddress", empty)


class BackendTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = FakeSpawner()
        self.programs = Programs(self.reactor)

    def apply(self, firewall: Any, ips: tuple[str, ...] = IPS) -> Deferred[None]:
        return Deferred.fromCoroutine(firewall.apply(Rule(ips, PORTS)))

    @proves("allowlist: backends")
    def test_nftables_gets_its_script_on_standard_input_and_no_shell(self) -> None:
        firewall = Nftables(self.programs, "/usr/sbin/nft")
        done = self.apply(firewall)
        [process] = self.reactor.spawned
        self.assertEqual(process.argv, ["/usr/sbin/nft", "-f", "-"])
        self.assertEqual(process.script, firewall.describe(Rule(IPS, PORTS)))
        self.assertTrue(process.stdin_closed)
        self.assertNoResult(done)
        process.end()
        self.successResultOf(done)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    @proves("allowlist: backends")
    def test_a_program_that_fails_raises_firewall_error_with_its_message(self) -> None:
        done = self.apply(Nftables(self.programs, "/usr/sbin/nft"))
        self.reactor.spawned[0].end(1, err="Error: Operation not permitted\n")
        why = self.failureResultOf(done, FirewallError)
        self.assertIn("Operation not permitted", str(why.value))

    @proves("allowlist: backends")
    def test_a_program_that_hangs_is_killed(self) -> None:
        done = self.apply(Nftables(self.programs, "/usr/sbin/nft"))
        self.reactor.advance(TIMEOUT_S)
        self.failureResultOf(done, FirewallError)
        [process] = self.reactor.spawned
        self.assertTrue(process.killed)
        process.end(9)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    @proves("allowlist: backends")
    def test_a_program_that_cannot_be_started_is_a_firewall_error(self) -> None:
        self.reactor.refuse = OSError(errno.EAGAIN, "no more processes")
        self.failureResultOf(self.apply(Nftables(self.programs, "/usr/sbin/nft")), FirewallError)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_firewall_programs_get_a_minimal_environment(self) -> None:
        ours = {"SystemRoot": "C:\\Windows", "Path": "C:\\bin", "ALLOWLIST_SECRET": "hush"}
        self.assertEqual(
            environment(ours, "win32"), {"SystemRoot": "C:\\Windows", "Path": "C:\\bin"}
        )
        self.assertEqual(set(environment(ours, "linux")), {"LANG", "LC_ALL", "PATH"})

    @proves("allowlist: backends")
    def test_endless_output_is_not_kept(self) -> None:
        done = self.programs.run(["/usr/sbin/nft", "list", "ruleset"])
        for _ in range(5):
            self.reactor.spawned[0].protocol.childDataReceived(1, b"x" * 50_000)
        self.reactor.spawned[0].end()
        self.assertEqual(len(self.successResultOf(done).out), 64 * 1024)

    @proves("allowlist: backends")
    def test_an_owners_set_is_filled_with_the_addresses_of_its_type(self) -> None:
        listing = "/usr/sbin/nft list set inet filter players"
        for kind, ips in (("ipv4_addr", "203.0.113.7, 203.0.113.9"), ("ipv6_addr", "2001:db8::1")):
            reactor = FakeSpawner(by_itself=True, listings={listing: f"set players {{ type {kind}"})
            where = NftSet("inet", "filter", "players")
            firewall = NftablesSet(Programs(reactor), "/usr/sbin/nft", where)
            self.successResultOf(self.apply(firewall))
            self.assertEqual(
                reactor.spawned[1].script,
                f"flush set inet filter players\nadd element inet filter players {{ {ips} }}\n",
            )
            self.successResultOf(self.apply(firewall, ()))
            self.assertEqual(reactor.spawned[2].script, "flush set inet filter players\n")

    @proves("allowlist: backends")
    def test_an_owners_set_of_another_type_is_an_error(self) -> None:
        firewall = NftablesSet(self.programs, "/usr/sbin/nft", NftSet("inet", "filter", "ports"))
        done = self.apply(firewall)
        self.reactor.spawned[0].end(out="set ports { type inet_service }")
        self.failureResultOf(done, FirewallError)

    @proves("allowlist: backends")
    def test_iptables_fills_both_sets_writes_both_chains_and_jumps_once(self) -> None:
        reactor = FakeSpawner(by_itself=True)
        firewall = Iptables(Programs(reactor), "/usr/sbin/iptables", "/usr/sbin/ipset")
        self.successResultOf(self.apply(firewall))
        lines = [" ".join(process.argv) for process in reactor.spawned]
        jump = "-I INPUT -p udp --dport 8770:8777 -j SVC-GAMEPORTS"
        self.assertEqual(
            lines,
            [
                "/usr/sbin/ipset restore",
                "/usr/sbin/iptables-restore -w --noflush",
                "/usr/sbin/iptables -w -S INPUT",
                f"/usr/sbin/iptables -w {jump}",
                "/usr/sbin/ip6tables-restore -w --noflush",
                "/usr/sbin/ip6tables -w -S INPUT",
                f"/usr/sbin/ip6tables -w {jump}",
            ],
        )
        self.assertIn("add svc-game4-new 203.0.113.7\n", reactor.spawned[0].script)
        self.assertIn("add svc-game6-new 2001:db8::1\n", reactor.spawned[0].script)
        self.assertIn("swap svc-game4-new svc-game4\n", reactor.spawned[0].script)
        self.assertIn("-A SVC-GAMEPORTS -j DROP", reactor.spawned[1].script)

    @proves("allowlist: backends")
    def test_iptables_removes_jumps_of_other_ports_and_keeps_its_own(self) -> None:
        lines = [
            "-P INPUT ACCEPT",
            "-A INPUT -p udp -m udp --dport 8770:8777 -j SVC-GAMEPORTS",
            "-A INPUT -p udp -m udp --dport 9000 -j SVC-GAMEPORTS",
            "-A INPUT -p udp -m udp --dport 53 -j ACCEPT",
        ]
        listings = {"/usr/sbin/iptables -w -S INPUT": "\n".join(lines)}
        reactor = FakeSpawner(by_itself=True, listings=listings)
        firewall = Iptables(Programs(reactor), "/usr/sbin/iptables", "/usr/sbin/ipset")
        self.successResultOf(self.apply(firewall))
        changes = [p.argv for p in reactor.spawned if p.argv[0] == "/usr/sbin/iptables"][1:]
        self.assertEqual(changes, [["/usr/sbin/iptables", *scripts.iptables_jump("-D", "9000")]])

    def holds(self, firewall: Any, ips: tuple[str, ...] = IPS) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(firewall.holds(Rule(ips, PORTS))))

    def test_iptables_has_lost_its_rule_when_one_version_no_longer_jumps(self) -> None:
        jump = "-A INPUT -p udp -m udp --dport 8770:8777 -j SVC-GAMEPORTS"
        four, six = (f"/usr/sbin/{name} -w -S INPUT" for name in ("iptables", "ip6tables"))
        for listings, there in (
            ({four: jump, six: jump}, True),
            ({four: jump}, False),
            ({}, False),
        ):
            reactor = FakeSpawner(by_itself=True, listings=listings)
            firewall = Iptables(Programs(reactor), "/usr/sbin/iptables", "/usr/sbin/ipset")
            self.assertEqual(self.holds(firewall), there)

    def test_an_owners_set_is_lost_when_it_was_emptied(self) -> None:
        listing = "/usr/sbin/nft list set inet filter players"
        for text, ips, there in (
            ("type ipv4_addr; elements = { 203.0.113.7 }", IPS, True),
            ("type ipv4_addr", IPS, False),
            ("type ipv4_addr", (), True),
            ("type ipv4_addr", ("2001:db8::1",), True),
        ):
            reactor = FakeSpawner(by_itself=True, listings={listing: text})
            where = NftSet("inet", "filter", "players")
            self.assertEqual(
                self.holds(NftablesSet(Programs(reactor), "/usr/sbin/nft", where), ips), there
            )

    def test_backends_that_cannot_lose_a_rule_run_no_check(self) -> None:
        dry = DryRun(Nftables(self.programs, "/usr/sbin/nft"))
        for firewall in (dry, Remembering(), Netsh(self.programs, r"C:\ps.exe")):
            self.assertTrue(self.holds(firewall))
        self.assertEqual((self.reactor.spawned, self.reactor.looks), ([], 0))

    @proves("allowlist: backends")
    def test_netsh_gives_powershell_its_line_on_standard_input(self) -> None:
        firewall = Netsh(self.programs, r"C:\ps.exe")
        done = self.apply(firewall)
        [process] = self.reactor.spawned
        self.assertEqual(process.argv[0], r"C:\ps.exe")
        self.assertEqual(process.argv[-2:], ["-Command", "-"])
        self.assertEqual(process.script, scripts.powershell(Rule(IPS, PORTS)))
        process.end()
        self.successResultOf(done)

    @proves("allowlist: backends")
    def test_a_dry_run_describes_and_starts_nothing(self) -> None:
        firewall = DryRun(Nftables(self.programs, "/usr/sbin/nft"))
        self.successResultOf(self.apply(firewall))
        self.assertEqual(self.reactor.spawned, [])
        self.assertIn("203.0.113.7", firewall.describe(Rule(IPS, PORTS)))
        self.assertEqual(firewall.name, "nftables")


class ChooseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.there: set[str] = set()
        find = lambda name: f"/usr/sbin/{name}" if name in self.there else None  # noqa: E731
        self.patch(__import__("svcserver.allowlist.firewall", fromlist=["find"]), "find", find)

    def choose(self, backend: str = "auto", *, dry_run: bool = False, on: str = "linux") -> str:
        result = choose(backend, Paths(), None, Programs(None), dry_run=dry_run, platform=on)
        return result.name

    @proves("allowlist: backends")
    def test_auto_prefers_nftables_then_iptables(self) -> None:
        self.there = {"nft", "iptables", "ipset"}
        self.assertEqual(self.choose(), "nftables")
        self.there = {"iptables", "ipset"}
        self.assertEqual(self.choose(), "iptables")

    @proves("allowlist: backends")
    def test_auto_without_any_firewall_fails_unless_dry(self) -> None:
        for self.there in (set(), {"iptables"}):
            with self.assertRaises(NoFirewall) as caught:
                self.choose()
            self.assertIn("ALLOWLIST_DRY_RUN=1", str(caught.exception))
        self.assertEqual(self.choose(dry_run=True), "nftables")

    @proves("allowlist: backends")
    def test_a_named_backend_without_its_program_names_the_variable(self) -> None:
        for backend, word in (("nftables", "NFT"), ("iptables", "IPTABLES"), ("netsh", "POWERS")):
            with self.assertRaises(NoFirewall) as caught:
                self.choose(backend)
            self.assertIn(f"ALLOWLIST_{word}", str(caught.exception))

    @proves("allowlist: backends")
    def test_windows_uses_netsh_and_backend_none_uses_no_firewall(self) -> None:
        self.assertEqual(self.choose(dry_run=True, on="win32"), "netsh")
        result = choose("none", Paths(), None, Programs(None), dry_run=False)
        self.assertIsInstance(result, Remembering)
        self.assertTrue(json.dumps(result.describe(Rule((), PORTS))))
