"""The supported firewalls behind one interface.

``apply`` applies a Rule, and ``describe`` returns the exact commands as text. A Rule without
addresses closes the ports. Spec: 2 §4 Allowlist helper.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol

from attrs import define, field, frozen
from twisted.logger import Logger

from svcserver.allowlist import scripts
from svcserver.allowlist.programs import FirewallError, Programs
from svcserver.allowlist.scripts import NftSet, Rule

log = Logger()

_LINUX_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin")
_POWERSHELL = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe"
_CAP_NET_ADMIN = 12


class Firewall(Protocol):
    """A firewall that can apply a Rule."""

    @property
    def name(self) -> str:
        """Return the ALLOWLIST_BACKEND value that selects this firewall."""

    async def apply(self, rule: Rule) -> None:
        """Replace the previous rule; raises FirewallError."""

    async def holds(self, rule: Rule) -> bool:
        """Return whether an applied rule still exists; raises FirewallError.

        A rule can be lost, for example when the system reloads its firewall.
        """

    def describe(self, rule: Rule) -> str:
        """Return the exact commands that ``apply`` would run."""


@frozen
class Nftables:
    """The nftables firewall; ``apply`` atomically replaces the table of the allowlist helper."""

    programs: Programs
    nft: str
    name: str = "nftables"

    async def apply(self, rule: Rule) -> None:
        await self.programs.run([self.nft, "-f", "-"], scripts.nftables(rule))

    async def holds(self, rule: Rule) -> bool:
        """Return whether the table that ``apply`` creates still exists."""
        look = [self.nft, "list", "table", "inet", scripts.TABLE]
        listing = await self.programs.run(look, may_fail=True)
        return bool(listing.code == 0)

    def describe(self, rule: Rule) -> str:
        return scripts.nftables(rule)


@define
class NftablesSet:
    """A set in the owner's nftables table; the helper fills it with IPv4 or with IPv6 addresses."""

    programs: Programs
    nft: str
    where: NftSet
    name: str = "nftables"
    _family: int | None = field(default=None, init=False)

    async def apply(self, rule: Rule) -> None:
        """Fill the set anew with the addresses in ``rule`` that have the set's IP version."""
        if self._family is None:
            listing = await self.programs.run([self.nft, "list", "set", *str(self.where).split()])
            kind = re.search(r"\btype (ipv[46])_addr\b", listing.out)
            if kind is None:
                raise FirewallError(
                    f"the firewall set {self.where} must have the type ipv4_addr or ipv6_addr"
                )
            self._family = 6 if kind[1] == "ipv6" else 4
        await self.programs.run([self.nft, "-f", "-"], self.describe(rule))

    async def holds(self, rule: Rule) -> bool:
        """Return False if the set is missing, or empty although ``rule`` has addresses for the set.

        The addresses are not compared, because nft can list several of them as one range.
        """
        look = [self.nft, "list", "set", *str(self.where).split()]
        listing = await self.programs.run(look, may_fail=True)
        return listing.code == 0 and ("elements" in listing.out or not self._fitting(rule))

    def _fitting(self, rule: Rule) -> list[str]:
        return rule.v6 if self._family == 6 else rule.v4

    def describe(self, rule: Rule) -> str:
        """Return the script that fills the set; before the first ``apply``, IPv4 is assumed."""
        return scripts.nftables_fill(self.where, self._fitting(rule))


@frozen
class Iptables:
    """The iptables firewall with an ipset and a chain for each IP version."""

    programs: Programs
    iptables: str
    ipset: str
    name: str = "iptables"

    async def apply(self, rule: Rule) -> None:
        """Fill the sets, write the chains, and make INPUT jump to each chain exactly once."""
        await self.programs.run([self.ipset, "restore"], scripts.ipset_restore(rule))
        for program, set_name in self._versions():
            restore = [f"{program}-restore", "-w", "--noflush"]
            await self.programs.run(restore, scripts.iptables_restore(set_name))
            await self._jump(program, scripts.iptables_ports(rule.ports))

    async def holds(self, rule: Rule) -> bool:
        """Return whether INPUT still jumps to the helper's chain, for both IP versions."""
        ports = scripts.iptables_ports(rule.ports)
        for program, _ in self._versions():
            listing = await self.programs.run([program, "-w", "-S", "INPUT"])
            if ports not in scripts.jumps_in(listing.out):
                return False
        return True

    async def _jump(self, program: str, ports: str) -> None:
        listing = await self.programs.run([program, "-w", "-S", "INPUT"])
        there = scripts.jumps_in(listing.out)
        if ports not in there:
            await self.programs.run([program, *scripts.iptables_jump("-I", ports)])
        else:
            there.remove(ports)
        for stale in there:  # left by an earlier run with other ports
            await self.programs.run([program, *scripts.iptables_jump("-D", stale)])

    def describe(self, rule: Rule) -> str:
        """Return each command, followed by its standard input."""
        ports = scripts.iptables_ports(rule.ports)
        parts = [f"{self.ipset} restore", scripts.ipset_restore(rule)]
        for program, set_name in self._versions():
            parts += [f"{program}-restore -w --noflush", scripts.iptables_restore(set_name)]
            parts.append(" ".join([program, *scripts.iptables_jump("-I", ports)]))
        return "\n".join(parts)

    def _versions(self) -> list[tuple[str, str]]:
        path = PurePath(self.iptables)
        six = str(path.with_name(path.name.replace("iptables", "ip6tables")))
        return [(self.iptables, scripts.SET_4), (six, scripts.SET_6)]


