"""The scripts and argument lists for each firewall program.

Only validated values are inserted into the scripts: addresses, port numbers and the name of the
owner's nftables set.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from attrs import field, frozen

TABLE = "svc_gameports"
CHAIN = "SVC-GAMEPORTS"
SET_4, SET_6 = "svc-game4", "svc-game6"
RULE_NAME = "svc-gameports"
_NFT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_NFT_FAMILIES = ("ip", "ip6", "inet", "netdev", "bridge")
_JUMP = re.compile(r"-A INPUT -p udp -m udp --dport (\d{1,5}(?::\d{1,5})?) -j SVC-GAMEPORTS\Z")


@frozen
class PortRange:
    """The UDP ports from ``low`` to ``high``, both included."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> PortRange:
        """Parse ``low-high`` or a single port."""
        match = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", text, re.ASCII)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= 65535:
            raise ValueError("must be one port or a range of ports, such as 8770-8777")
        return cls(low, high)

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"


def _canonical(rule: Rule, attribute: object, ips: tuple[str, ...]) -> None:
    for ip in ips:
        if str(ipaddress.ip_address(ip)) != ip or "%" in ip:
            raise ValueError(
                f"{ip!r} must be an IP address in its usual form, such as 192.0.2.1 or 2001:db8::1"
            )


@frozen
class Rule:
    """The addresses that may reach the ports; without addresses, the ports are closed."""

    ips: tuple[str, ...] = field(validator=_canonical)
    ports: PortRange

    @property
    def v4(self) -> list[str]:
        return [ip for ip in self.ips if ":" not in ip]

    @property
    def v6(self) -> list[str]:
        return [ip for ip in self.ips if ":" in ip]


@frozen
class NftSet:
    """The owner's nftables set (ALLOWLIST_NFT_SET), used instead of the helper's own table."""

    family: str
    table: str
    name: str

    @classmethod
    def parse(cls, text: str) -> NftSet:
        """Parse the text ``<family> <table> <set>``; raises ValueError."""
        words = text.split()
        good = len(words) == 3 and words[0] in _NFT_FAMILIES
        if not good or not all(_NFT_NAME.match(word) for word in words[1:]):
            raise ValueError(
                "must name a family, a table and a set, for example: inet filter players"
            )
        return cls(*words)

    def __str__(self) -> str:
        return f"{self.family} {self.table} {self.name}"


def nftables(rule: Rule) -> str:
    """Return an ``nft -f`` script that replaces our table atomically."""
    return "\n".join(
        [
            f"add table inet {TABLE}",
            f"delete table inet {TABLE}",
            f"table inet {TABLE} {{",
            _nft_set("allow4", "ipv4_addr", rule.v4),
            _nft_set("allow6", "ipv6_addr", rule.v6),
            "  chain input {",
            "    type filter hook input priority -5; policy accept;",
            f'    iifname "lo" udp dport {rule.ports} accept',
            f"    udp dport {rule.ports} ip saddr @allow4 accept",
            f"    udp dport {rule.ports} ip6 saddr @allow6 accept",
            f"    udp dport {rule.ports} drop",
            "  }",
            "}",
            "",
        ]
    )


def _nft_set(name: str, kind: str, ips: Sequence[str]) -> str:
    elements = f" elements = {{ {', '.join(ips)} }};" if ips else ""
    return f"  set {name} {{ type {kind};{elements} }}"


def nftables_fill(where: NftSet, ips: Sequence[str]) -> str:
    """Return an ``nft -f`` script that replaces the addresses of the owner's set atomically."""
    lines = [f"flush set {where}"]
    if ips:
        lines.append(f"add element {where} {{ {', '.join(ips)} }}")
    return "\n".join([*lines, ""])


def ipset_restore(rule: Rule) -> str:
    """Return the input of ``ipset restore``, which fills new sets and swaps them in."""
    lines: list[str] = []
    for name, family, ips in ((SET_4, "inet", rule.v4), (SET_6, "inet6", rule.v6)):
        fresh = f"{name}-new"
        for set_name in (name, fresh):
            lines.append(f"create {set_name} hash:ip family {family} maxelem 1024 -exist")
        lines.append(f"flush {fresh}")
        lines += [f"add {fresh} {ip}" for ip in ips]
        lines += [f"swap {fresh} {name}", f"destroy {fresh}"]
    return "\n".join([*lines, ""])


def iptables_restore(set_name: str) -> str:
    """Return the input of ``iptables-restore --noflush``, which replaces our chain."""
    return "\n".join(
        [
            "*filter",
            f":{CHAIN} - [0:0]",
            f"-A {CHAIN} -i lo -j ACCEPT",
            f"-A {CHAIN} -m set --match-set {set_name} src -j ACCEPT",
            f"-A {CHAIN} -j DROP",
            "COMMIT",
            "",
        ]
    )


def iptables_jump(action: str, ports: str) -> list[str]:
    """Return the arguments that insert (``-I``) or delete (``-D``) the jump to our chain."""
    return ["-w", action, "INPUT", "-p", "udp", "--dport", ports, "-j", CHAIN]


def iptables_ports(ports: PortRange) -> str:
    """Return the ports as iptables prints them: ``low:high``."""
    return str(ports).replace("-", ":")


def jumps_in(listing: str) -> list[str]:
    """Return the ports of every jump to our chain in the output of ``iptables -S INPUT``."""
    matches = (_JUMP.match(line.strip()) for line in listing.splitlines())
    return [match[1] for match in matches if match is not None]


def powershell(rule: Rule) -> str:
    """Return the command that sets the inbound allow rule, or disables it if there is no address.

    The rule's name is fixed. The command is one line, because PowerShell reads its standard input
    line by line.
    """
    ports = f"'{rule.ports}'"
    if rule.ips:
        addresses = ",".join(f"'{ip}'" for ip in rule.ips)
        change = f"-LocalPort {ports} -RemoteAddress @({addresses}) -Enabled True"
    else:
        change = f"-LocalPort {ports} -Enabled False"
    return (
        "try { $ErrorActionPreference = 'Stop'; "
        f"if (-not (Get-NetFirewallRule -Name '{RULE_NAME}' -ErrorAction SilentlyContinue)) "
        f"{{ New-NetFirewallRule -Name '{RULE_NAME}' -DisplayName '{RULE_NAME}' "
        f"-Direction Inbound -Action Allow -Protocol UDP -LocalPort {ports} "
        "-Enabled False | Out-Null }; "
        f"Set-NetFirewallRule -Name '{RULE_NAME}' {change}; exit 0 }} "
        "catch { [Console]::Error.WriteLine($_); exit 1 }\n"
    )
