"""The detection of requests from other sites' web pages."""

from __future__ import annotations

import ipaddress
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.http import crosssite
from svcserver.http.crosssite import foreign, is_loopback, names_this_machine
from tests.support.proves import proves


def judge(
    method: str = "GET", peer: str = "127.0.0.1", host: str = "127.0.0.1:61000", **more: str
) -> str:
    """Return the verdict; ``more`` sets headers: ``origin``, ``site``, ``mode`` and ``dest``."""

    def sent(name: str) -> list[bytes]:
        return [more[name].encode()] if name in more else []

    return foreign(
        method,
        peer,
        hosts=[host.encode()] if host else [],
        origins=sent("origin"),
        sites=sent("site"),
        modes=sent("mode"),
        destinations=sent("dest"),
    )


class OwnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(crosssite, "own_names", lambda: frozenset(["my-host", "my-host.local"]))
        names_this_machine.cache_clear()
        self.addCleanup(names_this_machine.cache_clear)

    def test_programs_pass_under_every_name_of_this_machine(self) -> None:
        for host in (
            "",  # HTTP/1.0
            "127.0.0.1",
            "127.0.0.1:61000",
            "localhost:61000",
            "LocalHost.",
            "[::1]:61000",
            "100.64.0.7:61000",
            "192.168.1.2",
            "[fd00::1]",
            "my-host:61000",
            "MY-HOST.local",
        ):
            self.assertEqual(judge(host=host), "", host)
            self.assertEqual(judge("POST", host=host), "", host)

    def test_a_foreign_name_that_resolves_to_us_is_refused(self) -> None:
        for host in (
            "evil.example:61000",
            "my-host.evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "127.1",
            "0x7f.1",
            "[::1]evil.example",
            "[evil.example]",
            "127.0.0.1:61000:1",
            "127.0.0.1 ",
        ):
            self.assertEqual(judge(host=host), "host", host)
        self.assertEqual(foreign("GET", "::1", hosts=[b"a", b"a"], origins=(), sites=()), "host")

    def test_a_remote_caller_may_use_any_host_name(self) -> None:
        """In private mode, a remote caller has none of the privileges of loopback."""
        self.assertEqual(judge(peer="100.64.0.9", host="games.example:61000"), "")
        page = {"host": "games.example:61000", "peer": "100.64.0.9"}
        self.assertEqual(judge("POST", origin="http://games.example:61000", **page), "")
        self.assertEqual(judge("POST", origin="http://evil.example", **page), "origin")

    def test_requests_pass_only_with_an_origin_of_this_machine(self) -> None:
        for origin in ("http://127.0.0.1:61000", "http://localhost:3000", "HTTPS://[::1]"):
            self.assertEqual(judge("POST", origin=origin), "", origin)
        for origin in (
            "null",
            "http://evil.example",
            "http://127.0.0.1.evil.example",
            "file://127.0.0.1",
            "http://100.64.0.7:61000",
            "http://localhost:61000 http://evil.example",
            "",
        ):
            self.assertEqual(judge("POST", origin=origin), "origin", origin)
        overlay = {"host": "100.64.0.7:61000", "peer": "100.64.0.7"}
        self.assertEqual(judge("POST", origin="http://100.64.0.7:61000", **overlay), "")
        self.assertEqual(judge("POST", origin="http://100.64.0.7:9", **overlay), "origin")
        self.assertEqual(judge("POST", origin="http://localhost:9", **overlay), "origin")

    @proves("credential: foreign web pages")
    def test_requests_of_another_site_by_sec_fetch_site_are_refused(self) -> None:
        for site in ("none", "same-origin"):
            self.assertEqual(judge(site=site), "")
        for site in ("cross-site", "same-site", "something-new", ""):
            self.assertEqual(judge(site=site), "sec_fetch", site)
            self.assertEqual(judge(site=site, mode="no-cors", dest="image"), "sec_fetch")
            self.assertEqual(judge(site=site, mode="navigate", dest="iframe"), "sec_fetch")

    def test_a_link_may_stand_on_any_page_but_no_form(self) -> None:
        link = {"site": "cross-site", "mode": "navigate", "dest": "document"}
        self.assertEqual(judge(**link), "")
        self.assertEqual(judge("POST", **link), "sec_fetch")
        self.assertEqual(judge(host="evil.example", **link), "host")

    @given(st.binary(max_size=40))
    def test_any_accepted_host_is_an_address_or_our_own_name(self, host: bytes) -> None:
        if not names_this_machine(host):
            return
        name = host.decode().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name.removesuffix(".") not in ("localhost", "my-host", "my-host.local"):
            ipaddress.ip_address(name.removesuffix("."))


class LoopbackTests(SynchronousTestCase):
    def test_loopback_addresses_are_on_this_machine(self) -> None:
        for peer in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::1%lo"):
            self.assertTrue(is_loopback(peer), peer)
        for peer in ("10.0.0.1", "::2", "", "localhost", "127.0.0.1.evil", "::ffff:10.0.0.1"):
            self.assertFalse(is_loopback(peer), peer)

    def test_a_hosts_file_gives_the_machine_further_names(self) -> None:
        text = (
            "127.0.0.1 localhost # my-host evil.example\n"
            "127.0.1.1\tMy-Host.Example.org my-host\n"
            "# 127.0.0.1 my-host commented.example\n"
            "127.0.0.1 blocked.example\n"
            "100.64.0.7 my-host my-host.overlay.example\n\n127.0.0.1\n"
        )
        wanted = {"my-host", "my-host.example.org", "my-host.overlay.example"}
        self.assertEqual(crosssite.aliases("my-host", text), wanted)
        self.assertEqual(crosssite.aliases("other", text), frozenset())
        blocking = "127.0.0.1 localhost blocked.example\n"
        self.assertEqual(crosssite.aliases("localhost", blocking), frozenset())

    def test_aliases_in_the_hosts_file_pass(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        hosts = folder / "hosts"
        hosts.write_bytes(b"127.0.1.1 my-host.example.org my-host \xff\n127.0.0.1 evil.example\n")
        self.patch(crosssite.socket, "gethostname", lambda: "My-Host")
        for cached in (crosssite.own_names, names_this_machine):
            cached.cache_clear()
            self.addCleanup(cached.cache_clear)
        for file, passes in ((folder / "none", False), (hosts, True)):
            self.patch(crosssite, "HOSTS_FILE", file)
            crosssite.own_names.cache_clear()
            names_this_machine.cache_clear()
            self.assertEqual(names_this_machine(b"my-host.example.org:61000"), passes)
            self.assertTrue(names_this_machine(b"my-host.local"))
            self.assertFalse(names_this_machine(b"evil.example"))

    def test_the_machines_own_names_are_in_lower_case(self) -> None:
        for name in crosssite.own_names():
            self.assertEqual(name, name.lower())