@frozen
class Netsh:
    """The Windows firewall, changed by PowerShell scripts."""

    programs: Programs
    powershell: str
    name: str = "netsh"

    async def apply(self, rule: Rule) -> None:
        argv = [self.powershell, "-NoProfile", "-NonInteractive", "-Command", "-"]
        await self.programs.run(argv, scripts.powershell(rule))

    async def holds(self, rule: Rule) -> bool:
        """Return True, because Windows does not remove rules on a reload."""
        return True

    def describe(self, rule: Rule) -> str:
        return scripts.powershell(rule)


@define
class Remembering:
    """A fake firewall for tests (ALLOWLIST_BACKEND=none); ``apply`` only records the rule."""

    calls: list[Rule] = field(factory=list)
    name: str = "none"

    async def apply(self, rule: Rule) -> None:
        """Record the rule; only the last thousand rules are stored."""
        self.calls.append(rule)
        del self.calls[:-1000]

    async def holds(self, rule: Rule) -> bool:
        return True

    def describe(self, rule: Rule) -> str:
        return scripts.nftables(rule)


@define
class DryRun:
    """A firewall that changes nothing and describes what another firewall would do."""

    inner: Firewall

    @property
    def name(self) -> str:
        return self.inner.name

    async def apply(self, rule: Rule) -> None: ...

    async def holds(self, rule: Rule) -> bool:
        return True

    def describe(self, rule: Rule) -> str:
        return self.inner.describe(rule)


@frozen
class Paths:
    """The paths of the firewall programs; if a path is None, the program is searched for."""

    nft: str | None = None
    iptables: str | None = None
    ipset: str | None = None
    powershell: str | None = None


class NoFirewall(Exception):
    """The error when no usable firewall is found; ``str()`` is the message to print."""


def choose(
    backend: str,
    paths: Paths,
    nft_set: NftSet | None,
    programs: Programs,
    *,
    dry_run: bool,
    platform: str = sys.platform,
) -> Firewall:
    """Return the firewall for ALLOWLIST_BACKEND; raises NoFirewall if a program is missing.

    A dry run needs no installed program; for a missing program, the dry run shows the usual path.
    """
    nft = paths.nft or find("nft")
    iptables, ipset = paths.iptables or find("iptables"), paths.ipset or find("ipset")
    if backend == "auto":
        backend = _automatic(platform, nft, iptables, ipset, dry_run)
    if backend == "none":
        return Remembering()
    programs_found: Mapping[str, str | None] = {
        "nft": nft,
        "iptables": iptables,
        "ipset": ipset,
        "powershell": paths.powershell or (_POWERSHELL if os.path.exists(_POWERSHELL) else None),
    }
    needed = {"nftables": ("nft",), "iptables": ("iptables", "ipset"), "netsh": ("powershell",)}
    for program in needed[backend]:
        if programs_found[program] is None and not dry_run:
            raise NoFirewall(
                f"ALLOWLIST_BACKEND {backend} needs {program}, which is not installed; "
                f"install it or set ALLOWLIST_{program.upper()} to its absolute path"
            )
    if backend == "netsh":
        return Netsh(programs, programs_found["powershell"] or _POWERSHELL)
    if backend == "iptables":
        return Iptables(programs, iptables or "/usr/sbin/iptables", ipset or "/usr/sbin/ipset")
    if nft_set is not None:
        return NftablesSet(programs, nft or "/usr/sbin/nft", nft_set)
    return Nftables(programs, nft or "/usr/sbin/nft")


def _automatic(
    platform: str, nft: str | None, iptables: str | None, ipset: str | None, dry_run: bool
) -> str:
    if platform == "win32":
        return "netsh"
    if nft is not None or dry_run:
        return "nftables"
    if platform.startswith("linux") and iptables is not None and ipset is not None:
        return "iptables"
    raise NoFirewall(
        "ALLOWLIST_BACKEND auto needs nft, or both iptables and ipset; "
        "install nftables, or set ALLOWLIST_DRY_RUN=1 to only log what would be done"
    )


def find(program: str) -> str | None:
    """Return the absolute path of a program in the system's own folders, or None."""
    for folder in _LINUX_FOLDERS:
        path = f"{folder}/{program}"
        if os.access(path, os.X_OK):
            return path
    return None


def may_change_firewall(platform: str = sys.platform) -> bool:
    """Return whether this process is root or administrator, or has CAP_NET_ADMIN."""
    if platform == "win32":
        import ctypes

        shell = getattr(ctypes, "windll").shell32  # noqa: B009 - only there on Windows
        return bool(shell.IsUserAnAdmin())
    if os.geteuid() == 0:
        return True
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read(), re.MULTILINE)
    except OSError:
        return False
    return match is not None and bool(int(match[1], 16) >> _CAP_NET_ADMIN & 1)
