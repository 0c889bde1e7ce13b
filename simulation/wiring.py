"""What the simulated host has in place of the outside: keys, a firewall, files, a treq client."""

from __future__ import annotations

import base64
import hashlib
import random
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field, frozen
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from treq.client import HTTPClient
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool
from twisted.web.iweb import UNKNOWN_LENGTH, IBodyProducer
from zope.interface import implementer

from simulation.process import Process
from svcserver.allowlist.entries import OpenAddress
from svcserver.allowlist.programs import FirewallError
from svcserver.allowlist.scripts import Rule
from svcserver.content.game_files import GameFiles
from svcserver.content.manifest import Manifest, ManifestEntry
from svcserver.edge.connections import ChannelFactory
from svcserver.gateway.upstreams import Upstreams
from svcserver.http.peers import peer_of
from svcserver.kernel.buggify import buggify

EXPONENT = 65_537
_SMALL = [n for n in range(3, 2_000, 2) if all(n % m for m in range(3, int(n**0.5) + 1, 2))]


def _prime(draw: random.Random) -> int:
    """A prime of 1024 bits; of a simulation's key alone, which protects nothing."""
    while True:
        found = draw.getrandbits(1024) | (3 << 1022) | 1
        if any(found % one == 0 for one in _SMALL) or (found - 1) % EXPONENT == 0:
            continue
        if all(pow(base, found - 1, found) == 1 for base in (2, 3, 5)):
            return found


@lru_cache(maxsize=1)
def signing_keys() -> tuple[str, str]:
    """The two settings of a key pair that is the same in every simulation."""
    draw = random.Random("the signing key of every simulation")  # noqa: S311
    p, q = _prime(draw), _prime(draw)
    n, d = p * q, pow(EXPONENT, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(EXPONENT, n)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    key = numbers.private_key()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(private).decode(), base64.b64encode(shown).decode()


@implementer(IBodyProducer)
class _Body:
    """Writes a body at once: treq's own asks the machine's reactor for turns."""

    def __init__(self, data: Any) -> None:
        self.data = data.read() if isinstance(data, BytesIO) else bytes(data)
        self.length: Any = len(self.data) if self.data is not None else UNKNOWN_LENGTH

    def startProducing(self, consumer: Any) -> Deferred[None]:
        consumer.write(self.data)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Nothing to do: the body is written already."""

    def resumeProducing(self) -> None:
        """Nothing to do: the body is written already."""

    def stopProducing(self) -> None:
        """Nothing to do: the body is written already."""


@lru_cache(maxsize=1)
def _https() -> BrowserLikePolicyForHTTPS:
    """Made once, since it takes as long as two requests; nobody asks by HTTPS here."""
    return BrowserLikePolicyForHTTPS()


def http_client(reactor: Any, connect_s: float = 5.0) -> HTTPClient:
    """The treq client that a service asks others with."""
    pool = HTTPConnectionPool(reactor)
    agent = Agent(reactor, _https(), connectTimeout=connect_s, pool=pool)
    return HTTPClient(agent, data_to_body_producer=_Body)


@define(eq=False)
class FakeFirewall:
    """Remembers the rule in force; outlives the helper, as a firewall does."""

    name: str = "simulated"
    rule: Rule | None = None
    runs: int = 0
    broken: bool = False
    failed: int = 0

    async def apply(self, rule: Rule) -> None:
        self.runs += 1
        if self.broken or buggify("firewall: a run of its program fails"):
            self.failed += 1
            raise FirewallError("simulated")
        self.rule = rule

    async def holds(self, rule: Rule) -> bool:
        """Whether exactly this rule is in force."""
        return self.rule == rule

    def describe(self, rule: Rule) -> str:
        """The rule as the audit log would show it."""
        return f"open {rule.ports} for {', '.join(rule.ips) or 'nobody'}"

    def lets_in(self, ip: str, port: int) -> bool:
        """Whether a datagram from there reaches the port."""
        rule = self.rule
        return rule is not None and rule.ports.low <= port <= rule.ports.high and ip in rule.ips


@define(eq=False)
class MemoryState:
    """The allowlist's state file, which outlives the helper."""

    entries: list[OpenAddress] = field(factory=list)

    def save(self, entries: Any, now: float) -> None:
        self.entries = list(entries)

    def load(self) -> list[OpenAddress]:
        return list(self.entries)


@frozen
class NoAudit:
    """The audit log of a simulation: its history says more."""

    path: Path = Path("audit.log")

    def write(self, event: str, **fields: Any) -> None:
        """An address that was opened, or a run of the firewall, is not written down."""

    def refused(self, reason: str, value: Any) -> None:
        """Nor is a report that was refused."""


@define(eq=False, slots=False)
class PlainListener(Service):
    """Listens as ``gateway.service.TlsListener`` does, without the TLS."""

    reactor: Process
    policy: Any
    settings: Any
    upstreams: Upstreams
    factory: ChannelFactory = field(init=False)

    def __attrs_post_init__(self) -> None:
        policy = self.policy
        self.factory = Admitting(self.reactor, policy, secure=False)
        self.factory.on_lost = policy.left
        policy.counts.make_room = lambda: policy.evicted(self.factory.evict(policy.counts.beside))
        self.factory.sweeps += [pool.sweep for pool in self.upstreams.pools]

    def startService(self) -> None:
        Service.startService(self)
        self.reactor.listenTCP(self.settings.port, self.factory)


class Admitting(ChannelFactory):
    """Asks the policy before it takes a connection, as ``edge.tls.TlsFactory`` does."""

    def buildProtocol(self, addr: Any) -> Any:
        """The protocol of an admitted connection; None closes it."""
        policy: Any = self.policy
        return super().buildProtocol(addr) if policy.admit(peer_of(addr)) else None


class _InMemory(GameFiles):
    """Game files that lie in no folder, so that no run leaves one behind, however it ends."""

    def check(self) -> None:
        """There is nothing to compare."""

    def open(self, entry: ManifestEntry) -> BinaryIO:
        return BytesIO(FILES[entry.path])


FILES = {"game.pak": b"\x00\x01game\xff" * 700, "readme.txt": b"one file more\n"}


@lru_cache(maxsize=1)
def game_files() -> GameFiles:
    """Two small files, listed once for all simulations of this process."""
    listed = {
        name: ManifestEntry(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in FILES.items()
    }
    return _InMemory(Path("/"), Manifest("sim-1", listed))
